"""H_τ in a client's own numbering of columns.

Besides its own columns a client keeps those in the support of x_t that it does not have: they
shrink with ℓ2 and compete in H_τ. They are numbered after the own ones and called *outside*.
"""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels.csr import find
from fedsparse.problem.select import cut


class Columns(NamedTuple):
    """The columns a client works on.

    ``always`` is how many H_τ must keep in all, ``always_here`` the numbers of those the client
    has; the others are zero, yet use up their place.
    """

    own: Int32Array
    outside: Int64Array
    always_here: Int64Array
    always: int


@compiled
def columns_with(own: Int32Array, support: Int64Array, always: Int64Array) -> Columns:
    """A client's columns and those of the support that it does not have."""
    outside = np.empty(support.size, np.int64)
    found = 0
    for column in support:
        if find(own, column) < 0:
            outside[found] = column
            found += 1
    outside = outside[:found]
    return Columns(own, outside, _numbers_of(own, outside, always), always.size)


@compiled
def _numbers_of(own: Int32Array, outside: Int64Array, always: Int64Array) -> Int64Array:
    numbers = np.empty(always.size, np.int64)
    found = 0
    for column in always:
        number = find(own, column)
        if number < 0:
            place = int(np.searchsorted(outside, column))
            if place == outside.size or outside[place] != column:
                continue
            number = own.size + place
        numbers[found] = number
        found += 1
    return numbers[:found]


@compiled
def _column(columns: Columns, number: int) -> int:
    if number < columns.own.size:
        return columns.own[number]
    return columns.outside[number - columns.own.size]


@compiled
def _last_tied(
    columns: Columns, numbers: Int64Array, keys: Int64Array, size: int, threshold: int, quota: int
) -> int:
    """Highest of the ``quota`` lowest columns whose key is the threshold; −1 if quota is 0."""
    tied = np.empty(size, np.int64)
    found = 0
    for position in range(size):
        if keys[position] == threshold:
            tied[found] = _column(columns, numbers[position])
            found += 1
    if quota <= 0:
        return -1
    return np.sort(tied[:found])[min(quota, found) - 1]


@compiled
def threshold_all(
    x: FloatArray,
    label: int,
    kept: int,
    columns: Columns,
    magnitudes: FloatArray,
    scratch: Int64Array,
    guess: int,
) -> int:
    """H_τ among all local coefficients of one class, in place; returns the threshold."""
    keys, size = magnitudes.view(np.int64), x.shape[0]
    for number in range(size):
        magnitudes[number] = abs(x[number, label])
    for number in columns.always_here:
        magnitudes[number] = np.inf
    room = kept - columns.always + columns.always_here.size
    threshold, quota = cut(keys, size, room, guess, scratch)
    if quota >= size:
        for number in range(size):
            x[number, label] = x[number, label] if keys[number] >= threshold else 0.0
    elif threshold > 0:  # zeros at the threshold need no choice among them
        last = _last_tied(columns, np.arange(size), keys, size, threshold, quota)
        for number in range(size):
            tied = keys[number] == threshold
            if keys[number] < threshold or (tied and _column(columns, number) > last):
                x[number, label] = 0.0
    return threshold


@compiled
def threshold_candidates(
    x: FloatArray,
    label: int,
    candidates: Int64Array,
    size: int,
    kept: int,
    columns: Columns,
    must_keep: BoolArray,
    magnitudes: FloatArray,
    scratch: Int64Array,
    guess: int,
    support: Int64Array,
) -> tuple[int, int]:
    """H_τ among the candidates of one class, in place; all others are zero already.

    Lists the survivors in ``support``; returns how many they are, and the threshold.
    """
    keys = magnitudes.view(np.int64)
    present = 0
    for position in range(size):
        number = candidates[position]
        magnitudes[position] = abs(x[number, label])
        if must_keep[number]:
            magnitudes[position] = np.inf
            present += 1
    threshold, quota = cut(keys, size, kept - columns.always + present, guess, scratch)
    last = 2**62
    if quota < size and threshold > 0:
        last = _last_tied(columns, candidates, keys, size, threshold, quota)
    survivors = 0
    for position in range(size):
        number, key = candidates[position], keys[position]
        survives = key > threshold or (key == threshold and _column(columns, number) <= last)
        if survives and x[number, label] != 0.0:
            support[survivors] = number
            survivors += 1
        else:
            x[number, label] = 0.0
    return survivors, threshold


@compiled
def supports_of(x: FloatArray) -> tuple[Int64Array, Int64Array]:
    """Numbers of the non-zeros of every class, and how many there are."""
    supports = np.empty((x.shape[1], x.shape[0]), np.int64)
    sizes = np.zeros(x.shape[1], np.int64)
    for label in range(x.shape[1]):
        for number in range(x.shape[0]):
            if x[number, label] != 0.0:
                supports[label, sizes[label]] = number
                sizes[label] += 1
    return supports, sizes


@compiled
def write_supports(
    x: FloatArray,
    supports: Int64Array,
    sizes: Int64Array,
    columns: Columns,
    width: int,
    indices: Int64Array,
    values: FloatArray,
) -> int:
    """List the non-zeros in order of (class, column); returns how many there are."""
    filled = 0
    for label in range(x.shape[1]):
        found = np.empty(sizes[label], np.int64)
        for position in range(found.size):
            found[position] = _column(columns, supports[label, position])
        for position in np.argsort(found):
            indices[filled] = label * width + found[position]
            values[filled] = x[supports[label, position], label]
            filled += 1
    return filled
