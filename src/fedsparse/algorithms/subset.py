"""The best subset of a quadratic model: what the server works out by itself, without a round.

Minimize ½ uᵀHu − bᵀu with at most τ non-zeros. Backward elimination removes, one by one, the
feature whose removal costs least (the cost u_j² / (2 (H⁻¹)_jj) is exact: Hassibi & Stork, Optimal
Brain Surgeon, NeurIPS 1992); forward selection adds the one that gains most. From both, and from a
given support, the best exchange of one feature for another is made until none helps; its gain is
exact, too. These are heuristics for a problem that is NP-hard.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from fedsparse.arrays import BoolArray, FloatArray, Int64Array

# Relative to a unit diagonal; below it two features count as the same.
_RIDGE = 1e-10
_COLLINEAR = 1e-7
# Relative to the largest curvature: less is none.
_FLAT = 1e-30
# So often a solution is corrected for the ridge, which is not part of the model.
_REFINEMENTS = 3
# The inverse is worked out anew before rounding errors of so many eliminations pile up.
_ELIMINATIONS = 32
# A gain must be larger than this share of what the model has gained so far.
_SMALLEST_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Quadratic:
    """½ uᵀHu − bᵀu.

    Parameters
    ----------
    hessian
        H, symmetric and positive semi-definite.
    linear
        b.

    Examples
    --------
    >>> model = Quadratic(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([2.0, 3.0]))
    >>> best_subset(model, 1)
    array([1])
    >>> model.minimizer(np.array([1]))
    array([3.])
    """

    hessian: FloatArray
    linear: FloatArray

    @property
    def size(self) -> int:
        """Number of features."""
        return self.linear.size

    @cached_property
    def scale(self) -> FloatArray:
        """√H_jj; 0 for a feature without curvature, which is never chosen."""
        diagonal = np.diag(self.hessian)
        smallest = _FLAT * max(float(diagonal.max(initial=0.0)), np.finfo(float).tiny)
        return np.sqrt(np.where(diagonal > smallest, diagonal, 0.0))

    @cached_property
    def scaled(self) -> "Quadratic":
        """The same with a unit diagonal, so that units of features do not matter."""
        scale = np.where(self.scale > 0, self.scale, 1.0)
        return Quadratic(self.hessian / np.outer(scale, scale), self.linear / scale)

    def minimizer(self, support: Int64Array) -> FloatArray:
        """The best u on a support."""
        if support.size == 0:
            return np.empty(0)
        hessian = self.scaled.hessian[np.ix_(support, support)]
        linear = self.scaled.linear[support]
        inverse = _inverse(hessian)
        solution = inverse @ linear
        for _ in range(_REFINEMENTS):
            solution = solution + inverse @ (linear - hessian @ solution)
        return np.asarray(solution / self.scale[support])

    def minimum(self, support: Int64Array) -> float:
        """The lowest value on a support."""
        solution = self.minimizer(support)
        part = self.hessian[np.ix_(support, support)]
        return float(0.5 * solution @ part @ solution - self.linear[support] @ solution)


def best_subset(
    model: Quadratic,
    sparsity: int,
    *,
    keep: Int64Array | None = None,
    start: Int64Array | None = None,
) -> Int64Array:
    """A good set of at most τ features, in increasing order.

    Parameters
    ----------
    model
        What to minimize.
    sparsity
        τ.
    keep
        Features that stay in any case.
    start
        A support to improve, tried beside the others; the best result counts.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> rows = random.standard_normal((50, 8))
    >>> model = Quadratic(rows.T @ rows, rows.T @ (rows @ [0, 3, 0, 0, -2, 0, 0, 0]))
    >>> best_subset(model, 2)
    array([1, 4])
    """
    kept, usable = _roles(model, keep)
    if usable.size <= sparsity:
        return usable
    begins = [_eliminated(model, usable, sparsity, kept), _selected(model, usable, sparsity, kept)]
    if start is not None and start.size:
        begins.append(np.intersect1d(start, usable))
    found = [_exchanged(model, begin, usable, kept, model.size) for begin in begins]
    return min(found, key=model.minimum)


def after_exchanges(
    model: Quadratic, start: Int64Array, count: int, *, keep: Int64Array | None = None
) -> Int64Array:
    """A support after at most so many of the best single exchanges.

    Parameters
    ----------
    model, keep
        As in `best_subset`.
    start
        The support to begin with.
    count
        How many exchanges at most.

    Examples
    --------
    >>> model = Quadratic(np.eye(3), np.array([1.0, 2.0, 3.0]))
    >>> after_exchanges(model, np.array([0, 1]), 1)
    array([1, 2])
    """
    kept, usable = _roles(model, keep)
    return _exchanged(model, np.intersect1d(start, usable), usable, kept, count)


def ranked_exchanges(
    model: Quadratic, start: Int64Array, count: int, *, keep: Int64Array | None = None
) -> list[Int64Array]:
    """Supports one exchange away that promise most, the best first.

    Parameters
    ----------
    model, start, keep
        As in `after_exchanges`.
    count
        How many to give at most.

    Examples
    --------
    >>> model = Quadratic(np.eye(3), np.array([1.0, 2.0, 3.0]))
    >>> ranked_exchanges(model, np.array([0]), 2)
    [array([2]), array([1])]
    """
    kept, usable = _roles(model, keep)
    support = np.intersect1d(start, usable)
    others = np.setdiff1d(usable, support)
    gains = _exchange_gains(model.scaled, support, others, kept).ravel()
    order = np.argsort(-gains, kind="stable")[:count]
    pairs = [divmod(int(place), others.size) for place in order if gains[place] > 0]
    return [np.sort(np.append(np.delete(support, out), others[into])) for out, into in pairs]


def _roles(model: Quadratic, keep: Int64Array | None) -> tuple[BoolArray, Int64Array]:
    """Which features stay in any case, and which may be used at all."""
    kept = np.zeros(model.size, dtype=bool)
    kept[[] if keep is None else keep] = True
    return kept, np.flatnonzero((model.scale > 0) | kept)


def _eliminated(model: Quadratic, usable: Int64Array, sparsity: int, kept: BoolArray) -> Int64Array:
    """Remove the feature that costs least until τ are left."""
    scaled, support = model.scaled, usable
    while support.size > sparsity:
        inverse = _inverse(scaled.hessian[np.ix_(support, support)])
        solution = inverse @ scaled.linear[support]
        for _ in range(min(_ELIMINATIONS, support.size - sparsity)):
            costs = solution**2 / np.diag(inverse)
            costs[kept[support]] = np.inf
            worst = int(np.argmin(costs))
            column = inverse[:, worst] / inverse[worst, worst]
            solution = np.delete(solution - solution[worst] * column, worst)
            inverse = inverse - np.outer(column, inverse[worst])
            inverse = np.delete(np.delete(inverse, worst, axis=0), worst, axis=1)
            support = np.delete(support, worst)
    return support


def _selected(model: Quadratic, usable: Int64Array, sparsity: int, kept: BoolArray) -> Int64Array:
    """Add the feature that gains most until there are τ; each one chosen is eliminated from H."""
    hessian = model.scaled.hessian[np.ix_(usable, usable)].copy()
    linear = model.scaled.linear[usable].copy()
    chosen: list[int] = []
    for _ in range(sparsity):
        pivots = np.diag(hessian)
        gains = np.where(pivots > _COLLINEAR, linear**2 / np.maximum(pivots, _COLLINEAR), -1.0)
        gains[kept[usable]] += np.inf
        gains[chosen] = -np.inf
        best = int(np.argmax(gains))
        chosen.append(best)
        column = hessian[:, best] / max(hessian[best, best], _COLLINEAR)
        linear -= column * linear[best]
        hessian -= np.outer(column, hessian[best])
    return np.sort(usable[chosen])


def _exchanged(
    model: Quadratic, support: Int64Array, usable: Int64Array, kept: BoolArray, count: int
) -> Int64Array:
    """Make the best exchange of one feature for another until none helps, ``count`` at most."""
    value = model.minimum(support)
    for _ in range(count):
        others = np.setdiff1d(usable, support)
        gains = _exchange_gains(model.scaled, support, others, kept)
        if gains.size == 0 or gains.max() == -np.inf:
            return support
        out, into = np.unravel_index(int(np.argmax(gains)), gains.shape)
        exchanged = np.sort(np.append(np.delete(support, out), others[into]))
        new_value = model.minimum(exchanged)
        if value - new_value <= _SMALLEST_GAIN * abs(value):
            return support
        support, value = exchanged, new_value
    return support


def _exchange_gains(
    scaled: Quadratic, support: Int64Array, others: Int64Array, kept: BoolArray
) -> FloatArray:
    """How much the minimum falls if one feature of the support makes room for another.

    Removing i costs u_i² / (2 V_ii) with V = H_S⁻¹; then j gains g_j² / (2 s_j), where the removal
    has changed its gradient g_j and its Schur complement s_j by multiples of row i of V H_SO.
    """
    inverse = _inverse(scaled.hessian[np.ix_(support, support)])
    solution = inverse @ scaled.linear[support]
    cross = scaled.hessian[np.ix_(support, others)]
    products = inverse @ cross
    gradient = scaled.linear[others] - cross.T @ solution
    complement = np.diag(scaled.hessian)[others] - np.sum(cross * products, axis=0)
    spread = np.diag(inverse)[:, None]
    gradient_without = gradient + products * solution[:, None] / spread
    complement_without = complement + products**2 / spread
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = gradient_without**2 / (2 * complement_without) - (solution**2)[:, None] / (
            2 * spread
        )
    gains[complement_without < _COLLINEAR] = -np.inf
    gains[kept[support]] = -np.inf
    return np.asarray(gains)


def _inverse(hessian: FloatArray) -> FloatArray:
    """Inverse of a matrix with unit diagonal, regularized as much as it needs."""
    ridge = _RIDGE
    while True:
        try:
            factor = linalg.cho_factor(hessian + ridge * np.eye(hessian.shape[0]))
            return np.asarray(linalg.cho_solve(factor, np.eye(hessian.shape[0])))
        except linalg.LinAlgError:
            ridge *= 10
