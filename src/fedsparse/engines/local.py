"""All clients in this process, answered by compiled loops on several threads."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.compute import Clients, open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.engines.checkpoint import fingerprint
from fedsparse.engines.engine import Ask, Engine, check_adds_up, weights_of
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, as_loss
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import FEW_HOLES, holes_of
from fedsparse.requests import Answers, Fields, Request
from fedsparse.requests.answers import RunningSums, counting
from fedsparse.requests.fixed_sums import RunningIntegers

Sums = Literal["float", "fixed"]
"""How clients' answers are added up: as float64, or exactly as integers."""

Told = tuple[Fields, FloatArray]
"""Answers of some clients, and w_i of each."""

_KEPT_BYTES = 2**30
"""Room for rows made ready for lenses; beyond it they are made ready anew in every exchange."""


class LocalEngine(Engine):
    """Answers requests on data in memory.

    Parameters
    ----------
    data, loss
        The problem.
    threads
        How many clients are worked on at a time, all cores by default; results do not depend on it.
    sums
        ``"fixed"`` adds up integers instead of float64, as sites on a network do under masks, to
        the same bits. What would single a client out is then refused here, too.
    few_holes
        Fewer missing values of a feature than this are filled by a client with its own mean.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> engine = LocalEngine(data, "squared")
    >>> (answers,) = engine.exchange([engine.ask(fs.Gradient(np.zeros(1)))])
    >>> answers.mean("gradient")
    array([-6.])
    """

    can_pool = True

    def __init__(
        self,
        data: FederatedData,
        loss: str | Loss = "squared",
        threads: int | None = None,
        sums: Sums = "float",
        few_holes: int = FEW_HOLES,
    ) -> None:
        self._data = data
        self._few_holes = few_holes
        self._shown: dict[Rows, int] = {}
        self.can_single_out = sums == "float"
        self._workers = Workers(available_threads() if threads is None else threads)
        self._prepared: dict[str, PreparedRows] = {}
        self._classes: dict[type[Loss], AnyArray | None] = {}
        self.lens = Lens(as_loss(loss))
        self.names = data.names
        self.width = data.width
        self.is_sparse = data.is_sparse
        self.has_holes = data.has_holes
        self.classes  # noqa: B018 - refuses targets that do not suit the loss

    @property
    def classes(self) -> AnyArray | None:
        """The classes that labels stand for, None for regression."""
        kind = type(self.lens.loss)
        if kind not in self._classes:
            self._classes[kind] = self.lens.loss.encode(self._data).classes
        return self._classes[kind]

    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """Answer all the asks, those of a lens one after the other."""
        answers: dict[int, Answers] = {}
        for prepared, own in self.by_lens(asks):
            told = self.answer_all(prepared, [asks[place] for place in own])
            answers |= dict(zip(own, told, strict=True))
        return [answers[place] for place in range(len(asks))]

    def answer_all(self, prepared: "PreparedRows", asks: Sequence[Ask]) -> list[Answers]:
        """Answer asks through one lens, one after the other."""
        return [self._answer(prepared, ask) for ask in asks]

    def _answer(self, prepared: "PreparedRows", ask: Ask) -> Answers:
        began = time.perf_counter()
        running = self.running_sums(ask, len(self.names))
        told = prepared.told(ask)
        if told is not None:
            fields, weights = told
            running.add(fields, counting(weights))
        return replace(running.answers(), seconds=time.perf_counter() - began)

    def by_lens(self, asks: Sequence[Ask]) -> Iterator[tuple["PreparedRows", list[int]]]:
        """Rows made ready for each lens, and the places of the asks that are about them."""
        self.make_room({ask.lens.digest for ask in asks})
        for digest in dict.fromkeys(ask.lens.digest for ask in asks):
            own = [place for place, ask in enumerate(asks) if ask.lens.digest == digest]
            yield self._look(asks[own[0]].lens), own

    def running_sums(self, ask: Ask, clients: int) -> RunningSums | RunningIntegers:
        """Nothing yet, to add up answers in.

        Parameters
        ----------
        ask
            What is answered.
        clients
            How many there are, here and elsewhere.
        """
        if self.can_single_out:
            return RunningSums()
        check_adds_up(ask)
        is_scaled = ask.lens.scaling is not None
        return RunningIntegers(ask.request, self.through(ask.lens).shape, is_scaled, clients)

    def answer_of(
        self, lens: Lens, request: Request, fewest: int = 1
    ) -> tuple[Fields, float] | None:
        """What the only client answers, and what its rows weigh; None if the lens shows too few."""
        prepared = self._look(lens)
        if prepared.clients is None or prepared.clients.data.samples < fewest:
            return None
        return request.answer(prepared.clients, np.zeros(1, dtype=np.int64)), prepared.masses[0]

    def clients_through(self, lens: Lens) -> Clients | None:
        """Those whose rows a lens shows; None if it shows none."""
        return self._look(lens).clients

    def rows_shown(self, lens: Lens) -> int:
        """How many rows a lens shows."""
        if lens.rows not in self._shown:
            self._shown[lens.rows] = int(lens.rows.mask(self._data).sum())
        return self._shown[lens.rows]

    def fingerprint(self) -> str:
        """A digest of all rows."""
        return fingerprint(self._data)

    def close(self) -> None:
        """End the threads."""
        self._workers.close()

    def _look(self, lens: Lens) -> "PreparedRows":
        """Rows made ready for a lens, kept as long as there is room."""
        found = self._prepared.get(lens.digest)
        if found is None:
            found = prepare_rows(self._data, lens, self._workers, self._few_holes)
            kept = sum(other.bytes for other in self._prepared.values())
            is_shared = found.clients is None or found.clients.data.features is self._data.features
            if is_shared or kept + found.bytes <= _KEPT_BYTES:
                self._prepared[lens.digest] = found
        return found

    def make_room(self, wanted: set[str]) -> None:
        """Forget lenses that are not asked about any more, once there are many."""
        if sum(other.bytes for other in self._prepared.values()) > _KEPT_BYTES / 2:
            for digest in self._prepared.keys() - wanted:
                del self._prepared[digest]


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Rows as a lens shows them.

    Attributes
    ----------
    clients
        Those that have some of the rows; None if nobody has.
    places
        Where they stand in the federation.
    masses
        What their rows weigh.
    bytes
        Memory of their rows.
    """

    clients: Clients | None
    places: Int64Array
    masses: FloatArray
    bytes: int

    def told(self, ask: Ask) -> Told | None:
        """Answers of the clients asked that have rows to answer on, and w_i; None: nobody has."""
        own = self.asked(ask)
        if self.clients is None or own.size == 0:
            return None
        with np.errstate(all="ignore"):  # who asked looks for what is not finite
            fields = ask.request.answer(self.clients, own)
        return fields, self.weights(ask, own)

    def weights(self, ask: Ask, own: Int64Array) -> FloatArray:
        """w_i of some clients."""
        return weights_of(ask.weights, self.masses[own], self.places[own])

    def asked(self, ask: Ask) -> Int64Array:
        """Places, among those with rows, of the clients asked."""
        every = np.arange(self.places.size)
        return every if ask.which is None else every[np.isin(self.places, ask.which)]


def prepare_rows(data: FederatedData, lens: Lens, workers: Workers, few_holes: int) -> PreparedRows:
    """Rows of some clients as a lens shows them."""
    chosen, places = lens.rows.of(data)
    if places.size == 0:
        return PreparedRows(None, places, np.empty(0), 0)
    if lens.is_pooled:
        chosen, places = chosen.pooled(), np.zeros(1, dtype=np.int64)
    if lens.scaling is not None:
        if lens.scaling.mean.size != data.width:
            raise OptionError(
                f"the lens scales {lens.scaling.mean.size} features, but there are {data.width}"
            )
        holes = holes_of(data) if lens.rows.cuts and lens.scaling.fill is not None else None
        chosen = lens.scaling.scaled(chosen, few_holes, None if holes is None else holes[places])
    clients = open_clients(chosen, lens.loss, workers)
    return PreparedRows(clients, places, chosen.masses, chosen.bytes)
