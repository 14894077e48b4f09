"""What is told of a run while it is followed."""

import threading

from fedsparse.federation.server import submission


class LateControl:
    """A server that says nothing of a run before somebody has been told that it is late."""

    def __init__(self):
        self.has_been_noted = threading.Event()

    def log(self, run):
        assert self.has_been_noted.wait(60)
        yield "it begins"


def test_a_run_that_does_not_begin_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "_LATE", 0.0)
    control, told = LateControl(), []

    def tell(line):
        told.append(line)
        control.has_been_noted.set()

    submission._follow(control, 7, tmp_path, tell)
    assert told[0].startswith("Note: the server has not begun the run yet.")
    assert "it begins" in (tmp_path / submission.FLOWER_LOG).read_text()


class PromptControl:
    def log(self, run):
        yield "it begins"


def test_a_run_that_begins_is_not_called_late(tmp_path):
    told = []
    submission._follow(PromptControl(), 7, tmp_path, told.append)
    assert told == []
    waiting = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    assert all(each.finished.is_set() for each in waiting)
