"""Options that several algorithms share: step sizes and batch sizes, and what they come to."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedsparse.algorithms.algorithm import State
from fedsparse.checks import check_count, is_number
from fedsparse.errors import OptionError
from fedsparse.requests import Answers, Request, Smoothness, SmoothnessAbove

StepSize = float | Literal["auto"] | Callable[[int], float]
"""γ: a number, ``"auto"`` for 1/max l_i, or a schedule from the round t = 0, 1, … to a number."""

ServerStep = float | Literal["extrapolated", "adaptive"]
"""η: a number, ``"extrapolated"`` for FedExP's rule, ``"adaptive"`` for it with a safeguard."""


@dataclass(frozen=True)
class GrowingBatch:
    """A mini-batch that grows geometrically with the round: b_t = ⌈first · factorᵗ⌉.

    Examples
    --------
    >>> [GrowingBatch(4, 1.5).size(round) for round in range(4)]
    [4, 6, 9, 14]
    """

    first: int
    factor: float

    def __post_init__(self) -> None:
        check_count("first", self.first)
        if not (is_number(self.factor) and self.factor >= 1.0):
            raise OptionError(f"factor must be a number of at least 1, not {self.factor!r}")

    def size(self, round: int) -> int:
        """Rows of a batch in a round."""
        largest = 2**62  # more rows than any client has; the power itself may overflow
        exponent = round * math.log(self.factor)
        if math.log(self.first) + exponent > math.log(largest):
            return largest
        return math.ceil(self.first * self.factor**round)


BatchSize = int | GrowingBatch | None
"""b: all rows, a number of them, or a growing number."""


def check_step_size(step_size: StepSize) -> None:
    """A positive number, ``"auto"`` or a schedule."""
    if callable(step_size) or (isinstance(step_size, str) and step_size == "auto"):
        return
    _check_positive("step_size", step_size, '"auto" or a schedule')


def check_server_step(server_step: ServerStep) -> None:
    """A positive number, ``"extrapolated"`` or ``"adaptive"``."""
    if not (isinstance(server_step, str) and server_step in ("extrapolated", "adaptive")):
        _check_positive("server_step", server_step, '"extrapolated" or "adaptive"')


def check_batch_size(batch_size: BatchSize) -> None:
    """None, a whole number of at least 1, or a growing batch."""
    if batch_size is not None and not isinstance(batch_size, GrowingBatch):
        check_count("batch_size", batch_size)


def batch_size_in(state: State, batch_size: BatchSize) -> int | None:
    """b in the coming round, None for all rows."""
    return batch_size.size(state.round) if isinstance(batch_size, GrowingBatch) else batch_size


def step_size_in(state: State, step_size: StepSize, proximal: float = 0.0) -> float:
    """γ in the coming round; a proximal term adds its μ to the smoothness.

    Examples
    --------
    >>> state = State(x=np.zeros(1), round=2).remember(smoothness=np.array([4.0]))
    >>> step_size_in(state, "auto"), step_size_in(state, lambda round: 1 / round)
    (0.25, 0.5)
    """
    if step_size == "auto":
        smoothness = float(state.memory["smoothness"][0]) + proximal
        pace = float(state.memory["pace"][0]) if "pace" in state.memory else 1.0
        return pace / smoothness if smoothness > 0 else 1.0  # f is constant: any step will do
    return _scheduled(step_size, state.round) if callable(step_size) else float(step_size)


def lacks_smoothness(state: State, step_size: StepSize) -> bool:
    """Whether clients are to be asked for l_i before the first round, because γ needs them."""
    return step_size == "auto" and "smoothness" not in state.memory


def smoothness_request(state: State) -> Request:
    """Ask for the mean of l_i, and then where the largest lies between it and N times it."""
    if "smoothness_range" not in state.memory:
        return Smoothness()
    lowest, highest = state.memory["smoothness_range"]
    return SmoothnessAbove(float(lowest), float(highest))


def smoothness_update(state: State, answers: Answers) -> State:
    """Remember the range of max l_i, or the lowest threshold that no client lies above."""
    request = smoothness_request(state)
    if isinstance(request, SmoothnessAbove):
        largest = request.largest(answers.total("above"))
        if largest is None:  # a client came back that lies above all others together
            return state.forget("smoothness_range")
        return state.remember(smoothness=np.array([largest]))
    mean = answers.average("smoothness")
    if answers.count == 1 or mean == 0.0:  # it is the largest
        return state.remember(smoothness=np.array([mean]))
    return state.remember(smoothness_range=np.array([mean, answers.count * mean]))


def _scheduled(step_size: Callable[[int], float], round: int) -> float:
    value = step_size(round)
    if not _is_positive(value):
        raise OptionError(
            f"the step size schedule gave {value!r} in round {round}; it must give numbers above 0"
        )
    return float(value)


def _is_positive(value: Any) -> bool:
    return is_number(value) and bool(value > 0)


def _check_positive(name: str, value: object, alternatives: str) -> None:
    if not _is_positive(value):
        raise OptionError(f"{name} must be a number above 0, {alternatives}, not {value!r}")
