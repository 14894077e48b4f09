"""Squared error: least squares."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.problem import slopes
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses.loss import EncodedTargets, Loss, Outcome, misfit


@dataclass(frozen=True)
class SquaredError(Loss):
    """(y − z·x)², without ½."""

    name: ClassVar[str] = "squared"
    outcome: ClassVar[Outcome] = "numbers"
    measure: ClassVar[str] = "squared error"
    code: ClassVar[int] = slopes.SQUARED
    is_quadratic: ClassVar[bool] = True
    dispersion: ClassVar[float] = 2.0
    curvature: ClassVar[float] = 2.0

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Any finite numbers will do."""
        if data.targets.dtype.kind not in "fiub":
            raise misfit(data, 0, "the squared loss needs numbers", 'loss="softmax"')
        return EncodedTargets(data.targets.astype(np.float64))

    def slope_bound(self, value: float, *, is_at_zero: bool) -> float:
        """Slopes are 2 (z·x − y), and second derivatives 2."""
        return 2.0 * value
