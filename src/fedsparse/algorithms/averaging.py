"""FedAvg and FedProx: local steps, then the average. The dense baselines.

FedAvg: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
AISTATS 2017. FedProx: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
Variance reduction: Johnson & Zhang, SVRG, NeurIPS 2013.
"""

from dataclasses import dataclass

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.server_steps import Adaptive, adaptive_step, extrapolation
from fedsparse.algorithms.step_sizes import (
    BatchSize,
    ServerStep,
    StepSize,
    batch_size_in,
    check_batch_size,
    check_server_step,
    check_step_size,
    scheduled,
)
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count, check_not_negative
from fedsparse.compute.stacks import squared_norm
from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import Sparsity
from fedsparse.requests import Answers, LocalSteps, Request, Smoothness, SmoothnessAbove


@dataclass(frozen=True, kw_only=True)
class FedAvg(Algorithm):
    """K local steps on every client, then the weighted average.

    Parameters
    ----------
    local_steps
        K.
    step_size
        γ: a number, a schedule (a function of the round), or ``"auto"``: 1/max l_i, for which
        clients are asked for their smoothness l_i before the first round: for the mean, and then
        which of 256 thresholds it lies above, so that the maximum is known within 2 % for 100
        clients (1/(max l_i + μ) where the local problem has a proximal term).
    batch_size
        None for full local gradients, b rows, or a `GrowingBatch`.
    variance_reduction
        Correct mini-batch gradients by the client's full gradient at a snapshot (SVRG). True
        takes the snapshot anew every round; a number m keeps it for m rounds.
    server_step
        η in x_{t+1} = x_t + η (average − x_t): a number, or ``"extrapolated"`` for
        η = max(1, Σ p_i ‖Δ_i‖² / (2 ‖Σ p_i Δ_i‖²)) with Δ_i = x_i − x_t, or ``"adaptive"`` for the
        same with a safeguard, after which the best x is returned (see `server_steps`).
    clients_per_round, weights
        See `Algorithm`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> float(fs.run(fs.FedAvg(local_steps=2), data, rounds=50).coef.round(6)[0])
    3.0
    """

    local_steps: int = 10
    step_size: StepSize = "auto"
    batch_size: BatchSize = None
    variance_reduction: bool | int = False
    server_step: ServerStep = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("local_steps", self.local_steps)
        check_step_size(self.step_size)
        check_batch_size(self.batch_size)
        check_server_step(self.server_step)
        if self.server_step == "adaptive" and self.clients_per_round is not None:
            raise OptionError(
                'server_step="adaptive" compares objectives of all clients; leave '
                'clients_per_round out or use server_step="extrapolated"'
            )
        if not isinstance(self.variance_reduction, bool):
            check_count("variance_reduction", self.variance_reduction)

    def request(self, state: State) -> Request:
        """Ask for K local steps from x_t; before the first round, for l_i if γ needs them."""
        if self.step_size == "auto" and "smoothness" not in state.memory:
            return _about_smoothness(state)
        return LocalSteps(
            x=state.x,
            steps=self.local_steps,
            step_size=self._step_size_in(state),
            batch_size=batch_size_in(self.batch_size, state.round),
            sparsity=self._local_sparsity(state),
            proximal=self._proximal(),
            snapshot=self._snapshot(state),
            seed=state.seed,
            round=state.round,
            with_objective=self.server_step == "adaptive",
            with_distance=isinstance(self.server_step, str),
        )

    def update(self, state: State, answers: Answers) -> State:
        """Move to the projected average."""
        if self.step_size == "auto" and "smoothness" not in state.memory:
            return _with_smoothness(state, answers)
        moved, memory = self._server_step(state, answers)
        state = state.remember(**memory, **self._kept_snapshot(state))
        return state.step(self._project(moved), self.local_steps)

    def _server_step(
        self, state: State, answers: Answers
    ) -> tuple[FloatArray, dict[str, FloatArray]]:
        """x_t + η (average − x_t), and what to remember."""
        average = answers.mean("x")
        if self.server_step == 1.0:
            return average, {}
        change = average - state.x
        if not isinstance(self.server_step, str):
            return state.x + self.server_step * change, {}
        step = extrapolation(answers.average("squared_distance"), squared_norm(change))
        if self.server_step == "extrapolated":
            return state.x + step * change, {}
        objective = answers.average("objective")
        known = Adaptive.recall(state.memory)
        moved, known = adaptive_step(known, state.x, objective, step * change)
        return moved, known.as_memory()

    def _step_size_in(self, state: State) -> float:
        if self.step_size == "auto":
            smoothness = float(state.memory["smoothness"][0]) + self._proximal()
            return 1.0 / smoothness if smoothness > 0 else 1.0  # f is constant: any step will do
        if callable(self.step_size):
            return scheduled(self.step_size, state.round)
        return float(self.step_size)

    def _snapshot(self, state: State) -> FloatArray | None:
        """Where variance reduction takes the full gradient this round."""
        if not self.variance_reduction:
            return None
        if state.round % int(self.variance_reduction) == 0:
            return state.x
        return state.memory["snapshot"]

    def _kept_snapshot(self, state: State) -> dict[str, FloatArray]:
        if int(self.variance_reduction) <= 1:
            return {}
        snapshot = self._snapshot(state)
        assert snapshot is not None
        return {"snapshot": snapshot}

    # What the variants change:

    def _local_sparsity(self, state: State) -> Sparsity | None:
        return None

    def _proximal(self) -> float:
        return 0.0

    def _project(self, x: FloatArray) -> FloatArray:
        return x

    def divergence_advice(self) -> str:
        """Name the option that is likely to blame and what to use instead."""
        if self.step_size != "auto":
            name = getattr(self.step_size, "__qualname__", repr(self.step_size))
            return f'The step size {name} is too large; try step_size="auto".'
        return (
            'The step size "auto" is safe for full gradients and server_step=1.0; '
            f"this run has server_step={self.server_step!r} and batch_size={self.batch_size!r}."
        )


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose local problem has the term (μ/2)‖x − x_t‖².

    Parameters
    ----------
    proximal
        μ. The others are those of `FedAvg`.

    Examples
    --------
    >>> FedProx(proximal=0.1).proximal
    0.1
    """

    proximal: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("proximal", self.proximal)

    def _proximal(self) -> float:
        return self.proximal


def _about_smoothness(state: State) -> Request:
    """Ask for the mean of l_i, and then where the largest lies between it and N times it."""
    if "smoothness_range" not in state.memory:
        return Smoothness()
    lowest, highest = state.memory["smoothness_range"]
    return SmoothnessAbove(float(lowest), float(highest))


def _with_smoothness(state: State, answers: Answers) -> State:
    """Remember the range of max l_i, or the lowest threshold that no client lies above."""
    if "smoothness_range" in state.memory:
        request = _about_smoothness(state)
        assert isinstance(request, SmoothnessAbove)
        return state.remember(smoothness=np.array([request.largest(answers.total("above"))]))
    mean = answers.average("smoothness")
    if answers.count == 1 or mean == 0.0:  # it is the largest
        return state.remember(smoothness=np.array([mean]))
    return state.remember(smoothness_range=np.array([mean, answers.count * mean]))
