"""What a run gives back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.engines.history import Record, as_table

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, eq=False)
class Result:
    """The model a run found, and how it got there.

    Attributes
    ----------
    coef
        Coefficients, (d,) or (d, c).
    diverged
        Whether the run was stopped because its iterates blew up; ``coef`` is then the last good
        one.
    classes
        The classes that labels stand for, None for regression.
    records
        The history as plain records.
    objective
        f at ``coef``. Where an algorithm returns the best x it has seen, this may be lower than
        the last row of the history.
    is_done
        Whether the algorithm found that more rounds would change nothing; many never say so.
    """

    coef: FloatArray
    diverged: bool
    classes: AnyArray | None
    records: tuple[Record, ...]
    objective: float
    is_done: bool = False

    @property
    def support(self) -> Int64Array:
        """Features with a non-zero coefficient, for any class."""
        used = self.coef if self.coef.ndim == 1 else np.abs(self.coef).max(axis=1)
        return np.flatnonzero(used)

    @cached_property
    def history(self) -> "polars.DataFrame":
        """One row per recorded round; see `fedsparse.engines.history.Record` for the columns."""
        return as_table(self.records)

    def __repr__(self) -> str:
        last = self.records[-1]
        ending = ", diverged" if self.diverged else ""
        return (
            f"Result(objective={self.objective:.6g}, nonzeros={np.count_nonzero(self.coef)}, "
            f"rounds={last.round}{ending})"
        )


def with_restarts(result: Result, others: Sequence[Result]) -> Result:
    """The best of a run and of others that went on from it in lockstep, as one run.

    A round of theirs is one more round: its f is the lowest of theirs, its bytes are those of all.

    Examples
    --------
    >>> one = Result(np.zeros(1), False, None, (Record(4, 0, 1.0, 1, 10, 10, 0.5),), 1.0)
    >>> start, end = Record(0, 0, 3.0, 1, 0, 0, 0.0), Record(2, 0, 0.5, 1, 7, 8, 0.5)
    >>> two = Result(np.ones(1), False, None, (start, end), 0.5)
    >>> with_restarts(one, [two, two]).records[-1]
    Record(round=6, iterations=0, objective=0.5, nonzeros=1, bytes_down=24, bytes_up=26, \
seconds=1.5, absent=0)
    """
    last, records = result.records[-1], list(result.records)
    for round_ in range(1, max(other.records[-1].round for other in others) + 1):
        reached = [_reached(other.records, round_) for other in others]
        lowest = min(reached, key=lambda record: record.objective)
        records.append(
            Record(
                last.round + round_,
                last.iterations + lowest.iterations,
                lowest.objective,
                lowest.nonzeros,
                last.bytes_down + sum(record.bytes_down for record in reached),
                last.bytes_up + sum(record.bytes_up for record in reached),
                last.seconds + sum(record.seconds for record in reached),
                last.absent + sum(record.absent for record in reached),
            )
        )
    best = min([result, *others], key=lambda other: other.objective)
    return replace(best, records=tuple(records), diverged=result.diverged)


def _reached(records: Sequence[Record], round_: int) -> Record:
    """The last line of a history up to a round."""
    return max(
        (record for record in records if record.round <= round_), key=lambda record: record.round
    )
