"""Smoothness l, strong convexity ρ and condition number κ = l/ρ of the clients' losses.

Assumption 1 asks them of every client, so l is the largest and ρ the smallest over clients.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.problem.federated import Features, FederatedData
from fedsparse.problem.losses import Logistic, Loss, Softmax
from fedsparse.research.theory.squares import sums_of_squares

_TOLERANCE = 1e-5  # of the Ritz vector; its eigenvalue is good to about the square


@dataclass(frozen=True, eq=False)
class Conditioning:
    """Constants of Assumption 1 at a sparsity level s.

    Attributes
    ----------
    sparsity
        s; the number of features where nothing is restricted.
    smoothness_of_clients, convexity_of_clients
        l_i and ρ_i.
    is_sampled
        Whether supports were sampled: then l is at least, and ρ at most, what is given here.
    notes
        What was taken, in plain sentences.

    Examples
    --------
    >>> constants = Conditioning(4, np.array([6.0, 2.0]), np.array([1.0, 0.5]), False, ())
    >>> constants.smoothness, constants.convexity, constants.condition_number
    (6.0, 0.5, 12.0)
    """

    sparsity: int
    smoothness_of_clients: FloatArray
    convexity_of_clients: FloatArray
    is_sampled: bool
    notes: tuple[str, ...]

    @property
    def smoothness(self) -> float:
        """l, the largest l_i."""
        return float(self.smoothness_of_clients.max())

    @property
    def convexity(self) -> float:
        """ρ, the smallest ρ_i."""
        return float(self.convexity_of_clients.min())

    @property
    def condition_number(self) -> float:
        """κ = l/ρ, infinite if ρ is 0."""
        return self.smoothness / self.convexity if self.convexity > 0 else np.inf


def global_conditioning(data: FederatedData, loss: Loss, x: FloatArray) -> Conditioning:
    """l_d and ρ_d, from the eigenvalues of every client's Hessian.

    l_i is the loss's largest curvature (2, ¼ for logistic, ½ for softmax) times the largest
    eigenvalue of ZᵀZ/B, plus λ. ρ_i is the smallest eigenvalue of the Hessian at ``x``, λ included:
    exact for the squared loss, and for logistic at most what Assumption 1 allows, because the
    curvature falls to 0 far from the origin. It is λ for a client with fewer rows than features,
    and for softmax, which does not change when a vector is added to the coefficients of all
    classes.

    Parameters
    ----------
    data, loss
        The problem.
    x
        Where curvature is taken for ρ.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([(np.diag([1.0, 3.0]), [0.0, 0.0])])
    >>> constants = global_conditioning(data, fs.SquaredError(), np.zeros(2))
    >>> round(constants.smoothness, 6), round(constants.convexity, 6)
    (9.0, 1.0)
    """
    clients = open_clients(data, loss, Workers(available_threads()))
    try:
        eigenvalues = clients.largest_eigenvalues(np.arange(len(data)))
    finally:
        clients.workers.close()
    weights = _curvatures(data, loss, x)
    convexity = np.full(len(data), loss.l2)
    for client in _clients_with_curvature(data, loss, data.width):
        block = _dense(data.client(client).features)
        convexity[client] += _smallest_eigenvalue(block, _own(data, weights, client))
    smoothness = np.array([loss.smoothness(value) for value in eigenvalues])
    notes = _notes(data, loss, data.width)
    return Conditioning(data.width, smoothness, convexity, False, notes)


def restricted_conditioning(
    data: FederatedData,
    loss: Loss,
    sparsity: int,
    x: FloatArray,
    *,
    draws: int = 2,
    seed: int = 0,
) -> Conditioning:
    """Estimate l_s and ρ_s from sampled supports; exact values are NP-hard to find.

    Every client looks at its s columns of largest norm, at the support of ``x`` filled up with
    such columns, and at random supports. So l_s is at least, and ρ_s at most, what comes out; l_d
    and ρ_d bound them from the other side. A client with fewer than s rows has ρ_s = λ exactly.

    Parameters
    ----------
    data, loss
        The problem.
    sparsity
        s, such as 2τ + τ* for FedIter-HT; with s ≥ d the result is `global_conditioning`.
    x
        Where curvature is taken for ρ, and whose support is looked at.
    draws
        Random supports of each client.
    seed
        Fixes them.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([(np.diag([1.0, 3.0]), [0.0, 0.0])])
    >>> constants = restricted_conditioning(data, fs.SquaredError(), 1, np.zeros(2), draws=9)
    >>> round(constants.smoothness, 6), round(constants.convexity, 6)
    (9.0, 1.0)
    """
    check_count("sparsity", sparsity)
    check_count("draws", draws)
    if sparsity >= data.width:
        return global_conditioning(data, loss, x)
    random = np.random.default_rng(seed)
    weights = _curvatures(data, loss, x)
    has_curvature = _clients_with_curvature(data, loss, sparsity)
    used = np.flatnonzero(x if x.ndim == 1 else np.abs(x).max(axis=1))
    smoothness, smallest = np.zeros(len(data)), np.full(len(data), np.inf)
    for client in range(len(data)):
        features = data.client(client).features
        for support in _supports(features, sparsity, used, draws, random):
            block = _dense(features[:, support])
            value = loss.smoothness(_largest_eigenvalue(block))
            smoothness[client] = max(smoothness[client], value)
            if client in has_curvature:
                curvature = _smallest_eigenvalue(block, _own(data, weights, client))
                smallest[client] = min(smallest[client], curvature)
    convexity = loss.l2 + np.where(np.isfinite(smallest), smallest, 0.0)
    notes = _notes(data, loss, sparsity)
    return Conditioning(sparsity, smoothness, convexity, True, notes)


def _curvatures(data: FederatedData, loss: Loss, x: FloatArray) -> FloatArray:
    """Second derivative of each row's loss with respect to its score."""
    if isinstance(loss, Logistic):
        chances = loss.derivative(data.features @ x, np.zeros(data.samples))
        return chances * (1.0 - chances)
    return np.full(data.samples, loss.curvature)


def _clients_with_curvature(data: FederatedData, loss: Loss, sparsity: int) -> list[int]:
    """Clients whose Hessian on s columns may have full rank without λ."""
    if isinstance(loss, Softmax):
        return []
    return [int(client) for client in np.flatnonzero(data.counts >= sparsity)]


def _own(data: FederatedData, values: FloatArray, client: int) -> FloatArray:
    return values[data.pointer[client] : data.pointer[client + 1]]


def _supports(
    features: Features,
    sparsity: int,
    used: Int64Array,
    draws: int,
    random: np.random.Generator,
) -> list[Int64Array]:
    """The largest columns, those in use filled up with the largest, and random ones."""
    by_size = np.argsort(-sums_of_squares(features, axis=0), kind="stable")
    others = by_size[~np.isin(by_size, used)]
    mixed = np.concatenate([used, others])[:sparsity]
    width = features.shape[1]
    drawn = [random.choice(width, sparsity, replace=False) for _ in range(draws)]
    return [np.sort(support) for support in (by_size[:sparsity], mixed, *drawn)]


def _dense(block: Features) -> FloatArray:
    array = block.toarray() if isinstance(block, sparse.csr_array) else block
    return np.asarray(array, dtype=np.float64)


def _largest_eigenvalue(block: FloatArray) -> float:
    """Of ZᵀZ/B, from the smaller of ZᵀZ and ZZᵀ; never above the true one."""
    rows, columns = block.shape
    gram: FloatArray = block @ block.T if rows < columns else block.T @ block
    if not gram.any():
        return 0.0
    return _top_eigenvalue(lambda vector: gram @ vector, len(gram)) / len(block)


def _smallest_eigenvalue(block: FloatArray, weights: FloatArray) -> float:
    """Of Zᵀ diag(w) Z/B; never below the true one, but 0 where that is lost in rounding."""
    hessian = (block * weights[:, None]).T @ block / len(block)
    try:
        factor = linalg.cho_factor(hessian, lower=True)
    except linalg.LinAlgError:
        return 0.0
    inverse = _top_eigenvalue(lambda vector: linalg.cho_solve(factor, vector), len(hessian))
    rounding = np.finfo(float).eps * float(np.trace(hessian))
    return 1.0 / inverse if inverse * rounding < 1.0 else 0.0


def _top_eigenvalue(apply: Callable[[FloatArray], FloatArray], size: int) -> float:
    """Largest eigenvalue of a positive definite matrix, approached from below (Lanczos).

    A full decomposition costs many times as much, and only one end of the spectrum is needed.
    """
    if size == 1:
        return float(apply(np.ones(1))[0])
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    found = eigsh(operator, 1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False)
    return float(found[0])


def _notes(data: FederatedData, loss: Loss, sparsity: int) -> tuple[str, ...]:
    short = int((data.counts < sparsity).sum())
    notes = []
    if isinstance(loss, Softmax):
        notes.append(
            f"ρ is λ = {loss.l2:g}: softmax does not change when a vector is added to all classes."
        )
    elif short:
        notes.append(
            f"{short} of {len(data)} clients have fewer than s = {sparsity} rows, so ρ is "
            f"λ = {loss.l2:g} exactly."
        )
    elif isinstance(loss, Logistic):
        notes.append("ρ is taken at x*; over all x it is no more than λ.")
    if loss.l2 == 0 and (short or isinstance(loss, Softmax)):
        notes.append("With λ = 0, κ is infinite and the theorem is void.")
    return tuple(notes)
