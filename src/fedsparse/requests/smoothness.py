"""How steep clients' objectives can get: the mean of l_i, then how many lie above thresholds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import DenseStack
from fedsparse.requests.request import Fields, Request, Shapes, Weights

THRESHOLDS = 256
"""How many there are: for 100 clients the largest l_i is known within 2 %."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Smoothness(Request):
    """Ask for the smoothness constant l_i of f_i."""

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number."""
        return {"smoothness": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``smoothness`` of each client."""
        return {"smoothness": smoothness_of(clients, which)}


@dataclass(frozen=True)
class SmoothnessAbove(Request):
    """Ask which of `thresholds` l_i lies above, 0 or 1 for each: counts add up, maxima do not.

    Parameters
    ----------
    lowest, highest
        The mean of all l_i, and that times the number of clients: the largest lies between.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    lowest: float
    highest: float

    def thresholds(self) -> FloatArray:
        """Log-spaced numbers, the last one above every l_i whatever the rounding.

        Examples
        --------
        >>> SmoothnessAbove(1.0, 100.0).thresholds()[:3].round(3)
        array([1.   , 1.018, 1.037])
        """
        spaced = np.geomspace(self.lowest, self.highest, THRESHOLDS)
        return np.asarray(spaced * (1.0 + _ROUNDING))

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector of zeros and ones."""
        return {"above": (THRESHOLDS,)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``above`` of each client."""
        own = smoothness_of(clients, which)
        above = (own[:, None] > self.thresholds()).astype(np.float64)
        return {"above": DenseStack(above, (THRESHOLDS,))}

    def largest(self, counts: FloatArray) -> float | None:
        """The lowest threshold that no client lies above; None if some lie above all.

        Parameters
        ----------
        counts
            How many clients lie above each threshold.

        Examples
        --------
        >>> request = SmoothnessAbove(1.0, 2.0)
        >>> float(round(request.largest(np.array([1.0] * 128 + [0.0] * 128)), 3))
        1.416
        """
        free = np.flatnonzero(counts == 0)
        return float(self.thresholds()[free[0]]) if free.size else None


def smoothness_of(clients: Clients, which: Int64Array) -> FloatArray:
    """l_i of some clients."""
    eigenvalues = clients.largest_eigenvalues(which)
    return np.array([clients.loss.smoothness(value) for value in eigenvalues])
