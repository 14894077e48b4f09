"""Estimates of many splits as one: features chosen on one part of the rows, estimated on the other.

One split is valid but a lottery. The p-values of several are combined by their γ-quantiles over γ,
the smallest of which is a p-value again when it is multiplied by 1 − log γ_min (Meinshausen, Meier
& Bühlmann, p-Values for High-Dimensional Regression, JASA 2009, equations 2.2 and 2.3). Within a
split p-values are those of Bonferroni over the features it chose, so that with probability 1 − α
none of the features without an effect has a combined p-value below α. Intervals hold the values
that the same test does not refuse.
"""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.modelling.distributions import student_reach, student_tail

SMALLEST_SHARE = 0.5
"""γ_min: the least share of splits on which a combined p-value may rest. In the paper it is 0.05,
which is right if all splits choose all features that matter. Where some miss one, its effect is
laid at the door of others; then as few as that may not refuse what is true (with 0.05, intervals
of a weak simulation covered 86 %, and with ½ 99 %; see ``python -m benchmarks coverage``)."""

_PENALTY = 1.0 - float(np.log(SMALLEST_SHARE))


@dataclass(frozen=True, eq=False)
class SplitEstimates:
    """What each split says of each coefficient.

    Attributes
    ----------
    values, errors
        Estimates and their standard errors, of shape (splits, coefficients). NaN where a split did
        not choose the feature, or could not estimate it.
    freedom
        Degrees of freedom of Student's distribution, by split; infinite for the normal one.
    tests
        How many features each split chose, which Bonferroni's correction counts.

    Examples
    --------
    >>> found = SplitEstimates(
    ...     np.full((20, 1), 2.0), np.full((20, 1), 0.4), np.full(20, np.inf), np.full(20, 3)
    ... )
    >>> found.p_values.round(5), [float(end) for end in found.interval(0, 0.95).round(2)]
    (array([0.]), [0.97, 3.03])
    """

    values: FloatArray
    errors: FloatArray
    freedom: FloatArray
    tests: FloatArray

    @property
    def is_told(self) -> BoolArray:
        """Which coefficients each split estimates."""
        return np.isfinite(self.errors) & (self.errors > 0)

    @property
    def centres(self) -> FloatArray:
        """The median of the splits that estimate each coefficient; NaN if none does."""
        told = np.where(self.is_told, self.values, np.nan)
        centres, is_known = np.full(told.shape[1], np.nan), self.is_told.any(axis=0)
        centres[is_known] = np.nanmedian(told[:, is_known], axis=0)
        return centres

    @property
    def p_values(self) -> FloatArray:
        """Combined over splits, familywise over coefficients."""
        is_told = self.is_told
        with np.errstate(all="ignore"):
            sizes = np.abs(self.values) / self.errors
        single = 2.0 * student_tail(np.where(is_told, sizes, 0.0), self.freedom[:, None])
        corrected = np.where(is_told, np.minimum(single * self.tests[:, None], 1.0), 1.0)
        return combined_p_values(corrected)

    def interval(self, place: int, level: float) -> FloatArray:
        """The values of a coefficient that the combined test does not refuse: the two ends.

        Infinite where too few splits estimate it.

        Parameters
        ----------
        place
            Of the coefficient.
        level
            Such as 0.95, for all coefficients at once.
        """
        is_told = self.is_told[:, place]
        values, errors = self.values[is_told, place], self.errors[is_told, place]
        splits, low, high = is_told.size, -np.inf, np.inf
        for count in range(_fewest(splits), splits + 1):
            # Refused if so many splits refuse it at this level.
            share = (1.0 - level) * count / (splits * _PENALTY)
            reach = errors * student_reach(share / self.tests[is_told] / 2.0, self.freedom[is_told])
            needed = splits - count + 1 - int(np.count_nonzero(~is_told))
            ends = _covered(values - reach, values + reach, needed)
            if ends is None:  # the splits contradict each other
                return np.array([-np.inf, np.inf])
            low, high = max(low, ends[0]), min(high, ends[1])
        return np.array([low, high] if low <= high else [-np.inf, np.inf])


def combined_p_values(p_values: FloatArray) -> FloatArray:
    """One p-value a column from those of several splits.

    min(1, (1 − log γ_min) inf Q(γ)) over γ from γ_min to 1, where Q(γ) is the γ-quantile of p / γ.

    Parameters
    ----------
    p_values
        Of shape (splits, hypotheses), 1 where a split does not test.

    Examples
    --------
    >>> combined_p_values(np.array([[0.001, 1.0], [0.002, 1.0], [0.5, 0.9]])).round(4)
    array([0.0051, 1.    ])
    """
    splits = len(p_values)
    counts = np.arange(_fewest(splits), splits + 1)
    ordered = np.sort(p_values, axis=0)[counts - 1]
    lowest = (ordered * (splits / counts)[:, None]).min(axis=0)
    return np.asarray(np.minimum(_PENALTY * lowest, 1.0))


def _fewest(splits: int) -> int:
    return int(np.ceil(SMALLEST_SHARE * splits))


def _covered(low: FloatArray, high: FloatArray, needed: int) -> tuple[float, float] | None:
    """The ends of what so many of some intervals cover at least; None if that is nothing."""
    if needed <= 0:
        return -np.inf, np.inf
    # A begin counts before an end at the same place.
    ends = np.concatenate([low, high])
    steps = np.repeat([1, -1], low.size)
    order = np.lexsort((-steps, ends))
    covering = np.cumsum(steps[order])
    enough = np.flatnonzero(covering >= needed)
    if enough.size == 0:
        return None
    return float(ends[order][enough[0]]), float(ends[order][enough[-1] + 1])
