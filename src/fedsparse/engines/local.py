"""All clients in this process, answered by compiled loops on several threads."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int64Array
from fedsparse.compute import Clients, open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.engines.checkpoint import fingerprint
from fedsparse.engines.engine import Ask, Engine, weights_of
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, as_loss
from fedsparse.requests import Answers, Fields, Request

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
        self, data: FederatedData, loss: str | Loss = "squared", threads: int | None = None
    ) -> None:
        self._data = data
        self._workers = Workers(available_threads() if threads is None else threads)
        self._prepared: dict[str, PreparedRows] = {}
        self._classes: dict[type[Loss], AnyArray | None] = {}
        self.lens = Lens(as_loss(loss))
        self.names = data.names
        self.width = data.width
        self.is_sparse = data.is_sparse
        self.has_holes = _has_holes(data)
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
        self.make_room({ask.lens.digest for ask in asks})
        answers: dict[int, Answers] = {}
        for digest in dict.fromkeys(ask.lens.digest for ask in asks):
            own = [place for place, ask in enumerate(asks) if ask.lens.digest == digest]
            prepared = self._look(asks[own[0]].lens)
            answers |= {place: prepared.answer(asks[place]) for place in own}
        return [answers[place] for place in range(len(asks))]

    def answer_of(
        self, lens: Lens, request: Request, fewest: int = 1
    ) -> tuple[Fields, float] | None:
        """What the only client answers, and what its rows weigh; None if the lens shows too few."""
        prepared = self._look(lens)
        if prepared.clients is None or prepared.clients.data.samples < fewest:
            return None
        return request.answer(prepared.clients, np.zeros(1, dtype=np.int64)), prepared.masses[0]

    def standing_out(self, fill: FloatArray, fewest: int) -> Int64Array:
        """Features of which a few holes would get a value far from all that are known."""
        features = self._data.features
        if isinstance(features, sparse.csr_array) or fill.size != self.width:
            return np.empty(0, dtype=np.int64)
        is_missing = np.isnan(features)
        holes = is_missing.sum(axis=0)
        few = np.flatnonzero((holes > 0) & (holes < fewest) & (holes < features.shape[0]))
        if few.size == 0:
            return few
        known = features[:, few]
        low, high = np.nanmin(known, axis=0), np.nanmax(known, axis=0)
        # Shares of a level lie between 0 and 1, whichever of the two a site has.
        is_share = np.isin(low, (0.0, 1.0)) & np.isin(high, (0.0, 1.0))
        reach = np.where(is_share, 1.0, high - low)
        is_far: BoolArray = (fill[few] < low - reach) | (fill[few] > high + reach)
        return np.compress(is_far, few)

    def rows_shown(self, lens: Lens) -> int:
        """How many rows a lens shows."""
        return int(lens.rows.mask(self._data).sum())

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
            found = prepare_rows(self._data, lens, self._workers)
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

    def answer(self, ask: Ask) -> Answers:
        """Sums over the clients that have rows to answer on."""
        began = time.perf_counter()
        own = np.arange(self.places.size)
        if ask.which is not None:
            own = own[np.isin(self.places, ask.which)]
        if self.clients is None or own.size == 0:
            return Answers({}, 0.0, 0, 0)
        weights = weights_of(ask.weights, self.masses[own], self.places[own])
        with np.errstate(all="ignore"):  # who asked looks for what is not finite
            fields = ask.request.answer(self.clients, own)
            return Answers.of(fields, weights, seconds=time.perf_counter() - began)


def prepare_rows(data: FederatedData, lens: Lens, workers: Workers) -> PreparedRows:
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
        chosen = lens.scaling.scaled(chosen)
    clients = open_clients(chosen, lens.loss, workers)
    return PreparedRows(clients, places, chosen.masses, _bytes_of(chosen))


def _has_holes(data: FederatedData) -> bool:
    features = data.features
    return not isinstance(features, sparse.csr_array) and bool(np.isnan(features).any())


def _bytes_of(data: FederatedData) -> int:
    features = data.features
    if isinstance(features, sparse.csr_array):
        return int(features.data.nbytes + features.indices.nbytes + features.indptr.nbytes)
    return int(features.nbytes)
