"""Clients' rows on a device, in blocks of clients of about equal size.

A block is padded with rows of weight 0 to the largest of its clients. CSR rows are written out on
the columns that their client has; where that takes too much room, whenever they are needed.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.compute.clients import Clients
from fedsparse.compute.on_device.devices import check_room, free_bytes, working_room
from fedsparse.compute.sparse_clients import SparseClients

_MOST_PADDED = 1.3
"""Clients share a block while it takes at most so many times what they hold."""

_SPARE_ON_GPU = 2**24
"""Padded cells of a block that cost a GPU no more than one block more: it waits for the host."""

_KEPT_SHARE = 0.5
"""Of a GPU's free memory, for CSR rows that stay written out."""

_KEPT_ON_PROCESSOR = 2**30
"""Bytes of CSR rows that stay written out on a processor."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of some clients.

    Attributes
    ----------
    places
        Of the clients.
    rows
        Of shape (clients, rows, columns).
    targets, weights
        Of shape (clients, rows); weights are divided by the number of a client's rows.
    columns
        Of CSR rows the columns of each client, in increasing order, and ``width`` where the block
        is padded; None: all have all.
    width
        d.
    """

    places: Int64Array
    rows: Tensor
    targets: Tensor
    weights: Tensor
    columns: Tensor | None
    width: int
    gram: Callable[[], Tensor]
    """Works out Z Zᵀ of each client, once."""

    def of(self, x: Tensor) -> Tensor:
        """Vectors (vectors, d) as each client has them: (clients, vectors, columns)."""
        if self.columns is None:
            return x.expand(self.places.size, *x.shape)
        padded = torch.nn.functional.pad(x, (0, 1))
        return padded[:, self.columns].transpose(0, 1).contiguous()

    def beside(self, columns: Tensor) -> "Part":
        """The same with further columns beside those of the rows, where a client lacks them."""
        assert self.columns is not None
        others = columns.expand(self.places.size, -1).masked_fill(self.holds(columns), self.width)
        return replace(self, columns=torch.cat([self.columns, others], 1))

    def holds(self, columns: Tensor) -> Tensor:
        """Which of some columns each client has: (clients, columns)."""
        assert self.columns is not None
        asked = columns.expand(self.places.size, -1).contiguous()
        nearest = torch.searchsorted(self.columns, asked).clamp_(max=self.columns.shape[1] - 1)
        return self.columns.gather(1, nearest) == columns

    def own(self, by_client: Tensor) -> Tensor:
        """The clients' lines of what has one for every client."""
        return by_client[torch.from_numpy(self.places).to(by_client.device)]

    def positions(self, classes: int) -> Tensor:
        """Where entries of a client's vector stand, class by class: (clients or 1, 1, entries)."""
        columns = self.columns
        if columns is None:
            columns = torch.arange(self.width, device=self.rows.device)[None]
        begins = torch.arange(classes, device=columns.device) * self.width
        return (begins[:, None] + columns[:, None, :]).flatten(1)[:, None, :]

    def add_to(self, total: Tensor, values: Tensor, weights: Tensor) -> None:
        """Add Σ w_i v_i to vectors (vectors, d + 1), whose last entry is room.

        Parameters
        ----------
        total
            What is added to.
        values
            Of shape (clients, vectors, columns).
        weights
            Of shape (clients, vectors).
        """
        if self.columns is None:
            total[:, :-1] += torch.einsum("nr,nrp->rp", weights, values)
            return
        weighted = (values * weights[:, :, None]).transpose(0, 1)
        total.index_add_(1, self.columns.reshape(-1), weighted.reshape(total.shape[0], -1))


Room = Callable[[int, int], int]
"""Bytes that work on a client takes, beside its rows, from how many rows and columns it has."""


@dataclass(frozen=True, eq=False)
class _Stored:
    """Stored values of CSR rows, client by client, to be written out.

    Attributes
    ----------
    pointer
        Where each client's values begin.
    places
        Of the values in their client's rows by columns.
    values
        Themselves.
    shape
        Rows and columns of the block.
    """

    pointer: Int64Array
    places: Tensor
    values: Tensor
    shape: tuple[int, int]

    def written(self, clients: Int64Array) -> Tensor:
        """Rows of some clients."""
        size = self.shape[0] * self.shape[1]
        rows = self.values.new_zeros(clients.size * size)
        for number, client in enumerate(clients):
            own = slice(self.pointer[client], self.pointer[client + 1])
            rows[number * size : (number + 1) * size][self.places[own]] = self.values[own]
        return rows.view(clients.size, *self.shape)


@dataclass(frozen=True, eq=False)
class _Block:
    """Clients of about equal size; see `Part`."""

    places: Int64Array
    rows: Tensor | _Stored
    targets: Tensor
    weights: Tensor
    columns: Tensor | None
    width: int
    _grams: dict[int, Tensor] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        if isinstance(self.rows, _Stored):
            return self.rows.shape
        return self.rows.shape[1], self.rows.shape[2]

    def part(self, chosen: Int64Array) -> Part:
        """Some of the clients; neighbours are a view where rows are written out."""
        own: slice | Tensor = slice(int(chosen[0]), int(chosen[-1]) + 1)
        if chosen[-1] - chosen[0] + 1 != chosen.size:
            own = torch.from_numpy(chosen).to(self.targets.device)
        rows = self.rows.written(chosen) if isinstance(self.rows, _Stored) else self.rows[own]
        columns = None if self.columns is None else self.columns[own]

        def gram() -> Tensor:
            missing = [number for number, client in enumerate(chosen) if client not in self._grams]
            for number in missing:
                self._grams[int(chosen[number])] = rows[number] @ rows[number].mT
            return torch.stack([self._grams[int(client)] for client in chosen])

        places = self.places[chosen]
        return Part(places, rows, self.targets[own], self.weights[own], columns, self.width, gram)


class DeviceRows:
    """Rows of all clients on a device.

    Parameters
    ----------
    clients
        On the host.
    device
        Where to.
    dtype
        What is computed with.
    """

    def __init__(self, clients: Clients, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.loss = clients.loss
        self.shape = clients.shape
        self.classes = 1 if len(self.shape) == 1 else self.shape[1]
        self.width = self.shape[0]
        self.count = len(clients.data)
        self.is_sparse = clients.data.is_sparse
        make = self._sparse_blocks if isinstance(clients, SparseClients) else self._dense_blocks
        self._blocks = make(clients)
        self.room = working_room(device)
        """Bytes that are worked on at a time."""
        self.needed = 0
        """Bytes that the last work takes for a client."""

    def tensor(self, array: AnyArray) -> Tensor:
        """An array of numbers on the device; on a processor it may share memory."""
        with warnings.catch_warnings():  # it is only read, whether or not it may be written
            warnings.simplefilter("ignore", UserWarning)
            moved = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return moved.to(self.dtype) if moved.is_floating_point() else moved

    def weights(self, weights: FloatArray, which: Int64Array) -> Tensor:
        """w_i of all clients from those of some: (clients, models)."""
        every = np.zeros((self.count, weights.shape[0]))
        every[which] = weights.T
        return self.tensor(every)

    def vectors(self, x: AnyArray) -> Tensor:
        """Coefficients class by class: (classes, d)."""
        return self.tensor(x.reshape(1, -1) if x.ndim == 1 else x.T)

    def parts(self, which: Int64Array, needed: Room) -> list[Callable[[], Part]]:
        """Parts with room for work on them, of which each holds some of the clients asked.

        Each is made when it is called for.
        """
        is_asked = np.zeros(self.count, dtype=np.bool_)
        is_asked[which] = True
        found: list[Callable[[], Part]] = []
        self.needed = 0
        for block in self._blocks:
            chosen = np.flatnonzero(is_asked[block.places])
            own = max(1, needed(*block.shape))
            if isinstance(block.rows, _Stored):
                own += block.shape[0] * block.shape[1] * self.dtype.itemsize
            self.needed = max(self.needed, own)
            most = max(1, self.room // own)
            for begin in range(0, chosen.size, most):
                found.append(_part_of(block, chosen[begin : begin + most]))
        return found

    def _dense_blocks(self, clients: Clients) -> list[_Block]:
        data = clients.data
        features, counts = data.features, data.counts
        assert isinstance(features, np.ndarray)
        groups = _groups(counts, np.full(counts.size, data.width), self._spare)
        padded = sum(own.size * int(counts[own].max()) for own in groups)
        check_room(padded * data.width * self.dtype.itemsize, self.device)
        blocks = []
        for own in groups:
            targets, weights = self._targets(clients, own)
            height = int(counts[own].max())
            if len(groups) == 1 and (counts == height).all():
                rows = self.tensor(features).view(own.size, height, data.width)
            else:
                rows = self.zeros(own.size, height, data.width)
                for number, client in enumerate(own):
                    begin, end = data.pointer[client], data.pointer[client + 1]
                    rows[number, : end - begin] = self.tensor(features[begin:end])
            blocks.append(_Block(own, rows, targets, weights, None, data.width))
        return blocks

    def _sparse_blocks(self, clients: Clients) -> list[_Block]:
        assert isinstance(clients, SparseClients)
        counts, own_pointer = clients.data.counts, clients.block.own_pointer
        widths = np.maximum(np.diff(own_pointer), 1)
        groups = _groups(counts, widths, self._spare)
        cells = sum(own.size * int(counts[own].max() * widths[own].max()) for own in groups)
        stay = self._stay_written(cells * self.dtype.itemsize)
        blocks = []
        for own in groups:
            height, width = int(counts[own].max()), int(widths[own].max())
            columns = np.full((own.size, width), self.width, dtype=np.int64)
            for number, client in enumerate(own):
                held = clients.block.own_columns[own_pointer[client] : own_pointer[client + 1]]
                columns[number, : held.size] = held
            stored = self._stored(clients, own, (height, width))
            rows = stored.written(np.arange(own.size)) if stay else stored
            targets, weights = self._targets(clients, own)
            on_device = self.tensor(columns)
            blocks.append(_Block(own, rows, targets, weights, on_device, self.width))
        return blocks

    @property
    def _spare(self) -> int:
        return 0 if self.device.type == "cpu" else _SPARE_ON_GPU

    def _stay_written(self, needed: int) -> bool:
        if self.device.type == "cpu":
            return needed <= _KEPT_ON_PROCESSOR
        return needed <= _KEPT_SHARE * free_bytes(self.device)

    def _stored(self, clients: SparseClients, own: Int64Array, shape: tuple[int, int]) -> _Stored:
        block, pointer = clients.block, clients.data.pointer
        places, values = [], []
        for client in own:
            starts = block.row_pointer[pointer[client] : pointer[client + 1] + 1]
            entries = slice(starts[0], starts[-1])
            rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))
            places.append(rows * shape[1] + block.numbers[entries])
            values.append(block.values[entries])
        ends = np.cumsum([0, *(each.size for each in places)])
        joined = self.tensor(np.concatenate(places).astype(np.int64))
        return _Stored(ends, joined, self.tensor(np.concatenate(values)), shape)

    def _targets(self, clients: Clients, own: Int64Array) -> tuple[Tensor, Tensor]:
        """Targets, and weights over numbers of rows; 0 where the block is padded."""
        counts = clients.data.counts[own]
        found = np.zeros((2, own.size, counts.max()))
        for number, client in enumerate(own):
            targets = clients.targets_of(client)
            found[:, number, : counts[number]] = targets.T
            found[1, number] /= counts[number]
        return self.tensor(found[0]), self.tensor(found[1])

    def zeros(self, *shape: int) -> Tensor:
        """Room to add to."""
        return torch.zeros(shape, dtype=self.dtype, device=self.device)


def _part_of(block: _Block, chosen: Int64Array) -> Callable[[], Part]:
    return lambda: block.part(chosen)


def _groups(counts: Int64Array, widths: Int64Array, spare: int) -> list[Int64Array]:
    """Clients of about equal size together; those of one size in their order.

    ``spare`` is how many cells a group may have beside the share that is always allowed.
    """
    groups: list[list[int]] = []
    height = width = held = 0
    for client in np.argsort(-counts * widths, kind="stable"):
        rows, columns = int(counts[client]), int(widths[client])
        height, width = max(height, rows), max(width, columns)
        held += rows * columns
        if groups and (len(groups[-1]) + 1) * height * width <= _MOST_PADDED * held + spare:
            groups[-1].append(int(client))
            continue
        groups.append([int(client)])
        height, width, held = rows, columns, rows * columns
    return [np.array(own, dtype=np.int64) for own in groups]
