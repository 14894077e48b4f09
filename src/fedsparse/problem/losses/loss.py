"""What all losses share."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax, xlogy

from fedsparse.arrays import AnyArray, BoolArray, FloatArray
from fedsparse.checks import check_not_negative
from fedsparse.errors import DataError, OptionError
from fedsparse.problem import slopes
from fedsparse.problem.federated import FederatedData

Outcome = Literal["numbers", "classes", "counts", "survival"]
"""What kind of target a loss is for."""

Link = Literal["identity", "logit", "log"]
"""How a score stands for what is expected."""


@dataclass(frozen=True)
class Loss:
    """What all losses share.

    A loss of one's own has a ``name``, an ``outcome``, a ``measure``, and `values`, `slopes` and
    `curvatures` in NumPy; what else differs from what is said here it says itself. Those that come
    with the package have a compiled form instead, named by ``code``.

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
    is_mean_over: ClassVar[str] = "row"
    """What that value is an average over."""

    link: ClassVar[Link] = "identity"
    """How a score stands for what is expected of a target."""

    ratio: ClassVar[str | None] = None
    """What e to the power of a coefficient is called; None: nothing."""

    precision: ClassVar[float] = 8.0
    """Automatic weight of the ℓ2 term, times the number of rows; see `loss_for`."""

    code: ClassVar[int] = slopes.NOT_COMPILED
    """Of the compiled form."""

    curvature: ClassVar[float | None] = None
    """Largest second derivative of the loss with respect to a row's scores; None: has no bound."""

    is_quadratic: ClassVar[bool] = False
    """Whether second derivatives are the same at every x."""

    is_by_class: ClassVar[bool] = False
    """Whether a row has a score for every class, so that coefficients are a matrix."""

    is_by_row: ClassVar[bool] = True
    """Whether f_i is a mean over rows, each by itself."""

    has_exact_fit: ClassVar[bool] = False
    """Whether a row's loss is 0 at some score, as it is where it is predicted exactly."""

    has_intercept: ClassVar[bool] = True
    """Whether adding a number to all scores changes anything."""

    dispersion: ClassVar[float | None] = None
    """What the mean loss is multiplied by for what the inverse second derivatives are multiplied
    by, for covariances of estimates. None: by 1, because the loss is a log-likelihood as it is;
    NaN: it is none, and there are no covariances."""

    def __post_init__(self) -> None:
        check_not_negative("l2", self.l2)

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled loops know it."""
        return self.code != slopes.NOT_COMPILED

    @property
    def tells_intervals(self) -> bool:
        """Whether second derivatives say how sure coefficients are; where they are a matrix, no.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.Logistic().tells_intervals, fs.Softmax().tells_intervals
        (True, False)
        """
        is_likelihood = self.dispersion is None or not math.isnan(self.dispersion)
        return is_likelihood and not self.is_by_class

    def encode(self, data: FederatedData) -> "EncodedTargets":
        """Check the clients' targets and turn them into the numbers the loss computes with.

        Each client does it with what it has. Here any finite numbers will do.
        """
        if data.targets.dtype.kind not in "fiub":
            raise misfit(data, 0, f"the {self.name} loss needs numbers", 'loss="softmax"')
        return EncodedTargets(data.targets.astype(np.float64))

    def check_together(self, data: FederatedData) -> None:
        """Refuse rows of which all clients together can learn nothing."""

    def values(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """What each row loses at its score."""
        raise NotImplementedError(f"the {self.name} loss has no values in NumPy")

    def slopes(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Derivative of each row's loss with respect to its score."""
        raise NotImplementedError(f"the {self.name} loss has no slopes in NumPy")

    def curvatures(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Second derivative of each row's loss with respect to its score, not negative."""
        raise NotImplementedError(f"the {self.name} loss has no curvatures in NumPy")

    def at_scores(self, scores: FloatArray, targets: FloatArray) -> "AtScores":
        """What the loss makes of a client's rows.

        Parameters
        ----------
        scores
            One a row, or a column for every class.
        targets
            Target and weight of every row.
        """
        if self.is_compiled:
            rows = np.ascontiguousarray(scores, dtype=np.float64).reshape(targets.shape[0], -1)
            losses, first, second = slopes.row_derivatives(self.code, rows, targets)
            return AtScores(losses, first.reshape(scores.shape), second.reshape(scores.shape))
        own, weights = targets.T
        with np.errstate(all="ignore"):  # who asked looks for what is not finite
            found = {
                "values": self.values(scores, own),
                "slopes": self.slopes(scores, own),
                "curvatures": self.curvatures(scores, own),
            }
        for what, numbers in found.items():
            self._check_by_score(numbers, what, scores.shape)
        with np.errstate(all="ignore"):
            return AtScores(*(weights * numbers for numbers in found.values()))

    def _check_by_score(self, found: FloatArray, what: str, shape: tuple[int, ...]) -> None:
        """An OptionError if a class of one's own returned something else than a number a score."""
        if np.shape(found) != shape:
            raise OptionError(
                f"{type(self).__name__}.{what} must return an array with a number for each score, "
                f"of the shape {shape} and not {np.shape(found)}"
            )

    def drawn(self, scores: FloatArray, targets: FloatArray, rows: FloatArray) -> FloatArray | None:
        """Rows V so that the Hessian of a client's total loss is Zᵀ diag(curvatures) Z − VᵀV.

        Where f_i is a mean over rows there are none.

        Parameters
        ----------
        scores, targets
            As for `at_scores`.
        rows
            Z, all rows of the client on some columns.
        """
        return None

    def value(self, scores: ArrayLike, targets: ArrayLike) -> float:
        """Mean loss over rows at given scores z·x, the ℓ2 term left out.

        Targets are encoded: numbers, 0 and 1 for logistic, 0 … c−1 for softmax.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.SquaredError().value([1.0, 3.0], [0.0, 1.0])
        2.5
        """
        return float(np.mean(self.at_scores(*self._as_rows(scores, targets)).losses))

    def derivative(self, scores: ArrayLike, targets: ArrayLike) -> FloatArray:
        """Derivative of each row's loss with respect to its scores.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.Logistic().derivative([0.0, 0.0], [0.0, 1.0])
        array([ 0.5, -0.5])
        """
        found = self.at_scores(*self._as_rows(scores, targets)).slopes
        return found.reshape(np.shape(scores))

    def second_derivative(self, scores: FloatArray) -> FloatArray:
        """Second derivative of each row's loss with respect to its score, where no target matters.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.Logistic().second_derivative(np.array([0.0])), fs.SquaredError().second_derivative(
        ...     np.array([7.0])
        ... )
        (array([0.25]), array([2.]))
        """
        if self.is_by_class or not self.is_compiled:
            raise OptionError(f"the {self.name} loss has no second derivative by a single score")
        return slopes.second_derivatives(self.code, scores)

    def expected(self, scores: FloatArray) -> FloatArray:
        """What is expected of targets at scores: numbers, rates, probabilities of classes.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.SquaredError().expected(np.array([2.0])), fs.Poisson().expected(np.array([0.0]))
        (array([2.]), array([1.]))
        """
        if self.link == "log":
            return np.exp(scores)
        if self.link == "logit":
            return np.asarray(softmax(scores, axis=1) if self.is_by_class else expit(scores))
        return scores

    def rows_with_part(self, targets: FloatArray) -> tuple[BoolArray, BoolArray] | None:
        """Rows that may have a loss at some scores, and rows whose scores matter; None: all do.

        Parameters
        ----------
        targets
            Target and weight of every row.
        """
        return None

    def own_curvatures(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Second derivative of a client's total loss by each row's own score."""
        return self.at_scores(scores, targets).curvatures

    def value_of_guessing(self, targets: FloatArray) -> float:
        """Mean loss of the best guess that is the same for all rows; infinite if their targets are.

        Parameters
        ----------
        targets
            Target and weight of every row.
        """
        own, weights = targets.T
        if not np.ptp(own):
            return math.inf
        guess = float(np.average(own, weights=weights))
        score = math.log(guess) if self.link == "log" else guess
        losses = self.at_scores(np.full(own.size, score), targets).losses
        return float(losses.sum() / weights.sum())

    def _as_rows(self, scores: ArrayLike, targets: ArrayLike) -> tuple[FloatArray, FloatArray]:
        encoded = np.atleast_1d(np.asarray(targets, dtype=np.float64))
        rows = np.asarray(scores, dtype=np.float64).reshape(encoded.size, -1)
        if self.outcome == "classes":
            labels = max(rows.shape[1], 2)
            if not np.isin(encoded, np.arange(labels)).all():
                raise DataError(f"encoded targets must be whole numbers from 0 to {labels - 1}")
        shaped = rows if self.is_by_class else rows[:, 0]
        return shaped, np.column_stack([encoded, np.ones(encoded.size)])

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

        Where curvature has no bound, that of rows whose curvature is 1.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.SquaredError().smoothness(3.0), fs.Logistic(l2=0.5).smoothness(4.0)
        (6.0, 1.5)
        """
        if self.curvature is None:  # somewhere to begin
            return largest_eigenvalue + self.l2
        return self.curvature * largest_eigenvalue + self.l2


@dataclass(frozen=True, eq=False)
class AtScores:
    """What a loss makes of a client's rows at their scores; see `Loss.at_scores`.

    Attributes
    ----------
    losses
        Weighted loss of each row.
    slopes, curvatures
        First and second derivative of their sum by each score.
    """

    losses: FloatArray
    slopes: FloatArray
    curvatures: FloatArray


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


def target_misfit(data: FederatedData, row: int, need: str) -> DataError:
    """That a row's target is not what a loss needs."""
    name, own_row = data.owner_of(row)
    return DataError(f"{name}, row {own_row} has target {data.targets[row]}, but {need}")


def entropy_of_shares(targets: FloatArray) -> float:
    """Mean log-loss of guessing the shares of classes; infinite if there is but one.

    Parameters
    ----------
    targets
        Code and weight of every row.
    """
    codes, weights = targets.T
    if not np.ptp(codes):
        return math.inf
    shares = np.bincount(codes.astype(np.int64), weights=weights) / weights.sum()
    return float(-np.sum(xlogy(shares, shares)))
