"""Asynchronous SVRG-HT, simulated: updates that were worked out at an earlier x.

Li, Arora, Liu, Haupt & Zhao, Nonconvex Sparse Learning via Stochastic Optimization with Progressive
Variance Reduction, arXiv 1605.02711, 2016:

    repeat:
        s = x_t,  c = ∇f(s)                                        (request `Slopes`, of everyone)
        m times:
            who comes next has read x_{t−δ}, 0 ≤ δ ≤ staleness
            v = g_i(x_{t−δ}) − g_i(s) + c                          (request `CorrectedSteps`)
            x_{t+1} = H_τ(x_t − γ v)                               (update)

Simulated is what x goes through: who comes next and how old is what it has read are drawn from the
seed, so a run is the same every time. Not simulated is time: exchanges are one after another, so
nobody works meanwhile, and a round is one update. Those of a round have read the same x; nobody is
slow by nature; all wait for c, as there; and no update is lost or half written.
"""

from dataclasses import dataclass, field

import numpy as np

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.step_sizes import (
    BatchSize,
    StepSize,
    batch_size_in,
    check_batch_size,
    check_step_size,
    lacks_smoothness,
    smoothness_request,
    smoothness_update,
    step_size_in,
)
from fedsparse.algorithms.thresholding import Thresholding
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.compute.kernels.random import sample_without_replacement
from fedsparse.compute.stacks import flatten, unflatten
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import as_sparsity
from fedsparse.requests import Answers, CorrectedSteps, Request, Slopes

_AGE = -2
"""In place of a client's number when it is drawn how old an x is."""


@dataclass(frozen=True)
class AsyncSVRGHT(Thresholding):
    """Asynchronous SVRG-HT (Li et al., 2016) as a deterministic simulation with bounded staleness.

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or a constraint such as `TopKGroups`.
    staleness
        The largest δ: so many updates may have happened since the one who comes next has read x.
        δ is drawn anew for every update. 0 is SVRG-HT without a lag.
    updates
        m, between two full gradients.
    clients_per_round
        How many come next together; drawn anew for every update.
    step_size, batch_size
        γ and b: see `FedAvg`.
    weights
        See `Algorithm`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [2.0]), ([[1.0, 0.1]], [4.0])])
    >>> fs.run(fs.AsyncSVRGHT(sparsity=1, staleness=2), data, rounds=60).support
    array([0])
    """

    staleness: int = field(default=5, kw_only=True)
    updates: int = field(default=50, kw_only=True)
    step_size: StepSize = field(default="auto", kw_only=True)
    batch_size: BatchSize = field(default=None, kw_only=True)
    clients_per_round: int | None = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.staleness != 0:
            check_count("staleness", self.staleness)
        check_count("updates", self.updates)
        check_step_size(self.step_size)
        check_batch_size(self.batch_size)

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0; a constraint or a step size that does not fit is refused here."""
        if self.step_size == "auto" and loss.curvature is None:
            raise OptionError(
                f"the curvature of the {loss.name} loss has no bound, and AsyncSVRGHT does not try "
                "step sizes; give a step_size"
            )
        return super().start(shape, seed, loss)

    def request(self, state: State) -> Request:
        """Ask some for a step from an earlier x; everyone for ∇f where s is to be taken anew."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_request(state)
        if "recent" not in state.memory:
            return Slopes(state.x, with_diagonal=False)
        return CorrectedSteps(
            x=_read(state),  # x_{t−δ}
            steps=1,
            step_size=step_size_in(state, self.step_size),  # γ
            batch_size=batch_size_in(state, self.batch_size),
            snapshot=state.memory["snapshot"],  # s
            gradient=state.memory["gradient"],  # c
            seed=state.seed,
            round=state.round,
        )

    def update(self, state: State, answers: Answers) -> State:
        """x_{t+1} = H_τ(x_t − γ v), where −γ v is how far they went from x_{t−δ}."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_update(state, answers)
        if "recent" not in state.memory:
            known = {"gradient": answers.mean("gradient"), "snapshot": state.x}
            recent = flatten(state.x)[None]
            return state.remember(**known, recent=recent, made=np.zeros(1)).step(state.x, 0)
        constraint = as_sparsity(self.sparsity, state.x.shape)
        x = constraint.project(state.x + (answers.mean("x") - _read(state)))
        made = state.memory["made"] + 1.0
        if made[0] == self.updates:
            return state.forget("recent").step(x, 1)
        recent = np.vstack([state.memory["recent"], flatten(x)])[-self.staleness - 1 :]
        return state.remember(recent=recent, made=made).step(x, 1)

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Try a smaller step size, less staleness or more clients_per_round."


def _read(state: State) -> FloatArray:
    """x_{t−δ}: one of those since s was taken, the last staleness + 1 of them."""
    recent = state.memory["recent"]
    (place,) = sample_without_replacement(state.seed, _AGE, state.round, 0, len(recent), 1)
    return unflatten(recent[place], state.x.shape)
