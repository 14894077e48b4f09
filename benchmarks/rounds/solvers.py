"""Pooled solvers of other packages, on f itself. Each gives a support of at most τ features.

Coefficients are refitted on it and judged elsewhere, so that only the choice of features counts.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from benchmarks.rounds.objective import PooledObjective
from fedsparse.arrays import FloatArray, Int64Array

MEMORY = 4e9
"""Bytes a solver that knows only dense arrays may take for them."""

TRIALS = 40
CLOSE = 1.01
"""Two penalties of such a ratio are neighbours on the ℓ1 path."""


@dataclass(frozen=True)
class PooledSolver:
    """How to find a support, and what keeps the solver from a problem, if anything does."""

    find: Callable[[PooledObjective, int], Int64Array]
    obstacle: Callable[[PooledObjective], str | None] = lambda objective: None


def abess(
    objective: PooledObjective,
    sparsity: int,
    sizes: Sequence[int] | None = None,
    **options: object,
) -> Int64Array:
    """Best-subset selection by splicing (Zhu et al., PNAS 2020), on one thread.

    It minimizes Σ s_r loss_r + α ‖x‖², which is n f for s_r = n w_r and α = n λ/2, provided that
    it does not centre the columns.
    """
    from abess.linear import LinearRegression, LogisticRegression

    kind = LinearRegression if objective.is_squared else LogisticRegression
    model = kind(
        support_size=sparsity if sizes is None else sizes,
        alpha=objective.rows * objective.loss.l2 / 2,
        fit_intercept=False,
        thread=1,
        **options,
    )
    model.fit(
        objective.features,
        objective.targets,
        is_normal=False,
        sample_weight=objective.rows * objective.weights,
    )
    return np.flatnonzero(model.coef_)


def abess_path(objective: PooledObjective, sparsity: int, **options: object) -> Int64Array:
    """The same for all sizes up to τ, each begun where the one before ended.

    Without a penalty on the size, that of lowest loss is chosen: the largest, or one as good.
    """
    sizes = range(1, sparsity + 1)
    return abess(objective, sparsity, list(sizes), path_type="seq", ic_coef=0.0, **options)


def thorough_abess(objective: PooledObjective, sparsity: int, **options: object) -> Int64Array:
    """The same, exchanging up to 100 features at a time and searching all of them.

    It tries 100, 50, 25, … or with ``splicing_type=1`` 100, 99, 98, …; neither is always better.
    """
    return abess(objective, sparsity, exchange_num=100, max_iter=100, important_search=0, **options)


def grasp(objective: PooledObjective, sparsity: int, **options: Callable) -> Int64Array:
    """Gradient support pursuit (Bahmani, Raj & Boufounos, JMLR 2013)."""
    from skscope import GraspSolver

    solver = GraspSolver(objective.width, sparsity, sample_size=objective.rows, **options)
    # Functions of one argument: the solver counts them, and would count a method's self.
    x = solver.solve(lambda x: objective.value(x), gradient=lambda x: objective.gradient(x))
    return np.flatnonzero(x)


def exact_grasp(objective: PooledObjective, sparsity: int) -> Int64Array:
    """The same, with its inner problems on 3 τ features solved to the end."""

    def refit(value, value_and_gradient, x, support, data):
        best = objective.refit(np.asarray(support))
        return objective.value(best), best

    return grasp(objective, sparsity, numeric_solver=refit)


def matching_pursuit(objective: PooledObjective, sparsity: int) -> Int64Array:
    """Orthogonal matching pursuit, which expects columns of unit length."""
    from sklearn.linear_model import OrthogonalMatchingPursuit

    rows, targets = _weighted(objective)
    dense = rows.toarray() if sparse.issparse(rows) else rows
    norms = np.linalg.norm(dense, axis=0)
    dense /= np.where(norms > 0, norms, 1.0)
    model = OrthogonalMatchingPursuit(n_nonzero_coefs=sparsity, fit_intercept=False)
    return np.flatnonzero(model.fit(dense, targets).coef_)


def l1(objective: PooledObjective, sparsity: int) -> Int64Array:
    """The last point of the ℓ1 path with at most τ non-zeros.

    The penalty is halved until there are too many, and then bisected.
    """
    solve, largest = _lasso(objective) if objective.is_squared else _l1_logistic(objective)
    support, enough, too_small = np.zeros(0, dtype=np.int64), largest, 0.0
    for _ in range(TRIALS):
        penalty = np.sqrt(enough * too_small) if too_small else enough / 2
        found = np.flatnonzero(solve(penalty))
        if found.size > sparsity:
            too_small = penalty
        else:
            support, enough = found, penalty
        if enough < CLOSE * too_small:
            break
    return support


def _lasso(objective: PooledObjective) -> tuple[Callable[[float], FloatArray], float]:
    """‖y − Zx‖² / (2n) + α ‖x‖₁ on weighted rows, each solution the start of the next."""
    from sklearn.linear_model import lasso_path

    rows, targets = _weighted(objective)
    columns = sparse.csc_array(rows) if sparse.issparse(rows) else np.asfortranarray(rows)
    is_tall = not objective.is_sparse and objective.rows > objective.width
    gram = rows.T @ rows if is_tall else False
    x = np.zeros(objective.width)

    def solve(penalty: float) -> FloatArray:
        nonlocal x
        path = lasso_path(
            columns, targets, alphas=[penalty], precompute=gram, coef_init=x, max_iter=10_000
        )
        x = path[1][:, 0]
        return x

    return solve, float(np.abs(rows.T @ targets).max()) / objective.rows


def _l1_logistic(objective: PooledObjective) -> tuple[Callable[[float], FloatArray], float]:
    """C Σ n w_r loss_r + ‖x‖₁ by liblinear."""
    from sklearn.linear_model import LogisticRegression

    def solve(penalty: float) -> FloatArray:
        model = LogisticRegression(
            C=1.0 / penalty, l1_ratio=1, solver="liblinear", fit_intercept=False, random_state=0
        )
        scale = objective.rows * objective.weights
        return model.fit(objective.features, objective.targets, sample_weight=scale).coef_[0]

    slopes = objective.weights * (0.5 - objective.targets)
    return solve, objective.rows * float(np.abs(objective.features.T @ slopes).max())


def _weighted(objective: PooledObjective) -> tuple[FloatArray | sparse.csr_array, FloatArray]:
    """Rows and targets times √(n w_r): their plain sum of squares is n times the weighted one."""
    roots = np.sqrt(objective.rows * objective.weights)
    if objective.is_sparse:
        rows = sparse.csr_array(sparse.diags_array(roots) @ objective.features)
    else:
        rows = objective.features * roots[:, None]
    return rows, objective.targets * roots


def _no_matching_pursuit(objective: PooledObjective) -> str | None:
    if not objective.is_squared:
        return "left out: for the squared loss only"
    dense = 8 * objective.rows * objective.width
    if objective.is_sparse and dense > MEMORY / 2:  # it works on a copy
        return f"left out: needs two dense arrays of {dense / 1e9:.1f} GB"
    return None


SOLVERS = {
    "abess": PooledSolver(abess),
    "abess, warm-started path": PooledSolver(abess_path),
    "abess, 100 exchanges, halved": PooledSolver(thorough_abess),
    "abess, 100 exchanges, one by one": PooledSolver(partial(thorough_abess, splicing_type=1)),
    "skscope GRASP": PooledSolver(grasp),
    "skscope GRASP, exact inner steps": PooledSolver(exact_grasp),
    "matching pursuit (scikit-learn)": PooledSolver(matching_pursuit, _no_matching_pursuit),
    "ℓ1 path (scikit-learn)": PooledSolver(l1),
}


def find_support(name: str, objective: PooledObjective, sparsity: int) -> Int64Array:
    """Run a solver; its warnings about convergence say no more than its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        support = SOLVERS[name].find(objective, sparsity)
    if support.size > sparsity:
        raise RuntimeError(f"{name} chose {support.size} features, more than {sparsity}")
    return support
