"""Hard thresholding H_τ: find the τ entries of largest magnitude.

The bit pattern of a non-negative float, read as an integer, sorts like the float. So magnitudes are
compared as integer *keys* and the τ-th largest is found by bisecting on the key: every probe is one
counting pass, which vectorizes and does not branch, and a good first guess (the threshold of the
previous local step) leaves about ten of them. NaN sorts above infinity: it is kept, and seen.
"""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled

# A sixteenth of an octave: thresholds of successive steps rarely move further.
_FIRST_STRIDE = 1 << 48
_LAST_STRIDE = 1 << 60
# Below this many keys a counting pass is cheaper than gathering the undecided ones.
_WORTH_GATHERING = 2048
_STRETCH = 256


@compiled
def _count_at_least(keys: Int64Array, size: int, bound: int) -> int:
    count = 0
    for position in range(size):
        count += keys[position] >= bound
    return count


@compiled
def _largest(keys: Int64Array, size: int) -> int:
    largest = keys[0]
    for position in range(size):
        largest = max(largest, keys[position])
    return largest


@compiled
def _gather_between(keys: Int64Array, size: int, low: int, high: int, gathered: Int64Array) -> int:
    count = 0
    for position in range(size):
        candidate = keys[position]
        gathered[count] = candidate
        count += (candidate >= low) & (candidate < high)
    return count


@compiled
def cut(keys: Int64Array, size: int, kept: int, guess: int, scratch: Int64Array) -> tuple[int, int]:
    """Where to cut so that ``kept`` of ``size`` keys stay.

    Returns ``(threshold, quota)``: keep every key above ``threshold`` and the first ``quota`` of
    those equal to it. ``guess`` is a likely threshold, 0 if there is none. ``scratch`` has at
    least ``size`` entries.
    """
    if size <= kept:
        return 0, size
    low, at_least_low = 0, size
    high = _largest(keys, size)
    at_least_high = _count_at_least(keys, size, high)
    if at_least_high >= kept:
        return high, kept
    source, undecided, decided = keys, size, 0
    probe = guess if 0 < guess < high else high - 1
    stride = _FIRST_STRIDE
    went_up = went_down = False
    while at_least_low > kept and high - low > 1:
        count = decided + _count_at_least(source, undecided, probe)
        if count >= kept:
            low, at_least_low = probe, count
            went_up = True
        else:
            high, at_least_high = probe, count
            went_down = True
        between = high - low
        if went_up and went_down:
            probe = low + between // 2
        elif went_up:  # gallop away from the guess until the threshold is enclosed
            probe = low + max(1, min(stride, between - 1))
        else:
            probe = high - max(1, min(stride, between - 1))
        stride = min(4 * stride, _LAST_STRIDE)
        if undecided > _WORTH_GATHERING and (at_least_low - at_least_high) * 4 < undecided:
            undecided = _gather_between(source, undecided, low, high, scratch)
            source, decided = scratch, at_least_high
    if at_least_low == kept:
        return low, size
    return low, kept - at_least_high


@compiled
def nonzero_positions(vector: FloatArray) -> Int64Array:
    """Positions of the non-zeros, in one pass at the speed of memory where they are few.

    Whole stretches are tested at once; only those with a non-zero are looked through.
    """
    positions = np.empty(1024, np.int64)
    found = 0
    for begin in range(0, vector.size, _STRETCH):
        stretch = vector[begin : begin + _STRETCH]
        total = 0.0
        for place in range(stretch.size):
            total += abs(stretch[place])
        if total == 0.0:
            continue
        if found + _STRETCH > positions.size:
            positions = np.concatenate((positions, np.empty_like(positions)))
        for place in range(stretch.size):
            if stretch[place] != 0.0:
                positions[found] = begin + place
                found += 1
    return positions[:found]


@compiled
def keep_largest(vector: FloatArray, kept: int, result: FloatArray) -> None:
    """H_τ of a vector: copy exactly ``kept`` entries of largest magnitude to ``result``, all zeros.

    Room comes from the caller because NumPy gets large arrays in huge pages, five times faster.
    """
    if 2 * np.count_nonzero(vector) > vector.size:
        magnitudes = np.abs(vector)
        keys = magnitudes.view(np.int64)
        threshold, quota = cut(keys, keys.size, kept, 0, np.empty_like(keys))
        for entry in range(keys.size):
            if keys[entry] >= threshold and (keys[entry] > threshold or quota > 0):
                quota -= keys[entry] == threshold
                result[entry] = vector[entry]
        return
    positions = nonzero_positions(vector)
    magnitudes = np.empty(positions.size)
    for entry in range(positions.size):
        magnitudes[entry] = abs(vector[positions[entry]])
    keys = magnitudes.view(np.int64)
    threshold, quota = cut(keys, keys.size, kept, 0, np.empty_like(keys))
    for entry in range(keys.size):
        if keys[entry] > threshold or (keys[entry] == threshold and quota > 0):
            quota -= keys[entry] == threshold
            result[positions[entry]] = vector[positions[entry]]
