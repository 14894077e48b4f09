"""Metrics from sums: each client adds up its own rows, and what all added up is read here."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.modelling.intervals import (
    Interval,
    kurtosis_of,
    of_auc,
    of_positive_mean,
    of_root_mean_square,
    of_share,
    of_share_explained,
)
from fedsparse.requests import Answers
from fedsparse.requests.judged import judged

Metrics = dict[str, float | None]


@dataclass(frozen=True, eq=False)
class Judged:
    """How good predictions are, as sums over rows that can be added.

    Attributes
    ----------
    counts, sums
        As `fedsparse.requests.judged.judged` makes them.
    is_numbers
        Whether targets are numbers.
    centre
        What was taken from numbers before they were added up, lest digits be lost.
    """

    counts: FloatArray
    sums: FloatArray
    is_numbers: bool
    centre: float = 0.0

    @classmethod
    def of(cls, targets: AnyArray, scores: FloatArray, *, is_numbers: bool) -> "Judged":
        """Sums over rows at hand.

        Examples
        --------
        >>> found = Judged.of(np.array([1.0, 3.0]), np.array([1.0, 2.0]), is_numbers=True)
        >>> found.metrics()
        {'R²': 0.5, 'RMSE': 0.7071067811865476}
        >>> Judged.of(np.array([0, 1]), np.array([-3.0, 2.0]), is_numbers=False).metrics()["AUC"]
        1.0
        """
        centre = float(targets.mean()) if is_numbers else 0.0
        found = judged(targets - centre, scores - centre, is_numbers=is_numbers)
        return cls(found["counts"], found["sums"], is_numbers, centre)

    @classmethod
    def told(cls, answers: Answers, *, is_numbers: bool, centre: float = 0.0) -> "Judged | None":
        """Sums that clients told; None if there were no rows."""
        if answers.count == 0 or not answers.total("counts").any():
            return None
        return cls(answers.total("counts"), answers.total("sums"), is_numbers, centre)

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(
            self.counts + other.counts,
            self.sums + other._sums_about(self.centre),
            self.is_numbers,
            self.centre,
        )

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return int(self.counts.sum())

    @property
    def confusion(self) -> Int64Array:
        """Rows by true class (row) and predicted class (column)."""
        classes = round(np.sqrt(self.counts.size))
        return self.counts.reshape(classes, classes).astype(np.int64)

    def metrics(self) -> Metrics:
        """R² and RMSE; or accuracy, AUC (two classes) and log-loss.

        R² is None where targets do not vary, the AUC where a class is missing.
        """
        return self._of_numbers() if self.is_numbers else self._of_classes()

    def intervals(self) -> dict[str, Interval | None]:
        """95 % intervals of the same metrics; None where there are too few rows for one.

        Examples
        --------
        >>> scores = np.array([-2.0, -1.0, -1.0, 1.0, 1.0, 2.0])
        >>> six = Judged.of(np.array([0, 0, 0, 1, 1, 1]), scores, is_numbers=False)
        >>> six.metrics()["AUC"], [round(limit, 2) for limit in six.intervals()["AUC"]]
        (1.0, [0.5, 1.0])
        """
        return self._around_numbers() if self.is_numbers else self._around_classes()

    def guessing(self) -> dict[str, float]:
        """What one guess for all rows reaches, by metric, where that says something.

        It is R² = 0 for the mean, an AUC of 0.5, and the share of the largest class in accuracy.
        """
        if self.is_numbers:
            return {"R²": 0.0}
        largest = float(self.confusion.sum(axis=1).max()) / self.rows
        return {"accuracy": largest, **({"AUC": 0.5} if self.confusion.shape[0] == 2 else {})}

    @property
    def compared(self) -> tuple[tuple[float, float, float], ...]:
        """Pairs in order, pairs and partners: of the second class of two, else of each class."""
        classes = self.confusion.shape[0]
        own = self.sums[2 : 5 if classes == 2 else None]
        return tuple((float(a), float(b), float(c)) for a, b, c in own.reshape(-1, 3))

    def _of_numbers(self) -> Metrics:
        return {"R²": self._explained(), "RMSE": float(np.sqrt(self.sums[2] / self.rows))}

    def _explained(self) -> float | None:
        total, squares, residuals = (float(value) for value in self.sums[:3])
        mean = total / self.rows
        deviations = squares - self.rows * mean**2
        # What rounding makes of equal targets is no variation.
        noise = max(self.rows * (1e-12 * (self.centre + mean)) ** 2, 1e-13 * squares)
        return 1.0 - residuals / deviations if deviations > noise else None

    def _around_numbers(self) -> dict[str, Interval | None]:
        explained, kurtosis = self._explained(), kurtosis_of(*self.sums[5:])
        around = None
        if explained is not None:
            correlation = self._correlation_of_errors()
            around = of_share_explained(explained, correlation, self.rows, kurtosis)
        return {"R²": around, "RMSE": of_root_mean_square(self.sums[2], self.rows, kurtosis)}

    def _correlation_of_errors(self) -> float:
        """Of y − prediction with y."""
        total, squares, residuals, predicted, products = (float(own) for own in self.sums[:5])
        errors = total - predicted
        variances = [
            squares - total**2 / self.rows,
            residuals - errors**2 / self.rows,
        ]
        if min(variances) <= 0:
            return 0.0
        common = squares - products - total * errors / self.rows
        return common / float(np.sqrt(np.prod(variances)))

    def _of_classes(self) -> Metrics:
        confusion = self.confusion
        auc: Metrics = {}
        if confusion.shape[0] == 2:
            ((in_order, pairs, _),) = self.compared
            auc = {"AUC": in_order / pairs if pairs else None}
        accuracy = float(np.trace(confusion)) / self.rows
        return {"accuracy": accuracy, **auc, "log-loss": float(self.sums[0]) / self.rows}

    def _around_classes(self) -> dict[str, Interval | None]:
        confusion = self.confusion
        auc = {"AUC": of_auc(*self.compared[0])} if confusion.shape[0] == 2 else {}
        return {
            "accuracy": of_share(float(np.trace(confusion)), self.rows),
            **auc,
            "log-loss": of_positive_mean(float(self.sums[0]), float(self.sums[1]), self.rows),
        }

    def _sums_about(self, centre: float) -> FloatArray:
        """The sums, had another centre been taken from the numbers."""
        if not self.is_numbers:
            return self.sums
        shift, rows = self.centre - centre, float(self.rows)
        total, squares, _, predicted, products = (float(value) for value in self.sums[:5])
        moved = self.sums.copy()
        moved[[0, 3]] += rows * shift
        moved[1] = squares + 2.0 * shift * total + rows * shift**2
        moved[4] = products + shift * (total + predicted) + rows * shift**2
        return moved
