"""Long work at the server is told of, and work that is soon done is not."""

import logging
import threading

import pytest

from fedsparse.algorithms import long_work


class Listening(logging.Handler):
    """Waits for a line."""

    def __init__(self):
        super().__init__()
        self.lines, self.heard = [], threading.Event()

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.heard.set()


@pytest.fixture
def listening():
    handler, level = Listening(), long_work.log.level
    long_work.log.addHandler(handler)
    long_work.log.setLevel(logging.INFO)
    yield handler
    long_work.log.removeHandler(handler)
    long_work.log.setLevel(level)


def test_a_line_comes_while_the_work_goes_on(listening, monkeypatch):
    monkeypatch.setattr(long_work, "EVERY", 0.01)
    with long_work.told_of("choosing among 4,000 features"):
        assert listening.heard.wait(60)
    assert listening.lines[0].startswith("the server is choosing among 4,000 features, for ")


def test_none_comes_of_work_that_is_soon_done(listening):
    with long_work.told_of("doing nothing"):
        pass
    assert not listening.lines


def test_an_error_goes_on_and_the_telling_ends(listening):
    before = threading.active_count()
    with pytest.raises(ValueError, match="no"), long_work.told_of("failing"):
        raise ValueError("no")
    assert threading.active_count() == before
