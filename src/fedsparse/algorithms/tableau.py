"""A sweep tableau: what adding, removing or exchanging a feature does to a quadratic's minimum.

For ½ uᵀHu − bᵀu on the features of a set S, and O the others, the tableau holds

    −H_S⁻¹         H_S⁻¹ H_SO              │  H_S⁻¹ b_S              (the solution)
    H_OS H_S⁻¹     H_OO − H_OS H_S⁻¹ H_SO  │  b_O − H_OS H_S⁻¹ b_S   (minus the gradient)

One more or one fewer feature in S changes it by a matrix of rank one, a sweep (Goodnight, A
tutorial on the sweep operator, The American Statistician 1979). All changes of the minimum are read
off it exactly. With several right-hand sides b they are summed: a feature is in or out for all.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotri

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compiling import compiled, inlined

COLLINEAR = 1e-7
"""Relative to a unit diagonal; a feature of which less is left counts as a sum of others."""

# Added to a unit diagonal so that it can be inverted at all.
_RIDGE = 1e-10
# So many sweeps are applied to the matrix at once: a product of matrices, which is quick.
_BATCH = 64
# Of the features: rows of so few are brought up to date one by one.
_FEW = 0.25
# A diagonal that has been so much larger has left rounding errors that matter now.
_SHRINKAGE = 1e5


class Exchange(NamedTuple):
    """One feature for another, and how much that lowers the minimum."""

    gain: float
    out: int
    into: int


class Tableau:
    """The tableau of a quadratic with unit diagonal, for a support that changes.

    Parameters
    ----------
    hessian
        H, symmetric, with a diagonal of about ones. It may be singular: then the inverse on a
        support is regularized as much as it needs.
    linear
        b, a column for each right-hand side.
    support
        S, the features to begin with.

    Examples
    --------
    >>> tableau = Tableau(np.eye(3), np.array([[1.0], [2.0], [3.0]]), np.array([0, 1]))
    >>> best, = tableau.best_exchanges(1, fixed=np.zeros(3, dtype=bool))
    >>> best.out, best.into, round(best.gain, 6)
    (0, 2, 4.0)
    >>> tableau.sweep(best.out)
    >>> tableau.sweep(best.into)
    >>> tableau.support, round(tableau.value, 6)
    (array([1, 2]), -6.5)
    """

    def __init__(self, hessian: FloatArray, linear: FloatArray, support: Int64Array) -> None:
        self._hessian, self._linear = hessian, linear
        self.inside: BoolArray = np.zeros(linear.shape[0], dtype=bool)
        self.inside[support] = True
        self._pending = np.empty((_BATCH, linear.shape[0]))
        self._pivots = np.empty(_BATCH)
        self._caught_up = np.zeros(linear.shape[0], dtype=np.int64)
        self._count = self._sweeps = 0
        self._largest = 0.0
        self._work_out()

    @property
    def support(self) -> Int64Array:
        """S, in increasing order."""
        return np.flatnonzero(self.inside)

    @property
    def value(self) -> float:
        """The minimum on the support."""
        return float(-0.5 * np.sum(self._linear[self.inside] * self._right[self.inside]))

    def removal_costs(self) -> FloatArray:
        """How much the minimum rises without each feature of the support; ∞ for the others."""
        return _removal_costs(self._diagonal, self._right, self.inside)

    def addition_gains(self) -> FloatArray:
        """How much the minimum falls with each other feature.

        −∞ for those of the support, −1 for those that are sums of its features.
        """
        return _addition_gains(self._diagonal, self._right, self.inside)

    def best_exchanges(self, count: int, *, fixed: BoolArray) -> list[Exchange]:
        """The exchanges that lower the minimum most, the best first.

        Parameters
        ----------
        count
            How many at most.
        fixed
            Which features stay in the support.
        """
        removable = np.flatnonzero(self.inside & ~fixed)
        if removable.size > _FEW * self.inside.size:
            self._apply_pending()
        bounds = self.addition_gains()
        bounds[~self.inside & (self._diagonal <= COLLINEAR)] = np.inf
        others = np.argsort(-bounds, kind="stable")[: np.count_nonzero(~self.inside)]
        gains, pairs = _best_pairs(
            self._matrix, self._pending, self._pivots, self._count, self._caught_up,
            self._diagonal, self._right, removable, others, bounds[others], count,
        )  # fmt: skip
        return [
            Exchange(float(gain), int(out), int(into))
            for gain, (out, into) in zip(gains, pairs, strict=True)
            if gain > 0
        ]

    def sweep(self, feature: int) -> None:
        """Add a feature to the support, or remove it if it is there."""
        largest = _sweep(
            self._matrix, self._pending, self._pivots, self._count, self._caught_up,
            self._diagonal, self._right, self.inside, feature,
        )  # fmt: skip
        self._swept(1, largest)

    def remove_cheapest(self, count: int, *, fixed: BoolArray) -> None:
        """Remove the feature that costs least, so many times.

        Parameters
        ----------
        count
            How many features go.
        fixed
            Which features stay in the support.
        """
        while count > 0:
            removed, largest = _remove_cheapest(
                self._matrix, self._pending, self._pivots, self._count, self._caught_up,
                self._diagonal, self._right, self.inside, fixed,
                min(count, _BATCH - self._count), self._largest,
            )  # fmt: skip
            self._swept(removed, largest)
            count -= removed

    def become(self, other: "Tableau") -> None:
        """Be the same as another one of the same quadratic, which is quicker than a new one."""
        other._apply_pending()
        for name in ("inside", "_matrix", "_right", "_diagonal", "_caught_up"):
            np.copyto(getattr(self, name), getattr(other, name))
        self._count, self._sweeps, self._largest = other._count, other._sweeps, other._largest

    def _apply_pending(self) -> None:
        """Subtract all at once what has been put off, from each row what it lacks."""
        pending = self._pending[: self._count]
        if not pending.size:  # nothing was put off, or no feature has curvature
            return
        divided = pending / self._pivots[: self._count].reshape(-1, 1)
        is_lacking = np.arange(self._count)[:, None] >= self._caught_up
        lacking = np.where(is_lacking, pending, 0.0)
        dgemm(-1.0, divided.T, lacking.T, 1.0, self._matrix.T, trans_b=True, overwrite_c=True)
        self._count = 0
        self._caught_up[:] = 0

    def _swept(self, sweeps: int, largest: float) -> None:
        """Work the tableau out anew where sweeps have left rounding errors that matter.

        After as many sweeps as there are features this costs no more than they did.
        """
        self._count += sweeps
        self._sweeps += sweeps
        if self._count == _BATCH:
            self._apply_pending()
        self._largest = max(self._largest, largest)
        if self._sweeps > self.inside.size or self._largest > _SHRINKAGE * largest:
            self._work_out()

    def _work_out(self) -> None:
        """The tableau of the support, from the Hessian."""
        self._matrix, self._right = self._hessian.copy(), self._linear.copy()
        inside, outside = self.support, np.flatnonzero(~self.inside)
        if inside.size:
            inverse = _inverse(self._hessian[np.ix_(inside, inside)])
            cross = self._hessian[np.ix_(inside, outside)]
            products = inverse @ cross
            _write(self._matrix, inside, outside, inverse, products, cross.T @ products)
            self._right[inside] = inverse @ self._linear[inside]
            self._right[outside] -= products.T @ self._linear[inside]
        self._diagonal = np.diag(self._matrix).copy()
        self._largest = float(np.abs(self._diagonal).max(initial=0.0))
        self._count = self._sweeps = 0
        self._caught_up[:] = 0


def factor(hessian: FloatArray) -> FloatArray:
    """Upper Cholesky factor of a matrix with unit diagonal, regularized as much as it needs.

    Examples
    --------
    >>> factor(np.array([[1.0, 0.6], [0.6, 1.0]])).round(6)
    array([[1. , 0.6],
           [0. , 0.8]])
    """
    ridge = _RIDGE
    while True:
        regularized = hessian.copy()
        regularized[np.diag_indices_from(regularized)] += ridge
        try:
            return np.asarray(linalg.cholesky(regularized))
        except linalg.LinAlgError:
            ridge *= 10


def shortfall(hessian: FloatArray) -> float:
    """How far the least eigenvalue of a matrix with unit diagonal is below 0; 0 if by rounding.

    Examples
    --------
    >>> round(shortfall(np.array([[1.0, 1.5], [1.5, 1.0]])), 6), shortfall(np.ones((2, 2)))
    (0.5, 0.0)
    """
    if hessian.size == 0:
        return 0.0
    regularized = hessian + _RIDGE * np.eye(hessian.shape[0])
    try:
        linalg.cholesky(regularized, overwrite_a=True)
    except linalg.LinAlgError:
        return max(-float(linalg.eigvalsh(hessian, subset_by_index=(0, 0))[0]), 0.0)
    return 0.0


def _inverse(hessian: FloatArray) -> FloatArray:
    """Inverse from the factor's, a third of the work of solving for every unit vector."""
    half, _ = dpotri(factor(hessian))
    inverse = half + half.T
    np.fill_diagonal(inverse, np.diag(half))
    return np.asarray(inverse)


@compiled
def _write(
    matrix: FloatArray,
    inside: Int64Array,
    outside: Int64Array,
    inverse: FloatArray,
    products: FloatArray,
    explained: FloatArray,
) -> None:
    """Make H a tableau: its blocks lie scattered, and copies of them would take longer."""
    for row, place in enumerate(inside):
        for column, other in enumerate(inside):
            matrix[place, other] = -inverse[row, column]
        for column, other in enumerate(outside):
            matrix[place, other] = matrix[other, place] = products[row, column]
    for row, place in enumerate(outside):
        for column, other in enumerate(outside):
            matrix[place, other] -= explained[row, column]


@compiled
def _removal_costs(diagonal: FloatArray, right: FloatArray, inside: BoolArray) -> FloatArray:
    costs = np.full(inside.size, np.inf)
    for feature in np.flatnonzero(inside):
        costs[feature] = _square(right, int(feature)) / (-2.0 * diagonal[feature])
    return costs


@compiled
def _addition_gains(diagonal: FloatArray, right: FloatArray, inside: BoolArray) -> FloatArray:
    gains = np.full(inside.size, -np.inf)
    for feature in np.flatnonzero(~inside):
        is_sum = diagonal[feature] <= COLLINEAR
        gains[feature] = (
            -1.0 if is_sum else _square(right, int(feature)) / (2.0 * diagonal[feature])
        )
    return gains


@inlined
def _square(right: FloatArray, feature: int) -> float:
    """Of a row, summed over right-hand sides."""
    square = 0.0
    for side in range(right.shape[1]):
        square += right[feature, side] ** 2
    return square


@compiled
def _catch_up(
    row: FloatArray,
    pending: FloatArray,
    pivots: FloatArray,
    count: int,
    caught_up: Int64Array,
    feature: int,
) -> None:
    """Subtract from a feature's row what it lacks of the pending sweeps."""
    for earlier in range(caught_up[feature], count):
        row -= pending[earlier, feature] / pivots[earlier] * pending[earlier]
    caught_up[feature] = count


@compiled
def _sweep(
    matrix: FloatArray,
    pending: FloatArray,
    pivots: FloatArray,
    count: int,
    caught_up: Int64Array,
    diagonal: FloatArray,
    right: FloatArray,
    inside: BoolArray,
    feature: int,
) -> float:
    """Sweep a feature, the matrix of rank one to be subtracted later; the largest |diagonal|."""
    column = pending[count]
    _catch_up(matrix[feature], pending, pivots, count, caught_up, feature)
    column[:] = matrix[feature]
    pending[:count, feature] = 0.0  # these no longer change the row and column written below
    # Raising a pivot is a ridge on this feature alone.
    pivot = column[feature] if inside[feature] else max(column[feature], COLLINEAR)
    inside[feature] = not inside[feature]
    matrix[feature] = column / abs(pivot)
    matrix[:, feature] = matrix[feature]
    matrix[feature, feature] = -1.0 / pivot
    column[feature] = 0.0
    pivots[count] = pivot
    diagonal -= column**2 / pivot
    diagonal[feature] = -1.0 / pivot
    for side in range(right.shape[1]):
        own = right[feature, side]
        right[:, side] -= own / pivot * column
        right[feature, side] = own / abs(pivot)
    return float(np.abs(diagonal).max())


@compiled
def _remove_cheapest(
    matrix: FloatArray,
    pending: FloatArray,
    pivots: FloatArray,
    count: int,
    caught_up: Int64Array,
    diagonal: FloatArray,
    right: FloatArray,
    inside: BoolArray,
    fixed: BoolArray,
    most: int,
    largest: float,
) -> tuple[int, float]:
    """Sweep out the cheapest feature until that leaves rounding errors; how often, and as above."""
    for removed in range(most):
        costs = _removal_costs(diagonal, right, inside & ~fixed)
        now = _sweep(
            matrix, pending, pivots, count + removed, caught_up,
            diagonal, right, inside, int(np.argmin(costs)),
        )  # fmt: skip
        largest = max(largest, now)
        if largest > _SHRINKAGE * now:
            return removed + 1, now
    return most, now


@compiled
def _best_pairs(
    matrix: FloatArray,
    pending: FloatArray,
    pivots: FloatArray,
    count: int,
    caught_up: Int64Array,
    diagonal: FloatArray,
    right: FloatArray,
    removable: Int64Array,
    others: Int64Array,
    bounds: FloatArray,
    most: int,
) -> tuple[FloatArray, Int64Array]:
    """The exchanges of largest gain, the best first.

    Removing i costs u_i² / (2 V_ii) with V = H_S⁻¹; then j gains g_j² / (2 s_j), where the removal
    has changed its gradient g_j and its Schur complement s_j by multiples of row i of V H_SO. An
    exchange never gains more than adding j alone does: others come in falling order of these
    bounds, and those that cannot be among the best are left out.
    """
    gains, pairs = np.zeros(most), np.zeros((most, 2), np.int64)
    squares = np.sum(right**2, axis=1)
    precisions = -1.0 / diagonal
    is_current = count == 0
    for out in removable:
        _catch_up(matrix[out], pending, pivots, count, caught_up, out)
    for position, into in enumerate(others):
        if bounds[position] <= gains[-1]:
            break
        for out in removable:
            entry = matrix[into, out] if is_current else matrix[out, into]
            share = entry * precisions[out]
            complement = diagonal[into] + share * entry
            product = 0.0
            for side in range(right.shape[1]):
                product += right[into, side] * right[out, side]
            square = squares[into] + share * (2 * product + share * squares[out])
            cost = squares[out] * precisions[out]
            # Few pairs come so far: dividing by the complement is left to them.
            if square > complement * (2 * gains[-1] + cost) and complement >= COLLINEAR:
                _insert(gains, pairs, 0.5 * (square / complement - cost), out, into)
    return gains, pairs


@compiled
def _insert(gains: FloatArray, pairs: Int64Array, gain: float, out: int, into: int) -> None:
    """Put an exchange in its place among the best; the last one makes room."""
    place = gains.size - 1
    while place > 0 and gains[place - 1] < gain:
        gains[place] = gains[place - 1]
        pairs[place] = pairs[place - 1]
        place -= 1
    gains[place] = gain
    pairs[place, 0], pairs[place, 1] = out, into
