"""The only door to rows: an engine carries asks to clients and sums back."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.problem.losses import coefficient_shape
from fedsparse.problem.rows import Rows
from fedsparse.requests import Answers, Request, Weights

FEWEST_IN_A_SUM = 3
"""Fewest clients whose sum hides each of them: of two, each knows the other's answer."""


@dataclass(frozen=True, eq=False)
class Ask:
    """One question to clients.

    Attributes
    ----------
    lens
        Which rows it is about, and how they are looked at.
    request
        What is asked.
    weights
        w_i of the sums: ``"samples"`` (what a client's rows weigh), ``"uniform"``, or one number
        per client.
    which
        Places of the clients asked; None: all.
    """

    lens: Lens
    request: Request
    weights: Weights = "uniform"
    which: Int64Array | None = None


class Engine(ABC):
    """Carries asks to clients, and sums of their answers back.

    Attributes
    ----------
    lens
        How its clients look at their rows; `where` and `through` give the same engine with another.
    names
        Of the clients, in order.
    width
        d, features before scaling.
    classes
        The classes that labels stand for, None for regression.
    is_sparse
        Whether rows are stored as CSR.
    has_holes
        Whether values may be missing, to be filled by a lens.
    can_pool
        Whether rows lie in one place, so that a lens may pool them.
    can_single_out
        Whether sums may be asked for that tell one client's answers: over that client alone, or
        over all and over all but it.
    """

    lens: Lens
    names: tuple[str, ...]
    width: int
    is_sparse: bool
    has_holes: bool = False
    can_pool: bool = False
    can_single_out: bool = True

    @property
    @abstractmethod
    def classes(self) -> AnyArray | None:
        """The classes that labels stand for, None for regression."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the coefficients, (d,) or (d, c)."""
        scaling = self.lens.scaling
        columns = self.width if scaling is None else scaling.columns
        return coefficient_shape(columns, self.classes, self.lens.loss)

    def where(self, rows: Rows) -> "Engine":
        """An engine on some of the rows, not scaled.

        Examples
        --------
        >>> import fedsparse as fs
        >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
        >>> engine = fs.LocalEngine(data).where(fs.Rows().without(1))
        >>> fs.run(fs.FedAvg(local_steps=2), engine, rounds=50).coef.round(6)
        array([2.])
        """
        return self.through(replace(self.lens, rows=rows, scaling=None))

    def through(self, lens: Lens) -> "Engine":
        """The same clients through another lens."""
        other = copy(self)
        other.lens = lens
        return other

    def ask(
        self,
        request: Request,
        weights: Weights = "uniform",
        which: Int64Array | None = None,
    ) -> Ask:
        """A question to this engine's clients, for a conversation to yield."""
        own = request.weights
        return Ask(self.lens, request, weights if own is None else own, which)

    @abstractmethod
    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """One message to every client with all the asks, and the sums of what came back."""

    @abstractmethod
    def fingerprint(self) -> str:
        """What tells the clients' data from others, for a run that goes on later."""

    @abstractmethod
    def close(self) -> None:
        """Let go of threads and connections."""


def check_adds_up(ask: Ask) -> None:
    """Refuse what would single a client out where only sums may be told."""
    name = type(ask.request).__name__
    if not isinstance(ask.weights, str):
        raise OptionError(
            "weights of single clients would single them out of a sum; use weights='samples' or "
            "'uniform', or open sums"
        )
    if ask.which is not None and ask.which.size < FEWEST_IN_A_SUM:
        raise OptionError(
            f"{name} is asked of {ask.which.size} of the clients, and a sum over fewer than "
            f"{FEWEST_IN_A_SUM} hides none of them; use another method, or open sums"
        )


def weights_of(weights: Weights, masses: FloatArray, places: Int64Array) -> FloatArray:
    """w_i of the clients at some places.

    Parameters
    ----------
    weights
        As in `Ask`.
    masses
        What the rows of these clients weigh.
    places
        Where they stand in the federation.

    Examples
    --------
    >>> weights_of("samples", np.array([5.0, 8.0]), np.array([0, 2]))
    array([5., 8.])
    >>> weights_of([0.5, 0.2, 0.3], np.array([5.0, 8.0]), np.array([0, 2]))
    array([0.5, 0.3])
    """
    if isinstance(weights, str):
        return np.ones(places.size) if weights == "uniform" else masses
    return np.asarray(weights, dtype=np.float64)[places]
