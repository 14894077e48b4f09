"""Step sizes by trying, for losses whose curvature has no bound.

``step_size="auto"`` begins at 1/max l_i of rows whose curvature is 1. Clients send f_i(x_t) with
their answers, so the server knows one round later what a step was good for. One that did not raise
f is kept, and the next one is a little longer. Where f has risen, or is not finite, the server
returns to the best x, and clients leave it by shorter steps. The best x is what a run returns.
"""

import numpy as np

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.step_sizes import ServerStep, StepSize
from fedsparse.arrays import FloatArray
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers

_LONGER = 1.1
_SHORTER = 3.0


def with_safeguard(
    state: State,
    loss: Loss,
    step_size: StepSize,
    server_step: ServerStep,
    clients_per_round: int | None,
) -> State:
    """The state before the first round; with a pace if step sizes must be found by trying."""
    if step_size != "auto" or loss.curvature is not None:
        return state
    if server_step != 1.0 or clients_per_round is not None:
        raise OptionError(
            f'the curvature of the {loss.name} loss has no bound, so step_size="auto" compares '
            "objectives of all clients from step to step; leave server_step and clients_per_round "
            "out, or give a step_size"
        )
    return state.remember(pace=np.ones(1))


def is_safeguarded(state: State) -> bool:
    """Whether f of every round decides on the next step."""
    return "pace" in state.memory


def after_safeguarded_step(
    state: State, answers: Answers
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Where to go before thresholding, and what to remember.

    Examples
    --------
    >>> start = State(x=np.zeros(1)).remember(pace=np.ones(1))
    >>> told = {"x": np.array([4.0]), "objective": np.array(9.0)}
    >>> moved, known = after_safeguarded_step(start, Answers(told, 1.0, 1, 1))
    >>> worse = {"x": np.array([8.0]), "objective": np.array(10.0)}
    >>> state = start.remember(**known).step(moved, 1)
    >>> back, known = after_safeguarded_step(state, Answers(worse, 1.0, 1, 1))
    >>> moved, back, bool(known["pace"] < 1)
    (array([4.]), array([0.]), True)
    """
    objective, memory = answers.average("objective"), state.memory
    if has_risen(state, objective):
        return memory["best"], _shorter(state)
    known = {"best": state.x, "best_objective": np.array([objective])}
    if "best" not in memory or not np.array_equal(state.x, memory["best"]):
        known |= {"pace": memory["pace"] * _LONGER, "refused": np.zeros(1)}
    return answers.mean("x"), known


def has_risen(state: State, objective: float) -> bool:
    """Whether f is above that of the best x, or no number."""
    known = state.memory.get("best_objective")
    return known is not None and not objective <= float(known[0])


def with_shorter_step(state: State) -> State | None:
    """The best x with a shorter step ahead; None if no step can be shortened."""
    if not is_safeguarded(state) or state.memory["pace"][0] == 0.0:
        return None
    best = state.memory.get("best", state.x)
    return state.remember(**_shorter(state)).step(best, 0)


def _shorter(state: State) -> dict[str, FloatArray]:
    """The more so the more often in a row: it may be far to a step that does."""
    refused = state.memory.get("refused", np.zeros(1)) + 1.0
    return {"pace": state.memory["pace"] / _SHORTER**refused, "refused": refused}
