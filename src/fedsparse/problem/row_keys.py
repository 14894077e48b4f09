"""What is in a row, in 64 bits: the same for dense and sparse rows, wherever they lie."""

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, UInt64Array

_CHUNK = 2**20
"""Numbers that are worked on at a time."""


def keys_of(features: AnyArray | sparse.csr_array, targets: AnyArray) -> UInt64Array:
    """A number for every row that depends on all that is in it.

    So rows with the same key give the same answers. Without targets, who asks about a column that
    is the same in all rows would know how they are drawn, and solve for every target.

    Parameters
    ----------
    features
        Rows, dense or CSR; what is missing is NaN.
    targets
        Of the rows, as numbers.

    Examples
    --------
    >>> rows = np.array([[0.0, 2.0], [1.0, np.nan], [0.0, 2.0]])
    >>> keys = keys_of(rows, np.array([0, 1, 0]))
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    >>> bool((keys_of(sparse.csr_array(rows), np.array([0, 1, 0])) == keys).all())
    True
    """
    rows, width = features.shape
    factors = mixed(np.arange(width + 1, dtype=np.uint64)) | np.uint64(1)
    of_targets = _parts(targets, factors[-1:])
    factors = factors[:-1]
    if isinstance(features, sparse.csr_array):
        parts = _parts(features.data, factors[features.indices])
        so_far = np.concatenate([np.zeros(1, np.uint64), np.cumsum(parts, dtype=np.uint64)])
        return mixed(of_targets + so_far[features.indptr[1:]] - so_far[features.indptr[:-1]])
    found = np.empty(rows, dtype=np.uint64)
    step = max(_CHUNK // max(width, 1), 1)
    for begin in range(0, rows, step):
        part = _parts(features[begin : begin + step], factors)
        found[begin : begin + step] = part.sum(axis=1, dtype=np.uint64)
    return mixed(of_targets + found)


def mixed(numbers: UInt64Array | np.uint64) -> UInt64Array:
    """Numbers whose every bit depends on every bit (the last steps of SplitMix64).

    G. L. Steele, D. Lea & C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.

    Examples
    --------
    >>> bool((mixed(np.arange(3, dtype=np.uint64)) == mixed(np.arange(3, dtype=np.uint64))).all())
    True
    """
    with np.errstate(over="ignore"):
        z = np.asarray(numbers, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def _parts(values: AnyArray, factors: UInt64Array) -> UInt64Array:
    """What each number adds to the key of its row; zeros add nothing, stored or not."""
    numbers = values.astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan  # whatever its bits were
    bits = (numbers + 0.0).view(np.uint64)
    with np.errstate(over="ignore"):
        parts = bits * factors
        parts ^= parts >> np.uint64(29)
        parts *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(np.where(bits == 0, np.uint64(0), parts))
