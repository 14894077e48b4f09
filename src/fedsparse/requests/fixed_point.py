"""Numbers as integers that add up exactly: fixed point modulo a power of two.

A float64 v becomes the whole number nearest to v · 2^fraction, written in 64-bit words, negative
ones as two's complement. Sums of such integers depend neither on the order of clients nor on masks
that were added and taken away again, so every engine that adds them up gets the same bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsparse.arrays import FloatArray

Words = NDArray[np.uint64]
"""Integers, one a column; row k holds their bits 64 k to 64 k + 63."""

ShortWords = NDArray[np.uint32]
"""Integers of 32 bits."""

_BITS = 64
_LARGEST_OF_MANY = 4.0
_HEADROOM = 21
"""Bits left for the sum of up to a million clients, and its sign."""


@dataclass(frozen=True)
class FixedPoint:
    """How numbers become integers.

    Attributes
    ----------
    words
        64-bit words an integer has.
    fraction
        Its bits behind the point.

    Examples
    --------
    >>> written = NARROW.encode(np.array([0.5, -3.0]))
    >>> add(written, NARROW.encode(np.array([0.25, 1.0])))
    >>> NARROW.decode(written)
    array([ 0.75, -2.  ])
    """

    words: int
    fraction: int

    @property
    def largest(self) -> float:
        """What no number may reach."""
        return float(2.0 ** (self.words * _BITS - _HEADROOM - self.fraction))

    @property
    def bytes(self) -> int:
        """Length of an integer."""
        return self.words * _BITS // 8

    def holds(self, numbers: FloatArray, clients: int = 1) -> bool:
        """Whether all numbers are finite and small enough."""
        return bool((np.abs(numbers) < self.largest).all())

    def encode(self, numbers: FloatArray) -> Words:
        """The nearest integers; the numbers must be such as it `holds`."""
        parts, exponents = np.frexp(np.abs(numbers))
        shift = exponents.astype(np.int64) - 53 + self.fraction
        # What lies below the last bit is rounded, ties to the even number.
        digits = np.rint(np.ldexp(parts, 53 + np.minimum(shift, 0))).astype(np.uint64)
        place, offset = np.divmod(np.maximum(shift, 0), _BITS)
        offset = offset.astype(np.uint64)
        written = np.zeros((self.words, numbers.size), dtype=np.uint64)
        every = np.arange(numbers.size)
        written[place, every] = digits << offset
        has_more = offset > 0
        above = np.minimum(place + 1, self.words - 1)[has_more]
        written[above, every[has_more]] |= digits[has_more] >> (_BITS - offset[has_more])
        is_negative = np.signbit(numbers)
        written[:, is_negative] = negated(written[:, is_negative])
        return written

    def decode(self, written: Words) -> FloatArray:
        """The numbers again, correct to the last bit or two."""
        is_negative = (written[-1] >> np.uint64(_BITS - 1)).astype(bool)
        sizes = np.where(is_negative, negated(written), written)
        numbers = np.zeros(written.shape[1])
        for place in reversed(range(self.words)):
            numbers += np.ldexp(sizes[place].astype(np.float64), place * _BITS - self.fraction)
        return np.where(is_negative, -numbers, numbers)


NARROW = FixedPoint(words=2, fraction=64)
"""For vectors of standardized features: up to 8e12, in steps of 5e-20."""

WIDE = FixedPoint(words=3, fraction=80)
"""For columns in their own units, sums of squares and single numbers: up to 2e27, in steps of
8e-25."""


@dataclass(frozen=True)
class ShortFixedPoint:
    """Numbers as 32-bit integers: those of sums that are known to be about 1 at most.

    Examples
    --------
    >>> written = SHORT.encode(np.array([0.5, -0.25]))
    >>> SHORT.decode(written + SHORT.encode(np.array([0.25, -0.5])))
    array([ 0.75, -0.75])
    """

    fraction: int
    bytes: int = 4

    def largest(self, clients: int = 1) -> float:
        """What no number may reach where so many are added up: the sum must fit as well.

        Relative to the diagonal of their sum, by Cauchy and Schwarz, numbers of all clients
        together hardly pass 2, so that one of them may be so large however many there are.
        """
        most = float(2.0 ** (8 * self.bytes - 1 - self.fraction))
        return max(_LARGEST_OF_MANY, most / (clients + 1))

    def holds(self, numbers: FloatArray, clients: int = 1) -> bool:
        """Whether all numbers are finite, and small enough that so many may be added up."""
        return bool((np.abs(numbers) < self.largest(clients)).all())

    def encode(self, numbers: FloatArray) -> ShortWords:
        """The nearest integers; the numbers must be such as it `holds`."""
        return np.rint(np.ldexp(numbers, self.fraction)).astype(np.int64).astype(np.uint32)

    def decode(self, written: ShortWords) -> FloatArray:
        """The numbers again."""
        return np.ldexp(written.astype(np.int32).astype(np.float64), -self.fraction)


SHORT = ShortFixedPoint(fraction=24)
"""For second derivatives relative to their sums' diagonal: sums up to 128, in steps of 6e-8."""


def negated(written: Words) -> Words:
    """−v modulo 2^(64 · words).

    Examples
    --------
    >>> NARROW.decode(negated(NARROW.encode(np.array([2.5]))))
    array([-2.5])
    """
    flipped = ~written
    carry = np.ones(written.shape[1], dtype=np.uint64)
    for place in range(written.shape[0]):
        flipped[place] += carry
        carry &= (flipped[place] == 0).astype(np.uint64)
    return flipped


def add(total: Words, other: Words) -> None:
    """Add integers to others in place, modulo 2^(64 · words)."""
    carry = np.zeros(total.shape[1], dtype=np.uint64)
    for place in range(total.shape[0]):
        with_other = total[place] + other[place]
        is_over = with_other < other[place]
        total[place] = with_other + carry
        carry = (is_over | (total[place] < with_other)).astype(np.uint64)
