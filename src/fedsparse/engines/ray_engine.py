"""Clients spread over the workers of a Ray cluster, to the same bits as in one process."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.checks import check_count
from fedsparse.engines.checkpoint import fingerprint
from fedsparse.engines.engine import Ask, Engine
from fedsparse.engines.lens import Lens
from fedsparse.engines.local import Sums
from fedsparse.engines.ray_cluster import RayCluster
from fedsparse.engines.ray_worker import (
    Exchange,
    FileRows,
    HeldRows,
    Opening,
    Shard,
    Whole,
    WorkerState,
)
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, as_loss
from fedsparse.problem.scaling import FEW_HOLES
from fedsparse.requests import Answers

_FEWEST_WORKERS = 2
"""On one machine: what holds for several is seen there, too."""


class RayEngine(Engine):
    """Answers requests on clients that are spread over the workers of a Ray cluster.

    Each worker has some clients, one after the other, and a `LocalEngine` on them. Workers work
    answers out at the same time; their sum goes from one to the next, and each adds its clients to
    it in order. So it is the same sequence of additions as in one process, and the same bits.

    A worker that dies is replaced by Ray, gets its rows anew, and is asked again for its part.

    Parameters
    ----------
    data, loss
        The problem. Rows are sent to workers once, and stay in Ray's object store, too, for a
        worker that takes another's place; see `from_shards` for rows that workers read by
        themselves.
    workers
        How many; by default one on each machine of the cluster, two if there is but one machine.
    threads
        Clients that a worker works on at a time; by default all cores are shared out.
    sums, few_holes
        As for `LocalEngine`.
    address
        Of the cluster; by default the one that this process has joined with ``ray.init`` or that
        ``RAY_ADDRESS`` names. If there is none, one is started on this machine until `close`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> engine = RayEngine(data, "squared")  # doctest: +SKIP
    >>> fs.run(fs.FedAvg(local_steps=2), engine, rounds=50).coef.round(6)  # doctest: +SKIP
    array([3.])
    >>> engine.close()  # doctest: +SKIP
    """

    def __init__(
        self,
        data: FederatedData | FileRows,
        loss: str | Loss = "squared",
        workers: int | None = None,
        threads: int | None = None,
        sums: Sums = "float",
        few_holes: int = FEW_HOLES,
        address: str | None = None,
    ) -> None:
        for name, value in {"workers": workers, "threads": threads}.items():
            if value is not None:
                check_count(name, value)
        self._data = data
        self._numbers = count(1)  # shared with engines through other lenses
        self.lens = Lens(as_loss(loss))
        self.can_single_out = sums == "float"
        if isinstance(data, FederatedData):
            self.lens.loss.encode(data)  # refuses targets that do not suit the loss
        self._cluster = RayCluster(address, (workers or 1) * (threads or 1))
        try:
            self._share_out(workers, threads)
            openings = self._of_all("opening", has_labels=self._has_labels)
            self._check(openings)
            self.names = tuple(name for opening in openings for name in opening.names)
            self.width = openings[0].width
            self.is_sparse = openings[0].is_sparse
            self.has_holes = any(opening.has_holes for opening in openings)
            self._labels = self._labels_of(openings)
            counts = [len(opening.names) for opening in openings]
            begins = tuple(np.cumsum([0, *counts]).tolist())
            self._whole = self._cluster.put(
                Whole(self.lens.loss, self._labels, begins, self._threads, sums, few_holes)
            )
            self._of_all("check", self._whole)
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_shards(
        cls,
        paths: Sequence[str | PathLike[str]],
        read: Callable[[Path], Shard],
        loss: str | Loss = "squared",
        **options: Any,
    ) -> "RayEngine":
        """An engine on clients whose rows lie in files that workers read by themselves.

        Clients come in the order of the files, and in that of each file.

        Parameters
        ----------
        paths
            The files, as the workers' machines see them. All rows of a client lie in one file.
        read
            What reads a file there: `fedsparse.tables.TableShards` or `LibsvmShards`, or a
            function of your own that makes a `Shard` of a path.
        loss, options
            As for `RayEngine`.
        """
        if not paths:
            raise OptionError("there are no shards; give the path of at least one")
        return cls(FileRows(tuple(Path(path) for path in paths), read), loss, **options)

    @property
    def classes(self) -> AnyArray | None:
        """The classes that labels stand for, None for regression."""
        if self.lens.loss.outcome != "classes":
            return None
        if self._labels is None:
            raise OptionError(
                "the engine was opened for a loss without classes; open one for "
                f"the {self.lens.loss.name} loss"
            )
        rows = np.zeros((self._labels.size, 1))
        return self.lens.loss.encode(FederatedData.from_clients([(rows, self._labels)])).classes

    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """One message to every worker with all the asks; their sums go from worker to worker."""
        began = time.perf_counter()
        exchange = self._cluster.put(Exchange(next(self._numbers), tuple(asks)))
        workers = range(len(self._cluster))
        for worker in workers:
            self._cluster.ask(worker, "work_out", self._whole, exchange)
        running = None
        for worker in workers:
            running = self._cluster.ask(worker, "add", self._whole, exchange, running)
        (sums,) = self._cluster.wait_for([running])
        seconds = (time.perf_counter() - began) / max(len(asks), 1)
        # What Ray hands over cannot be written to, and compiled loops tell such arrays apart.
        answers = [replace(own.answers(), seconds=seconds) for own in deepcopy(sums)]
        return [
            self._counting_the_same(ask) if own.count and not own.weight else own
            for ask, own in zip(asks, answers, strict=True)
        ]

    def workers(self) -> list[WorkerState]:
        """How the workers are."""
        return self._of_all("state")

    def fingerprint(self) -> str:
        """A digest of all rows; of shards, one of theirs, however they are spread."""
        if isinstance(self._data, FederatedData):
            return fingerprint(self._data)
        told = [digest for own in self._of_all("fingerprints") for digest in own]
        return hashlib.blake2b("".join(told).encode(), digest_size=16).hexdigest()

    def close(self) -> None:
        """End the workers, and the cluster if it was started here."""
        self._cluster.close()

    @property
    def _has_labels(self) -> bool:
        return self.lens.loss.outcome == "classes"

    def _share_out(self, workers: int | None, threads: int | None) -> None:
        """Start workers, each with its part of the rows."""
        nodes = self._cluster.nodes
        wanted = workers or max(len(nodes), _FEWEST_WORKERS)
        data = self._data
        rows = HeldRows(data) if isinstance(data, FederatedData) else data
        parts = rows.shared_out(wanted)
        own = max(1, sum(nodes) // len(parts)) if len(nodes) == 1 else max(1, min(nodes))
        self._threads = threads or own
        self._cluster.start(parts, self._threads)

    def _of_all(self, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """What each worker says."""
        workers = range(len(self._cluster))
        asked = [self._cluster.ask(own, method, *arguments, **options) for own in workers]
        return self._cluster.wait_for(asked)

    def _labels_of(self, openings: Sequence[Opening]) -> AnyArray | None:
        """Labels that occur anywhere: a worker sees some of them only."""
        if not self._has_labels:
            return None
        told = [own.labels for own in openings if own.labels is not None]
        known = self._data.all_targets if isinstance(self._data, FederatedData) else None
        return np.unique(np.concatenate(told if known is None else [*told, known]))

    def _counting_the_same(self, ask: Ask) -> Answers:
        """All clients that answered have the weight 0; see `counting`."""
        (answers,) = self.exchange([replace(ask, weights="uniform")])
        return answers

    def _check(self, openings: Sequence[Opening]) -> None:
        """Refuse shards that do not fit together."""
        first = openings[0]
        for number, own in enumerate(openings):
            what = {
                "as many columns": (own.width, first.width),
                "the same columns": (own.columns, first.columns),
                "the same storage, dense or sparse,": (own.is_sparse, first.is_sparse),
            }
            for name, (one, other) in what.items():
                if one != other:
                    raise DataError(
                        f"shards of workers 1 and {number + 1} have not {name}; make them the same"
                    )
        counts = Counter(name for opening in openings for name in opening.names)
        twice = [name for name, shards in counts.items() if shards > 1]
        if twice and isinstance(self._data, FileRows):
            raise DataError(
                f"client {twice[0]!r} is in {counts[twice[0]]} shards; put the rows of a client "
                "into one, or give clients other names"
            )
