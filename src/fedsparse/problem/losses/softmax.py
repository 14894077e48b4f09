"""Softmax loss: several classes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.errors import DataError
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
class Softmax(Loss):
    """Cross-entropy over c classes; coefficients are a (d, c) matrix."""

    l2: float = 1e-4

    name: ClassVar[str] = "softmax"
    outcome: ClassVar[Outcome] = "classes"
    measure: ClassVar[str] = "log-loss"
    link: ClassVar[Link] = "logit"
    ratio: ClassVar[str | None] = "odds ratio"
    code: ClassVar[int] = slopes.SOFTMAX
    is_by_class: ClassVar[bool] = True
    curvature: ClassVar[float] = 0.5

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Labels of any kind become 0 … c−1 in sorted order; a client may lack some classes."""
        labels = data.targets
        if labels.dtype.kind == "f" and (labels != np.round(labels)).any():
            row = first_of(labels != np.round(labels))
            raise misfit(data, row, "the softmax loss needs class labels", 'loss="squared"')
        classes = np.unique(labels if data.all_targets is None else data.all_targets)
        codes = np.searchsorted(classes, labels)
        if classes.size < 2:
            raise DataError(
                f"all rows have the same label, {classes[0]}; the softmax loss needs two classes"
            )
        return EncodedTargets(codes.astype(np.float64), classes)

    def value_of_guessing(self, targets: FloatArray) -> float:
        """The guess are the shares of the classes."""
        return entropy_of_shares(targets)

    def value_at_zero(self, classes: int) -> float:
        """All classes are equally likely there."""
        return math.log(classes)
