"""How predicted probabilities and classes go together on a client's rows, as counts in bins."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import DenseStack
from fedsparse.requests.judged import compared, scores_of
from fedsparse.requests.request import Fields, Request, Shapes, Weights

_RARE = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05)
EDGES: tuple[float, ...] = (
    *_RARE,
    *(round(0.05 * step, 2) for step in range(2, 19)),
    *(1.0 - edge for edge in reversed(_RARE)),
)
"""Probabilities between which rows are counted: closer where classes are rare."""

BINS = len(EDGES) + 2
"""One more than there are edges, the threshold among these."""


def edges_with(threshold: float) -> FloatArray:
    """The edges with a user's threshold among them.

    Examples
    --------
    >>> edges_with(0.3).size == BINS - 1
    True
    """
    return np.sort(np.array([*EDGES, threshold]))


@dataclass(frozen=True)
class ScoreCounts(Request):
    """Ask how many rows of each class have which predicted probability, in coarse bins.

    Of two classes the second is told from the first, of several each from all others. Curves and
    figures at a threshold are read off the sums; no score leaves a client.

    Parameters
    ----------
    x
        The model.
    threshold
        An edge between bins beside the fixed ones.
    fewest
        Rows that a bin has at least: fewer are counted with their neighbours on the same side of
        the threshold. 1 where only sums over clients are seen. How many rows of each class lie on
        either side is told as `Judge` tells it, or figures at the threshold would be wrong.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[-2.0], [0.1], [3.0]], [0, 1, 1])])
    >>> engine = fs.LocalEngine(data, "logistic")
    >>> (told,) = engine.exchange([engine.ask(ScoreCounts(np.array([1.0])))])
    >>> told.total("counts").reshape(BINS, 2).sum(axis=0)  # of the first class, and the second
    array([1., 2.])
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray
    threshold: float = 0.5
    fewest: int = 1

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """By class that is told from others, bin, and whether a row is of the class; flattened."""
        return {"counts": ((shape[1] if len(shape) > 1 else 1) * BINS * 2,)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``counts`` of each client."""
        found = np.array([self._of_one(clients, int(place)) for place in which])
        return {"counts": DenseStack(found, found[0].shape)}

    def _of_one(self, clients: Clients, client: int) -> FloatArray:
        if clients.classes is None:
            return np.zeros(self.answer_shapes(self.x.shape)["counts"] or ())
        codes = clients.targets_of(client)[:, 0].astype(np.int64)
        edges = edges_with(self.threshold)
        first_above = int(np.searchsorted(edges, self.threshold, side="right"))
        counted: list[np.ndarray] = []
        for label, odds in compared(scores_of(self.x, clients, client)):
            bins = np.searchsorted(edges, expit(odds), side="right")
            counts = np.bincount(2 * bins + (codes == label), minlength=2 * BINS)
            sides = np.split(counts.reshape(BINS, 2).astype(np.float64), [first_above])
            counted.extend(joined(side, self.fewest) for side in sides)
        return np.concatenate(counted, axis=None)


def joined(counts: FloatArray, fewest: int) -> FloatArray:
    """The same rows in bins of so many or of none; those of a group are counted in its middle one.

    Examples
    --------
    >>> joined(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]]), 4).sum(axis=1)
    array([0., 0., 7., 0.])
    >>> joined(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [0.0, 4.0]]), 3).sum(axis=1)
    array([0., 3., 0., 6.])
    """
    if fewest <= 1:
        return counts
    found = np.zeros_like(counts)
    for group in groups_of(counts.sum(axis=1), fewest):
        rows = counts[group].sum(axis=1)
        middle = int(np.searchsorted(np.cumsum(rows), rows.sum() / 2.0))
        found[group.start + middle] += counts[group].sum(axis=0)
    return found


def groups_of(rows: FloatArray, fewest: int) -> list[slice]:
    """Neighbouring bins that have so many rows together, from below; the rest joins the last.

    Examples
    --------
    >>> groups_of(np.array([3.0, 0.0, 4.0, 1.0]), 3)
    [slice(0, 1, None), slice(1, 4, None)]
    """
    ends, there = [], 0.0
    for place, own in enumerate(rows):
        there += own
        if there >= fewest:
            ends.append(place + 1)
            there = 0.0
    ends = [*ends[:-1], rows.size]
    return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
