"""Rounded matrices as bytes.

One message for all matrices of a client, each of them in this order:

========  =====================================================================
held      places of the features it has, as by `wire.vectors`; length in front
mass      float32
step      float32
mean      float32 a feature held; none if the mass is 0
spread    float32 a feature held
pairs     which pairs have a code, as by `wire.vectors`, length in front; 0 for all
codes     one or two bytes each, as asked
========  =====================================================================
"""

from collections.abc import Sequence

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.asked_entries import AskedEntries
from fedsparse.compute.rounded_matrix import RoundedMatrix, code_type, largest_code
from fedsparse.compute.triangles import triangle_size
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.vectors import WireError

_SIZE = 4


def matrices_to_bytes(matrices: Sequence[RoundedMatrix], asked: Sequence[AskedEntries]) -> bytes:
    """Write the matrices of one client.

    Examples
    --------
    >>> mean, spread, codes = np.array([0.5, 1]), np.array([1.0, 3]), np.array([-7], dtype=np.int8)
    >>> own = RoundedMatrix(np.array([0, 2]), 2.0, mean, spread, 0.25, None, codes)
    >>> asked = AskedEntries(np.zeros(3, dtype=np.bool_), np.ones(3))
    >>> (again,) = matrices_from_bytes(matrices_to_bytes([own], [asked]), [asked])
    >>> again.held, again.spread, again.codes
    (array([0, 2]), array([1., 3.]), array([-7], dtype=int8))
    """
    both = zip(matrices, asked, strict=True)
    return b"".join(part for own, block in both for part in _parts(own, block))


def matrices_length(matrices: Sequence[RoundedMatrix], asked: Sequence[AskedEntries]) -> int:
    """How many bytes `matrices_to_bytes` writes, without writing them."""
    return sum(_length(own, block) for own, block in zip(matrices, asked, strict=True))


def _length(own: RoundedMatrix, asked: AskedEntries) -> int:
    pairs = 0
    if own.pairs is not None:
        pairs = _places_length(own.pairs, _most_pairs(own.held, asked))
    floats = 2 + (own.mean.size if own.mass else 0) + own.spread.size
    codes = own.codes.size * code_type(asked.bits).itemsize
    return 2 * _SIZE + _places_length(own.held, asked.size) + 4 * floats + pairs + codes


def _parts(own: RoundedMatrix, asked: AskedEntries) -> list[bytes]:
    pairs = b"" if own.pairs is None else _places(own.pairs, _most_pairs(own.held, asked))
    return [
        _sized(_places(own.held, asked.size)),
        _floats(np.array([own.mass, own.step])),
        _floats(own.mean if own.mass else own.mean[:0]),
        _floats(own.spread),
        _sized(pairs),
        own.codes.astype(code_type(asked.bits)).tobytes(),
    ]


def matrices_from_bytes(message: bytes, asked: Sequence[AskedEntries]) -> list[RoundedMatrix]:
    """Read the matrices of one client.

    Parameters
    ----------
    message
        Anything that came over the wire.
    asked
        Which entries of each were asked for.

    Raises
    ------
    WireError
        If the message is malformed, or holds other entries.
    """
    reader = _Reader(message)
    matrices = [_read(reader, block) for block in asked]
    if reader.rest:
        raise WireError(f"The matrices are {reader.rest} byte(s) longer than they can be.")
    return matrices


def _read(reader: "_Reader", asked: AskedEntries) -> RoundedMatrix:
    held = reader.places(asked.size)
    if held is None:
        raise WireError("A matrix does not say which features it has.")
    mass, step = reader.floats(2)
    mean = reader.floats(held.size if mass else 0)
    spread = reader.floats(held.size)
    most = _most_pairs(held, asked)
    pairs = reader.places(most)
    kind = code_type(asked.bits)
    count = most if pairs is None else pairs.size
    codes = np.frombuffer(reader.take(kind.itemsize * count), kind)
    if bool((codes < -largest_code(asked.bits)).any()):
        raise WireError("A code is none of those that stand for correlations.")
    if mass < 0.0 or step < 0.0 or bool((spread < 0.0).any()):  # others need not be finite
        raise WireError("A matrix has a negative number where none can be.")
    return RoundedMatrix(held, float(mass), mean, spread, float(step), pairs, codes)


class _Reader:
    """Takes a message apart from the front."""

    def __init__(self, message: bytes) -> None:
        self._message, self._place = message, 0

    @property
    def rest(self) -> int:
        """Bytes that are left."""
        return len(self._message) - self._place

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size > self.rest:
            raise WireError("The message ends within a matrix.")
        self._place += size
        return self._message[self._place - size : self._place]

    def floats(self, count: int) -> FloatArray:
        """The next numbers."""
        with np.errstate(invalid="ignore"):
            return np.frombuffer(self.take(4 * count), "<f4").astype(np.float64)

    def places(self, length: int) -> Int64Array | None:
        """The next set of places; None if there is none."""
        size = int.from_bytes(self.take(_SIZE), "little")
        return wire.decode_sparse(self.take(size), length).indices if size else None


def _most_pairs(held: Int64Array, asked: AskedEntries) -> int:
    known = int(np.count_nonzero(asked.is_known[held]))
    return triangle_size(held.size - 1) - triangle_size(known - 1)


def _places(places: Int64Array, length: int) -> bytes:
    return wire.encode_sparse(places, np.ones(places.size), length)


def _places_length(places: Int64Array, length: int) -> int:
    whole = np.array([0, places.size])
    return int(wire.encoded_sizes(whole, places, np.ones(places.size), length)[0])


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(_SIZE, "little") + part


def _floats(numbers: FloatArray) -> bytes:
    return numbers.astype("<f4").tobytes()
