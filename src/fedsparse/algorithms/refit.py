"""Newton refit: the best coefficients on a support, in one to three rounds.

For the squared loss one Newton step is exact. For the logistic loss two are made, and an x is kept
only once the clients have confirmed that f is not higher there: a step that raises f is halved.
"""

import numpy as np

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.subset import Quadratic
from fedsparse.arrays import FloatArray
from fedsparse.compute.triangles import from_triangle
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers, Curvature, Request
from fedsparse.threads import one_thread

LAST_ROUND = 2
"""Rounds after the first, for losses whose Newton steps are not exact."""

_NOTHING_TO_GAIN = 1e-9


def with_refits(state: State, loss: Loss) -> State:
    """The state before the first round with what refits need to know of the loss."""
    if state.x.ndim > 1:
        raise OptionError(
            "refits need one score a row, which softmax does not have; use a method without refit"
        )
    is_exact = loss.is_quadratic
    return state.remember(l2=np.array([loss.l2]), exact=np.array([is_exact]))


def begin_refit(state: State) -> State:
    """Have the coming rounds refit x on its support, if it has one."""
    return state.remember(refit=np.zeros(1)) if state.x.any() else state


def is_refitting(state: State) -> bool:
    """Whether the coming round belongs to a refit."""
    return "refit" in state.memory


def confirmed(state: State) -> tuple[FloatArray, float] | None:
    """The x a refit would go back to, and its objective, while a step is not confirmed yet."""
    if "refit_objective" not in state.memory:
        return None
    return state.memory["refit_from"], float(state.memory["refit_objective"][0])


def refit_request(state: State) -> Request:
    """Ask for the curvature on the support of x."""
    return Curvature(state.x, np.flatnonzero(state.x))


def refit_update(state: State, answers: Answers) -> State:
    """Make a Newton step on the support, or end the refit."""
    count = int(state.memory["refit"][0])
    objective = answers.average("objective")
    if count > 0 and objective > float(state.memory["refit_objective"][0]):
        return _halved(state, count)
    moved, gain = _newton_point(state, answers)
    if count == LAST_ROUND or gain <= _NOTHING_TO_GAIN * abs(objective):
        return _ended(state).step(state.x, 0)
    if state.memory["exact"][0]:
        return _ended(state).step(moved, 0)
    state = state.remember(
        refit=np.array([count + 1.0]), refit_from=state.x, refit_objective=np.array([objective])
    )
    return state.step(moved, 0)


def _halved(state: State, count: int) -> State:
    """The step raised f: try half of it, or in the last round go back."""
    before = state.memory["refit_from"]
    if count == LAST_ROUND:
        return _ended(state).step(before, 0)
    return state.remember(refit=np.array([count + 1.0])).step((state.x + before) / 2, 0)


def _newton_point(state: State, answers: Answers) -> tuple[FloatArray, float]:
    """The lowest point of the quadratic model on the support, and how much lower f is there."""
    support = np.flatnonzero(state.x)
    l2 = float(state.memory["l2"][0])
    gradient = answers.mean("gradient") + l2 * state.x[support]
    hessian = from_triangle(answers.mean("hessian"), support.size) + l2 * np.eye(support.size)
    moved = np.zeros_like(state.x)
    with one_thread():
        model = Quadratic(hessian, hessian @ state.x[support] - gradient)
        usable = np.flatnonzero(model.scale > 0)
        moved[support[usable]] = model.minimizer(usable)
        step = moved[support] - state.x[support]
        gain = -(gradient @ step + 0.5 * step @ hessian @ step)
    return moved, float(gain)


def _ended(state: State) -> State:
    memory = {name: value for name, value in state.memory.items() if not name.startswith("refit")}
    return State(state.x, state.round, state.iterations, state.seed, memory)
