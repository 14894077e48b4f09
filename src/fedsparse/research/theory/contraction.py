"""How fast x_t comes closer to a reference solution when the algorithms are really run."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from fedsparse.algorithms import Algorithm, DistributedIHT, FedHT, FedIterHT
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.engines import LocalEngine
from fedsparse.engines.result import Result
from fedsparse.engines.run import run
from fedsparse.errors import DivergenceWarning
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss

REFERENCE_STEPS = 10
"""Local steps of the FedIter-HT run that looks for a reference."""

# A run has stalled when this share of its whole descent, in logarithms, is behind it.
_SHARE_OF_DESCENT = 0.9


@dataclass(frozen=True, eq=False)
class Reference:
    """The best sparse solution found, in place of the x* that nobody can compute.

    Attributes
    ----------
    coef
        x*.
    objective
        f(x*).
    method
        How it was found.
    """

    coef: FloatArray
    objective: float
    method: str


@dataclass(frozen=True, eq=False)
class Contraction:
    """A measured contraction.

    Attributes
    ----------
    factor
        Geometric mean of ‖x_{t+1} − x*‖²/‖x_t − x*‖² until the run stalls: until nine tenths of
        its descent, in logarithms, are made. Without any descent it is taken over the whole run,
        and at least 1.
    rounds
        Over how many rounds.
    squared_distances
        ‖x_t − x*‖² for t = 0, 1, …
    """

    factor: float
    rounds: int
    squared_distances: FloatArray


def reference_solution(
    data: FederatedData, loss: Loss, sparsity: int, *, gradients: int = 1200, seed: int = 0
) -> Reference:
    """Look for the best sparse solution.

    Distributed-IHT and FedIter-HT, both with the extrapolated server step, run side by side; the
    better of the two supports is kept and f minimized on it (L-BFGS), so that ∇f(x*) vanishes
    there. No method is certain to find the best support.

    Parameters
    ----------
    data, loss
        The problem.
    sparsity
        τ*, per class for softmax.
    gradients
        About how many gradients every client may work out: a quarter each for the two runs and
        for minimizing on either support.
    seed
        Of the runs.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([(np.eye(3), [3.0, 0.1, 2.0])])
    >>> reference_solution(data, fs.SquaredError(), 2).coef.round(4)
    array([3., 0., 2.])
    """
    check_count("gradients", gradients)
    algorithms: dict[str, FedHT] = {
        "Distributed-IHT": DistributedIHT(sparsity, server_step="extrapolated"),
        "FedIter-HT": FedIterHT(sparsity, local_steps=REFERENCE_STEPS, server_step="extrapolated"),
    }
    candidates = []
    for name, algorithm in algorithms.items():
        rounds = max(1, gradients // (4 * algorithm.local_steps))
        result = _quiet_run(algorithm, data, loss, rounds, seed)
        coef, objective = _minimized_on_support(result.coef, data, loss, max(1, gradients // 4))
        method = f"{name}, extrapolated, {rounds} rounds, then f minimized on its support"
        candidates.append(Reference(coef, objective, method))
    return min(candidates, key=lambda one: one.objective)


def measure_contraction(
    algorithm: Algorithm, data: FederatedData, loss: Loss, target: FloatArray, *, rounds: int = 50
) -> Contraction:
    """Run an algorithm on all clients and measure how x_t approaches a target.

    Parameters
    ----------
    algorithm
        Such as ``FedIterHT(200, step_size=1e-3)``.
    data, loss
        The problem.
    target
        x*.
    rounds
        At most so many; a run whose iterates are no longer finite ends early.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0])])
    >>> algorithm = fs.FedHT(1, local_steps=1, step_size=0.25)
    >>> measured = measure_contraction(algorithm, data, fs.SquaredError(), np.array([2.0]))
    >>> round(measured.factor, 6)
    0.25
    """
    check_count("rounds", rounds)
    distances = []
    for x in _iterates(algorithm, data, loss, rounds):
        difference = (x - target).ravel()
        distances.append(float(difference @ difference))
        if distances[-1] == 0.0:
            break
    return _summary(np.array(distances))


def _summary(distances: FloatArray) -> Contraction:
    if distances[0] == 0.0 or distances.size == 1:
        return Contraction(1.0, 0, distances)
    logarithms = np.log(np.maximum(distances, np.finfo(float).tiny))
    descent = logarithms - logarithms[0]
    lowest = float(descent.min())
    if lowest < 0:
        end = int(np.flatnonzero(descent <= _SHARE_OF_DESCENT * lowest)[0])
    else:
        end = distances.size - 1
    return Contraction(float(np.exp(descent[end] / end)), end, distances)


def _iterates(
    algorithm: Algorithm, data: FederatedData, loss: Loss, rounds: int
) -> Iterator[FloatArray]:
    """x_0, x_1, … with all clients in every round."""
    engine = LocalEngine(data, loss, available_threads())
    try:
        state = algorithm.start(engine.shape, 0, loss)
        yield state.x
        while state.round < rounds:
            before = state.round
            with np.errstate(all="ignore"):  # what is not finite is looked for here
                (answers,) = engine.exchange(
                    [engine.ask(algorithm.request(state), algorithm.weights)]
                )
                state = algorithm.update(state, answers)
            if not np.isfinite(state.x).all():
                return
            if state.round > before:
                yield state.x
    finally:
        engine.close()


def _quiet_run(
    algorithm: Algorithm, data: FederatedData, loss: Loss, rounds: int, seed: int
) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # the other run may do better
        return run(
            algorithm, data, loss=loss, rounds=rounds, seed=seed, evaluate_every=min(rounds, 10)
        )


def _minimized_on_support(
    start: FloatArray, data: FederatedData, loss: Loss, iterations: int
) -> tuple[FloatArray, float]:
    """Minimize f over the entries of x that are not zero."""
    clients = open_clients(data, loss, Workers(available_threads()))
    everyone = np.arange(len(data))
    weights = np.full(len(data), 1.0 / len(data))
    support = start != 0
    x = start.copy()

    def objective(entries: FloatArray) -> tuple[float, FloatArray]:
        x[support] = entries
        gradient = clients.mean_gradients(x, everyone).total(weights) + loss.l2 * x
        return float(weights @ clients.objectives(x, everyone)), gradient[support]

    try:
        if support.any():
            best = optimize.minimize(
                objective, x[support], jac=True, method="L-BFGS-B",
                options={"maxiter": iterations, "ftol": 1e-15, "gtol": 1e-10},
            )  # fmt: skip
            x[support] = best.x
        return x, float(weights @ clients.objectives(x, everyone))
    finally:
        clients.workers.close()
