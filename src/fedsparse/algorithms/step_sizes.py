"""Options that several algorithms share: step sizes and batch sizes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fedsparse.checks import check_count, is_number
from fedsparse.errors import OptionError

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


def batch_size_in(batch_size: BatchSize, round: int) -> int | None:
    """Rows of a mini-batch in a round, None for all."""
    return batch_size.size(round) if isinstance(batch_size, GrowingBatch) else batch_size


def scheduled(step_size: Callable[[int], float], round: int) -> float:
    """The number a schedule gives for a round."""
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
