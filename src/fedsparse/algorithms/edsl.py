"""EDSL: gradients of everyone, an ℓ1 problem on one client. A rival to compare with.

Wang, Kolar, Srebro & Zhang, Efficient Distributed Learning with Sparsity, ICML 2017:

    every client i:  ∇f_i(x_t)
    x_{t+1} = argmin f_1(x) + (∇f(x_t) − ∇f_1(x_t))·x + λ‖x‖₁       on the rows of one client

It takes the rows of one client for those of all, so it needs clients that are alike; the same holds
for later methods that rest on such a surrogate (arXiv 2408.17276, arXiv 2504.00722).
"""

from dataclasses import dataclass, field

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.refit import (
    begin_refit,
    confirmed,
    is_refitting,
    refit_request,
    refit_update,
    with_refits,
)
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers, Gradient, Request, ShiftedLasso


@dataclass(frozen=True)
class EDSL(Algorithm):
    """One client solves a gradient-shifted ℓ1 problem for all.

    As in its paper that client also gathers the gradients, so gradients and solution are one
    round.

    Parameters
    ----------
    sparsity
        τ: λ is the smallest that gives at most τ non-zeros.
    refit
        Follow every round by a Newton refit on the support, which removes the bias of ℓ1.
    solver
        Place of the client that solves.
    weights
        See `Algorithm`. All clients take part in every round.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.1]], [2.0]), ([[1.0, -0.1]], [2.2])])
    >>> fs.run(fs.EDSL(sparsity=1), data, rounds=5).support
    array([0])
    """

    sparsity: int
    refit: bool = field(default=False, kw_only=True)
    solver: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("sparsity", self.sparsity)
        if self.solver != 0:
            check_count("solver", self.solver)
        if self.clients_per_round is not None:
            raise OptionError("EDSL asks every client; leave clients_per_round out")

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """The state before the first round."""
        if len(shape) > 1:
            raise OptionError("EDSL works with the squared and the logistic loss")
        if loss.curvature is None:
            raise OptionError(
                f"EDSL takes steps of a length that the curvature of the {loss.name} loss, which "
                "has no bound, cannot tell; use FedSplice or FedIterHT"
            )
        return with_refits(super().start(shape, seed, loss), loss)

    def best_known(self, state: State) -> tuple[FloatArray, float] | None:
        """The x before a step of a refit that is not confirmed yet."""
        return confirmed(state)

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "EDSL needs clients that are alike; FedSplice does not."

    def request(self, state: State) -> Request:
        """Ask everyone for gradients, then one client for the solution."""
        if is_refitting(state):
            return refit_request(state)
        if "gradient" in state.memory:
            return ShiftedLasso(state.x, state.memory["gradient"], self.sparsity, self.solver)
        return Gradient(state.x)

    def update(self, state: State, answers: Answers) -> State:
        """Keep the gradient, then take the solution over."""
        if is_refitting(state):
            return refit_update(state, answers)
        if "gradient" in answers.sums:
            return state.remember(gradient=answers.mean("gradient"))
        memory = {name: value for name, value in state.memory.items() if name != "gradient"}
        solution = np.ascontiguousarray(answers.mean("x"))
        moved = State(state.x, state.round, state.iterations, state.seed, memory).step(solution, 1)
        return begin_refit(moved) if self.refit else moved
