"""Cox's partial likelihood: times until an event, some of them cut short."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses.loss import (
    AtScores,
    EncodedTargets,
    Link,
    Loss,
    Outcome,
    first_of,
    target_misfit,
)
from fedsparse.problem.risk_sets import chances_open, latest_first, partial_likelihood, risk_means

Ties = Literal["efron", "breslow"]
"""How events at the same time are counted."""


@dataclass(frozen=True)
class Cox(Loss):
    """Minus the log partial likelihood over the number of rows, every client a stratum of its own.

    Clients have baseline hazards of their own, so no risk set reaches beyond one of them. A target
    is a signed time: t where the event was seen at t, −t where observation ended at t without it.
    There is no intercept: the baseline hazard has it.

    Parameters
    ----------
    l2
        λ, the weight of (λ/2)‖x‖².
    ties
        ``"efron"`` or ``"breslow"``.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.problem.losses import Cox
    >>> rows = [[1.0], [0.0], [1.0], [0.0]]
    >>> data = fs.FederatedData.from_clients([(rows, [3.0, 5.0, -4.0, 2.0])])
    >>> fs.run(fs.FedSplice(1), data, loss=Cox()).coef.round(4)
    array([-0.3466])
    """

    ties: Ties = "efron"

    name: ClassVar[str] = "cox"
    outcome: ClassVar[Outcome] = "survival"
    measure: ClassVar[str] = "minus the log partial likelihood"
    link: ClassVar[Link] = "log"
    ratio: ClassVar[str | None] = "hazard ratio"
    is_by_row: ClassVar[bool] = False
    has_intercept: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ties not in ("efron", "breslow"):
            raise OptionError(f'ties must be "efron" or "breslow", not {self.ties!r}')

    def encode(self, data: FederatedData) -> EncodedTargets:
        """Signed times are not 0; rows all count the same."""
        encoded = super().encode(data)
        row = first_of(encoded.values == 0)
        if row is not None:
            raise target_misfit(data, row, "times until an event are above 0; correct it")
        weights = data.row_weights
        if weights is not None and np.ptp(weights):
            raise DataError("rows of survival data all count the same; leave row weights out")
        return encoded

    def check_together(self, data: FederatedData) -> None:
        """Somebody must have had an event."""
        if not np.any(data.targets > 0):
            raise DataError("no row has an event; there is nothing to learn from times alone")

    def at_scores(self, scores: FloatArray, targets: FloatArray) -> AtScores:
        """Of the log partial likelihood, each event being its own row's."""
        times = np.ascontiguousarray(targets[:, 0])
        scores = np.ascontiguousarray(scores)
        return AtScores(
            *partial_likelihood(times, scores, latest_first(times), self.ties == "efron")
        )

    def drawn(self, scores: FloatArray, targets: FloatArray, rows: FloatArray) -> FloatArray:
        """Means of risk sets."""
        times = np.ascontiguousarray(targets[:, 0])
        order = latest_first(times)
        scores, rows = np.ascontiguousarray(scores), np.ascontiguousarray(rows)
        return risk_means(times, scores, order, self.ties == "efron", rows)

    def own_curvatures(self, scores: FloatArray, targets: FloatArray) -> FloatArray:
        """Σ p (1 − p) over events, with a row's chance p of being the one; none where it is sure.

        A row that is far above all others at risk has every event for sure. It has a share in the
        slope then, and nothing but its order among the others is in it.
        """
        times = np.ascontiguousarray(targets[:, 0])
        return chances_open(times, np.ascontiguousarray(scores))

    def rows_with_part(self, targets: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Events at which others were at risk, too, and rows that were at risk at such events."""
        times = np.abs(targets[:, 0])
        at_risk = times.size - np.searchsorted(np.sort(times), times)
        is_loss = (targets[:, 0] > 0) & (at_risk > 1)
        first = times[is_loss].min(initial=np.inf)
        return is_loss, times >= first

    def value_of_guessing(self, targets: FloatArray) -> float:
        """That of scores that are all the same; infinite without an event."""
        if not np.any(targets[:, 0] > 0):
            return math.inf
        found = self.at_scores(np.zeros(targets.shape[0]), targets)
        return float(found.losses.mean())
