"""How sure coefficients are, from what rows say to what a model's file tells."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.modelling.certainty import LEVEL, Certainty, Estimated, HowSure, Interval
from fedsparse.modelling.multi_split import SplitEstimates
from fedsparse.modelling.refitting import Estimates, Refitted


@dataclass(frozen=True, eq=False)
class FoundSure:
    """What rows say of how sure coefficients are.

    Attributes
    ----------
    refitted
        On all rows.
    splits
        On halves; None if there were none.
    exchanges
        That all of it took.
    """

    refitted: Refitted
    splits: SplitEstimates | None
    exchanges: int

    def how_sure(self, ratio: str | None) -> HowSure:
        """What the estimates are about."""
        splits = 0 if self.splits is None else len(self.splits.tests)
        return HowSure(level=LEVEL, ratio=ratio, splits=splits, exchanges=self.exchanges)

    def refitted_vectors(self, width: int) -> tuple[FloatArray, FloatArray]:
        """Coefficients without shrinkage of all features, and the ends of their intervals.

        0 for a feature that was not chosen, NaN for one that cannot be estimated.
        """
        values, ends = np.zeros(width), np.zeros((width, 2))
        if self.refitted.support.size:
            values[self.refitted.support], ends[self.refitted.support] = np.nan, np.nan
        if (plain := self.refitted.plain) is not None:
            values[plain.support] = np.where(np.isfinite(plain.errors), plain.values, np.nan)
            ends[plain.support] = plain.intervals(LEVEL)
        return values, ends

    def split_vectors(self, width: int) -> tuple[FloatArray, FloatArray]:
        """The same by the halves; without bounds where too few of them estimate a feature."""
        assert self.splits is not None
        ends = np.array([self.splits.interval(place, LEVEL) for place in range(width)])
        return self.splits.centres, ends

    def certainty(self, place: int, scale: float, *, has_ratio: bool) -> Certainty:
        """How sure the coefficient of the feature at a place is.

        Parameters
        ----------
        place
            Of the feature.
        scale
            Its standard deviation.
        has_ratio
            Whether e to the power of a coefficient means something.
        """

        def estimated(estimate: FloatArray | None, p_value: float | None) -> Estimated | None:
            if estimate is None or not np.isfinite(estimate[0]):
                return None
            interval = Interval.of(*estimate)
            return Estimated.of(interval, scale, has_ratio=has_ratio, p_value=p_value)

        plain, splits = self.refitted.plain, self.splits
        return Certainty(
            refitted=estimated(_wald(plain, place), _p_value(plain, place)),
            shrunk=estimated(_wald(self.refitted.shrunk, place), None),
            after_choosing=None
            if splits is None
            else estimated(
                np.array([splits.centres[place], *splits.interval(place, LEVEL)]),
                float(splits.p_values[place]),
            ),
        )


def _wald(estimates: Estimates | None, place: int) -> FloatArray | None:
    """The estimate of a feature and its interval; None if there is none."""
    if estimates is None:
        return None
    (own,) = np.flatnonzero(estimates.support == place)
    if not np.isfinite(estimates.errors[own]):
        return None
    return np.array([estimates.values[own], *estimates.intervals(LEVEL)[own]])


def _p_value(estimates: Estimates | None, place: int) -> float | None:
    if estimates is None:
        return None
    return float(estimates.p_values[estimates.support == place][0])
