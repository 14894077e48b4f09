"""The clients' data, held in one block.

Rows of all clients lie one after the other in a single dense array or CSR matrix; a pointer says
where each client begins. Everything is checked here, once; the layers below assume it is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int64Array, UInt64Array
from fedsparse.errors import DataError
from fedsparse.problem.checking import (
    as_features,
    as_row_weights,
    as_site_labels,
    as_targets,
    check_finite,
    check_label_kinds,
    check_widths,
)
from fedsparse.problem.row_keys import keys_of

Client = tuple[Any, Any]
Features = AnyArray | sparse.csr_array


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Features and targets of every client, client after client.

    Made by `from_clients` or `from_table`, which check and convert; the constructor does not.
    A single array that needs no conversion is not copied: do not write to it afterwards.

    Attributes
    ----------
    features
        All rows: a C-ordered float32 or float64 array, or a canonical CSR matrix.
    targets
        One target or label per row, as given.
    pointer
        Client i holds rows ``pointer[i]`` to ``pointer[i + 1]``.
    names
        One name per client.
    identities
        Each client's place in the whole federation; a view of one client keeps it, because
        mini-batches are drawn by it.
    all_targets
        In a view, the targets of the whole federation: they say which classes there are.
    row_weights
        How much each row counts, all numbers > 0; None: all the same. Only the proportions within
        a client matter to its mean loss; between clients, see `masses`.

    Examples
    --------
    >>> import numpy as np
    >>> data = FederatedData.from_clients({"lab-1": ([[1, 2]], [3]), "lab-2": ([[4, 5]], [6])})
    >>> len(data), data.samples, data.width
    (2, 2, 2)
    >>> data.client(1).features
    array([[4., 5.]])
    """

    features: Features
    targets: AnyArray
    pointer: Int64Array
    names: tuple[str, ...]
    identities: Int64Array
    all_targets: AnyArray | None = None
    row_weights: FloatArray | None = None

    @classmethod
    def from_clients(cls, clients: Sequence[Client] | Mapping[str, Client]) -> "FederatedData":
        """Gather one ``(features, targets)`` pair per client.

        Parameters
        ----------
        clients
            A list of pairs, or a mapping from names to pairs. Features are arrays, tables or scipy
            sparse matrices; if any is sparse, all are stored as CSR.

        Examples
        --------
        >>> data = FederatedData.from_clients([([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [2.0])])
        >>> data.names
        ('client 0', 'client 1')
        """
        if isinstance(clients, Mapping):
            names = tuple(str(name) for name in clients)
            pairs = list(clients.values())
        else:
            pairs = list(clients)
            names = tuple(f"client {index}" for index in range(len(pairs)))
        if not pairs:
            raise DataError("there are no clients; give at least one (features, targets) pair")
        blocks, targets = [], []
        for name, pair in zip(names, pairs, strict=True):
            try:
                own_features, own_targets = pair
            except (TypeError, ValueError):
                raise DataError(f"{name} is not a (features, targets) pair") from None
            blocks.append(as_features(own_features, name))
            targets.append(as_targets(own_targets, blocks[-1].shape[0], name))
        check_widths(names, [block.shape[1] for block in blocks])
        check_label_kinds(names, targets)
        pointer = np.concatenate([[0], np.cumsum([block.shape[0] for block in blocks])])
        return cls._checked(_stack(blocks), np.concatenate(targets), pointer, names)

    @classmethod
    def from_table(
        cls,
        features: Any,
        targets: ArrayLike,
        sites: ArrayLike,
        row_weights: ArrayLike | None = None,
        *,
        has_holes: bool = False,
    ) -> "FederatedData":
        """Split one table by a site label per row; clients come in the sorted order of the labels.

        Parameters
        ----------
        features, targets, sites
            The table's rows.
        row_weights
            How much each row counts; a row of weight 0 is left out, as if it were not there.
        has_holes
            NaN stands for a missing value, to be filled by a lens; else it is refused.

        Examples
        --------
        >>> data = FederatedData.from_table([[1.0], [2.0], [3.0]], [0, 1, 0], ["b", "a", "b"])
        >>> data.names, data.pointer.tolist()
        (('a', 'b'), [0, 1, 3])
        """
        block = as_features(features, "the table")
        checked_targets = as_targets(targets, block.shape[0], "the table")
        check_widths(("the table",), [block.shape[1]])
        labels = as_site_labels(sites, block.shape[0])
        weights = None if row_weights is None else as_row_weights(row_weights, block.shape[0])
        order = np.argsort(labels, kind="stable")
        if weights is not None:
            order = order[weights[order] > 0]
            weights = weights[order]
        unique, counts = np.unique(labels[order], return_counts=True)
        if not np.array_equal(order, np.arange(labels.size)):
            block, checked_targets = block[order], checked_targets[order]
        pointer = np.concatenate([[0], np.cumsum(counts)])
        names = tuple(str(label) for label in unique)
        return cls._checked(block, checked_targets, pointer, names, weights, has_holes=has_holes)

    @classmethod
    def joined(cls, parts: Sequence["FederatedData"]) -> "FederatedData":
        """The clients of several parts, one after the other.

        Examples
        --------
        >>> data = FederatedData.from_clients([([[1.0]], [1.0]), ([[2.0]], [2.0])])
        >>> FederatedData.joined([data.client(0), data.client(1)]).names
        ('client 0', 'client 1')
        """
        if len(parts) == 1:
            return parts[0]
        firsts = [part.names[0] for part in parts]
        check_widths(firsts, [part.width for part in parts])
        check_label_kinds(firsts, [part.targets for part in parts])
        return cls(
            _stack([part.features for part in parts]),
            np.concatenate([part.targets for part in parts]),
            np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))]),
            tuple(name for part in parts for name in part.names),
            np.arange(sum(map(len, parts))),
            row_weights=_joined_weights(parts),
        )

    @classmethod
    def _checked(
        cls,
        features: Features,
        targets: AnyArray,
        pointer: Int64Array,
        names: tuple[str, ...],
        row_weights: FloatArray | None = None,
        *,
        has_holes: bool = False,
    ) -> "FederatedData":
        identities = np.arange(len(names), dtype=np.int64)
        data = cls(
            features, targets, pointer.astype(np.int64), names, identities, row_weights=row_weights
        )
        check_finite(features, targets, data.owner_of, has_holes=has_holes)
        return data

    def __len__(self) -> int:
        """Number of clients N."""
        return len(self.names)

    @property
    def samples(self) -> int:
        """Number of rows of all clients together."""
        return int(self.pointer[-1])

    @property
    def width(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    @property
    def counts(self) -> Int64Array:
        """Rows of each client, B_i."""
        return np.diff(self.pointer)

    @property
    def masses(self) -> FloatArray:
        """What each client's rows weigh together: their number if they all count the same."""
        if self.row_weights is None:
            return self.counts.astype(np.float64)
        return np.add.reduceat(self.row_weights, self.pointer[:-1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features are stored as CSR."""
        return sparse.issparse(self.features)

    @property
    def has_holes(self) -> bool:
        """Whether a value is missing."""
        features = self.features
        return not isinstance(features, sparse.csr_array) and bool(np.isnan(features).any())

    @property
    def bytes(self) -> int:
        """Memory of the features."""
        features = self.features
        if isinstance(features, sparse.csr_array):
            return int(features.data.nbytes + features.indices.nbytes + features.indptr.nbytes)
        return int(features.nbytes)

    def client(self, index: int) -> "FederatedData":
        """A view of one client, sharing memory with the whole.

        Examples
        --------
        >>> data = FederatedData.from_clients([([[1.0]], [1.0]), ([[2.0]], [2.0])])
        >>> np.shares_memory(data.client(0).features, data.features)
        True
        """
        index = range(len(self))[index]
        return self.between(index, index + 1)

    def between(self, first: int, end: int) -> "FederatedData":
        """A view of the clients from ``first`` to before ``end``, sharing memory with the whole.

        Examples
        --------
        >>> data = FederatedData.from_clients([([[1.0]], [1.0]), ([[2.0]], [2.0])])
        >>> data.between(1, 2).names
        ('client 1',)
        """
        pointer = self.pointer[first : end + 1]
        begin, stop = pointer[0], pointer[-1]
        return FederatedData(
            _rows(self.features, begin, stop),
            self.targets[begin:stop],
            pointer - begin,
            self.names[first:end],
            self.identities[first:end],
            self.targets if self.all_targets is None else self.all_targets,
            None if self.row_weights is None else self.row_weights[begin:stop],
        )

    @cached_property
    def row_keys(self) -> UInt64Array:
        """What is in each row, in 64 bits: parts of the rows are drawn by it."""
        targets = self.targets
        if targets.dtype.kind not in "biuf":  # names of classes stand for their places
            every = targets if self.all_targets is None else self.all_targets
            targets = np.searchsorted(np.unique(every), targets)
        return keys_of(self.features, targets)

    def where(self, is_wanted: BoolArray) -> "FederatedData":
        """Only some of the rows; a client that has none of them is left out.

        Examples
        --------
        >>> data = FederatedData.from_clients({"a": ([[1.0], [2.0]], [0, 1]), "b": ([[3.0]], [0])})
        >>> data.where(np.array([False, True, False]))
        FederatedData(1 clients, 1 rows, 1 features, dense float64)
        """
        counts = np.add.reduceat(is_wanted.astype(np.int64), self.pointer[:-1])
        present = np.flatnonzero(counts)
        return FederatedData(
            self.features[is_wanted],
            self.targets[is_wanted],
            np.concatenate([[0], np.cumsum(counts[present])]),
            tuple(self.names[client] for client in present),
            self.identities[present],
            self.targets if self.all_targets is None else self.all_targets,
            None if self.row_weights is None else self.row_weights[is_wanted],
        )

    def pooled(self) -> "FederatedData":
        """The same rows as a single client: what a centralized method would see."""
        return FederatedData(
            self.features,
            self.targets,
            np.array([0, self.samples]),
            ("pooled",),
            np.zeros(1, np.int64),
            self.all_targets,
            self.row_weights,
        )

    def owner_of(self, row: int) -> tuple[str, int]:
        """Name of the client that holds a row, and the row's number there.

        Examples
        --------
        >>> FederatedData.from_clients([([[1.0]], [1.0]), ([[2.0]], [2.0])]).owner_of(1)
        ('client 1', 0)
        """
        index = int(np.searchsorted(self.pointer, row, side="right")) - 1
        return self.names[index], int(row - self.pointer[index])

    def __repr__(self) -> str:
        kind = "CSR" if self.is_sparse else "dense"
        return (
            f"FederatedData({len(self)} clients, {self.samples} rows, {self.width} features, "
            f"{kind} {self.features.dtype})"
        )


def _stack(blocks: list[Features]) -> Features:
    """One block of all rows; a single client's block is taken as it is."""
    if any(sparse.issparse(block) for block in blocks):
        rows = [sparse.csr_array(block) for block in blocks]
        return rows[0] if len(rows) == 1 else sparse.vstack(rows, format="csr")
    arrays = [np.asarray(block) for block in blocks]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _joined_weights(parts: Sequence[FederatedData]) -> FloatArray | None:
    """Of all rows; a row without a weight has 1."""
    if all(part.row_weights is None for part in parts):
        return None
    found = [
        np.ones(part.samples) if part.row_weights is None else part.row_weights for part in parts
    ]
    return np.concatenate(found)


def _rows(features: Features, begin: int, end: int) -> Features:
    if not isinstance(features, sparse.csr_array):
        return features[begin:end]
    first, last = features.indptr[begin], features.indptr[end]
    view = sparse.csr_array((int(end - begin), features.shape[1]), dtype=features.dtype)
    # Assigned, because the constructor copies arrays that are parts of much larger ones.
    view.data, view.indices = features.data[first:last], features.indices[first:last]
    view.indptr = features.indptr[begin : end + 1] - first
    return view
