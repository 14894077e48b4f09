"""Which entries of symmetric matrices clients are asked for, and what a client has of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.triangles import triangle_size


@dataclass(frozen=True, eq=False)
class ClientMatrix:
    """A matrix that a client has worked out: Σ c_r z_r z_rᵀ over its rows.

    Attributes
    ----------
    held
        Places of the features that it has, among those asked about.
    hessian
        On these; only the upper triangle counts.
    mass, first
        Σ c_r and Σ c_r z_r; 0 where there are none.
    """

    held: Int64Array
    hessian: FloatArray
    mass: float
    first: FloatArray


@dataclass(frozen=True, eq=False)
class AskedEntries:
    """Which entries of a symmetric matrix are told: of its upper triangle, row by row.

    Attributes
    ----------
    is_known
        Of each feature whether it is known; entries of two that are, are not asked for.
    units
        Of the features, if entries are told relative to them.
    bits
        Of an entry, where it is rounded.

    Examples
    --------
    >>> AskedEntries(np.array([True, True, False])).mask
    array([[False, False,  True],
           [False, False,  True],
           [False, False,  True]])
    """

    is_known: BoolArray
    units: FloatArray | None = None
    bits: int = 8

    @property
    def size(self) -> int:
        """Features."""
        return self.is_known.size

    @cached_property
    def count(self) -> int:
        """Entries."""
        return triangle_size(self.size) - triangle_size(int(np.count_nonzero(self.is_known)))

    @cached_property
    def mask(self) -> BoolArray:
        """The entries in the matrix."""
        return np.asarray(np.triu(~(self.is_known[:, None] & self.is_known)))

    @cached_property
    def places(self) -> Int64Array:
        """Of every entry of the matrix its place among those asked for."""
        return np.cumsum(self.mask).reshape(self.mask.shape) - 1


class EntriesShape(tuple[int, ...]):
    """The shape of a vector of asked entries of some matrices, relative to the features' units.

    Examples
    --------
    >>> none, all_ = np.zeros(3, dtype=np.bool_), np.ones(2, dtype=np.bool_)
    >>> EntriesShape.of([AskedEntries(none), AskedEntries(all_)])
    (6,)
    """

    blocks: tuple[AskedEntries, ...]

    @classmethod
    def of(cls, blocks: Sequence[AskedEntries]) -> "EntriesShape":
        """Of these matrices."""
        shape = cls((sum(block.count for block in blocks),))
        shape.blocks = tuple(blocks)
        return shape
