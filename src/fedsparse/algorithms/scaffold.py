"""SCAFFOLD with hard thresholding: local steps that know where all clients want to go.

Karimireddy, Kale, Mohri, Reddi, Stich & Suresh, SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning, ICML 2020, option I, all clients in every round:

    c = ∇f(x_0),  s = x_0                                       (request `Gradient`)
    for t = 0 … T−1:
        every client i:  x_i ← x_t,  c_i = ∇f_i(s)              (request `CorrectedSteps`)
                         K times:  x_i ← x_i − γ (g_i(x_i) − c_i + c)
                                   x_i ← H_τ(x_i)               (if thresholds_locally)
        x_{t+1} = H_τ(x_t + η Σ p_i (x_i − x_t))                (update)
        c = Σ p_i ∇f_i(x_t),  s = x_t

There a client remembers c_i. Here it works c_i out anew at s, which the server sends: clients keep
nothing from round to round, for one more gradient. H_τ is ours; the paper's models are dense.
"""

from dataclasses import dataclass, field

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
from fedsparse.algorithms.thresholding import Thresholding
from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import as_sparsity
from fedsparse.requests import Answers, CorrectedSteps, Gradient, Request


@dataclass(frozen=True)
class ScaffoldHT(Thresholding, Stepping):
    """SCAFFOLD (Karimireddy et al., ICML 2020) with H_τ at the server, or on clients as well.

    A round costs three times the vectors of `FedHT`, and one round more at the start. Local steps
    are not compiled.

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or a constraint such as `TopKGroups`.
    thresholds_locally
        Whether clients apply H_τ after each of their steps, as in `FedIterHT`.
    local_steps, step_size, batch_size, server_step
        K, γ, b and η: see `FedAvg`. Mini-batches are corrected on their own rows.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [2.0]), ([[1.0, 0.1]], [4.0])])
    >>> fs.run(fs.ScaffoldHT(sparsity=1, local_steps=5), data, rounds=20).support
    array([0])
    """

    thresholds_locally: bool = field(default=False, kw_only=True)
    variance_reduction: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clients_per_round is not None:
            raise OptionError(
                "ScaffoldHT corrects by the gradient of every client; leave clients_per_round out"
            )

    def request(self, state: State) -> Request:
        """Ask for K corrected steps from x_t; at first for ∇f(x_0), and for what γ needs."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_request(state)
        if "control" not in state.memory:
            return Gradient(state.x)
        threshold = as_sparsity(self.sparsity, state.x.shape)
        return CorrectedSteps(
            x=state.x,
            steps=self.local_steps,  # K
            step_size=step_size_in(state, self.step_size),  # γ
            batch_size=batch_size_in(state, self.batch_size),
            sparsity=threshold if self.thresholds_locally else None,
            snapshot=state.memory["snapshot"],  # s
            gradient=state.memory["control"],  # c
            with_gradient=True,
            seed=state.seed,
            round=state.round,
            with_objective=self.server_step == "adaptive" or is_safeguarded(state),
            with_distance=isinstance(self.server_step, str),
        )

    def update(self, state: State, answers: Answers) -> State:
        """x_{t+1} = H_τ(x_t + η Σ p_i (x_i − x_t)), c = ∇f(x_t); at first c alone."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_update(state, answers)
        known = {"control": answers.mean("gradient"), "snapshot": state.x}
        if "control" not in state.memory:
            return state.remember(**known).step(state.x, 0)
        x, memory = after_server_step(state, answers, self.server_step)
        threshold = as_sparsity(self.sparsity, x.shape)
        return state.remember(**memory, **known).step(threshold.project(x), self.local_steps)
