"""One vector per client: the vectors that answers are made of.

Coefficients of shape (d, c) are laid out class by class (index = class · d + feature). Sums run
over clients in order, so that every engine gets the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.kernels import stack_sums as loops

_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-37, 1e38


class Stack(ABC):
    """Vectors of equal shape, one per client."""

    shape: tuple[int, ...]

    @abstractmethod
    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w_i x_i."""

    @abstractmethod
    def each(self) -> Iterator[FloatArray]:
        """x_i, client by client."""

    @abstractmethod
    def squared_distances(self, x: FloatArray) -> FloatArray:
        """‖x_i − x‖² of each client."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether no vector holds NaN or infinity."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Memory of the vectors."""


def flatten(x: FloatArray) -> FloatArray:
    """Coefficients of shape (d,) or (d, c) as a vector laid out class by class.

    Examples
    --------
    >>> flatten(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([1., 3., 2., 4.])
    """
    return x.ravel(order="F")


def unflatten(vector: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """A vector laid out class by class, as coefficients of shape (d,) or (d, c).

    Examples
    --------
    >>> unflatten(np.array([1.0, 3.0, 2.0, 4.0]), (2, 2))
    array([[1., 2.],
           [3., 4.]])
    """
    return vector if len(shape) == 1 else vector.reshape(shape[::-1]).T


def squared_norm(x: FloatArray) -> float:
    """‖x‖², Frobenius for a matrix; the same on every engine.

    Examples
    --------
    >>> squared_norm(np.array([[3.0], [4.0]]))
    25.0
    """
    return loops.squared_norm(flatten(x))


@dataclass(frozen=True)
class DenseStack(Stack):
    """Vectors written out in full, one row each."""

    rows: FloatArray
    shape: tuple[int, ...]

    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w_i x_i."""
        return unflatten(loops.dense_total(self.rows, weights), self.shape)

    def each(self) -> Iterator[FloatArray]:
        """x_i, client by client."""
        return (unflatten(row, self.shape) for row in self.rows)

    def squared_distances(self, x: FloatArray) -> FloatArray:
        """‖x_i − x‖² of each client."""
        return loops.dense_squared_distances(self.rows, flatten(x))

    def is_finite(self) -> bool:
        """Whether no vector holds NaN or infinity."""
        return bool(np.isfinite(self.rows).all())

    def in_single(self) -> "DenseStack":
        """The same rounded to float32."""
        return DenseStack(_in_single(self.rows), self.shape)

    @property
    def bytes(self) -> int:
        """Memory of the vectors."""
        return self.rows.nbytes


@dataclass(frozen=True)
class SparseStack(Stack):
    """Vectors x_i = factor · base + change_i, of which only the sparse change travels.

    Without a base they are the change itself. Row i has entries ``pointer[i]`` to
    ``pointer[i + 1]`` of ``indices`` (increasing) and ``values``.
    """

    pointer: Int64Array
    indices: Int64Array
    values: FloatArray
    shape: tuple[int, ...]
    base: FloatArray | None = None
    factor: float = 0.0

    @classmethod
    def from_gapped(
        cls,
        starts: Int64Array,
        counts: Int64Array,
        indices: Int64Array,
        values: FloatArray,
        shape: tuple[int, ...],
    ) -> "SparseStack":
        """Rows that begin at ``starts`` and have ``counts`` entries; takes the arrays over."""
        pointer = np.empty(counts.size + 1, dtype=np.int64)
        loops.close_gaps(starts, counts, indices, values, pointer)
        return cls(pointer, indices[: pointer[-1]], values[: pointer[-1]], shape)

    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w_i x_i."""
        if self.base is None:
            total = np.zeros(self._length)
        else:
            total = (self.factor * weights.sum()) * flatten(self.base)
        loops.add_sparse_total(self.pointer, self.indices, self.values, weights, total)
        return unflatten(total, self.shape)

    def each(self) -> Iterator[FloatArray]:
        """x_i, client by client."""
        return (self.total(weights) for weights in np.eye(self.pointer.size - 1))

    def squared_distances(self, x: FloatArray) -> FloatArray:
        """‖x_i − x‖² of each client."""
        offset = flatten(-x if self.base is None else self.factor * self.base - x)
        support = np.flatnonzero(offset)
        return loops.sparse_squared_distances(
            self.pointer, self.indices, self.values, support, offset[support]
        )

    def in_single(self) -> "SparseStack":
        """The same with changes rounded to float32."""
        return replace(self, values=_in_single(self.values))

    def is_finite(self) -> bool:
        """Whether no change holds NaN or infinity."""
        return bool(np.isfinite(self.values).all() and np.isfinite(self.factor))

    @property
    def bytes(self) -> int:
        """Memory of the changes."""
        return self.pointer.nbytes + self.indices.nbytes + self.values.nbytes

    @property
    def _length(self) -> int:
        return int(np.prod(self.shape))


def _in_single(values: FloatArray) -> FloatArray:
    """Rounded to float32, but for numbers that it could not hold, or only in a few digits."""
    with np.errstate(all="ignore"):
        sizes = np.abs(values)
        is_held = (sizes == 0.0) | ((sizes > _SMALLEST_SINGLE) & (sizes < _LARGEST_SINGLE))
        return np.where(is_held, values.astype(np.float32).astype(np.float64), values)
