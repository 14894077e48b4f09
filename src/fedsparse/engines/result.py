"""What a run gives back."""

from dataclasses import dataclass
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
    """

    coef: FloatArray
    diverged: bool
    classes: AnyArray | None
    records: tuple[Record, ...]
    objective: float

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
