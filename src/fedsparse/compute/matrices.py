"""Matrices of clients as stacks: entry by entry, or rounded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.asked_entries import AskedEntries, ClientMatrix, EntriesShape
from fedsparse.compute.rounded_matrix import RoundedMatrix, as_rounded
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.compute.workers import Workers

_ALONE = Workers(1)


@dataclass(frozen=True, eq=False)
class RoundedStack(Stack):
    """Entries of matrices, one or several of each client, relative to units of the features.

    Sums that are open are those of what travels, in a few bits. Under masks nothing is gained by
    so few: `each` gives what the client has worked out itself, or else what arrived.

    Attributes
    ----------
    shape
        Which entries are asked for.
    clients
        Of each client its matrices: exact, or as they arrived.
    workers
        Threads that round and add up.
    """

    shape: EntriesShape
    clients: Sequence[Sequence[ClientMatrix | RoundedMatrix]]
    workers: Workers = _ALONE

    @cached_property
    def written(self) -> Sequence[Sequence[RoundedMatrix]]:
        """As they travel."""
        found: list[list[RoundedMatrix]] = [[]] * len(self.clients)

        def write(order: Int64Array) -> None:
            for place in order:
                found[place] = [
                    own if isinstance(own, RoundedMatrix) else as_rounded(own, block)
                    for own, block in zip(self.clients[place], self.shape.blocks, strict=True)
                ]

        self.workers.run(write, np.ones(len(found), dtype=np.int64))
        return found

    def add_to(self, total: FloatArray, weights: FloatArray) -> None:
        """Add Σ w_i x_i of what travels."""
        ends = np.cumsum([block.count for block in self.shape.blocks])
        parts = np.split(total, ends[:-1])
        written = self.written

        def add(order: Int64Array) -> None:
            for place in order:
                part, block = parts[place], self.shape.blocks[place]
                matrix = np.zeros((block.size, block.size))
                matrix[block.mask] = part
                for weight, client in zip(weights, written, strict=True):
                    client[place].add_to(matrix, weight, block)
                part[:] = matrix[block.mask]

        self.workers.run(add, np.ones(len(parts), dtype=np.int64))

    def variances(self, weights: FloatArray, start: FloatArray | float = 0.0) -> FloatArray:
        """Σ w_i² of the variances of rounding, added to those of other clients.

        One of each feature of each matrix: errors of entry (j, k) of the sum spread by the root of
        what is given for j and for k at most.
        """
        total = np.zeros(sum(block.size for block in self.shape.blocks)) + start
        for weight, client in zip(weights, self.written, strict=True):
            own = [
                matrix.variances(block)
                for matrix, block in zip(client, self.shape.blocks, strict=True)
            ]
            total += weight**2 * np.concatenate(own)
        return total

    def each(self) -> Iterator[FloatArray]:
        """x_i, client by client, as exactly as it is known."""
        for client in self.clients:
            arrived = [own for own in client if isinstance(own, RoundedMatrix)]
            alone = RoundedStack(self.shape, [arrived])
            yield alone.total(np.ones(1)) if arrived else self._exact(client)

    def squared_distances(self, x: FloatArray) -> FloatArray:
        """‖x_i − x‖² of each client."""
        return np.array([float(np.sum((own - x) ** 2)) for own in self.each()])

    def is_finite(self) -> bool:
        """Whether no matrix holds NaN or infinity."""
        return all(own.is_finite() for client in self.written for own in client)

    @property
    def bytes(self) -> int:
        """Memory of what travels."""
        return sum(own.bytes for client in self.written for own in client)

    def _exact(self, client: Sequence[ClientMatrix | RoundedMatrix]) -> FloatArray:
        parts = []
        for own, block in zip(client, self.shape.blocks, strict=True):
            assert isinstance(own, ClientMatrix)
            places, values = entries(own, block)
            part = np.zeros(block.count)
            part[places] = values
            parts.append(part)
        return np.concatenate(parts)


def entries(own: ClientMatrix, asked: AskedEntries) -> tuple[Int64Array, FloatArray]:
    """Places among the asked entries of those that a client has, and their values."""
    mask, hessian = np.ix_(own.held, own.held), own.hessian
    is_asked = asked.mask[mask]
    if asked.units is not None:
        units = asked.units[own.held]
        hessian = hessian / units / units[:, None]
    return asked.places[mask][is_asked], hessian[is_asked]


@dataclass(frozen=True, eq=False)
class AskedMatrices:
    """Matrices that each client is asked for, one after the other.

    Attributes
    ----------
    blocks
        Which entries of each.
    is_short
        Whether they are told relative to the features' units, and rounded.
    """

    blocks: tuple[AskedEntries, ...]
    is_short: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the vector of all entries."""
        shape = EntriesShape.of(self.blocks)
        return shape if self.is_short else tuple(shape)

    def stack(self, clients: Sequence[Sequence[ClientMatrix]], workers: Workers = _ALONE) -> Stack:
        """What clients tell, rounded and added up by some threads."""
        shape = EntriesShape.of(self.blocks)
        if self.is_short:
            return RoundedStack(shape, clients, workers)
        found = [self._entries(client) for client in clients]
        if all(places.size == shape[0] for places, _ in found):
            return DenseStack(np.stack([values for _, values in found]), tuple(shape))
        pointer = np.concatenate([[0], np.cumsum([places.size for places, _ in found])])
        joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        return SparseStack(pointer, joined[0].astype(np.int64), joined[1], tuple(shape))

    def _entries(self, client: Sequence[ClientMatrix]) -> tuple[Int64Array, FloatArray]:
        begins = np.cumsum([0, *(block.count for block in self.blocks)])
        found = [entries(own, block) for own, block in zip(client, self.blocks, strict=True)]
        places = [begin + own for begin, (own, _) in zip(begins, found, strict=False)]
        return np.concatenate(places), np.concatenate([values for _, values in found])
