"""One vector per client: the vectors that answers are made of.

Coefficients of shape (d, c) are laid out class by class (index = class · d + feature). Sums run
over clients in order, and one can be gone on with where other clients left it, so that every
engine gets the same bits.
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

    def total(self, weights: FloatArray) -> FloatArray:
        """Σ w_i x_i."""
        running = RunningTotal.of(self)
        running.add(self, weights)
        return running.finished(running_sum(0.0, weights))

    @abstractmethod
    def add_to(self, total: FloatArray, weights: FloatArray) -> None:
        """Add Σ w_i (x_i − common) to a vector laid out class by class, client after client."""

    @property
    def common(self) -> FloatArray | None:
        """What all x_i have in common, laid out class by class; None: nothing."""
        return None

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

    def add_to(self, total: FloatArray, weights: FloatArray) -> None:
        """Add Σ w_i x_i to a vector laid out class by class."""
        loops.add_dense_total(self.rows, weights, total)

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

    def add_to(self, total: FloatArray, weights: FloatArray) -> None:
        """Add Σ w_i change_i to a vector laid out class by class."""
        loops.add_sparse_total(self.pointer, self.indices, self.values, weights, total)

    @property
    def common(self) -> FloatArray | None:
        """factor · base."""
        return None if self.base is None else self.factor * flatten(self.base)

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


@dataclass(eq=False)
class RunningTotal:
    """Σ w_i x_i on its way: clients are added one after the other, however many at a time.

    Attributes
    ----------
    shape
        Of the vectors.
    entries
        The sum so far, laid out class by class, without what all vectors have in common.
    common
        What they have in common: added at the end, once, so that no client comes first.

    Examples
    --------
    >>> stack = DenseStack(np.array([[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]]), (2,))
    >>> running = RunningTotal.of(stack)
    >>> running.add(DenseStack(stack.rows[:1], (2,)), np.ones(1))
    >>> running.add(DenseStack(stack.rows[1:], (2,)), np.ones(2))
    >>> bool((running.finished(3.0) == stack.total(np.ones(3))).all())
    True
    """

    shape: tuple[int, ...]
    entries: FloatArray
    common: FloatArray | None = None

    @classmethod
    def of(cls, stack: Stack) -> "RunningTotal":
        """Nothing yet, for vectors such as those of a stack."""
        return cls(stack.shape, np.zeros(int(np.prod(stack.shape))), stack.common)

    def add(self, stack: Stack, weights: FloatArray) -> None:
        """Go on with the next clients."""
        stack.add_to(self.entries, weights)

    def finished(self, weight: float) -> FloatArray:
        """Σ w_i x_i, where weight = Σ w_i."""
        entries = self.entries if self.common is None else self.entries + weight * self.common
        return unflatten(entries, self.shape)


def running_sum(start: float, numbers: FloatArray) -> float:
    """A sum gone on with, number after number: `numpy.sum` adds in pairs that depend on how many.

    Examples
    --------
    >>> running_sum(running_sum(0.0, np.array([0.1, 0.2])), np.array([0.3])) == 0.1 + 0.2 + 0.3
    True
    """
    return float(np.cumsum(np.concatenate([[start], numbers]))[-1])


def _in_single(values: FloatArray) -> FloatArray:
    """Rounded to float32, but for numbers that it could not hold, or only in a few digits."""
    with np.errstate(all="ignore"):
        sizes = np.abs(values)
        is_held = (sizes == 0.0) | ((sizes > _SMALLEST_SINGLE) & (sizes < _LARGEST_SINGLE))
        return np.where(is_held, values.astype(np.float32).astype(np.float64), values)
