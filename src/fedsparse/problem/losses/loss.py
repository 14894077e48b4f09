"""What all losses share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.checks import check_not_negative
from fedsparse.errors import DataError, OptionError
from fedsparse.problem import slopes
from fedsparse.problem.federated import FederatedData

Outcome = Literal["numbers", "classes"]
"""What kind of target a loss is for."""


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
    outcome: ClassVar[Outcome]
    measure: ClassVar[str]
    """What its value on held-out rows is called."""

    code: ClassVar[int]
    curvature: ClassVar[float]
    """Largest second derivative of the loss with respect to a row's scores."""

    is_quadratic: ClassVar[bool] = False
    """Whether second derivatives are the same at every x."""

    is_by_class: ClassVar[bool] = False
    """Whether a row has a score for every class, so that coefficients are a matrix."""

    ratio: ClassVar[str | None] = None
    """What e to the power of a coefficient is called; None: nothing."""

    dispersion: ClassVar[float | None] = None
    """What the mean loss is multiplied by for what the inverse second derivatives are multiplied
    by, for covariances of estimates. None: by 1, because the loss is a log-likelihood as it is."""

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
        >>> import fedsparse as fs
        >>> fs.SquaredError().value([1.0, 3.0], [0.0, 1.0])
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
        >>> import fedsparse as fs
        >>> fs.Logistic().derivative([0.0, 0.0], [0.0, 1.0])
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
        >>> import fedsparse as fs
        >>> fs.Logistic().second_derivative(np.array([0.0])), fs.SquaredError().second_derivative(
        ...     np.array([7.0])
        ... )
        (array([0.25]), array([2.]))
        """
        if self.is_by_class:
            raise OptionError(f"the {self.name} loss has no second derivative by a single score")
        return slopes.second_derivatives(self.code, scores)

    def _as_rows(self, scores: ArrayLike, targets: ArrayLike) -> tuple[FloatArray, FloatArray]:
        encoded = np.atleast_1d(np.asarray(targets, dtype=np.float64))
        rows = np.asarray(scores, dtype=np.float64).reshape(encoded.size, -1)
        if self.outcome == "classes":
            labels = max(rows.shape[1], 2)
            if not np.isin(encoded, np.arange(labels)).all():
                raise DataError(f"encoded targets must be whole numbers from 0 to {labels - 1}")
        return rows, np.column_stack([encoded, np.ones(encoded.size)])

    def value_at_zero(self, classes: int) -> float | None:
        """What every row loses at x = 0, whatever its target; None if that depends on it.

        Examples
        --------
        >>> import fedsparse as fs
        >>> round(fs.Logistic().value_at_zero(2), 4), fs.SquaredError().value_at_zero(0)
        (0.6931, None)
        """
        return None

    def slope_bound(self, value: float, *, is_at_zero: bool) -> float | None:
        """What times a second derivative of f_i bounds a squared slope; None if nothing does.

        Cauchy and Schwarz: the bound is the mean of squared slopes by the scores, each over its
        second derivative.

        Parameters
        ----------
        value
            f_i without its ℓ2 term.
        is_at_zero
            Whether x = 0.
        """
        return None

    def smoothness(self, largest_eigenvalue: float) -> float:
        """Smoothness constant l of a client, given the largest eigenvalue of ZᵀZ/B.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.SquaredError().smoothness(3.0), fs.Logistic(l2=0.5).smoothness(4.0)
        (6.0, 1.5)
        """
        return self.curvature * largest_eigenvalue + self.l2


@dataclass(frozen=True)
class EncodedTargets:
    """Targets as numbers, and the classes they stand for (none for regression)."""

    values: FloatArray
    classes: AnyArray | None = None


def first_of(mask: AnyArray) -> int | None:
    """Place of the first True, None without one."""
    found = np.flatnonzero(mask)
    return int(found[0]) if found.size else None


def misfit(data: FederatedData, row: int | None, need: str, alternative: str) -> DataError:
    """That a row's label does not suit a loss, and the way out."""
    name, own_row = data.owner_of(row or 0)
    label = data.targets[row or 0]
    return DataError(
        f"{name}, row {own_row} has label {label}, but {need}; recode it or use {alternative}"
    )
