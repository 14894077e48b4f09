"""Metrics from sums: each client adds up its own rows, and what all added up is read here."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
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

    def _of_numbers(self) -> Metrics:
        total, squares, residuals = (float(value) for value in self.sums)
        mean = total / self.rows
        deviations = squares - self.rows * mean**2
        # What rounding makes of equal targets is no variation.
        noise = max(self.rows * (1e-12 * (self.centre + mean)) ** 2, 1e-13 * squares)
        explained = 1.0 - residuals / deviations if deviations > noise else None
        return {"R²": explained, "RMSE": float(np.sqrt(residuals / self.rows))}

    def _of_classes(self) -> Metrics:
        loss, in_order, pairs = (float(value) for value in self.sums)
        confusion = self.confusion
        auc: Metrics = {}
        if confusion.shape[0] == 2:
            auc = {"AUC": in_order / pairs if pairs else None}
        accuracy = float(np.trace(confusion)) / self.rows
        return {"accuracy": accuracy, **auc, "log-loss": loss / self.rows}

    def _sums_about(self, centre: float) -> FloatArray:
        """The sums, had another centre been taken from the numbers."""
        if not self.is_numbers:
            return self.sums
        shift, rows = self.centre - centre, float(self.rows)
        total, squares, residuals = (float(value) for value in self.sums)
        return np.array(
            [total + rows * shift, squares + 2.0 * shift * total + rows * shift**2, residuals]
        )
