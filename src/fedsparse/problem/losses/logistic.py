"""Logistic loss: two classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.problem import slopes
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses.loss import (
    EncodedTargets,
    Link,
    Loss,
    Outcome,
    entropy_of_shares,
    first_of,
    misfit,
)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + e^{z·x}) − y z·x for labels 0 and 1; −1 and +1 are accepted too."""

    l2: float = 1e-4

    name: ClassVar[str] = "logistic"
    outcome: ClassVar[Outcome] = "classes"
    measure: ClassVar[str] = "log-loss"
    link: ClassVar[Link] = "logit"
    ratio: ClassVar[str | None] = "odds ratio"
    code: ClassVar[int] = slopes.LOGISTIC
    curvature: ClassVar[float] = 0.25

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Labels become 0 and 1."""
        labels = data.targets
        if labels.dtype.kind not in "fiub":
            raise misfit(data, 0, "the logistic loss needs labels 0/1 or −1/+1", 'loss="softmax"')
        values = labels.astype(np.float64)
        everyone = values if data.all_targets is None else data.all_targets
        if np.isin(everyone, (0, 1)).all():
            return EncodedTargets(values, np.array([0, 1]))
        if np.isin(everyone, (-1, 1)).all():
            return EncodedTargets((values + 1.0) / 2.0, np.array([-1, 1]))
        row = first_of(~np.isin(values, (-1.0, 0.0, 1.0)))
        if row is None:  # −1, 0 and 1 together
            row = int(np.flatnonzero(values == -1.0)[0])
        raise misfit(data, row, "the logistic loss needs labels 0/1 or −1/+1", 'loss="softmax"')

    def value_of_guessing(self, targets: FloatArray) -> float:
        """The guess are the shares of the classes."""
        return entropy_of_shares(targets)

    def value_at_zero(self, classes: int) -> float:
        """Both classes are equally likely there."""
        return math.log(2.0)

    def slope_bound(self, value: float, *, is_at_zero: bool) -> float | None:
        """Slopes are ± ½ at x = 0, and second derivatives ¼.

        Elsewhere the second derivative of a row that is wrongly classified vanishes faster than its
        slope.
        """
        return 1.0 if is_at_zero else None
