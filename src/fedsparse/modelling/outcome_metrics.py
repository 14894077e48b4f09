"""Metrics of counts and of survival from sums; see `fedsparse.modelling.metrics` for the others."""

import math
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.modelling.intervals import (
    Interval,
    of_auc,
    of_deviance_explained,
    of_positive_mean,
)
from fedsparse.modelling.metrics import Judged, Metrics
from fedsparse.requests import Answers


@dataclass(frozen=True, eq=False)
class JudgedCounts:
    """How good predictions of counts are, as sums over rows that can be added.

    Attributes
    ----------
    counts, sums
        As `fedsparse.requests.judged_outcomes.judged_counts` makes them.

    Examples
    --------
    >>> from fedsparse.requests.judged_outcomes import judged_counts
    >>> rates = np.array([1.0, 3.0])
    >>> found = JudgedCounts(**judged_counts(rates, None, np.log(rates))).metrics()
    >>> round(found["deviance explained"], 9)
    1.0
    """

    counts: FloatArray
    sums: FloatArray

    @classmethod
    def told(cls, answers: Answers) -> "JudgedCounts | None":
        """Sums that clients told; None if there were no rows."""
        if answers.count == 0 or not answers.total("counts").any():
            return None
        return cls(answers.total("counts"), answers.total("sums"))

    def __add__(self, other: "JudgedCounts") -> "JudgedCounts":
        return JudgedCounts(self.counts + other.counts, self.sums + other.sums)

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return round(float(self.counts[0]))

    @property
    def deviances(self) -> tuple[float, float]:
        """Of the predictions, and of one rate for all rows: the best there is."""
        total = float(self.counts[1])
        exposure, saturated, likelihood = (float(value) for value in self.sums[:3])
        without = 2.0 * (saturated - total * np.log(total / exposure)) if total else 0.0
        return max(2.0 * (saturated - total - likelihood), 0.0), max(float(without), 0.0)

    def metrics(self) -> Metrics:
        """Share of the deviance that is explained, the deviance of a row, counts per exposure.

        The share is None where all rates are the same.
        """
        deviance, without = self.deviances
        has_some = without > 1e-12 * float(self.counts[1])
        return {
            "deviance explained": 1.0 - deviance / without if has_some else None,
            "deviance": deviance / self.rows,
            "mean rate": float(self.counts[1] / self.sums[0]),
        }

    def intervals(self) -> dict[str, Interval | None]:
        """95 % intervals of what speaks of the model; None where there are too few rows for one.

        Examples
        --------
        >>> from fedsparse.requests.judged_outcomes import judged_counts
        >>> counts, scores = np.array([0.0, 2.0, 1.0, 4.0, 2.0, 6.0]), np.linspace(-0.5, 1.5, 6)
        >>> six = JudgedCounts(**judged_counts(counts, None, scores, guess=2.5))
        >>> [round(limit, 2) for limit in six.intervals()["deviance explained"]]
        [-0.79, 0.89]
        """
        told, own, products, against = (float(value) for value in self.sums[3:])
        found = dict.fromkeys(self.metrics())
        if told == 0:
            return found
        # Sites with few rows do not tell squares: theirs are taken to be like those of others.
        scale = self.rows / told
        deviance, without = self.deviances
        explained = self.metrics()["deviance explained"]
        around = None
        if explained is not None:
            share = 1.0 - explained
            squares = scale * (own - 2.0 * share * products + share**2 * against)
            around = of_deviance_explained(deviance, without, squares, self.rows)
        mean = of_positive_mean(deviance, scale * own, self.rows)
        return found | {"deviance explained": around, "deviance": mean}

    def guessing(self) -> dict[str, float]:
        """What one rate for all rows explains: nothing."""
        return {"deviance explained": 0.0}


@dataclass(frozen=True, eq=False)
class JudgedSurvival:
    """How good predictions of survival are, as sums over rows that can be added.

    Attributes
    ----------
    counts, sums
        As `fedsparse.requests.judged_outcomes.judged_survival` makes them.

    Examples
    --------
    >>> from fedsparse.problem.losses import as_loss
    >>> from fedsparse.requests.judged_outcomes import judged_survival
    >>> times, scores = np.array([1.0, -2.0, 3.0]), np.array([0.9, 0.1, 0.5])
    >>> JudgedSurvival(**judged_survival(times, scores, as_loss("cox"))).metrics()["C-index"]
    1.0
    """

    counts: FloatArray
    sums: FloatArray

    @classmethod
    def told(cls, answers: Answers) -> "JudgedSurvival | None":
        """Sums that clients told; None if there were no rows."""
        if answers.count == 0 or not answers.total("counts").any():
            return None
        return cls(answers.total("counts"), answers.total("sums"))

    def __add__(self, other: "JudgedSurvival") -> "JudgedSurvival":
        return JudgedSurvival(self.counts + other.counts, self.sums + other.sums)

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return round(float(self.counts[0]))

    def metrics(self) -> Metrics:
        """C-index, what an event is likelier by than at equal risks (logarithm), and events.

        None where no pair can be compared, or nothing happened.
        """
        events = float(self.counts[1])
        likelihood, without, in_order, pairs = (float(value) for value in self.sums[:4])
        # Equal but for the order in which they were added up: nothing is gained.
        gained = 0.0 if math.isclose(without, likelihood, rel_tol=1e-12) else without - likelihood
        return {
            "C-index": in_order / pairs if pairs else None,
            "log-likelihood gained": gained / events if events else None,
            "events": events,
        }

    def intervals(self) -> dict[str, Interval | None]:
        """95 % interval of the C-index; None where no pair can be compared.

        Examples
        --------
        >>> from fedsparse.problem.losses import as_loss
        >>> from fedsparse.requests.judged_outcomes import judged_survival
        >>> times = np.arange(1.0, 7.0)
        >>> six = JudgedSurvival(**judged_survival(times, -times, as_loss("cox")))
        >>> six.metrics()["C-index"], [round(limit, 2) for limit in six.intervals()["C-index"]]
        (1.0, [0.68, 1.0])
        """
        _, _, in_order, pairs, partners = (float(value) for value in self.sums)
        around = of_auc(in_order, pairs, partners / 2.0 - pairs)
        return dict.fromkeys(self.metrics()) | {"C-index": around}

    def guessing(self) -> dict[str, float]:
        """What chance puts in order: half of all pairs."""
        return {"C-index": 0.5}


AnyJudged = Judged | JudgedCounts | JudgedSurvival
"""How good predictions are, whatever is predicted; one kind adds up with its own."""
