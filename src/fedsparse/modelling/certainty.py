"""How sure the coefficients of a model are, as its file tells it."""

import numpy as np

from fedsparse.modelling.stored import StoredPart

LEVEL = 0.95
"""Of intervals."""


class Interval(StoredPart):
    """An estimate and what it may be.

    Examples
    --------
    >>> Interval.of(1.5, -np.inf, 2.5)
    Interval(value=1.5, low=None, high=2.5)
    """

    value: float
    low: float | None
    high: float | None
    """None: without bound."""

    @classmethod
    def of(cls, value: float, low: float, high: float) -> "Interval":
        """From numbers, of which the bounds may be infinite."""
        low_, high_ = (float(end) if np.isfinite(end) else None for end in (low, high))
        return cls(value=float(value), low=low_, high=high_)

    def times(self, factor: float) -> "Interval":
        """The interval in other units, which are so many of these."""
        low, high = self._ends()
        return Interval.of(self.value * factor, low * factor, high * factor)

    def as_ratio(self) -> "Interval | None":
        """e to the power of it; None where that is no number."""
        low, high = self._ends()
        with np.errstate(over="ignore"):
            value, low, high = np.exp([self.value, low, high])
        if not np.isfinite(value):
            return None
        return Interval.of(value, -np.inf if self.low is None else low, high)

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside.

        Examples
        --------
        >>> Interval.of(1.5, 0.5, np.inf).excludes(0.0)
        True
        """
        low, high = self._ends()
        return value < low or value > high

    def _ends(self) -> tuple[float, float]:
        low = -np.inf if self.low is None else self.low
        return low, np.inf if self.high is None else self.high


class Estimated(StoredPart):
    """What is known of a feature's coefficient."""

    coefficient: Interval
    """For one unit of the feature."""
    per_deviation: Interval
    """For one standard deviation of the feature."""
    ratio: Interval | None = None
    """Odds, hazard or rate ratio for one unit; None where the loss has none."""
    ratio_per_deviation: Interval | None = None
    p_value: float | None = None
    """That the coefficient is 0; None of a shrunk one."""

    @classmethod
    def of(
        cls, coefficient: Interval, scale: float, *, has_ratio: bool, p_value: float | None
    ) -> "Estimated":
        """On all scales, from a coefficient for one unit.

        Parameters
        ----------
        coefficient
            For one unit.
        scale
            The feature's standard deviation.
        has_ratio
            Whether e to the power of it means something.
        p_value
            That it is 0.

        Examples
        --------
        >>> age = Estimated.of(Interval.of(0.0, -1.0, 1.0), 2.0, has_ratio=True, p_value=1.0)
        >>> age.ratio.value, age.per_deviation.high
        (1.0, 2.0)
        """
        per_deviation = coefficient.times(scale)
        return cls(
            coefficient=coefficient,
            per_deviation=per_deviation,
            ratio=coefficient.as_ratio() if has_ratio else None,
            ratio_per_deviation=per_deviation.as_ratio() if has_ratio else None,
            p_value=p_value,
        )


class Certainty(StoredPart):
    """How sure a coefficient is, in three ways; None is what could not be worked out."""

    refitted: Estimated | None = None
    """Estimated anew on the chosen features without shrinkage. Interval and p-value are as if they
    had been chosen beforehand, which is too sure of itself."""
    shrunk: Estimated | None = None
    """The model's own coefficient, with shrinkage; as if chosen beforehand, too."""
    after_choosing: Estimated | None = None
    """Estimated on halves of the rows that had no part in choosing. Interval and p-value are valid
    after the choice, for all features at once."""


class HowSure(StoredPart):
    """What the certainties of a model's features are about."""

    level: float
    """Of the intervals."""
    ratio: str | None
    """What ratios are called, such as ``odds ratio``."""
    splits: int
    """How many times features were chosen on one half of the rows and estimated on the other."""
    exchanges: int
    """Messages to every site and back that it took beside those of the models."""
