"""The losses: squared error, logistic and softmax, each with an ℓ2 term.

f_i(x) = (1/B_i) Σ_j loss(z_ij·x, y_ij) + (λ/2) ‖x‖². The compiled form of the losses is in
`fedsparse.problem.slopes`; the classes here name them, check labels and know their constants.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.checks import check_not_negative
from fedsparse.errors import DataError, OptionError
from fedsparse.problem import slopes
from fedsparse.problem.federated import FederatedData


@dataclass(frozen=True)
class Loss(ABC):
    """What all losses share.

    Parameters
    ----------
    l2
        λ, the weight of (λ/2)‖x‖².
    """

    l2: float = 0.0

    name: ClassVar[str]
    code: ClassVar[int]
    curvature: ClassVar[float]
    """Largest second derivative of the loss with respect to a row's scores."""

    is_quadratic: ClassVar[bool] = False
    """Whether second derivatives are the same at every x."""

    def __post_init__(self) -> None:
        check_not_negative("l2", self.l2)

    @abstractmethod
    def encode(self, data: FederatedData) -> "EncodedTargets":
        """Check the clients' targets and turn them into the numbers the loss computes with."""

    def value(self, scores: ArrayLike, targets: ArrayLike) -> float:
        """Mean loss over rows at given scores z·x, the ℓ2 term left out.

        Targets are encoded: numbers, 0 and 1 for logistic, 0 … c−1 for softmax.

        Examples
        --------
        >>> SquaredError().value([1.0, 3.0], [0.0, 1.0])
        2.5
        """
        rows, encoded = self._as_rows(scores, targets)
        return float(
            np.mean(
                [slopes.loss_of_row(self.code, own, encoded, row) for row, own in enumerate(rows)]
            )
        )

    def derivative(self, scores: ArrayLike, targets: ArrayLike) -> FloatArray:
        """Derivative of each row's loss with respect to its scores.

        Examples
        --------
        >>> Logistic().derivative([0.0, 0.0], [0.0, 1.0])
        array([ 0.5, -0.5])
        """
        rows, encoded = self._as_rows(scores, targets)
        result = rows.copy()
        for row, own in enumerate(result):
            slopes.to_slopes(self.code, own, encoded, row)
        return result.reshape(np.shape(scores))

    def second_derivative(self, scores: FloatArray) -> FloatArray:
        """Second derivative of each row's loss with respect to its score.

        Examples
        --------
        >>> Logistic().second_derivative(np.array([0.0])), SquaredError().second_derivative(
        ...     np.array([7.0])
        ... )
        (array([0.25]), array([2.]))
        """
        if self.code == slopes.SOFTMAX:
            raise OptionError(f"the {self.name} loss has no second derivative by a single score")
        return slopes.second_derivatives(self.code, scores)

    def _as_rows(self, scores: ArrayLike, targets: ArrayLike) -> tuple[FloatArray, FloatArray]:
        encoded = np.atleast_1d(np.asarray(targets, dtype=np.float64))
        rows = np.asarray(scores, dtype=np.float64).reshape(encoded.size, -1)
        if self.code != slopes.SQUARED:
            labels = max(rows.shape[1], 2)
            if not np.isin(encoded, np.arange(labels)).all():
                raise DataError(f"encoded targets must be whole numbers from 0 to {labels - 1}")
        return rows, np.column_stack([encoded, np.ones(encoded.size)])

    def smoothness(self, largest_eigenvalue: float) -> float:
        """Smoothness constant l of a client, given the largest eigenvalue of ZᵀZ/B.

        Examples
        --------
        >>> SquaredError().smoothness(3.0), Logistic(l2=0.5).smoothness(4.0)
        (6.0, 1.5)
        """
        return self.curvature * largest_eigenvalue + self.l2


@dataclass(frozen=True)
class EncodedTargets:
    """Targets as numbers, and the classes they stand for (none for regression)."""

    values: FloatArray
    classes: AnyArray | None = None


@dataclass(frozen=True)
class SquaredError(Loss):
    """(y − z·x)², without ½."""

    name: ClassVar[str] = "squared"
    code: ClassVar[int] = slopes.SQUARED
    is_quadratic: ClassVar[bool] = True
    curvature: ClassVar[float] = 2.0

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Any finite numbers will do."""
        if data.targets.dtype.kind not in "fiub":
            raise _misfit(data, 0, "the squared loss needs numbers", 'loss="softmax"')
        return EncodedTargets(data.targets.astype(np.float64))


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + e^{z·x}) − y z·x for labels 0 and 1; −1 and +1 are accepted too."""

    l2: float = 1e-4

    name: ClassVar[str] = "logistic"
    code: ClassVar[int] = slopes.LOGISTIC
    curvature: ClassVar[float] = 0.25

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Labels become 0 and 1."""
        labels = data.targets
        if labels.dtype.kind not in "fiub":
            raise _misfit(data, 0, "the logistic loss needs labels 0/1 or −1/+1", 'loss="softmax"')
        values = labels.astype(np.float64)
        everyone = values if data.all_targets is None else data.all_targets
        if np.isin(everyone, (0, 1)).all():
            return EncodedTargets(values, np.array([0, 1]))
        if np.isin(everyone, (-1, 1)).all():
            return EncodedTargets((values + 1.0) / 2.0, np.array([-1, 1]))
        row = _first(~np.isin(values, (-1.0, 0.0, 1.0)))
        if row is None:  # −1, 0 and 1 together
            row = int(np.flatnonzero(values == -1.0)[0])
        raise _misfit(data, row, "the logistic loss needs labels 0/1 or −1/+1", 'loss="softmax"')


@dataclass(frozen=True)
class Softmax(Loss):
    """Cross-entropy over c classes; coefficients are a (d, c) matrix."""

    l2: float = 1e-4

    name: ClassVar[str] = "softmax"
    code: ClassVar[int] = slopes.SOFTMAX
    curvature: ClassVar[float] = 0.5

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Labels of any kind become 0 … c−1 in sorted order; a client may lack some classes."""
        labels = data.targets
        if labels.dtype.kind == "f" and (labels != np.round(labels)).any():
            row = _first(labels != np.round(labels))
            raise _misfit(data, row, "the softmax loss needs class labels", 'loss="squared"')
        classes = np.unique(labels if data.all_targets is None else data.all_targets)
        codes = np.searchsorted(classes, labels)
        if classes.size < 2:
            raise DataError(
                f"all rows have the same label, {classes[0]}; the softmax loss needs two classes"
            )
        return EncodedTargets(codes.astype(np.float64), classes)


LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (SquaredError, Logistic, Softmax)}


def as_loss(loss: str | Loss) -> Loss:
    """A loss object from its name or itself.

    Examples
    --------
    >>> as_loss("logistic")
    Logistic(l2=0.0001)
    """
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise OptionError(f"unknown loss {loss!r}; use one of {', '.join(LOSSES)} or a Loss object")
    return LOSSES[loss]()


def coefficient_shape(width: int, classes: AnyArray | None, loss: Loss) -> tuple[int, ...]:
    """Shape of x: (d,), or (d, c) for softmax."""
    if isinstance(loss, Softmax) and classes is not None:
        return (width, classes.size)
    return (width,)


def _first(mask: AnyArray) -> int | None:
    found = np.flatnonzero(mask)
    return int(found[0]) if found.size else None


def _misfit(data: FederatedData, row: int | None, need: str, alternative: str) -> DataError:
    name, own_row = data.owner_of(row or 0)
    label = data.targets[row or 0]
    return DataError(
        f"{name}, row {own_row} has label {label}, but {need}; recode it or use {alternative}"
    )
