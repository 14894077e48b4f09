"""The one encoding of a vector on the wire: dense or sparse, whichever is smaller.

A message is, in this order:

=============  ==================================================================
version        one byte, 1
flags          one byte: bit 0 set for sparse, bit 1 for float32 values, bit 2 for values
               that are all 1 and left out (sparse only)
length         varint: seven bits a byte, lowest first, high bit set on all but the last
count          varint, sparse only: the number of entries
parameter      one byte, sparse only: the Rice parameter of the gaps
gaps           sparse only: Golomb-Rice coded gaps between indices, zero padded to a byte
values         little-endian floats: every value, or those of the sparse entries
checksum       CRC-32 of all bytes before it, little-endian
=============  ==================================================================

Zeros carry no sign on the wire: a negative zero arrives as a positive one. All other float64 values
arrive bit for bit: values are written as float32 where that loses nothing. Whoever asks for float32
has them rounded first: those too small become zero, those too large infinite.
"""

import zlib
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fedsparse.requests.wire import rice
from fedsparse.requests.wire.vector_arguments import (
    FLOAT32,
    FLOAT64,
    LARGEST_INTEGER,
    checked_array,
    checked_dtype,
    checked_entries,
    checked_length,
    checked_pointer,
    rounded,
)

MAX_LENGTH: Final = 2**27
"""The longest vector that `decode` makes when it is not told which length to expect."""

_VERSION = 1
_SPARSE_FLAG = 1
_FLOAT32_FLAG = 2
_ONES_FLAG = 4
_PREFIX_SIZE = 2
_CHECKSUM_SIZE = 4
_FRAME_SIZE = _PREFIX_SIZE + _CHECKSUM_SIZE
_PARAMETER_SIZE = 1
_SHORTEST_MESSAGE = _FRAME_SIZE + 1
# Nine bytes of seven bits hold every number that fits a signed 64-bit integer, and no other.
_VARINT_MAX_SIZE = 9

_Integers = TypeVar("_Integers", int, NDArray[np.int64])


class WireError(ValueError):
    """A message is not a well-formed encoding of the vector that was expected."""


class SparseVector(NamedTuple):
    """The entries of a vector: strictly increasing indices, their values, and its length."""

    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    length: int


class _Frame(NamedTuple):
    """A message whose prefix and checksum were found good, and whose payload is still unread."""

    sparse: bool
    dtype: np.dtype[np.floating]
    ones: bool
    length: int
    payload: memoryview


def encode(vector: ArrayLike, dtype: DTypeLike | None = None) -> bytes:
    """Encode a vector of floats.

    Parameters
    ----------
    vector
        One-dimensional floats.
    dtype
        The type of the values on the wire: float64 or float32; None for the shortest that holds
        them all.

    Examples
    --------
    >>> vector = np.zeros(1000)
    >>> vector[[3, 500]] = [1.5, -2.0]
    >>> message = encode(vector, np.float32)
    >>> len(message), dense_size(1000, np.float32)
    (21, 4008)
    >>> bool((decode(message) == vector).all())
    True
    """
    values = rounded(checked_array(vector, "float", "vector"), checked_dtype(dtype))
    indices = np.flatnonzero(values)
    return _message(indices, values[indices], values.size, is_free=dtype is None)


def encode_sparse(
    indices: ArrayLike, values: ArrayLike, length: int, dtype: DTypeLike | None = None
) -> bytes:
    """Encode a vector given by its entries: the same bytes as `encode` of the dense vector.

    Memory grows with the number of entries and the size of the message, not with ``length``.

    Parameters
    ----------
    indices
        Strictly increasing integers from 0 to ``length - 1``.
    values
        One float for each index. Zeros are not sent.
    length, dtype
        The length of the vector, and the type of its values on the wire as for `encode`.

    Examples
    --------
    >>> message = encode_sparse([1, 3], [0.5, 0.25], length=4)
    >>> message == encode([0.0, 0.5, 0.0, 0.25])
    True
    """
    length = checked_length(length)
    positions, floats = checked_entries(indices, values, checked_dtype(dtype))
    rising = bool(np.all(positions[1:] > positions[:-1]))
    if not rising or (positions.size and not 0 <= positions[0] <= positions[-1] < length):
        raise ValueError(f"indices must increase strictly within 0 to {length - 1}.")
    kept = np.flatnonzero(floats)
    places = positions[kept].astype(np.int64, copy=False)
    return _message(places, floats[kept], length, is_free=dtype is None)


def decode(message: bytes, length: int | None = None) -> NDArray[np.float64]:
    """Decode a message to a dense vector.

    Parameters
    ----------
    message
        Anything that came over the wire.
    length
        The length the receiver expects. Without it, vectors longer than `MAX_LENGTH` are refused,
        since a few bytes could otherwise claim any amount of memory.

    Raises
    ------
    WireError
        If the message is malformed, or its length is not the expected one.

    Examples
    --------
    >>> decode(encode([0.0, 2.5, 0.0]), length=3)
    array([0. , 2.5, 0. ])
    >>> decode(encode([0.0, 2.5, 0.0]), length=4)
    Traceback (most recent call last):
        ...
    fedsparse.requests.wire.vectors.WireError: The vector has length 3, but length 4 was expected.
    """
    frame = _opened(message, length)
    if length is None and frame.length > MAX_LENGTH:
        raise WireError(
            f"The vector has length {frame.length}, above the limit of {MAX_LENGTH}: "
            "pass length= to accept it."
        )
    if not frame.sparse:
        return _dense_values(frame)
    entries = _sparse_entries(frame)
    vector = np.zeros(frame.length)
    vector[entries.indices] = entries.values
    return vector


def decode_sparse(message: bytes, length: int | None = None) -> SparseVector:
    """Decode a message to the entries of a vector.

    Parameters and errors are those of `decode`, but without ``length`` any length is accepted:
    memory is bounded by a small multiple of the size of the message, whatever it claims.

    Examples
    --------
    >>> decode_sparse(encode_sparse([7, 2**40], [1.0, 0.5], length=2**50))
    SparseVector(indices=array([            7, 1099511627776]), values=array([1. , 0.5]), \
length=1125899906842624)
    """
    frame = _opened(message, length)
    if frame.sparse:
        return _sparse_entries(frame)
    values = _dense_values(frame)
    indices = np.flatnonzero(values)
    return SparseVector(indices, values[indices], frame.length)


def encoded_sizes(
    pointer: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    length: int,
    dtype: DTypeLike | None = None,
) -> NDArray[np.int64]:
    """Count the bytes `encode_sparse` makes of each row of a ragged stack, without making them.

    Parameters
    ----------
    pointer
        Row ``i`` has the entries ``pointer[i]`` up to ``pointer[i + 1]``.
    indices, values
        The entries of all rows. Indices, int32 or int64, increase strictly within a row.
    length, dtype
        As for `encode_sparse`, the same for every row.

    Examples
    --------
    >>> encoded_sizes([0, 2, 3], [1, 3, 90], [0.5, 0.25, 1.0], length=100)
    array([18, 10])
    >>> len(encode_sparse([1, 3], [0.5, 0.25], length=100))
    18
    """
    wire_dtype = checked_dtype(dtype)
    length = checked_length(length)
    positions, floats = checked_entries(indices, values, wire_dtype)
    starts = checked_pointer(pointer, positions.size)
    counts = np.empty(starts.size - 1, dtype=np.int64)
    bits = np.empty_like(counts)
    gaps = np.empty(np.diff(starts).max(initial=0), dtype=np.int64)
    unordered = rice.row_bits(starts, positions, floats, length, gaps, counts, bits)
    if unordered >= 0:
        raise ValueError(
            f"indices must increase strictly within 0 to {length - 1}, not as in row {unordered}."
        )
    itemsizes = np.full(counts.size, wire_dtype.itemsize, dtype=np.int64)
    if dtype is None:
        rice.shortest_itemsizes(starts, floats, itemsizes)
    short, long = (min(dense_size(length, own), LARGEST_INTEGER) for own in (FLOAT32, FLOAT64))
    dense = np.where(itemsizes == FLOAT64.itemsize, long, short)
    return np.asarray(np.minimum(_sparse_size(counts, bits, length, itemsizes), dense))


def dense_size(length: int, dtype: DTypeLike = np.float64) -> int:
    """Count the bytes of the dense message of a vector.

    Examples
    --------
    >>> dense_size(10)
    87
    >>> dense_size(10, np.float32)
    47
    """
    length = checked_length(length)
    return _FRAME_SIZE + _varint_size(length) + length * checked_dtype(dtype).itemsize


def _sparse_size(count: _Integers, bits: _Integers, length: int, itemsize: _Integers) -> _Integers:
    head_size = _varint_size(count) + (_FRAME_SIZE + _varint_size(length) + _PARAMETER_SIZE)
    return head_size + (bits + 7) // 8 + count * itemsize


def _varint_size(number: _Integers) -> _Integers:
    size = number * 0 + 1
    for shift in range(7, 7 * _VARINT_MAX_SIZE, 7):
        size = size + ((number >> shift) > 0)
    return size


def _message(
    indices: NDArray[np.int64], values: NDArray[np.floating], length: int, *, is_free: bool
) -> bytes:
    """Encode non-zero values of the wire's type, or of a shorter one that holds them all."""
    gaps = np.diff(indices, prepend=-1) - 1
    parameter, bits = rice.best_parameter(gaps)
    itemsize = rice.shortest_itemsize(values) if is_free else values.itemsize
    if itemsize == FLOAT32.itemsize:
        values = rounded(values, FLOAT32)
    flags = _FLOAT32_FLAG if values.dtype == FLOAT32 else 0
    if itemsize == 0:
        flags, values = _ONES_FLAG, values[:0]
    # Sparse wins a tie: it is then that no memory of the order of the length is needed.
    sparse_size = _sparse_size(indices.size, bits, length, itemsize)
    if itemsize > 0 and sparse_size > dense_size(length, values.dtype):
        dense = np.zeros(length, dtype=values.dtype)
        dense[indices] = values
        return _sealed(flags, _varint(length), dense.tobytes())
    stream = np.zeros((bits + 7) // 8, dtype=np.uint8)
    rice.pack(gaps, parameter, stream)
    head = _varint(length) + _varint(indices.size) + bytes([parameter])
    return _sealed(flags | _SPARSE_FLAG, head, stream.tobytes(), values.tobytes())


def _sealed(flags: int, *parts: bytes) -> bytes:
    content = b"".join([bytes([_VERSION, flags]), *parts])
    return content + zlib.crc32(content).to_bytes(_CHECKSUM_SIZE, "little")


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 128:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _opened(message: bytes, length: int | None) -> _Frame:
    """Check everything about a message that does not depend on its form."""
    content = _unsealed(message)
    flags = content[1]
    if flags & ~(_SPARSE_FLAG | _FLOAT32_FLAG | _ONES_FLAG):
        raise WireError(f"The flags 0b{flags:08b} include unknown ones.")
    if flags & _ONES_FLAG and flags != _ONES_FLAG | _SPARSE_FLAG:
        raise WireError(f"The flags 0b{flags:08b} contradict each other.")
    claimed, payload = _split_varint(content[_PREFIX_SIZE:], "length")
    if length is not None and claimed != length:
        raise WireError(f"The vector has length {claimed}, but length {length} was expected.")
    dtype = FLOAT32 if flags & _FLOAT32_FLAG else FLOAT64
    return _Frame(bool(flags & _SPARSE_FLAG), dtype, bool(flags & _ONES_FLAG), claimed, payload)


def _unsealed(message: bytes) -> memoryview:
    if not isinstance(message, bytes):
        raise WireError(f"A message must be bytes, not {type(message).__name__}.")
    if len(message) < _SHORTEST_MESSAGE:
        raise WireError(
            f"The message has {len(message)} bytes, but the shortest has {_SHORTEST_MESSAGE}."
        )
    # The version comes first: another version may keep its checksum elsewhere.
    if message[0] != _VERSION:
        raise WireError(f"The message has version {message[0]}, but only {_VERSION} is known.")
    content = memoryview(message)[:-_CHECKSUM_SIZE]
    if zlib.crc32(content) != int.from_bytes(message[-_CHECKSUM_SIZE:], "little"):
        raise WireError("The checksum does not match: the message is damaged.")
    return content


def _split_varint(data: memoryview, name: str) -> tuple[int, memoryview]:
    """Take a number off the front of the data."""
    number = 0
    for position, byte in enumerate(data[:_VARINT_MAX_SIZE]):
        number |= (byte & 127) << (7 * position)
        if byte < 128:
            if byte == 0 and position > 0:
                raise WireError(f"The {name} is written with more bytes than it needs.")
            return number, data[position + 1 :]
    if len(data) < _VARINT_MAX_SIZE:
        raise WireError(f"The message ends within the {name}.")
    raise WireError(f"The {name} takes more than {_VARINT_MAX_SIZE} bytes.")


def _dense_values(frame: _Frame) -> NDArray[np.float64]:
    expected = frame.length * frame.dtype.itemsize
    if len(frame.payload) != expected:
        raise WireError(f"The values take {len(frame.payload)} bytes instead of {expected}.")
    return _widened(frame.payload, frame.dtype)


def _sparse_entries(frame: _Frame) -> SparseVector:
    count, payload = _split_varint(frame.payload, "count")
    if count > frame.length:
        raise WireError(f"The vector has {count} entries, more than its length {frame.length}.")
    if not payload:
        raise WireError("The message ends before the Rice parameter.")
    parameter = payload[0]
    if parameter > rice.MAX_PARAMETER:
        raise WireError(
            f"The Rice parameter is {parameter}, above the largest, {rice.MAX_PARAMETER}."
        )
    # Only a count that the message has room for may decide how much memory is taken.
    stream_size = len(payload) - 1 - (0 if frame.ones else count * frame.dtype.itemsize)
    if stream_size < 0:
        raise WireError(f"The message ends before the values of its {count} entries.")
    if count > 8 * stream_size:
        raise WireError("The message ends within the gaps between indices.")
    stream = np.frombuffer(payload, np.uint8, stream_size, offset=1)
    indices = _unpacked(stream, parameter, count, frame.length)
    if frame.ones:
        return SparseVector(indices, np.ones(count), frame.length)
    return SparseVector(indices, _widened(payload[1 + stream_size :], frame.dtype), frame.length)


def _unpacked(
    stream: NDArray[np.uint8], parameter: int, count: int, length: int
) -> NDArray[np.int64]:
    indices = np.empty(count, dtype=np.int64)
    bits = rice.unpack(stream, parameter, length, indices)
    if bits == rice.ENDED_EARLY:
        raise WireError("The message ends within the gaps between indices.")
    if bits == rice.OUT_OF_RANGE:
        raise WireError(f"An index is not below the length {length}.")
    padding = stream.size * 8 - bits
    if padding >= 8:
        raise WireError(f"The message is {padding // 8} byte(s) longer than its entries need.")
    if padding and stream[-1] & ((1 << padding) - 1):
        raise WireError("The padding after the gaps is not zero.")
    return indices


def _widened(data: memoryview, dtype: np.dtype[np.floating]) -> NDArray[np.float64]:
    # A signaling NaN would warn as it is widened; it is a value like any other here.
    with np.errstate(invalid="ignore"):
        return np.frombuffer(data, dtype).astype(np.float64)
