"""What stands for a table without telling a row: to know it again, and by how much it changed.

Digests are keyed, and the key stays at the site. Without a key, whoever knows all of a row but one
cell could try what is in it.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray
from fedsparse.errors import DataError
from fedsparse.problem.federated import Features

if TYPE_CHECKING:
    from fedsparse.federation.sites.site_tables import SiteTable

_ROW_BYTES = 8
_DIGEST_BYTES = 16


def table_digest(features: Features, targets: AnyArray, key: bytes) -> str:
    """Stands for encoded rows, in their order: whatever changes in them changes it.

    Parameters
    ----------
    features, targets
        As a site's table was encoded.
    key
        At most 64 bytes, such as `Ledger.session_key` gives: a secret of the site and of the run.

    Examples
    --------
    >>> rows, key = np.array([[1.0, 2.0], [3.0, 4.0]]), b"secret"
    >>> before = table_digest(rows, np.array([0, 1]), key)
    >>> before == table_digest(rows, np.array([0, 1]), key)
    True
    >>> before == table_digest(rows, np.array([1, 0]), key)
    False
    """
    digest = hashlib.blake2b(key=key, digest_size=_DIGEST_BYTES)
    digest.update(repr(features.shape).encode())
    if isinstance(features, sparse.csr_array):
        parts = [features.indptr, features.indices, features.data]
    else:
        parts = [features]
    for part in (*parts, targets):
        digest.update(np.ascontiguousarray(part, dtype="<f8").view(np.uint8).data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class RowDigests:
    """A digest of every row of a table, without their order.

    Attributes
    ----------
    rows
        Eight bytes each, sorted.

    Examples
    --------
    >>> before = RowDigests(np.array([3, 5, 5, 9], dtype=np.uint64))
    >>> before.rows_apart(RowDigests(np.array([3, 5, 9], dtype=np.uint64)))
    1
    """

    rows: AnyArray

    @classmethod
    def of(cls, table: "SiteTable", key: bytes) -> "RowDigests":
        """Those of a table, under a key."""
        digests = b"".join(
            hashlib.blake2b(row, key=key, digest_size=_ROW_BYTES).digest()
            for row in table.rows_as_bytes()
        )
        return cls.from_bytes(digests)

    @classmethod
    def from_bytes(cls, written: bytes) -> "RowDigests":
        """Read what `to_bytes` wrote."""
        if len(written) % _ROW_BYTES:
            raise DataError("the digests of rows are cut off")
        return cls(np.sort(np.frombuffer(written, dtype="<u8")))

    def to_bytes(self) -> bytes:
        """All of them, one after the other."""
        return np.asarray(self.rows, dtype="<u8").tobytes()

    def digest(self, key: bytes) -> str:
        """Stands for the table."""
        return hashlib.blake2b(self.to_bytes(), key=key, digest_size=_DIGEST_BYTES).hexdigest()

    def rows_apart(self, other: "RowDigests") -> int:
        """How many rows were added, removed or changed between two tables.

        Where most rows differ, columns were added or written otherwise, or the tables have nothing
        to do with each other; then it is how many rows one of them has more, or all of them if it
        has none.
        """
        own, others = self.rows, other.rows
        shared = own.size - _left_over(own, others)
        fewer, more = sorted((own.size, others.size))
        if 2 * shared >= fewer:
            return int(more - shared)
        return int(more - fewer or more)


def _left_over(rows: AnyArray, others: AnyArray) -> int:
    """How many rows are not among others, each of which stands for one of its kind."""
    values, counts = np.unique(rows, return_counts=True)
    known, theirs = np.unique(others, return_counts=True)
    _, places, of_known = np.intersect1d(values, known, assume_unique=True, return_indices=True)
    common = np.minimum(counts[places], theirs[of_known]).sum()
    return int(rows.size - common)
