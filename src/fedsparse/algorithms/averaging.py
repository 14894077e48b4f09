"""FedAvg and FedProx: local steps, then the average. The dense baselines.

FedAvg: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
AISTATS 2017. FedProx: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
"""

from dataclasses import dataclass

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.safeguard import is_safeguarded
from fedsparse.algorithms.server_steps import after_server_step
from fedsparse.algorithms.step_sizes import (
    batch_size_in,
    lacks_smoothness,
    smoothness_request,
    smoothness_update,
    step_size_in,
)
from fedsparse.algorithms.stepping import Stepping
from fedsparse.algorithms.variance_reduction import snapshot_in, snapshot_to_keep
from fedsparse.checks import check_not_negative
from fedsparse.requests import Answers, LocalSteps, Request


@dataclass(frozen=True, kw_only=True)
class FedAvg(Stepping):
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

    def request(self, state: State) -> Request:
        """Ask for K local steps from x_t; before the first round, for l_i if γ needs them."""
        return self._local_steps(state, proximal=0.0)

    def update(self, state: State, answers: Answers) -> State:
        """x_{t+1} = Σ p_i x_i, or as far from x_t as the server's step says."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_update(state, answers)
        x, memory = after_server_step(state, answers, self.server_step)
        memory |= snapshot_to_keep(state, self.variance_reduction)
        return state.remember(**memory).step(x, self.local_steps)

    def _local_steps(self, state: State, proximal: float) -> Request:
        if lacks_smoothness(state, self.step_size):
            return smoothness_request(state)
        return LocalSteps(
            x=state.x,
            steps=self.local_steps,
            step_size=step_size_in(state, self.step_size, proximal),
            batch_size=batch_size_in(state, self.batch_size),
            proximal=proximal,
            snapshot=snapshot_in(state, self.variance_reduction),
            seed=state.seed,
            round=state.round,
            with_objective=self.server_step == "adaptive" or is_safeguarded(state),
            with_distance=isinstance(self.server_step, str),
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

    def request(self, state: State) -> Request:
        """Ask for K local steps on f_i + (μ/2)‖x − x_t‖²."""
        return self._local_steps(state, self.proximal)
