"""What callers of `vectors` hand over, checked and brought to the wire's types."""

import operator
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

FLOAT64: Final = np.dtype("<f8")
FLOAT32: Final = np.dtype("<f4")
LARGEST_INTEGER: Final = 2**63 - 1

_KINDS = {"float": "f", "integer": "iu"}


def rounded(values: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Values of the wire's type."""
    # Zero and infinity are the documented results of rounding, not surprises to warn about.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(dtype, copy=False)


def checked_dtype(dtype: DTypeLike | None) -> np.dtype[np.floating]:
    """The wire's type for a NumPy type; float64 for None."""
    if dtype is None:
        return FLOAT64
    for candidate in (FLOAT64, FLOAT32):
        if np.dtype(dtype).newbyteorder("<") == candidate:
            return candidate
    raise ValueError(f"dtype must be float64 or float32, not {np.dtype(dtype)}.")


def checked_length(length: int) -> int:
    """A length that a message can name."""
    if not 0 <= length <= LARGEST_INTEGER:
        raise ValueError(f"length must be from 0 to 2**63 - 1, not {length}.")
    # A NumPy integer of few bits would overflow where sizes are computed from it.
    return operator.index(length)


def checked_array(values: ArrayLike, kind: str, name: str) -> NDArray[Any]:
    """A one-dimensional array of floats or integers."""
    array = np.asarray(values)
    # An empty list has nothing to tell its kind by, so any empty array will do.
    if array.ndim != 1 or (array.size and array.dtype.kind not in _KINDS[kind]):
        raise ValueError(f"{name} must be a one-dimensional {kind} array.")
    return np.ascontiguousarray(array)


def checked_entries(
    indices: ArrayLike, values: ArrayLike, dtype: np.dtype[np.floating]
) -> tuple[NDArray[np.signedinteger], NDArray[np.floating]]:
    """Give indices, whose order is still to be checked, and as many values of the wire's type."""
    floats = rounded(checked_array(values, "float", "values"), dtype)
    positions = checked_array(indices, "integer", "indices")
    if positions.size != floats.size:
        raise ValueError(
            f"indices and values must be equally many, not {positions.size} and {floats.size}."
        )
    # Two types are enough: each further one would have the loops compiled once more.
    if positions.dtype != np.int32:
        positions = positions.astype(np.int64, copy=False)
    return positions, floats


def checked_pointer(pointer: ArrayLike, count: int) -> NDArray[np.int64]:
    """Where the rows of a ragged stack begin."""
    starts = checked_array(pointer, "integer", "pointer").astype(np.int64)
    rising = bool(np.all(starts[1:] >= starts[:-1]))
    if not rising or not starts.size or starts[0] < 0 or starts[-1] > count:
        raise ValueError(f"pointer must be numbers from 0 to {count} that never decrease.")
    return starts
