"""What a worker of a Ray cluster has and does: some of the clients, and the local engine on them.

Nothing here knows of Ray: a worker can be made and asked in this process.
"""

import os
import platform
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.engines.checkpoint import fingerprint
from fedsparse.engines.engine import Ask
from fedsparse.engines.local import LocalEngine, Sums, Told
from fedsparse.errors import DataError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.requests.answers import RunningSums
from fedsparse.requests.fixed_sums import RunningIntegers

Running = list[RunningSums | RunningIntegers]
"""Sums under way, one for each ask of an exchange."""


@dataclass(frozen=True)
class Shard:
    """Clients whose rows lie in one file.

    Attributes
    ----------
    data
        Their rows.
    columns
        Names of the features, which must be the same in all shards; None: they have none.
    """

    data: FederatedData
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class HeldRows:
    """Clients that were handed over."""

    data: FederatedData

    def shards(self, worker: str) -> list[Shard]:
        """Them, in memory of the worker's own: what Ray hands over cannot be written to."""
        return [Shard(deepcopy(self.data))]

    def shared_out(self, workers: int) -> "list[HeldRows]":
        """Clients one after the other, with about as many rows for each worker."""
        data, shares = self.data, self.data.samples * np.arange(1, workers) / workers
        nearest = [int(np.abs(data.pointer - share).argmin()) for share in shares]
        cuts = np.unique([0, *nearest, len(data)]).tolist()
        parts = [data.between(first, end) for first, end in pairwise(cuts)]
        return [HeldRows(replace(part, all_targets=None)) for part in parts]


@dataclass(frozen=True)
class FileRows:
    """Clients whose rows a worker reads by itself.

    Attributes
    ----------
    paths
        Of its files, as its machine sees them.
    read
        What reads one.
    """

    paths: tuple[Path, ...]
    read: Callable[[Path], Shard]

    def shards(self, worker: str) -> list[Shard]:
        """Of each file, or which worker cannot read which."""
        return [self._shard(path, worker) for path in self.paths]

    def shared_out(self, workers: int) -> "list[FileRows]":
        """Files one after the other, about as many for each worker."""
        ends = np.linspace(0, len(self.paths), min(workers, len(self.paths)) + 1).astype(int)
        parts = [self.paths[first:end] for first, end in pairwise(ends.tolist())]
        return [replace(self, paths=part) for part in parts]

    def _shard(self, path: Path, worker: str) -> Shard:
        try:
            return self.read(path)
        except (ValueError, OSError) as error:
            raise DataError(f"{worker} cannot read the shard {path}: {error}") from None


@dataclass(frozen=True, eq=False)
class Opening:
    """What a worker tells of its clients.

    Attributes
    ----------
    names, width, is_sparse, has_holes, columns
        Of the clients and their features.
    labels
        The targets that occur, where they are labels.
    """

    names: tuple[str, ...]
    width: int
    is_sparse: bool
    has_holes: bool
    columns: tuple[str, ...] | None
    labels: AnyArray | None


@dataclass(frozen=True, eq=False)
class Whole:
    """What all workers have to agree on.

    Attributes
    ----------
    loss
        Of the problem.
    labels
        Targets that occur anywhere, where they are labels: a worker sees some of them only.
    begins
        The place of each worker's first client in the federation, and how many clients there are.
    threads, sums, few_holes
        As for `LocalEngine`.
    """

    loss: Loss
    labels: AnyArray | None
    begins: tuple[int, ...]
    threads: int
    sums: Sums
    few_holes: int


@dataclass(frozen=True, eq=False)
class Exchange:
    """Asks that go out together, and which exchange it is."""

    number: int
    asks: tuple[Ask, ...]


@dataclass(frozen=True)
class WorkerState:
    """How a worker is.

    Attributes
    ----------
    node, process
        Where it runs: the machine's name and the number of the process there.
    clients, rows
        What it has.
    memory
        Bytes that it holds; 0 where the system does not tell.
    most_memory
        Bytes that it held at most.
    processor_seconds
        For how long its threads have computed, all together.
    """

    node: str
    process: int
    clients: int
    rows: int
    memory: int
    most_memory: int
    processor_seconds: float


class RayWorker:
    """Some of the clients, one after the other, as a part of a federation.

    Parameters
    ----------
    number, of
        Which worker this is, from 0, of how many.
    rows
        Where its clients' rows are.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> workers = [RayWorker(n, 2, HeldRows(data.between(n, n + 1))) for n in range(2)]
    >>> whole = Whole(fs.SquaredError(), None, (0, 1, 2), 1, "float", 5)
    >>> exchange = Exchange(1, (fs.LocalEngine(data).ask(fs.Gradient(np.zeros(1))),))
    >>> (running,) = workers[1].add(whole, exchange, workers[0].add(whole, exchange, None))
    >>> running.answers().mean("gradient")
    array([-6.])
    """

    def __init__(self, number: int, of: int, rows: HeldRows | FileRows) -> None:
        self._number = number
        self._name = f"worker {number + 1} of {of}, on {platform.node()},"
        self._rows = rows
        self._data: FederatedData | None = None
        self._shards: list[int] = []  # clients of each
        self._columns: tuple[str, ...] | None = None
        self._engine: LocalEngine | None = None
        self._exchange = 0
        self._told: dict[int, Told | None] = {}

    def is_here(self) -> bool:
        """Yes."""
        return True

    def opening(self, *, has_labels: bool) -> Opening:
        """What there is to say of its clients, which are read for that."""
        data = self._read()
        return Opening(
            data.names,
            data.width,
            data.is_sparse,
            data.has_holes,
            self._columns,
            np.unique(data.targets) if has_labels else None,
        )

    def check(self, whole: Whole) -> None:
        """Refuse targets that do not suit the loss."""
        self._open(whole)

    def work_out(self, whole: Whole, exchange: Exchange) -> None:
        """Work out what the clients answer, and keep it until it is added up."""
        if exchange.number == self._exchange:
            return
        self._told = {}
        engine = self._open(whole)
        first, end = whole.begins[self._number : self._number + 2]
        # What Ray hands over cannot be written to, and compiled loops tell such arrays apart.
        asks = [_of_part(ask, first, end) for ask in deepcopy(exchange.asks)]
        self._told = {
            place: prepared.told(asks[place])
            for prepared, own in engine.by_lens(asks)
            for place in own
        }
        self._exchange = exchange.number

    def add(self, whole: Whole, exchange: Exchange, start: Running | None) -> Running:
        """Go on with sums where the workers before left off; None: this is the first.

        A worker that took another's place works its part out first.
        """
        self.work_out(whole, exchange)
        engine, clients = self._open(whole), whole.begins[-1]
        running = deepcopy(start)
        if running is None:
            running = [engine.running_sums(ask, clients) for ask in exchange.asks]
        for place, told in self._told.items():
            if told is not None:
                running[place].add(*told)
        return running

    def fingerprints(self) -> list[str]:
        """A digest of the rows of each shard."""
        data, ends = self._read(), np.cumsum(self._shards)
        shards = [data.between(end - own, end) for own, end in zip(self._shards, ends, strict=True)]
        return [fingerprint(replace(own, identities=np.arange(len(own)))) for own in shards]

    def state(self) -> WorkerState:
        """How it is."""
        data = self._read()
        held, most = (_memory(name) for name in ("VmRSS", "VmHWM"))
        return WorkerState(
            platform.node(), os.getpid(), len(data), data.samples, held, most, time.process_time()
        )

    def _read(self) -> FederatedData:
        if self._data is None:
            shards = self._rows.shards(self._name)
            columns = {shard.columns for shard in shards}
            if len(columns) > 1:
                raise DataError(
                    f"{self._name} has shards with different columns; make them the same"
                )
            self._columns = columns.pop()
            self._shards = [len(shard.data) for shard in shards]
            self._data = FederatedData.joined([shard.data for shard in shards])
        return self._data

    def _open(self, whole: Whole) -> LocalEngine:
        if self._engine is None:
            first, end = whole.begins[self._number : self._number + 2]
            data = replace(self._read(), identities=np.arange(first, end), all_targets=whole.labels)
            options = (whole.threads, whole.sums, whole.few_holes)
            self._engine = LocalEngine(data, whole.loss, *options)
        return self._engine


def _of_part(ask: Ask, first: int, end: int) -> Ask:
    """What is asked of the clients at places from ``first`` to before ``end``."""
    which, weights = ask.which, ask.weights
    if which is not None:
        which = which[(first <= which) & (which < end)] - first
    if not isinstance(weights, str):
        weights = np.asarray(weights, dtype=np.float64)[first:end]
    return replace(ask, which=which, weights=weights)


def _memory(name: str) -> int:
    """Bytes that this process holds, or held at most, as Linux tells them."""
    try:
        lines: Sequence[str] = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else 0
