"""The page on which an administrator watches, in a real browser, and those whom it refuses."""

import http.client
import json
import re
import shutil
import socket
import subprocess
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from fedsparse.federation.demonstration import free_port
from tests.cli.commands import assert_one_line, fedsparse
from tests.cli.federation.federations import TARGET, Federation, write_table

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--hide-scrollbars",
    "--virtual-time-budget=5000",  # the page asks every two seconds
)
HERE = ("aachen", "bari", "cork")
REFUSAL = "its policy does not allow LocalSteps; train with --method FedSplice"
SCRIPT = "<img src=x onerror=document.title='obeyed'><script>document.title='obeyed'</script>"

pytestmark = pytest.mark.slow
in_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on PATH to open the page with"
)


class Page:
    """The page of a watch command that is under way."""

    def __init__(self, federation):
        insecure = ["--insecure"] if federation.insecure else []
        federation.programs.start(
            "watch", "watch", federation.folder.root, "--port", federation.port, *insecure
        )
        federation.wait_for_log("watch", "Ctrl-C ends it.")
        self.federation = federation
        self.url = re.search(r"Open (\S+)", federation.log("watch"))[1]
        self.host, self.path = urlsplit(self.url).netloc, urlsplit(self.url).path

    def asked(self, path=None, method="GET", host=None):
        """Status, headers and content of what comes back."""
        line = http.client.HTTPConnection(self.host, timeout=60)
        line.putrequest(method, self.path if path is None else path, skip_host=True)
        for own in [self.host] if host is None else host:
            line.putheader("Host", own)
        line.endheaders()
        reply = line.getresponse()
        return reply.status, reply.headers, reply.read()

    def state(self):
        return json.loads(self.asked(f"{self.path}state.json")[2])

    def run_writing_to(self, out):
        return next(run for run in self.state()["runs"] if run["folder"] == str(out))

    def shown(self, folder, path="", *flags):
        return shown_in_browser(self.url + path, folder, *flags)


def shown_in_browser(url, folder, *flags):
    """The document as a browser has drawn it; its console has nothing to say."""
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def text_of(document):
    """What people read, in one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", document, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


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
    return Page(federation)


@pytest.fixture(scope="module")
def told(federation, page):
    """What the page tells of a run that has just finished, and has left a report."""
    run = start(federation)
    assert run.finish() == 0, run.text
    while (seen := page.run_writing_to(run.out))["state"] == "under way":
        pass  # what was seen is fresh for a second
    return seen


@pytest.fixture(scope="module")
def finished(told):
    """Its folder."""
    return Path(told["folder"])


@in_browser
def test_a_run_is_shown_while_it_is_under_way_and_after(federation, page, finished, tmp_path):
    run = start(federation, out="long", rounds=2000)
    run.until_answers(6)
    during = text_of(page.shown(tmp_path))
    assert f"The server at 127.0.0.1:{federation.port} answers." in during
    assert "3 of 4 here" in during
    assert "aachen here bari here cork here delft away" in during
    assert "under way , began 2" in during
    assert f"writes to {run.out}" in during
    assert re.search(
        r"\d exchanges; f on all rows was [\d.]+ last and [\d.]+ at its lowest", during
    )
    assert f"takes no further part : {REFUSAL}" in during
    assert re.search(r"\d\d:\d\d:\d\d \| LocalSteps: 2 of 3 sites answered", during)
    before = page.run_writing_to(run.out)["exchanges"]
    run.until_answers(3)
    assert page.run_writing_to(run.out)["exchanges"] > before

    run.process.terminate()
    assert run.finish() == 130, run.text
    after = page.shown(tmp_path)
    assert "stopped , began 2" in text_of(after)
    assert len(re.findall(r"<circle", after)) >= 6
    earlier = text_of(after).partition("Earlier runs")[2]
    assert re.search(rf"{re.escape(str(finished))} finished report", earlier)


def test_exchanges_and_objective_are_those_of_the_run(told, finished):
    history = json.loads((finished / "fit.json").read_text())["history"]
    assert [f for _, f in told["objective"]] == pytest.approx([own["objective"] for own in history])
    assert [at for at, _ in told["objective"]] == [*range(3, 10)]  # after two on columns
    assert told["exchanges"] == 9
    assert [(own["name"], own["answers"], own["missed"]) for own in told["sites"]] == [
        ("aachen", 6, 0), ("bari", 6, 0), ("cork", 0, 6),
    ]  # fmt: skip
    assert [own["reason"] for own in told["sites"]] == [None, None, REFUSAL]
    assert told["state"] == "finished"


@in_browser
def test_the_page_fits_a_phone(page, finished, tmp_path):
    phone = "--window-size=400,900"
    drawn = page.shown(tmp_path, "", phone)
    again = tmp_path / "drawn.html"
    again.write_text(
        re.sub(r"<script.*?</script>", "", drawn, flags=re.DOTALL)
        + "<script>document.body.id = document.documentElement.scrollWidth</script>"
    )
    assert '<body class="narrow" id="400">' in shown_in_browser(again.as_uri(), tmp_path, phone)


@in_browser
def test_a_report_is_drawn_though_it_may_reach_nothing(page, finished, tmp_path):
    number = page.run_writing_to(finished)["number"]
    status, headers, content = page.asked(f"{page.path}runs/{number}/report.html")
    assert (status, content) == (200, (finished / "report.html").read_bytes())
    assert "sandbox allow-scripts" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    document = page.shown(tmp_path, f"runs/{number}/report.html")
    assert re.search(r'<svg[^>]*class="marks"', document)


class TestThoseWhomItRefuses:
    def test_the_address_is_another_at_each_start_and_in_no_log(self, federation, page):
        token = page.path.strip("/")
        assert len(token) >= 40
        page.asked("/nothing")
        page.asked()
        assert federation.log("watch").count(token) == 1  # the line that tells it
        assert token not in federation.log("server")

    @pytest.mark.parametrize(
        "path", ["/", "/state.json", "//", "/wrong/", "/wrong/state.json", "/%00/", "/%C3%A4/", "*"]
    )
    def test_who_does_not_show_the_token_is_refused(self, page, path):
        status, _, content = page.asked(path)
        assert status == 403
        assert b"aachen" not in content

    def test_a_token_that_is_nearly_right_is_refused(self, page):
        last = "A" if page.path[-2] != "A" else "B"
        for path in (page.path[:-2] + last + "/", page.path[:-2] + "/", page.path.lower()):
            assert page.asked(path)[0] == 403

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
    def test_nothing_but_looking_is_possible(self, page, method):
        status, headers, _ = page.asked(method=method)
        assert status == 405
        assert headers["Allow"] == "GET, HEAD"

    def test_head_tells_no_content(self, page):
        status, headers, content = page.asked(method="HEAD")
        assert (status, content) == (200, b"")
        assert int(headers["Content-Length"]) > 1000

    @pytest.mark.parametrize(
        "host",
        ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.x:{port}"],
    )
    def test_a_page_whose_own_name_leads_here_is_refused(self, page, host):
        port = page.host.partition(":")[2]
        assert page.asked(host=[host.format(port=port)])[0] == 403
        assert page.asked(host=[page.host, host.format(port=port)])[0] == 403
        assert page.asked(host=[])[0] == 403
        assert page.asked(host=[f"localhost:{port}"])[0] == 200

    @pytest.mark.parametrize(
        "path",
        [
            "..%2f..%2fserver%2fcontrol.secret", "../control.secret", "runs/", "runs", "runs/1/",
            "runs/1/report.html", "runs/{number}/fit.json", "runs/{number}/../report.html",
            "runs/{number}/..%2ftranscript.bin", "runs/{number}/report.html/", "favicon.ico",
            "runs/{number}%00/report.html", "/etc/passwd", "runs/{number}/report.html?x",
        ],
    )  # fmt: skip
    def test_no_other_file_is_served(self, page, finished, path):
        number = page.run_writing_to(finished)["number"]
        status, _, content = page.asked(page.path + path.format(number=number))
        assert (status, content) == (404, b"there is no such page\n")

    def test_a_link_is_not_followed_out_of_the_folder(self, page, finished):
        number = page.run_writing_to(finished)["number"]
        report, kept = finished / "report.html", finished / "kept.html"
        report.rename(kept)
        try:
            report.symlink_to(page.federation.folder.control_secret)
            assert page.asked(f"{page.path}runs/{number}/report.html")[0] == 404
        finally:
            report.unlink()
            kept.rename(report)

    @pytest.mark.parametrize("path", ["", "state.json", "nothing"])
    def test_what_is_told_is_neither_kept_nor_passed_on(self, page, path):
        _, headers, _ = page.asked(page.path + path)
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy

    def test_other_machines_cannot_reach_it(self, page):
        port = int(page.host.partition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 60)  # the same machine's, as they see it


@in_browser
def test_what_sites_are_called_is_shown_and_not_obeyed(tmp_path):
    random = np.random.default_rng(0)
    evil = f"cork{SCRIPT}\u202e"
    with Federation(tmp_path, [], insecure=True) as federation:
        for name in ("bari", evil):
            table = write_table(
                tmp_path / "table.csv", random.standard_normal((20, 3)), random.standard_normal(20)
            )
            federation.programs.start(
                "evil" if name == evil else name, "site", "--data", table, "--target", TARGET,
                "--server", f"localhost:{federation.port}", "--insecure", "--name", name,
                "--ledger", tmp_path / f"{name[:4]}-ledger", "--policy", policy_in(tmp_path),
            )  # fmt: skip
        page = Page(federation)
        run = start(federation, sites=2, sparsity=1, rounds=2)
        assert run.finish() == 0, run.text
        document = page.shown(tmp_path)
        assert f"cork{SCRIPT}\\u202e" in unescape(document)
        assert "\u202e" not in document
        assert "<title>Federation</title>" in document
        assert "<img" not in document


def policy_in(folder):
    path = folder / "policy.toml"
    path.write_text(
        "open_sums = true\nmost_features_per_row = 100\nsmallest_weight_of_others = 0\n"
    )
    return path


def test_a_server_that_is_away_is_told_on_the_page_and_is_there_again_when_it_is_back(tmp_path):
    with Federation(tmp_path, ["bari"]) as federation:
        page = Page(federation)
        assert page.state()["trouble"] is None
        assert [site["name"] for site in page.state()["sites"]] == ["bari"]
        federation.programs.end("server")
        away = page.state()
        while away["trouble"] is None:  # what was seen is fresh for a second
            away = page.state()
        assert away["trouble"].startswith(f"no server answers at 127.0.0.1:{federation.port}")
        assert [site["name"] for site in away["sites"]] == ["bari"]  # as it was seen last
        if CHROMIUM is not None:
            assert "Not up to date: no server answers" in text_of(page.shown(tmp_path))
        federation.start_server()
        while page.state()["trouble"] is not None:
            pass


def test_what_cannot_be_watched_is_told_in_a_line(federation, page, tmp_path):
    nothing = fedsparse("federation", "watch", tmp_path)
    assert nothing.returncode == 2
    assert_one_line(nothing.stderr, f"there is no {tmp_path / 'ca.crt'}")
    taken = fedsparse(
        "federation", "watch", federation.folder.root, "--page-port", page.host.partition(":")[2]
    )
    assert taken.returncode == 2
    assert_one_line(taken.stderr, "Address already in use); choose another with --page-port")


def test_a_server_need_not_be_up(tmp_path):
    with Federation(tmp_path, ["bari"]) as federation:
        federation.programs.end("server")
        federation.port = free_port()
        assert "no server answers" in Page(federation).state()["trouble"]
