"""How far the server goes along the average change Δ = Σ p_i (x_i − x_t).

``"extrapolated"`` is the rule of FedExP (Jhunjhunwala, Wang & Joshi, ICLR 2023). It forgets what it
did: near the end it overshoots, and where clients agree on a direction that each has walked to
its end, it may diverge. ``"adaptive"`` is our own remedy. The server averages each extrapolated
step with the one before (Polyak's heavy ball, 1964), in which overshooting cancels. Clients send
f_i(x_t) with their answers, so the server knows f(x_t) one round later: if it is more than twice
the lowest, the server returns to the best x seen and leaves it again with a quarter of the step.
The best x is what a run returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.safeguard import after_safeguarded_step, is_safeguarded
from fedsparse.algorithms.step_sizes import ServerStep
from fedsparse.arrays import FloatArray
from fedsparse.compute.stacks import squared_norm
from fedsparse.requests import Answers

MOMENTUM = 0.5
"""Share of the step before in every step."""

TOLERATED = 2.0
"""How many times the lowest objective x_t may have: overshooting is often made up for at once."""

SHRINK = 4.0


def after_server_step(
    state: State, answers: Answers, server_step: ServerStep
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """x_t + η Δ before thresholding, and what to remember.

    Parameters
    ----------
    state
        With x_t.
    answers
        To `LocalSteps` from there, with distances if η is worked out of them, and with objectives
        if it is adaptive.
    server_step
        η or its rule.

    Examples
    --------
    >>> answers = Answers({"x": np.array([4.0])}, weight=1.0, count=2, asked=2)
    >>> after_server_step(State(x=np.zeros(1)), answers, 0.5)
    (array([2.]), {})
    """
    if is_safeguarded(state):
        return after_safeguarded_step(state, answers)
    average = answers.mean("x")
    if server_step == 1.0:
        return average, {}
    change = average - state.x
    if not isinstance(server_step, str):
        return state.x + server_step * change, {}
    step = extrapolation(answers.average("squared_distance"), squared_norm(change))
    if server_step == "extrapolated":
        return state.x + step * change, {}
    known = Adaptive.recall(state.memory)
    moved, known = adaptive_step(known, state.x, answers.average("objective"), step * change)
    return moved, known.as_memory()


def extrapolation(spread: float, change: float) -> float:
    """η of the extrapolated server step.

    Parameters
    ----------
    spread
        Σ p_i ‖Δ_i‖².
    change
        ‖Σ p_i Δ_i‖².

    Examples
    --------
    >>> extrapolation(8.0, 2.0), extrapolation(1.0, 1.0)
    (2.0, 1.0)
    """
    return max(1.0, spread / (2.0 * change)) if change > 0 else 1.0


@dataclass(frozen=True)
class Adaptive:
    """What the adaptive step remembers; stored in a state's memory.

    Attributes
    ----------
    best, best_objective
        The best x whose objective is known.
    leave
        How the best x was last left: a step that may have to be shortened.
    direction
        The last step of all.
    """

    best: FloatArray
    best_objective: float
    leave: FloatArray
    direction: FloatArray

    @classmethod
    def recall(cls, memory: Mapping[str, FloatArray]) -> "Adaptive | None":
        """From a state's memory; None in the first round."""
        if "direction" not in memory:
            return None
        objective = float(memory["best_objective"][0])
        return cls(memory["best"], objective, memory["leave"], memory["direction"])

    def as_memory(self) -> dict[str, FloatArray]:
        """For a state's memory."""
        return {
            "best": self.best,
            "best_objective": np.array([self.best_objective]),
            "leave": self.leave,
            "direction": self.direction,
        }


def adaptive_step(
    known: Adaptive | None, x: FloatArray, objective: float, extrapolated: FloatArray
) -> tuple[FloatArray, Adaptive]:
    """Where to go, before thresholding, and what to remember.

    Parameters
    ----------
    known
        What is remembered; None in the first round.
    x
        x_t.
    objective
        f(x_t).
    extrapolated
        η Δ of the extrapolated rule at x_t.

    Examples
    --------
    >>> step = np.array([8.0])
    >>> moved, known = adaptive_step(None, np.zeros(1), 4.0, step)
    >>> moved
    array([8.])
    >>> adaptive_step(known, moved, 3.0, -step)[0]  # lower: half of each step
    array([8.])
    >>> adaptive_step(known, moved, 9.0, -step)[0]  # far higher: back, and a quarter
    array([2.])
    """
    if known is None:
        return x + extrapolated, Adaptive(x, objective, extrapolated, extrapolated)
    if objective > TOLERATED * known.best_objective:
        shorter = known.leave / SHRINK
        return known.best + shorter, Adaptive(known.best, known.best_objective, shorter, shorter)
    direction = (1.0 - MOMENTUM) * extrapolated + MOMENTUM * known.direction
    if objective <= known.best_objective:
        return x + direction, Adaptive(x, objective, extrapolated, direction)
    return x + direction, Adaptive(known.best, known.best_objective, known.leave, direction)
