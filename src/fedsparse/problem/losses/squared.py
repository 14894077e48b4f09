"""Squared error: least squares."""

from dataclasses import dataclass
from typing import ClassVar

from fedsparse.problem import slopes
from fedsparse.problem.losses.loss import Loss, Outcome


@dataclass(frozen=True)
class SquaredError(Loss):
    """(y − z·x)², without ½."""

    name: ClassVar[str] = "squared"
    outcome: ClassVar[Outcome] = "numbers"
    measure: ClassVar[str] = "squared error"
    precision: ClassVar[float] = 0.01
    code: ClassVar[int] = slopes.SQUARED
    is_quadratic: ClassVar[bool] = True
    has_exact_fit: ClassVar[bool] = True
    dispersion: ClassVar[float] = 2.0
    curvature: ClassVar[float] = 2.0

    def slope_bound(self, value: float, *, is_at_zero: bool) -> float:
        """Slopes are 2 (z·x − y), and second derivatives 2."""
        return 2.0 * value
