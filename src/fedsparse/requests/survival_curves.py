"""Survival by time and by risk, as counts over coarse bins of time that speak of many rows."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import DenseStack
from fedsparse.errors import OptionError
from fedsparse.requests.request import Fields, Request, Shapes, Weights

GROUPS = 3
"""Of rows: those of low, of middle and of high risk."""

_MOST_BINS = 12


@dataclass(frozen=True)
class SurvivalMoments(Request):
    """Ask for sums of scores and of times, by which risks and times are cut into groups.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[2.0], [0.0]], [1.0, -2.0])])
    >>> engine = fs.LocalEngine(data, "cox")
    >>> (told,) = engine.exchange([engine.ask(SurvivalMoments(np.ones(1)))])
    >>> told.total("sums").tolist()
    [2.0, 2.0, 4.0, 3.0]
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """Four numbers."""
        return {"sums": (4,)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Rows, scores, squared scores and times of each client, added up."""
        found = []
        for place in which:
            scores = clients.scores(self.x, int(place))
            times = np.abs(clients.targets_of(int(place))[:, 0])
            found.append([float(times.size), scores.sum(), np.sum(scores**2), times.sum()])
        return {"sums": DenseStack(np.array(found), (4,))}


@dataclass(frozen=True)
class SurvivalCounts(Request):
    """Ask how many rows of low, middle and high risk had an event, or left, in each bin of time.

    What fewer rows have is told with the next bin, see `in_company`: a count is 0 or at least
    ``fewest``. ``hazards`` are Σ exp(score) · (time spent in the bin) over the rows that reach it,
    as if who left in a bin had been there for half of it, so that no time is in them. Bins in which
    fewer than ``fewest`` rows leave are told as the mean of a stretch in which so many do; after
    the last such stretch they are 0.

    Parameters
    ----------
    low, high
        Scores between which risks are middling.
    width, bins
        Of time; the last bin has no end. Widths are 1, 2 or 5 times a power of ten, and bins 12 at
        most: who could move their ends at will would read times off counts.
    fewest
        Rows that anything told speaks of.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[2.0], [0.0], [0.0]], [1.0, -2.0, 12.0])])
    >>> engine = fs.LocalEngine(data, "cox")
    >>> asked = SurvivalCounts(np.ones(1), 0.5, 1.5, width=5.0, bins=2, fewest=1)
    >>> (told,) = engine.exchange([engine.ask(asked)])
    >>> told.total("events").reshape(3, 2).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray
    low: float
    high: float
    width: float
    bins: int
    fewest: int

    def __post_init__(self) -> None:
        if not (self.width > 0 and 1 <= self.bins <= _MOST_BINS and self.fewest >= 1):
            raise OptionError(f"survival is told in 1 to {_MOST_BINS} bins of a width above 0")
        if self.width != readable_width(self.width):
            raise OptionError("bins of time are 1, 2 or 5 times a power of ten wide")

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """Counts by group and bin, and hazards by bin."""
        cells = (GROUPS * self.bins,)
        return {"events": cells, "censored": cells, "hazards": (self.bins,)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``events``, ``censored`` and ``hazards`` of each client."""
        found = [self._of_one(clients, int(place)) for place in which]
        shapes = self.answer_shapes(clients.shape)
        return {
            name: DenseStack(np.array([own[name] for own in found]), shape or ())
            for name, shape in shapes.items()
        }

    def _of_one(self, clients: Clients, client: int) -> dict[str, FloatArray]:
        signed = clients.targets_of(client)[:, 0]
        scores = clients.scores(self.x, client)
        groups = np.digitize(scores, [self.low, self.high])
        bins = self.bins_of(signed)
        counts = {}
        for name, is_meant in (("events", signed > 0), ("censored", signed < 0)):
            cells = groups[is_meant] * self.bins + bins[is_meant]
            table = np.bincount(cells, minlength=GROUPS * self.bins).reshape(GROUPS, self.bins)
            counts[name] = np.concatenate([in_company(own, self.fewest) for own in table])
        return {**counts, "hazards": self._hazards(scores, bins)}

    def bins_of(self, signed_times: FloatArray) -> Int64Array:
        """The bin in which each row has its event, or leaves."""
        return np.minimum(np.abs(signed_times) // self.width, self.bins - 1).astype(np.int64)

    def stretches(self, bins: Int64Array) -> Int64Array:
        """Ends of stretches of bins, in each of which ``fewest`` rows leave."""
        leaving = np.bincount(bins, minlength=self.bins)
        return np.flatnonzero(in_company(leaving, self.fewest, to_last=False)) + 1

    def _hazards(self, scores: FloatArray, bins: Int64Array) -> FloatArray:
        with np.errstate(over="ignore"):  # at an x that no model has; who asked looks for that
            risks = np.exp(scores)
        leaving = np.bincount(bins, weights=risks, minlength=self.bins)
        staying = np.append(np.cumsum(leaving[::-1])[::-1][1:], 0.0)
        spent = self.width * (staying + leaving / 2.0)
        hazards, begin = np.zeros(self.bins), 0
        for end in self.stretches(bins):
            hazards[begin:end] = spent[begin:end].mean()
            begin = end
        return hazards


def readable_width(width: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> readable_width(3.2), readable_width(170.0)
    (5.0, 200.0)
    """
    power = math.floor(math.log10(width))
    # As the decimal number reads, so that a width that was rounded once stays as it is.
    steps = [float(f"{step}e{power}") for step in (1, 2, 5, 10)]
    return next((step for step in steps if step >= width), steps[-1])


def in_company(counts: FloatArray | Int64Array, fewest: int, *, to_last: bool = True) -> FloatArray:
    """Counts with what fewer rows have moved to the next, so that each is 0 or large enough.

    What is left at the end goes to the last that is told, or is not told; if there is none, nothing
    is told.

    Examples
    --------
    >>> in_company(np.array([2, 1, 4, 0, 6, 1]), fewest=5).tolist()
    [0.0, 0.0, 7.0, 0.0, 7.0, 0.0]
    >>> in_company(np.array([2, 1]), fewest=5).tolist()
    [0.0, 0.0]
    """
    told = np.zeros(len(counts))
    waiting, last = 0.0, None
    for place, count in enumerate(counts):
        waiting += float(count)
        if waiting >= fewest:
            told[place], waiting, last = waiting, 0.0, place
    if last is not None and to_last:
        told[last] += waiting
    return told
