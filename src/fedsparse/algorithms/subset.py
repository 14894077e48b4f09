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

from fedsparse.algorithms.tableau import Tableau, factor, shortfall
from fedsparse.arrays import BoolArray, FloatArray, Int64Array

# Relative to the largest curvature: less is none.
_FLAT = 1e-30
# So often a solution is corrected for the ridge, which is not part of the model.
_REFINEMENTS = 3
# Times the shortfall of an indefinite H, added to its unit diagonal for the search.
_RAISE = 1.5
# Of a support, dropped before a search begins again.
_DROPPED = 0.3
# Products that a search may take, about: the cost of a restart is τ times the squared features.
_WORTH_A_RESTART = 2e10
# A gain must be larger than this share of what the model has gained so far.
_SMALLEST_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Quadratic:
    """½ uᵀHu − bᵀu, or the sum of several that share H.

    Parameters
    ----------
    hessian
        H, symmetric and positive semi-definite; where it was rounded it may be slightly indefinite,
        and is then raised as much as it needs, so that no coefficient goes to infinity.
    linear
        b, or a matrix with a column for each sum's term; a support is then shared by all.

    Examples
    --------
    >>> model = Quadratic(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([2.0, 3.0]))
    >>> best_subset(model, 1)
    array([1])
    >>> model.minimizer(np.array([1]))
    array([3.])

    With two classes, a row for each feature:

    >>> both = Quadratic(np.eye(2), np.array([[1.0, -1.0], [0.0, 1.2]]))
    >>> best_subset(both, 1), both.minimum(np.array([0]))
    (array([0]), -1.0)
    >>> both.minimizer(np.array([0]))
    array([[ 1., -1.]])
    """

    hessian: FloatArray
    linear: FloatArray

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.linear)

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
        hessian = self.hessian / np.outer(scale, scale)
        return Quadratic(hessian, (self.linear.T / scale).T)

    @cached_property
    def shortfall(self) -> float:
        """How far the least eigenvalue of the scaled H is below 0: about the error of its entries.

        Features without curvature are left out.
        """
        curved = np.flatnonzero(self.scale > 0)
        return shortfall(self.scaled.hessian[np.ix_(curved, curved)])

    def minimizer(self, support: Int64Array) -> FloatArray:
        """The best u on a support, in the shape of b; 0 for a feature without curvature.

        Of an indefinite H eigenvalues on the support are raised to what it falls short by.
        """
        if support.size == 0:
            return np.empty((0, *self.linear.shape[1:]))
        hessian = self.scaled.hessian[np.ix_(support, support)]
        if self.shortfall > 0:
            least = float(linalg.eigvalsh(hessian, subset_by_index=(0, 0))[0])
            hessian[np.diag_indices_from(hessian)] += max(self.shortfall - least, 0.0)
        linear = self.scaled.linear[support]
        factored = factor(hessian), False
        solution = linalg.cho_solve(factored, linear)
        for _ in range(_REFINEMENTS):
            solution = solution + linalg.cho_solve(factored, linear - hessian @ solution)
        units = np.where(self.scale[support] > 0, self.scale[support], np.inf)
        return np.asarray((solution.T / units).T)

    def minimum(self, support: Int64Array) -> float:
        """The lowest value on a support."""
        solution = self.minimizer(support)
        part = self.hessian[np.ix_(support, support)]
        return float(np.sum(solution * (0.5 * part @ solution - self.linear[support])))


def best_subset(
    model: Quadratic,
    sparsity: int,
    *,
    keep: Int64Array | None = None,
    start: Int64Array | None = None,
    restarts: int = 0,
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
    restarts
        How often to drop a part of the best support and search again, as long as that is cheap.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> rows = random.standard_normal((50, 8))
    >>> model = Quadratic(rows.T @ rows, rows.T @ (rows @ [0, 3, 0, 0, -2, 0, 0, 0]))
    >>> best_subset(model, 2)
    array([1, 4])
    """
    curved = _curved(model, keep)
    room = max(sparsity - curved.flat.size, 0)
    if curved.features.size <= room:
        return curved.in_model(np.arange(curved.features.size))
    tableaus = [_eliminated(curved, room), _selected(curved, room)]
    if start is not None and start.size:
        tableaus.append(curved.tableau(start))
    for tableau in tableaus:
        _exchange(tableau, curved.fixed, model.size)
    tableaus.sort(key=lambda own: model.minimum(curved.in_model(own.support)))
    best, other = tableaus[:2]
    attempts = min(restarts, int(_WORTH_A_RESTART / (best.support.size * model.size**2 + 1)))
    for attempt in range(attempts):
        other.become(best)
        _search_again(curved, other, attempt)
        if other.value < best.value:
            best, other = other, best
    return curved.in_model(best.support)


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
    curved = _curved(model, keep)
    tableau = curved.tableau(start)
    _exchange(tableau, curved.fixed, count)
    return curved.in_model(tableau.support)


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
    curved = _curved(model, keep)
    tableau = curved.tableau(start)
    exchanges = tableau.best_exchanges(count, fixed=curved.fixed)
    return [
        curved.in_model(np.setxor1d(tableau.support, [exchange.out, exchange.into]))
        for exchange in exchanges
    ]


@dataclass(frozen=True, eq=False)
class _Curved:
    """The features of a model that have curvature, by their places among each other.

    Parameters
    ----------
    hessian, linear
        The scaled model on them; b with a column for each right-hand side.
    features
        Their places in the model.
    fixed
        Which of them stay in any case.
    flat
        Places in the model of features that stay, too, but have no curvature.
    """

    hessian: FloatArray
    linear: FloatArray
    features: Int64Array
    fixed: BoolArray
    flat: Int64Array

    def tableau(self, support: Int64Array) -> Tableau:
        """The tableau of a support given by places in the model."""
        return Tableau(self.hessian, self.linear, np.flatnonzero(np.isin(self.features, support)))

    def in_model(self, support: Int64Array) -> Int64Array:
        """The places in the model of a support, and of all features that stay."""
        return np.union1d(self.features[support], self.flat)


def _curved(model: Quadratic, keep: Int64Array | None) -> _Curved:
    kept = np.zeros(model.size, dtype=bool)
    kept[[] if keep is None else keep] = True
    features = np.flatnonzero(model.scale > 0)
    hessian = model.scaled.hessian[np.ix_(features, features)]
    hessian[np.diag_indices_from(hessian)] += _RAISE * model.shortfall
    return _Curved(
        hessian,
        np.atleast_2d(model.scaled.linear.T).T[features],
        features,
        kept[features],
        np.flatnonzero(kept & (model.scale == 0)),
    )


def _eliminated(curved: _Curved, sparsity: int) -> Tableau:
    """Remove the feature that costs least until τ are left."""
    tableau = curved.tableau(curved.features)
    tableau.remove_cheapest(curved.features.size - sparsity, fixed=curved.fixed)
    return tableau


def _selected(curved: _Curved, sparsity: int) -> Tableau:
    """Add the feature that gains most until there are τ."""
    tableau = curved.tableau(curved.features[curved.fixed])
    for _ in range(sparsity - np.count_nonzero(curved.fixed)):
        tableau.sweep(int(np.argmax(tableau.addition_gains())))
    return tableau


def _search_again(curved: _Curved, tableau: Tableau, attempt: int) -> None:
    """Drop a part of a support, fill it with others, and exchange."""
    loose = np.flatnonzero(tableau.inside & ~curved.fixed)
    random = np.random.default_rng(attempt)
    dropped = random.choice(loose, int(np.ceil(_DROPPED * loose.size)), replace=False)
    for feature in dropped:
        tableau.sweep(int(feature))
    for _ in range(dropped.size):
        gains = tableau.addition_gains()
        gains[dropped] = -np.inf
        into = int(np.argmax(gains))
        if gains[into] <= 0.0:
            break
        tableau.sweep(into)
    _exchange(tableau, curved.fixed, curved.features.size)


def _exchange(tableau: Tableau, fixed: BoolArray, count: int) -> None:
    """Make the best exchange of one feature for another until none helps, ``count`` at most."""
    for _ in range(count):
        exchanges, value = tableau.best_exchanges(1, fixed=fixed), tableau.value
        for exchange in exchanges:
            tableau.sweep(exchange.out)
            tableau.sweep(exchange.into)
        # What the sweeps have reached counts: by the gain alone, rounding could go in circles.
        if value - tableau.value > _SMALLEST_GAIN * abs(value):
            continue
        for exchange in exchanges:
            tableau.sweep(exchange.into)
            tableau.sweep(exchange.out)
        return
