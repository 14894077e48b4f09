"""The commands of a federation: what they say, and what they refuse."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from fedsparse.federation.demonstration import prepare_sites
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.server.enrolment import enrol, enrolled
from tests.cli.commands import assert_one_line, fedsparse
from tests.cli.federation.federations import Federation, write_table

ENVIRONMENT = os.environ | {"NO_COLOR": "1"}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "bari.csv"
    path.write_text("age,dose,relapse\n" + "61,0.5,1\n47,0.25,0\n" * 4)
    return path


def federation(*arguments, **options):
    return fedsparse("federation", *arguments, env=ENVIRONMENT, **options)


class TestKeys:
    def test_says_what_to_keep_and_what_sites_do(self, tmp_path):
        folder = tmp_path / "federation"
        done = federation("keys", folder, "--host", "localhost")
        assert done.returncode == 0
        assert f"keep {folder}/ca.key secret" in done.stdout
        assert "Have every site run 'fedsparse federation join NAME'" in done.stdout
        again = federation("keys", folder)
        assert (again.returncode, again.stdout) == (0, done.stdout)

    def test_needs_a_host(self, tmp_path):
        done = federation("keys", tmp_path / "keys")
        assert done.returncode == 2
        assert_one_line(done.stderr, "name the host by which sites reach the server")


class TestRoster:
    @pytest.fixture
    def folder(self, tmp_path):
        federation("keys", tmp_path / "federation", "--host", "localhost")
        return tmp_path / "federation"

    def card(self, tmp_path, name, place=None):
        done = federation("join", name, "--keys", tmp_path / (place or name))
        assert done.returncode == 0
        return tmp_path / (place or name) / f"{name}.site", done.stdout

    def test_a_site_joins_and_both_sides_see_the_same_fingerprint(self, tmp_path, folder):
        path, told = self.card(tmp_path, "bari")
        assert f"Send {path} to the server's administrator" in told
        fingerprint = told.split("\n\n")[1].strip()
        done = federation("roster", folder, "--add", path)
        assert done.returncode == 0
        assert f"  bari  {fingerprint}" in done.stdout
        assert f"Hand the two files in {folder}/for-sites to every site" in done.stdout
        assert "Restart the server" in done.stdout
        shown = federation("roster", folder)
        assert f"  bari  {fingerprint}" in shown.stdout
        assert "Restart the server" not in shown.stdout

    def test_a_key_that_changed_is_refused_and_the_way_to_accept_it_works(self, tmp_path, folder):
        federation("roster", folder, "--add", self.card(tmp_path, "bari")[0])
        other, _ = self.card(tmp_path, "bari", "other")
        done = federation("roster", folder, "--add", other)
        assert done.returncode == 2
        assert_one_line(done.stderr, "the card of bari has another key than the roster")
        done = federation("roster", folder, "--add", other, "--replace", "bari")
        assert done.returncode == 0

    def test_a_mangled_card_is_told_in_one_line(self, tmp_path, folder):
        path, _ = self.card(tmp_path, "bari")
        path.write_bytes(path.read_bytes().replace(b"bari", b"cork"))
        done = federation("roster", folder, "--add", path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "whose signature does not fit")

    def test_needs_the_server_s_folder(self, tmp_path):
        done = federation("roster", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "make keys with 'fedsparse federation keys'")


class TestServer:
    def test_does_not_start_without_keys(self, tmp_path):
        done = federation("server", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "make keys with 'fedsparse federation keys'")

    def test_names_a_port_that_is_taken(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = federation("server", tmp_path, "--insecure", "--port", port)
        assert done.returncode == 2
        last = done.stderr.splitlines(keepends=True)[-1]
        assert_one_line(last, f"cannot listen at 127.0.0.1, port {port}")


class TestSite:
    def test_does_not_start_without_keys(self, tmp_path, table):
        done = federation(
            "site", "--data", table, "--target", "relapse", "--server", "localhost",
            "--keys", tmp_path,
        )  # fmt: skip
        assert done.returncode == 2
        assert_one_line(done.stderr, "there is no")

    def test_another_roster_than_last_time_is_refused(self, tmp_path, table):
        server = ServerFolder(tmp_path / "server")
        make_keys(server, ["localhost"])
        prepare_sites(server, ["bari", "cork"])
        command = [
            "site", "--data", table, "--target", "relapse", "--server", "localhost:1",
            "--keys", server.package_of("bari"), "--patience", 1,
        ]  # fmt: skip
        first = federation(*command)
        assert f"the fingerprint {enrolled(server).fingerprint}" in first.stdout
        assert "localhost:1 was not reached" in first.stderr
        roster = enrol(server, remove=["cork"])
        (server.package_of("bari") / "roster.json").write_bytes(server.roster.read_bytes())
        second = federation(*command)
        assert second.returncode == 2
        assert_one_line(second.stderr, "is not the roster of last time: cork was removed")
        third = federation(*command, "--accept-roster", roster.fingerprint)
        assert "localhost:1 was not reached" in third.stderr

    def test_names_a_table_that_is_not_there(self, tmp_path):
        done = federation(
            "site", "--data", tmp_path / "none.csv", "--server", "localhost:1", "--insecure"
        )
        assert done.returncode == 2
        assert "there is no file" in done.stderr

    @pytest.mark.parametrize("server", ["localhost:abc", "::1", "http://localhost", "", "a:0"])
    def test_names_a_server_that_is_none(self, table, server):
        done = federation("site", "--data", table, "--target", "relapse", "--server", server)
        assert done.returncode == 2
        assert_one_line(done.stderr, f'"{server}" is no server; name it as HOST or HOST:PORT')

    def test_without_protection_says_so_loudly_and_gives_up_in_bounded_time(self, table):
        done = federation(
            "site", "--data", table, "--target", "relapse", "--server", "127.0.0.1:1",
            "--insecure", "--patience", "1", cwd=table.parent,
        )  # fmt: skip
        assert done.returncode == 2
        assert "WARNING: --insecure: nothing is encrypted" in done.stderr
        last = done.stderr.splitlines(keepends=True)[-1]
        assert_one_line(last, "127.0.0.1:1 was not reached for")
        assert "bari enters what it is asked and answers in bari-ledger" in done.stdout
        assert (table.parent / "bari-ledger" / "ledger.jsonl").is_file()
        assert "bari has not reached the server at 127.0.0.1:1 yet (" in done.stdout
        assert "lost the server" not in done.stdout

    def test_does_not_start_with_a_ledger_that_was_changed(self, tmp_path, table):
        command = [
            "site", "--data", table, "--target", "relapse", "--server", "127.0.0.1:1",
            "--insecure", "--patience", "1", "--ledger", tmp_path / "ledger",
        ]  # fmt: skip
        federation(*command)
        path = tmp_path / "ledger" / "ledger.jsonl"
        path.write_bytes(path.read_bytes().replace(b"bari", b"cork"))
        done = federation(*command)
        assert done.returncode == 2
        last = done.stderr.splitlines(keepends=True)[-1]
        assert_one_line(last, f"line 1 of {path} is not the one that was written there")


class TestTrain:
    def test_refuses_options_that_contradict_each_other(self, tmp_path):
        done = federation(
            "train", tmp_path, "--sparsity", 3, "--sites", 2, "--min-sites", 3, "--insecure"
        )
        assert done.returncode == 2
        assert "min_sites is 3, more than the 2 sites" in done.stderr

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--seed", 2**63], "--seed must be a whole number from 0 to"),
            (["--round-seconds", "nan"], "--round-seconds must be a number above 0, not nan"),
            (["--l2", "inf"], "--l2 must be a number of at least 0, not inf"),
            (["--drop", "age", "--keep", "age"], 'column "age" is named by both --drop and --keep'),
            (["--local-steps", 3], "--local-steps means nothing without --method; leave it out"),
            (["--method", "nowhere.py:Own"], "nowhere.py cannot be imported: FileNotFoundError"),
            (["--resume"], "transcript.bin to go on from; name the run's folder with --out"),
        ],
        ids=[
            "seed",
            "not a number",
            "infinite",
            "roles",
            "no effect",
            "method",
            "nothing to resume",
        ],
    )
    def test_bad_options_are_told_in_one_line(self, tmp_path, options, told):
        done = federation(
            "train", tmp_path, "--sparsity", 3, "--sites", 2, "--insecure", "--out",
            tmp_path / "trained", *options,
        )  # fmt: skip
        assert done.returncode == 2
        assert_one_line(done.stderr, told)

    def test_an_unfinished_run_is_not_lost(self, tmp_path):
        (tmp_path / "transcript.bin").write_bytes(b"")
        done = federation(
            "train", tmp_path, "--sparsity", 3, "--sites", 2, "--insecure", "--out", tmp_path
        )
        assert done.returncode == 2
        assert_one_line(done.stderr, "holds a run that was not finished; go on with --resume")

    def test_says_when_there_is_no_server(self, tmp_path):
        done = federation(
            "train", tmp_path, "--sparsity", 3, "--sites", 2, "--open-sums", "--insecure",
            "--port", 1, "--out", tmp_path / "trained",
        )  # fmt: skip
        assert done.returncode == 2
        assert "the run could not be started; is the server up?" in done.stderr

    def test_says_when_another_server_listens(self, tmp_path):
        for name in ("own", "other"):
            make_keys(ServerFolder(tmp_path / name), ["localhost"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "other/server.crt", tmp_path / "other/server.key")
        server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        listening = threading.Thread(target=server.serve_forever)
        listening.start()
        try:
            done = federation(
                "train", tmp_path / "own", "--sparsity", 3, "--sites", 2, "--open-sums",
                "--port", server.server_port, "--out", tmp_path / "trained",
            )  # fmt: skip
        finally:
            server.shutdown()
            listening.join()
            server.server_close()
        assert done.returncode == 2
        assert "the run could not be started; another server listens there" in done.stderr


@pytest.mark.parametrize("command", ["status", "stop"])
def test_status_and_stop_say_when_there_is_no_server(tmp_path, command):
    done = federation(command, tmp_path, "--insecure", "--port", 1)
    assert done.returncode == 2
    last = done.stderr.splitlines(keepends=True)[-1]
    assert_one_line(last, "no server answers at 127.0.0.1:1 (")


def test_fedsparse_and_its_command_line_start_without_flower():
    """Nor what comes with it, or with other extras: they may not be installed."""
    extras = {"flwr", "cryptography", "httpx", "starlette", "ray", "torch"}
    code = f"import sys, fedsparse, fedsparse.cli; assert not {extras} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_programs_end_when_they_are_asked_to(tmp_path):
    """Ctrl-C ends a site and a server cleanly, with nothing left running."""
    with Federation(tmp_path, ["bari"]) as running:
        rows = write_table(tmp_path / "bari.csv", *_rows())
        running.start_site("bari", rows)
        running.wait_for_log("bari", "bari is connected")
        for name in ("bari", "server"):
            process = running.programs.running.pop(name)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130)
        assert running.log("bari").endswith("bari has left the federation.\n")


def _rows():
    random = np.random.default_rng(0)
    return random.standard_normal((9, 3)), random.standard_normal(9)


@pytest.mark.slow
def test_the_demonstration_ends_with_the_model_of_one_process(tmp_path):
    done = federation("demo", "--rounds", 2, "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "learning from 5 sites: aachen, bari, cork, delft, espoo" in done.stdout
    assert "the same bit for bit." in done.stdout
    report = tmp_path / "demo" / "trained" / "report.html"
    assert done.stdout.endswith(f"Report: {report}\n")
    assert report.exists()
