"""Metrics as sums: each site adds up its own rows, and the sums of all sites are added.

Nothing here carries a row: a site's sums are counts and totals. The AUC compares the scores of rows
of the same site, by the same model; that of several sites is the share of all such pairs.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax
from scipy.stats import rankdata

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.data.federated import FederatedData
from fedsparse.fitting import Fitted
from fedsparse.losses import Loss, SquaredError

Metrics = dict[str, float | None]


@dataclass(frozen=True, eq=False)
class RegressionSums:
    """Of targets and of their residuals."""

    rows: int
    mean: float
    deviations: float
    """Σ (y − mean)²."""
    residuals: float
    """Σ (y − prediction)²."""

    @classmethod
    def of(cls, targets: FloatArray, predictions: FloatArray) -> "RegressionSums":
        """Sums over rows.

        Examples
        --------
        >>> RegressionSums.of(np.array([1.0, 3.0]), np.array([1.0, 2.0])).metrics()
        {'R²': 0.5, 'RMSE': 0.7071067811865476}
        """
        mean = float(targets.mean())
        return cls(
            targets.size,
            mean,
            float(np.sum((targets - mean) ** 2)),
            float(np.sum((targets - predictions) ** 2)),
        )

    def __add__(self, other: "RegressionSums") -> "RegressionSums":
        rows = self.rows + other.rows
        between = self.rows * other.rows / rows * (self.mean - other.mean) ** 2
        return RegressionSums(
            rows,
            (self.rows * self.mean + other.rows * other.mean) / rows,
            self.deviations + other.deviations + between,
            self.residuals + other.residuals,
        )

    def metrics(self) -> Metrics:
        """R² (None where targets do not vary) and RMSE."""
        # What rounding makes of equal targets is no variation.
        varies = self.deviations > self.rows * (1e-12 * self.mean) ** 2
        explained = 1.0 - self.residuals / self.deviations if varies else None
        return {"R²": explained, "RMSE": float(np.sqrt(self.residuals / self.rows))}


@dataclass(frozen=True, eq=False)
class ClassificationSums:
    """Of true classes against predicted ones, of the log-loss, and of pairs in order."""

    confusion: Int64Array
    """Rows by true class (row) and predicted class (column)."""
    log_loss: float
    pairs: tuple[float, float] | None
    """Binary: pairs of rows of different classes whose scores are in order, and all such pairs."""

    @classmethod
    def of(cls, codes: AnyArray, scores: FloatArray) -> "ClassificationSums":
        """Sums over rows.

        Parameters
        ----------
        codes
            True classes 0 … c−1.
        scores
            One per row for two classes, a column per class for more.

        Examples
        --------
        >>> ClassificationSums.of(np.array([0, 1]), np.array([-3.0, 2.0])).metrics()["AUC"]
        1.0
        """
        codes = codes.astype(np.int64)
        logits = np.column_stack([np.zeros(codes.size), scores]) if scores.ndim == 1 else scores
        classes = logits.shape[1]
        predicted = logits.argmax(axis=1)
        confusion = np.bincount(codes * classes + predicted, minlength=classes**2)
        losses = -log_softmax(logits, axis=1)[np.arange(codes.size), codes]
        return cls(
            confusion.reshape(classes, classes),
            float(losses.sum()),
            _pairs(codes, scores) if scores.ndim == 1 else None,
        )

    def __add__(self, other: "ClassificationSums") -> "ClassificationSums":
        return ClassificationSums(
            self.confusion + other.confusion,
            self.log_loss + other.log_loss,
            _added(self.pairs, other.pairs),
        )

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return int(self.confusion.sum())

    def metrics(self) -> Metrics:
        """Accuracy, AUC (two classes; None where one is missing) and log-loss."""
        accuracy = float(np.trace(self.confusion) / self.rows)
        auc: Metrics = {}
        if self.pairs is not None:
            in_order, pairs = self.pairs
            auc = {"AUC": in_order / pairs if pairs else None}
        return {"accuracy": accuracy, **auc, "log-loss": self.log_loss / self.rows}


def mean_loss(loss: Loss, model: Fitted, data: FederatedData) -> float:
    """A model's loss per row of all sites together, rows weighted, the ℓ2 term left out.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = FederatedData.from_clients([([[1.0], [2.0]], [1.0, 5.0])])
    >>> model = Fitted(np.array([1.0]), np.array([0.0]), None, None)
    >>> mean_loss(SquaredError(), model, data)
    4.5
    """
    scores = model.scores(data.features)
    targets = loss.encode(data).values
    if isinstance(loss, SquaredError):
        losses = (targets - scores) ** 2
    else:
        logits = np.column_stack([np.zeros(scores.size), scores]) if scores.ndim == 1 else scores
        losses = -log_softmax(logits, axis=1)[np.arange(targets.size), targets.astype(np.int64)]
    return float(np.average(losses, weights=data.row_weights))


def _pairs(codes: Int64Array, scores: FloatArray) -> tuple[float, float]:
    """Pairs of the second class above the first, ties counting half, and all pairs."""
    seconds = int(codes.sum())
    above = float(rankdata(scores)[codes == 1].sum()) - seconds * (seconds + 1) / 2
    return above, float(seconds * (codes.size - seconds))


def _added(
    one: tuple[float, float] | None, other: tuple[float, float] | None
) -> tuple[float, float] | None:
    return None if one is None or other is None else (one[0] + other[0], one[1] + other[1])
