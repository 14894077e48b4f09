"""Golomb-Rice coding of the gaps between the indices of a sparse vector.

A gap is how many positions are skipped before an index. With the parameter ``k`` it is written as
``gap >> k`` one bits, a zero bit, and the ``k`` low bits of the gap, highest bit first.
"""

import numpy as np
from numpy.typing import NDArray

from fedsparse.compiling import compiled

MAX_PARAMETER = 62
"""The largest Rice parameter: a gap is below 2**63, so more low bits would be wasted."""

ENDED_EARLY = -1
"""Answer of `unpack` when the stream ends within a gap."""

OUT_OF_RANGE = -2
"""Answer of `unpack` when a gap leads past the last position."""


@compiled
def stream_bits(gaps: NDArray[np.int64], parameter: int) -> int:
    """Count the bits of all gaps at one parameter."""
    bits = gaps.size * (parameter + 1)
    for gap in gaps:
        bits += gap >> parameter
    return bits


@compiled
def best_parameter(gaps: NDArray[np.int64]) -> tuple[int, int]:
    """Find the parameter with the fewest bits, and that number of bits.

    One more low bit costs one bit per gap and saves ``ceil((gap >> k) / 2)``, which only shrinks as
    ``k`` grows: the bits are convex in ``k``, and walking downhill from anywhere finds the best.
    """
    if gaps.size == 0:
        return 0, 0
    mean = gaps.sum() // gaps.size
    parameter = 0
    while mean >> (parameter + 1) > 0:
        parameter += 1
    bits = stream_bits(gaps, parameter)
    for step in (-1, 1):
        while 0 <= parameter + step <= MAX_PARAMETER:
            candidate = stream_bits(gaps, parameter + step)
            if candidate >= bits:
                break
            parameter += step
            bits = candidate
    return parameter, bits


@compiled
def pack(gaps: NDArray[np.int64], parameter: int, stream: NDArray[np.uint8]) -> None:
    """Write the gaps to a zeroed stream that has room for all their bits."""
    position = 0
    for gap in gaps:
        for _ in range(gap >> parameter):
            stream[position >> 3] |= 128 >> (position & 7)
            position += 1
        position += 1
        for low in range(parameter - 1, -1, -1):
            if (gap >> low) & 1:
                stream[position >> 3] |= 128 >> (position & 7)
            position += 1


@compiled
def _bit(stream: NDArray[np.uint8], position: int) -> int:
    return (int(stream[position >> 3]) >> (7 - (position & 7))) & 1


@compiled
def unpack(
    stream: NDArray[np.uint8], parameter: int, length: int, indices: NDArray[np.int64]
) -> int:
    """Read as many gaps as there are indices to fill, from a stream that nobody has checked.

    Returns the number of bits read, or `ENDED_EARLY` or `OUT_OF_RANGE`. No bit is read twice, so
    the work is bounded by the size of the stream.
    """
    position = 0
    end = stream.size * 8
    index = -1
    for entry in range(indices.size):
        quotient = 0
        while position < end and _bit(stream, position):
            quotient += 1
            position += 1
        if end - position < 1 + parameter:
            return ENDED_EARLY
        position += 1
        remainder = 0
        for _ in range(parameter):
            remainder = (remainder << 1) | _bit(stream, position)
            position += 1
        # Compared in this order, no shift or sum can leave the 64-bit range.
        largest_gap = length - 2 - index
        if quotient > largest_gap >> parameter:
            return OUT_OF_RANGE
        if remainder > largest_gap - (quotient << parameter):
            return OUT_OF_RANGE
        index += 1 + (quotient << parameter) + remainder
        indices[entry] = index
    return position


@compiled
def _row_gaps(
    indices: NDArray[np.integer],
    values: NDArray[np.floating],
    length: int,
    gaps: NDArray[np.int64],
) -> int:
    """Write the gaps before the non-zero entries; count them, or -1 for indices out of order."""
    count = 0
    last_seen = -1
    last_sent = -1
    for entry in range(indices.size):
        index = int(indices[entry])
        if index <= last_seen or index >= length:
            return -1
        last_seen = index
        if values[entry] != 0:
            gaps[count] = index - last_sent - 1
            last_sent = index
            count += 1
    return count


@compiled
def row_bits(
    pointer: NDArray[np.int64],
    indices: NDArray[np.integer],
    values: NDArray[np.floating],
    length: int,
    gaps: NDArray[np.int64],
    counts: NDArray[np.int64],
    bits: NDArray[np.int64],
) -> int:
    """Fill the non-zero count and the stream bits of every row of a ragged stack.

    ``gaps`` is scratch space as wide as the widest row. Returns the first row whose indices are
    not strictly increasing within ``range(length)``, or -1 when every row is in order.
    """
    for row in range(counts.size):
        start = pointer[row]
        stop = pointer[row + 1]
        count = _row_gaps(indices[start:stop], values[start:stop], length, gaps)
        if count < 0:
            return row
        counts[row] = count
        bits[row] = best_parameter(gaps[:count])[1]
    return -1


@compiled
def shortest_itemsize(values: NDArray[np.floating]) -> int:
    """Bytes of the shortest type that holds non-zero values: 0 if all are 1, 4 or 8."""
    is_one, found = True, False
    for value in values:
        if value == 0.0:
            continue
        found = True
        if value != 1.0:
            is_one = False
            if np.float64(np.float32(value)) != value:
                return 8
    return 0 if is_one and found else 4


@compiled
def shortest_itemsizes(
    pointer: NDArray[np.int64], values: NDArray[np.floating], itemsizes: NDArray[np.int64]
) -> None:
    """The same for every row of a ragged stack."""
    for row in range(itemsizes.size):
        itemsizes[row] = shortest_itemsize(values[pointer[row] : pointer[row + 1]])
