"""Who sees the page on which an administrator watches, what it shows, and what it never does.

Flower's list of nodes and runs is made up here; `tests/cli/federation/test_watch.py` has a real
server. The run in it is a real one, of sites in this process.
"""

import datetime
import re
import socket
import threading
from contextlib import contextmanager
from html import escape, unescape

import numpy as np
import polars as pl
import pytest

from fedsparse.errors import FederationError, OptionError
from fedsparse.federation.flower_internals import KnownNode, KnownRun
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.server import lookout, mailbox, runs
from fedsparse.federation.server.lookout import Lookout
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.training import Training
from fedsparse.federation.server.watching import Watching
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from tests.chromium import in_browser
from tests.federation.grids import TARGET, Nodes, answering
from tests.federation.server.watched_page import WatchedPage, drawn, text_of

SCRIPT = "<img src=x onerror=document.title='obeyed'><script>document.title='obeyed'</script>"
EVIL = f"cork{SCRIPT}\u202e"
NAMES = ("aachen", "bari", EVIL)
NUMBER = 16141413124215151413  # more digits than a browser's numbers have
GENEROUS = Policy(open_sums=True, most_features_per_row=100.0, smallest_weight_of_others=0.0)
STRICT = GENEROUS.model_copy(update={"requests": ("ColumnSums", "ColumnSquares", "Evaluate")})


class Server:
    """What Flower would tell of nodes and runs; it may be away."""

    def __init__(self):
        self.known = []
        self.is_away = False

    @contextmanager
    def reached(self, *_):
        if self.is_away:
            raise FederationError("no server answers")
        yield self

    def nodes(self):
        return [KnownNode(place, name, place != 1) for place, name in enumerate(NAMES)]

    def runs(self):
        return self.known

    def log_so_far(self, number):
        return [f"INFO :      14:02:11 | {EVIL} is here", "Flower says something, too"]


def ended(number, folder, **how):
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    return KnownRun(number, since, {"out": str(folder)}, is_finished=True, **how)


@pytest.fixture(scope="module")
def server():
    """A server whose last run has finished; one of its sites refused."""
    with pytest.MonkeyPatch.context() as patch:
        own = Server()
        patch.setattr(runs, "reached", own.reached)
        patch.setattr(lookout, "_FRESH_SECONDS", 0.0)
        yield own


@pytest.fixture(scope="module")
def finished(tmp_path_factory, server):
    """The folder of the run."""
    folder = tmp_path_factory.mktemp("run")
    random = np.random.default_rng(0)
    sites = []
    for name in NAMES:
        rows = random.standard_normal((20, 4))
        columns = {f"gene {place}": column for place, column in enumerate(rows.T)}
        table = NamedTable(pl.DataFrame({**columns, TARGET: 3 * rows[:, 0]}), TARGET)
        sites.append(Site(name, table, STRICT if name == EVIL else GENEROUS, 1))
    grid = Nodes({place: answering(site) for place, site in enumerate(sites, start=1)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)
        train(
            grid,
            Training(
                sparsity=1, rounds=6, method="FedIterHT", step_size=0.02, held_out="none",
                stability=0, sites=3, min_sites=2, round_seconds=30.0, longest_wait=1.0,
                open_sums=True, out=str(folder),
            ),
        )  # fmt: skip
    server.known = [ended(NUMBER, folder)]
    return folder


@pytest.fixture(scope="module")
def page(finished):
    lookout = Lookout(ServerFolder(finished), runs.Address(8443, is_insecure=True))
    with Watching(lookout, 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        own = WatchedPage(serving.url)
        own.state()
        yield own
        serving.shutdown()


@pytest.fixture
def report(page):
    return f"{page.path}runs/{NUMBER}/report.html"


class TestWhatItShows:
    @in_browser
    @pytest.mark.slow
    def test_names_are_shown_and_not_obeyed(self, page, tmp_path):
        document = page.drawn(tmp_path)
        assert "<title>Federation</title>" in document
        assert "<img" not in document
        assert "\u202e" not in document
        assert f"14:02:11 | cork{SCRIPT}\\u202e is here" in unescape(document)
        text = text_of(document)
        assert re.search(
            r"cork.* takes no further part : its policy does not allow LocalSteps", text
        )
        assert "finished , began 2" in text
        assert len(re.findall("<circle", document)) == 7

    @in_browser
    @pytest.mark.slow
    def test_it_fits_a_phone(self, page, tmp_path):
        """Windows of a browser without a screen are wider; so what was drawn goes into a frame."""
        shown = re.sub(r"<script nonce.*?</script>", "", page.drawn(tmp_path), flags=re.DOTALL)
        framed = tmp_path / "framed.html"
        framed.write_text(
            f'<iframe width="400" height="900" srcdoc="{escape(shown)}"></iframe><script>'
            "onload = () => { document.body.id = document.querySelector('iframe')"
            ".contentDocument.documentElement.scrollWidth; };</script>"
        )
        assert '<body id="400">' in drawn(framed.as_uri(), tmp_path)

    @in_browser
    @pytest.mark.slow
    def test_a_report_is_drawn_though_it_may_reach_nothing(self, page, report, tmp_path):
        policy = page.asked(report)[1]["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert policy.endswith("sandbox allow-scripts")
        document = page.drawn(tmp_path, f"runs/{NUMBER}/report.html")
        assert re.search(r'<svg[^>]*class="marks"', document)

    def test_numbers_keep_their_digits(self, page):
        assert page.state()["runs"][0]["number"] == str(NUMBER)

    def test_a_server_that_is_away_leaves_what_was_seen(self, page, server, finished, report):
        before = page.state()
        server.is_away = True
        try:
            away = page.state()
            assert away == before | {"trouble": "no server answers"}
            assert page.asked(report)[0] == 200
        finally:
            server.is_away = False
        assert page.state() == before


class TestReports:
    """Only the last run of a folder has what is there now, and only if it finished."""

    @pytest.fixture(autouse=True)
    def _as_before(self, server):
        before = server.known
        yield
        server.known = before

    def test_one_that_finished_is_linked(self, page, finished, report):
        assert page.state()["runs"][0]["has_report"]
        assert page.asked(report)[2] == (finished / "report.html").read_bytes()

    def test_another_run_that_writes_there_has_none_yet(self, page, server, finished, report):
        now = datetime.datetime.now(datetime.UTC)
        server.known = [KnownRun(7, now, {"out": str(finished)}), *server.known]
        assert [run["has_report"] for run in page.state()["runs"]] == [False, False]
        assert page.asked(report)[0] == 404

    def test_the_exchanges_of_an_earlier_run_are_not_those_of_another(self, page, server, finished):
        now = datetime.datetime.now(datetime.UTC)
        server.known = [KnownRun(7, now, {"out": str(finished)}), *server.known]
        assert [run["exchanges"] for run in page.state()["runs"]] == [0, 0]
        server.known = server.known[1:]
        assert page.state()["runs"][0]["exchanges"] == 9

    def test_one_that_was_stopped_has_none(self, page, server, finished, report):
        server.known = [ended(NUMBER, finished, is_stopped=True)]
        assert page.state()["runs"][0]["state"] == "stopped"
        assert page.asked(report)[0] == 404

    def test_one_that_failed_says_why(self, page, server, tmp_path):
        (tmp_path / "report.html").write_text("of something else")
        (tmp_path / "outcome.json").write_text('{"error": "DataError", "message": "no rows"}')
        server.known = [ended(8, tmp_path)]
        (told,) = page.state()["runs"]
        assert (told["state"], told["reason"], told["has_report"]) == ("failed", "no rows", False)

    def test_a_link_in_its_place_is_not_followed(self, page, finished, report):
        kept = finished / "kept.html"
        (finished / "report.html").rename(kept)
        try:
            (finished / "report.html").symlink_to(finished / "fit.json")
            assert page.state()["runs"][0]["has_report"]
            assert page.asked(report)[0] == 404
        finally:
            kept.replace(finished / "report.html")

    @pytest.mark.parametrize(
        "path",
        [
            "..%2f..%2fserver%2fcontrol.secret", "../control.secret", "runs/", "runs", "runs/1/",
            "runs/1/report.html", "runs/{number}/fit.json", "runs/{number}/../report.html",
            "runs/{number}/..%2ftranscript.bin", "runs/{number}/report.html/", "favicon.ico",
            "runs/{number}%00/report.html", "/etc/passwd", "runs/{number}/report.html?x",
        ],
    )  # fmt: skip
    def test_no_other_file_is_served(self, page, path):
        status, _, content = page.asked(page.path + path.format(number=NUMBER))
        assert (status, content) == (404, b"there is no such page\n")


class TestThoseWhomItRefuses:
    def test_the_address_is_another_at_each_start(self, page, finished):
        with Watching(Lookout(ServerFolder(finished), runs.Address(8443)), 0) as other:
            assert other.token != page.token
        assert len(page.token) >= 40

    @pytest.mark.parametrize(
        "path", ["/", "/state.json", "//", "/wrong/", "/wrong/state.json", "/%00/", "/%C3%A4/", "*"]
    )
    def test_who_does_not_show_the_token_is_refused(self, page, path):
        status, _, content = page.asked(path)
        assert (status, content) == (403, b"use the address that the command told\n")

    def test_a_token_that_is_nearly_right_is_refused(self, page):
        last = "A" if page.token[-1] != "A" else "B"
        for token in (page.token[:-1] + last, page.token[:-1], page.token.swapcase()):
            assert page.asked(f"/{token}/state.json")[0] == 403

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
    def test_nothing_but_looking_is_possible(self, page, method):
        status, headers, _ = page.asked(method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")

    def test_head_tells_no_content(self, page):
        status, headers, content = page.asked(method="HEAD")
        assert (status, content) == (200, b"")
        assert int(headers["Content-Length"]) > 1000

    @pytest.mark.parametrize(
        "host",
        ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.x:{port}"],
    )
    def test_a_page_whose_own_name_leads_here_is_refused(self, page, host):
        other = host.format(port=page.port)
        assert page.asked(hosts=[other])[0] == 403
        assert page.asked(hosts=[page.host, other])[0] == 403
        assert page.asked(hosts=[])[0] == 403
        assert page.asked(hosts=[f"localhost:{page.port}"])[0] == 200

    @pytest.mark.parametrize("path", ["", "state.json", "nothing"])
    def test_what_is_told_is_neither_kept_nor_passed_on(self, page, path):
        _, headers, _ = page.asked(page.path + path)
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy

    def test_a_script_is_let_in_once_by_a_number_of_its_own(self, page):
        first, second = (page.asked()[1]["Content-Security-Policy"] for _ in range(2))
        assert first != second

    def test_other_machines_cannot_reach_it(self, page):
        with pytest.raises(ConnectionRefusedError):  # another address of this machine, as theirs is
            socket.create_connection(("127.0.0.2", int(page.port)), 60)

    def test_what_is_no_request_is_refused(self, page):
        with socket.create_connection(("127.0.0.1", int(page.port)), 60) as line:
            line.sendall(b"nonsense\r\n\r\n")
            assert line.makefile("rb").read() == b"Bad Request\n"

    def test_a_port_that_is_taken_is_told(self, page, finished):
        with pytest.raises(OptionError, match=rf"port {page.port} .*choose another with --page"):
            Watching(Lookout(ServerFolder(finished), runs.Address(8443)), int(page.port))
