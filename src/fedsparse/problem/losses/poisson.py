"""Poisson loss: rates of counts."""

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
    first_of,
    target_misfit,
)


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the deviance of rates: μ − y log μ − (y − y log y), with log μ = z·x.

    A target is a rate y, the count over the exposure, and its row weighs by the exposure. So
    Σ weight · loss is, but for what no x changes, minus the log-likelihood of the counts.

    Examples
    --------
    Two events in one year, and one in two years, at a rate of 1 a year.

    >>> import fedsparse as fs
    >>> from fedsparse.problem.losses import Poisson
    >>> table = fs.FederatedData.from_table([[1.0], [1.0]], [2.0, 0.5], ["a", "a"], [1.0, 2.0])
    >>> fs.run(fs.FedSplice(1), table, loss=Poisson()).coef.round(6) + 0.0
    array([0.])
    """

    name: ClassVar[str] = "poisson"
    outcome: ClassVar[Outcome] = "counts"
    measure: ClassVar[str] = "half the deviance"
    is_mean_over: ClassVar[str] = "unit of exposure"
    link: ClassVar[Link] = "log"
    ratio: ClassVar[str | None] = "rate ratio"
    has_exact_fit: ClassVar[bool] = True
    code: ClassVar[int] = slopes.POISSON

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Rates are numbers ≥ 0."""
        encoded = super().encode(data)
        row = first_of(encoded.values < 0)
        if row is not None:
            raise target_misfit(data, row, "counts and rates are not below 0; correct it")
        return encoded

    def own_curvatures(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """None beyond the largest rate, where a loss goes on as a straight line.

        Rows there have the same slope whatever their scores, and only tell on which side they are.
        """
        is_straight = scores > slopes.LARGEST_LOG_RATE
        return np.where(is_straight, 0.0, self.at_scores(scores, targets).curvatures)

    def check_together(self, data: FederatedData) -> None:
        """Something must have been counted."""
        if not np.any(data.targets):
            raise DataError("all counts are 0; there is nothing to learn from them")
