"""A run is followed by its transcript while it is written: exchanges, objective, sites."""

import os
from contextlib import ExitStack, closing

import numpy as np
import pytest

from fedsparse.engines.engine import Ask
from fedsparse.engines.lens import Lens
from fedsparse.errors import CheckpointError
from fedsparse.federation.server import following
from fedsparse.federation.server.following import Course, Follower
from fedsparse.federation.server.transcript import (
    TRANSCRIPT,
    SitesEngine,
    TranscribedEngine,
    Transcript,
)
from fedsparse.problem.losses import Logistic, SquaredError
from fedsparse.problem.rows import Rows
from fedsparse.requests import Answers, ColumnSums, Evaluate

ALL = Lens(SquaredError(l2=0.1))
X = np.zeros(3)
STANDING = {"bari": {"excluded": None}}


class Told(SitesEngine):
    """Sites that tell what they are set to."""

    lens, names, width, is_sparse = ALL, ("bari", "cork"), 3, False
    has_holes = can_single_out = False
    classes = None

    def exchange(self, asks):
        return self.answers

    def standing(self):
        return STANDING

    def fingerprint(self):
        return ""

    def close(self):
        pass


class Run:
    """A run that writes its transcript as runs do."""

    def __init__(self, path):
        self.sites = Told()
        self.transcript = Transcript.begin(path, {})
        self.engine = TranscribedEngine(self.sites, self.transcript)

    def exchange(self, *told):
        """Each is a lens, a request, and f as the sum over two sites; None: it tells none."""
        self.sites.answers = [
            Answers({"sum": X} if f is None else {"objective": np.array(f)}, 2.0, 2, 2)
            for *_, f in told
        ]
        self.engine.exchange([Ask(lens, request) for lens, request, _ in told])


@pytest.fixture
def path(tmp_path):
    return tmp_path / TRANSCRIPT


@pytest.fixture
def follower(path):
    with closing(Follower(path)) as own:
        yield own


@pytest.fixture
def begin(path):
    """Begins a run."""
    with ExitStack() as begun:

        def run():
            new = Run(path)
            begun.enter_context(new.transcript)
            return new

        yield run


def test_each_look_tells_what_has_come_since(follower, begin):
    run = begin()
    assert follower.look() == Course()
    run.exchange((ALL, ColumnSums(), None))
    assert follower.look() == Course(1, (), STANDING)
    run.exchange((ALL, Evaluate(X), 8.0))
    run.exchange((ALL, Evaluate(X), 3.0))
    assert follower.look() == Course(3, ((2, 4.0), (3, 1.5)), STANDING)
    assert follower.look() == Course(3, ((2, 4.0), (3, 1.5)), STANDING)


def test_only_f_on_all_rows_counts_and_the_lowest_of_several_models(follower, begin):
    run = begin()
    fold = Lens(ALL.loss, Rows().but_part(0, of=5))
    run.exchange(
        (ALL, Evaluate(X), 6.0),
        (ALL, Evaluate(X), 5.0),
        (fold, Evaluate(X), 1.0),  # of the other rows
        (ALL, Evaluate(X, is_penalized=False), 1.0),  # another function
        (ALL, Evaluate(X), np.nan),  # of a model that diverged
    )
    assert follower.look().objective == ((1, 2.5),)


def test_functions_that_differ_are_not_mixed_into_one_line(follower, begin):
    run = begin()
    other = Lens(Logistic())
    run.exchange((ALL, Evaluate(X), 6.0), (other, Evaluate(X), 0.2))
    run.exchange((ALL, Evaluate(X), 4.0))
    assert follower.look().objective == ((1, 3.0), (2, 2.0))


def test_half_a_record_is_waited_for(follower, begin, path):
    run = begin()
    run.exchange((ALL, Evaluate(X), 6.0))
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 5)
    assert follower.look().exchanges == 0
    path.write_bytes(whole)
    assert follower.look().objective == ((1, 3.0),)


def test_a_transcript_that_is_begun_anew_is_read_anew(follower, begin, path):
    run = begin()
    run.exchange((ALL, Evaluate(X), 6.0))
    run.exchange((ALL, Evaluate(X), 4.0))
    assert follower.look().exchanges == 2
    again = begin()
    again.exchange((ALL, Evaluate(X), 9.0))
    assert follower.look() == Course(1, ((1, 4.5),), STANDING)
    path.unlink()
    assert follower.look() == Course()


def test_a_long_transcript_is_read_a_part_at_a_look(follower, begin, monkeypatch):
    run = begin()
    for _ in range(3):
        run.exchange((ALL, Evaluate(X), 6.0))
    clock = iter(range(100))
    monkeypatch.setattr(following.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(following, "_SECONDS", 2.0)  # it is the third look at the clock that ends
    assert [follower.look().exchanges for _ in range(3)] == [1, 2, 3]


def test_a_transcript_that_was_changed_is_named(follower, begin, path):
    begin().exchange((ALL, Evaluate(X), 6.0))
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="was changed or damaged at exchange 1"):
        follower.look()
