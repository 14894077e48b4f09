"""Metrics as sums: each site adds up its own rows, and the sums of all sites are added.

Nothing here carries a row: a site's sums are counts and totals. The AUC of several sites together
comes from counts of scores in 4,096 bins; within a bin, order counts as a tie.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.data.federated import FederatedData
from fedsparse.fitting import Fitted
from fedsparse.losses import Loss, SquaredError

_BINS = 4096
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
        explained = 1.0 - self.residuals / self.deviations if self.deviations > 0 else None
        return {"R²": explained, "RMSE": float(np.sqrt(self.residuals / self.rows))}


@dataclass(frozen=True, eq=False)
class ClassificationSums:
    """Of true classes against predicted ones, of the log-loss, and of scores by class."""

    confusion: Int64Array
    """Rows by true class (row) and predicted class (column)."""
    log_loss: float
    bins: Int64Array
    """Binary: scores of the first and the second class by bin; otherwise of no size."""

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
            _binned(codes, scores) if scores.ndim == 1 else np.empty((0, 0), dtype=np.int64),
        )

    def __add__(self, other: "ClassificationSums") -> "ClassificationSums":
        return ClassificationSums(
            self.confusion + other.confusion,
            self.log_loss + other.log_loss,
            self.bins + other.bins,
        )

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return int(self.confusion.sum())

    def metrics(self) -> Metrics:
        """Accuracy, AUC (two classes; None where one is missing) and log-loss."""
        accuracy = float(np.trace(self.confusion) / self.rows)
        auc = {"AUC": _auc(self.bins)} if self.bins.size else {}
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


def _binned(codes: Int64Array, scores: FloatArray) -> Int64Array:
    # A score of 4 is a probability of 98 %: flatter than a probability, far scores stay apart.
    places = np.minimum((expit(scores / 4.0) * _BINS).astype(np.int64), _BINS - 1)
    return np.bincount(codes * _BINS + places, minlength=2 * _BINS).reshape(2, _BINS)


def _auc(bins: Int64Array) -> float | None:
    negatives, positives = bins
    pairs = int(negatives.sum()) * int(positives.sum())
    if pairs == 0:
        return None
    below = np.cumsum(negatives) - negatives
    return float(positives @ (below + negatives / 2.0) / pairs)
