"""Which runs are under way, which one is meant, and what becomes of one that is stopped."""

import datetime
from contextlib import nullcontext

import httpx
import pytest

from fedsparse.errors import FederationError, OptionError
from fedsparse.federation.flower_internals import KnownRun
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.server import runs
from fedsparse.federation.server.lock import LOCK, locked

NOW = datetime.datetime(2026, 11, 18, 14, 3, tzinfo=datetime.UTC)


def a_run(number, out="", is_finished=False):
    return KnownRun(number, NOW, {"out": str(out)} if out else {}, is_finished)


class Server:
    """What a server says of its runs, and what it was told to stop."""

    def __init__(self, *known, log=()):
        self._known = list(known)
        self._log = list(log)
        self.stopped = []

    def runs(self):
        return self._known

    def stop(self, number):
        self.stopped.append(number)
        if number not in [run.number for run in self._known]:
            response = httpx.Response(400, json={"detail": "Run is already finished."})
            raise httpx.HTTPStatusError("", request=None, response=response)
        self._known = [run for run in self._known if run.number != number]

    def log_so_far(self, number):
        return self._log


@pytest.mark.parametrize(
    ("known", "number", "told"),
    [
        ([], None, "no run is under way"),
        ([a_run(1, is_finished=True)], None, "no run is under way"),
        ([a_run(1), a_run(2)], None, "2 runs are under way; name one of them: 1, 2"),
        ([a_run(1)], 2, "run 2 is not under way; 'fedsparse federation status' names"),
        ([a_run(2, is_finished=True)], 2, "run 2 is not under way"),
    ],
    ids=["none", "all ended", "several", "another", "ended"],
)
def test_a_run_that_cannot_be_meant_is_told(known, number, told):
    with pytest.raises(OptionError, match=told):
        runs.chosen_run(Server(*known), number)


def test_the_only_run_is_meant_and_one_of_several_by_its_number():
    assert runs.chosen_run(Server(a_run(1, is_finished=True), a_run(2)), None).number == 2
    assert runs.chosen_run(Server(a_run(1), a_run(2)), 1).number == 1


def test_the_run_that_writes_to_a_folder_is_found_however_the_folder_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    known = [a_run(1), a_run(2, tmp_path / "other"), a_run(3, tmp_path / "trained")]
    found = runs.run_writing_to(Server(*known), tmp_path / "link" / "trained")
    assert found.number == 3
    ended = a_run(4, tmp_path / "ended", is_finished=True)
    assert runs.run_writing_to(Server(ended), tmp_path / "ended") is None


def test_a_run_that_has_just_ended_counts_as_stopped(tmp_path):
    server = Server()
    runs.stop(server, a_run(1, tmp_path))
    assert server.stopped == [1]


def test_a_run_whose_process_does_not_end_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "_END_SECONDS", 0.0)
    with locked(tmp_path / LOCK), pytest.raises(FederationError, match="has not ended after"):
        runs.stop(Server(a_run(1, tmp_path)), a_run(1, tmp_path))


def test_the_last_line_is_the_last_of_ours():
    log = ["INFO : starting", "14:03:40 | bari is here", "14:03:41 | round 1", "INFO : more"]
    assert runs.last_line(Server(log=log), a_run(1)) == "14:03:41 | round 1"
    assert runs.last_line(Server(log=["INFO : starting"]), a_run(1)) is None


@pytest.mark.parametrize(
    ("status", "told"),
    [(None, "no server answers at 127.0.0.1:8443"), (412, r"refuses \(other release\); restart")],
    ids=["away", "refusing"],
)
def test_a_server_that_cannot_be_asked_is_told(tmp_path, monkeypatch, status, told):
    monkeypatch.setattr(runs, "control_of", lambda *_: nullcontext())
    error = httpx.ConnectError("Connection refused")
    if status is not None:
        response = httpx.Response(status, json={"detail": "other release"})
        error = httpx.HTTPStatusError("", request=None, response=response)
    with (
        pytest.raises(FederationError, match=told),
        runs.reached(ServerFolder(tmp_path), runs.Address(8443)),
    ):
        raise error
