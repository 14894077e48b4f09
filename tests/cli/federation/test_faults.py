"""Sites and servers that die, hang, lie or are not who they say they are: real processes."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsparse.federation.demonstration import prepare_sites
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.server.enrolment import enrol
from tests.cli.federation.federations import (
    TARGET,
    Federation,
    assert_same_fit,
    fitted_in_one_place,
    write_table,
)

pytestmark = pytest.mark.slow

TAU = 3
GOOD = ("aachen", "bari")
ODD = ("hanging", "killed", "mismatched", "poisoned")
ROOT = Path(__file__).parents[3]
FIT = {
    "sparsity": TAU, "held_out": "none", "stability": 0, "rounds": 8, "method": "FedIterHT",
    "step_size": 0.02,
}  # fmt: skip


def rows_of(seed, width=8, count=12):
    random = np.random.default_rng(seed)
    rows = random.standard_normal((count, width)).round(3)
    return rows, (rows[:, :3] @ [2.0, -1.0, 1.0] + 0.2 * random.standard_normal(count)).round(3)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A server and two good sites; each test adds an odd one."""
    root = tmp_path_factory.mktemp("faults")
    with Federation(root, [*GOOD, *ODD]) as running:
        for seed, name in enumerate(GOOD):
            running.start_site(name, write_table(root / f"{name}.csv", *rows_of(seed)))
        yield running


@pytest.fixture
def add(federation):
    """Adds a site for the time of a test."""

    def start_site(name, columns=None):
        table = write_table(federation.root / f"{name}.csv", *rows_of(9), columns)
        federation.start_site(name, table)
        federation.wait_for_log(name, "is connected")

    yield start_site
    for name in ODD:
        if name in federation.programs.running:
            federation.kill(name, signal.SIGCONT)
            federation.programs.end(name)


def start(federation, **options):
    usual = {
        "sites": 3, "round_seconds": 4.0, "min_sites": 2, "longest_wait": 60, "out": "trained",
        "overwrite": True,
    }  # fmt: skip
    options = FIT | usual | options
    return federation.train(**options)


def test_a_site_killed_mid_run_is_noted_and_the_run_goes_on(federation, add):
    add("killed")
    run = start(federation)
    run.until_answers(4)
    federation.kill("killed")
    assert run.finish() == 0, run.text
    assert "killed is absent: no answer within 4 s" in run.text
    assert run.summary.history[-1].round == 8
    ends = [site.took_part for site in run.summary.sites]
    assert ends[:2] == ["to the end", "to the end"]
    assert re.fullmatch(r"absent at the end, \d answers? missing", ends[2])


def test_a_site_that_hangs_is_left_out_and_comes_back(federation, add):
    add("hanging")
    run = start(federation, rounds=40)
    run.until_answers(4)
    federation.kill("hanging", signal.SIGSTOP)
    run.until("hanging is absent: no answer within 4 s")
    federation.kill("hanging", signal.SIGCONT)
    run.until("hanging is back")
    run.until(": 3 of 3 sites answered")
    run.process.send_signal(signal.SIGINT)
    assert run.finish() == 130, run.text
    assert run.lines[-1] == "fedsparse: stopped\n"


def test_a_site_that_sends_nan_is_excluded_by_name(federation):
    table = write_table(federation.root / "poisoned.csv", *rows_of(9))
    arguments = ["poisoned", table, TARGET, federation.folder.package_of("poisoned")]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.federation.poisoned_site", *map(str, arguments),
         str(federation.port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        run = start(federation)
        assert run.finish() == 0, run.text
    finally:
        process.terminate()
        process.wait()
    assert "poisoned takes no further part: its answer" in run.text
    assert run.summary.history[-1].round == 8
    assert run.summary.sites[2].took_part.startswith("excluded: its answer")
    assert all(np.isfinite(feature.coefficients).all() for feature in run.model.features)


def test_columns_that_do_not_match_are_listed_before_any_round(federation, add):
    columns = [f"gene {place}" for place in range(7)] + ["gnee 7"]
    add("mismatched", columns)
    run = start(federation)
    assert run.finish() == 2
    assert run.lines[-1] == (
        'fedsparse: the sites\' tables do not match: mismatched lacks "gene 7"; only mismatched '
        'has "gnee 7"; mend them, or leave columns out with --drop\n'
    )
    assert "sites answered" not in run.text


def site_alone(federation, keys, name, *more):
    """Run a site to its end, and give what it said."""
    table = write_table(federation.root / f"{name}-alone.csv", *rows_of(9))
    return subprocess.run(
        [sys.executable, "-m", "fedsparse", "federation", "site", "--data", table, "--target",
         TARGET, "--server", f"localhost:{federation.port}", "--keys", keys, *more],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip


def test_a_site_whose_key_is_not_registered_is_refused(federation, tmp_path):
    prepare_sites(federation.folder, ["stranger"])  # the running server has not heard of it
    keys = federation.folder.package_of("stranger")
    done = site_alone(federation, keys, "stranger", "--patience", "1")
    assert done.returncode == 2
    assert done.stderr.startswith("fedsparse: the server does not let stranger in: ")
    assert "have its administrator add the card that belongs to" in done.stderr
    enrol(federation.folder, remove=["stranger"])


def test_a_server_that_another_authority_vouches_for_is_refused(federation, tmp_path):
    other = ServerFolder(tmp_path / "other" / "server")
    make_keys(other, ["localhost"])
    prepare_sites(other, ["bari"])
    done = site_alone(federation, other.package_of("bari"), "bari")
    assert done.returncode == 2
    assert done.stderr.startswith(f"fedsparse: localhost:{federation.port} is not the server that")
    assert "ask its administrator for the right folder" in done.stderr


def test_a_killed_server_is_resumed_to_the_model_of_an_uninterrupted_run(federation):
    run = start(federation, sites=2, out="resumed")
    run.until_answers(5)
    federation.kill("server")
    assert run.finish() == 2, run.text
    assert "Go on from its transcript with --resume" in run.lines[-1]
    federation.start_server()
    again = start(federation, sites=2, out="resumed", resume=True)
    assert again.finish() == 0, again.text
    assert again.text.count("sites answered") <= 7  # it did not begin anew
    tables = [federation.root / f"{name}.csv" for name in GOOD]
    assert_same_fit(again.summary, fitted_in_one_place(tables, federation.root / "fitted", **FIT))
    assert "bari lost the server" in federation.log("bari")


def test_a_site_that_leaves_cross_validation_is_waited_for_and_nothing_changes(federation, add):
    """The same bits as if it had never left."""
    options = {"sparsity": "cv", "held_out": "none", "stability": 0}
    add("hanging")
    run = federation.train(
        sites=3, if_absent="wait", round_seconds=2.0, out="waited", longest_wait=600, **options
    )
    run.until_answers(5)
    federation.kill("hanging", signal.SIGSTOP)
    run.until("waiting for hanging, at most")
    federation.kill("hanging", signal.SIGCONT)
    assert run.finish() == 0, run.text
    assert "hanging is back" in run.text
    tables = [federation.root / f"{name}.csv" for name in (*GOOD, "hanging")]
    expected = fitted_in_one_place(tables, federation.root / "waited for", **options)
    assert_same_fit(run.summary, expected)
    assert {site.took_part for site in run.summary.sites} == {"to the end"}


def test_a_model_no_better_than_none_ends_with_1_and_is_written(federation):
    run = start(federation, sites=2, step_size=1e-300, rounds=2)
    assert run.finish() == 1, run.text
    assert "The model is no better than none: f is" in run.text
    assert "at the start. A site may be faulty" in " ".join(run.text.split())
    assert "no better than none" in run.summary.failure
    assert "no better than none" in (run.out / "report.html").read_text()
