"""What the log hears of long work at the server."""

import logging
import threading

from fedsparse.algorithms import long_work
from fedsparse.algorithms.long_work import told_of

LINES = 3


class Heard(logging.Handler):
    """Keeps lines, and says when there are enough of them."""

    def __init__(self):
        super().__init__()
        self.lines, self.enough = [], threading.Event()

    def emit(self, record):
        self.lines.append(record.getMessage())
        if len(self.lines) >= LINES:
            self.enough.set()


def test_says_again_and_again_that_it_goes_on_until_it_is_over(monkeypatch):
    monkeypatch.setattr(long_work, "EVERY", 0.01)
    heard = Heard()
    long_work.log.addHandler(heard)
    monkeypatch.setattr(long_work.log, "level", logging.INFO)
    try:
        with told_of("choosing 2,000 features"):
            assert heard.enough.wait(60.0)
        said = len(heard.lines)
        assert all(line.startswith("the server is choosing 2,000") for line in heard.lines)
    finally:
        long_work.log.removeHandler(heard)
    assert len(heard.lines) == said


def test_lines_are_no_more_than_ten_seconds_apart():
    assert long_work.EVERY <= 10.0
