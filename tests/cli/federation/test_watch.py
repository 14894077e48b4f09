"""The page on which a server's administrator watches a federation of real processes."""

import json
import re

import numpy as np
import pytest

from fedsparse.federation.demonstration import free_port
from tests.chromium import CHROMIUM, in_browser
from tests.cli.commands import assert_one_line, fedsparse
from tests.cli.federation.federations import Federation, write_table
from tests.federation.server.watched_page import WatchedPage, text_of

pytestmark = pytest.mark.slow

HERE = ("aachen", "bari", "cork")
REFUSAL = "its policy does not allow LocalSteps; train with --method FedSplice"


def watched(federation):
    """The page of a watch command that is started."""
    federation.programs.start("watch", "watch", federation.folder.root, "--port", federation.port)
    federation.wait_for_log("watch", "Ctrl-C ends it.")
    return WatchedPage(re.search(r"Open (\S+)", federation.log("watch"))[1])


def start(federation, **options):
    options = {
        "sparsity": 2, "sites": 3, "min_sites": 2, "rounds": 6, "method": "FedIterHT",
        "step_size": 0.02, "held_out": "none", "stability": 0,
    } | options  # fmt: skip
    return federation.train(**options)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A server that knows four sites: three are here, and one of these refuses the usual method."""
    root = tmp_path_factory.mktemp("watched")
    random = np.random.default_rng(0)
    (root / "cork.toml").write_text(
        'open_sums = true\nsmallest_weight_of_others = 0\nrequests = ["ColumnSums", '
        '"ColumnSquares", "Smoothness", "SmoothnessAbove", "Evaluate"]\n'
    )
    with Federation(root, [*HERE, "delft"]) as running:
        for name in HERE:
            rows = random.standard_normal((20, 6)).round(3)
            table = write_table(root / f"{name}.csv", rows, 3 * rows[:, 0] - rows[:, 1])
            more = ("--policy", root / "cork.toml") if name == "cork" else ()
            running.start_site(name, table, *more)
        for name in HERE:
            running.wait_for_log(name, "is connected")
        yield running


@pytest.fixture(scope="module")
def page(federation):
    return watched(federation)


@in_browser
def test_a_run_is_shown_while_it_is_under_way_and_after(federation, page, tmp_path):
    first = start(federation)
    assert first.finish() == 0, first.text
    run = start(federation, out="long", rounds=2000)
    run.until_answers(6)
    during = text_of(page.drawn(tmp_path))
    assert f"The server at 127.0.0.1:{federation.port} answers." in during
    assert "3 of 4 here" in during
    assert "aachen here bari here cork here delft away" in during
    assert "under way , began 2" in during
    assert f"writes to {run.out}" in during
    assert re.search(r"\d exchanges; f on all rows was [\d.]+ last and [\d.]+ at its low", during)
    assert f"takes no further part : {REFUSAL}" in during
    assert re.search(r"\d\d:\d\d:\d\d \| LocalSteps: 2 of 3 sites answered", during)
    before = page.run_writing_to(run.out)["exchanges"]
    run.until_answers(3)
    while page.run_writing_to(run.out)["exchanges"] == before:
        pass  # what was seen is fresh for a second

    run.process.terminate()
    assert run.finish() == 130, run.text
    after = page.drawn(tmp_path)
    assert "stopped , began 2" in text_of(after)
    assert len(re.findall(r"<circle", after)) >= 6
    earlier = text_of(after).partition("Earlier runs")[2]
    assert re.search(rf"{re.escape(str(first.out))} finished report", earlier)
    number = page.run_writing_to(first.out)["number"]
    status, _, content = page.asked(f"{page.path}runs/{number}/report.html")
    assert (status, content) == (200, (first.out / "report.html").read_bytes())


def test_exchanges_and_objective_are_those_of_the_run(federation, page):
    run = start(federation, out="short")
    assert run.finish() == 0, run.text
    while (told := page.run_writing_to(run.out))["state"] == "under way":
        pass
    history = json.loads((run.out / "fit.json").read_text())["history"]
    assert [f for _, f in told["objective"]] == pytest.approx([own["objective"] for own in history])
    assert [at for at, _ in told["objective"]] == [*range(3, 10)]  # after two on columns
    assert told["exchanges"] == 9
    assert [(own["name"], own["answers"], own["missed"]) for own in told["sites"]] == [
        ("aachen", 6, 0), ("bari", 6, 0), ("cork", 0, 6),
    ]  # fmt: skip
    assert [own["reason"] for own in told["sites"]] == [None, None, REFUSAL]
    assert told["state"] == "finished"


def test_the_address_is_in_no_log(federation, page):
    page.asked()
    page.asked("/nothing")
    assert federation.log("watch").count(page.token) == 1  # the line that tells it
    assert page.token not in federation.log("server")


def test_what_cannot_be_watched_is_told_in_a_line(federation, page, tmp_path):
    nothing = fedsparse("federation", "watch", tmp_path)
    assert nothing.returncode == 2
    assert_one_line(nothing.stderr, f"there is no {tmp_path / 'ca.crt'}")
    taken = fedsparse("federation", "watch", federation.folder.root, "--page-port", page.port)
    assert taken.returncode == 2
    assert_one_line(taken.stderr, "Address already in use); choose another with --page-port")


def test_a_server_that_is_away_is_told_on_the_page_until_it_is_back(tmp_path):
    with Federation(tmp_path, ["bari"]) as federation:
        page = watched(federation)
        while not page.state()["sites"]:
            pass  # the server tells itself who may connect just after it listens
        assert page.state()["trouble"] is None
        federation.programs.end("server")
        while (away := page.state())["trouble"] is None:
            pass
        assert away["trouble"].startswith(f"no server answers at 127.0.0.1:{federation.port}")
        assert [site["name"] for site in away["sites"]] == ["bari"]  # as it was seen last
        if CHROMIUM is not None:
            assert "Not up to date: no server answers" in text_of(page.drawn(tmp_path))
        federation.start_server()
        while page.state()["trouble"] is not None:
            pass


def test_the_server_need_not_be_up(tmp_path):
    with Federation(tmp_path, ["bari"]) as federation:
        federation.programs.end("server")
        federation.port = free_port()
        assert "no server answers" in watched(federation).state()["trouble"]
