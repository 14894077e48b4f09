"""The frame of a message: a JSON header and the parts it speaks of.

==========  ==================================================================
version     one byte, 1
size        four bytes, little-endian: the length of the header
header      JSON, or JSON compressed by zlib if that is shorter; its ``sizes`` are
            the lengths of the parts
parts       one after the other
checksum    CRC-32 of all bytes before it, little-endian
==========  ==================================================================
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from fedsparse.requests.wire.vectors import WireError

_VERSION = 1
_SIZE_BYTES = 4
_CHECKSUM_SIZE = 4
_SHORTEST = 1 + _SIZE_BYTES + _CHECKSUM_SIZE
_SIZES = "sizes"
_PLAIN = b"{"
"""How a header begins that is not compressed; a zlib stream never does."""
_MOST_INFLATION = 50
"""Descriptions of thousands of columns shrink to a twentieth. What shrinks more is no header, and
would take memory out of proportion."""
LONGEST_HEADER = 2**24
"""Bytes of a header, inflated: what 20,000 columns have to say takes a twentieth of it."""
MOST_VALUES = 2**20
"""Values in a header: what 20,000 columns have to say are 80,000. Each may take a hundred bytes of
memory, however few it has on the wire."""
_HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
MOST_PARTS = 2**16
"""Parts of a message: an analysis asks hundreds of questions at a time."""


def packed(header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    """A message of a header and parts.

    Examples
    --------
    >>> unpacked(packed({"kind": "note"}, [b"one", b""]))
    ({'kind': 'note'}, [b'one', b''])
    """
    written = json.dumps(
        {**header, _SIZES: [len(part) for part in parts]},
        separators=(",", ":"),
        allow_nan=False,
        ensure_ascii=False,
    ).encode()
    if len(written) > LONGEST_HEADER or len(parts) > MOST_PARTS:
        raise WireError(
            f"The message would have {len(parts)} parts and a header of {len(written)} bytes, but "
            f"{MOST_PARTS} and {LONGEST_HEADER} are the most; use fewer columns."
        )
    compressed = zlib.compress(written)
    if len(compressed) < len(written) <= _MOST_INFLATION * len(compressed):
        written = compressed
    size = len(written).to_bytes(_SIZE_BYTES, "little")
    content = b"".join([bytes([_VERSION]), size, written, *parts])
    return content + zlib.crc32(content).to_bytes(_CHECKSUM_SIZE, "little")


def unpacked(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the parts of a message.

    Raises
    ------
    WireError
        If the message is malformed.
    """
    content = _unsealed(message)
    size = int.from_bytes(content[1 : 1 + _SIZE_BYTES], "little")
    begin = 1 + _SIZE_BYTES + size
    if size > LONGEST_HEADER:
        raise WireError(f"The header has more than {LONGEST_HEADER} bytes.")
    if begin > len(content):
        raise WireError("The message ends within its header.")
    header = _parsed(_inflated(content[1 + _SIZE_BYTES : begin]))
    return header, _split(content[begin:], header.pop(_SIZES, None))


def _unsealed(message: bytes) -> bytes:
    if not isinstance(message, bytes):
        raise WireError(f"A message must be bytes, not {type(message).__name__}.")
    if len(message) < _SHORTEST:
        raise WireError(f"The message has {len(message)} bytes, but the shortest has {_SHORTEST}.")
    if message[0] != _VERSION:
        raise WireError(
            f"The message has version {message[0]}, but only {_VERSION} is known; "
            "install the same release of fedsparse on both sides."
        )
    content = message[:-_CHECKSUM_SIZE]
    if zlib.crc32(content) != int.from_bytes(message[-_CHECKSUM_SIZE:], "little"):
        raise WireError("The checksum does not match: the message is damaged.")
    return content


def _inflated(written: bytes) -> bytes:
    if written.startswith(_PLAIN):
        return written
    stream = zlib.decompressobj()
    try:
        header = stream.decompress(written, min(_MOST_INFLATION * len(written), LONGEST_HEADER))
    except zlib.error:
        raise WireError("The header is neither JSON nor compressed.") from None
    if not stream.eof or stream.unused_data:
        raise WireError("The compressed header is cut off, too long, or followed by something.")
    return header


def _parsed(written: bytes) -> dict[str, Any]:
    # Nothing begins a value but these, so they are counted before anything is made of them.
    if sum(map(written.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise WireError(f"The header has more than {MOST_VALUES} values.")
    try:
        header = json.loads(written.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise WireError("The header is not JSON.") from None
    if not isinstance(header, dict):
        raise WireError("The header is not a JSON object.")
    if _HALF_A_CHARACTER.search(written):
        try:
            json.dumps(header, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # it could not be repeated in a reply
            raise WireError("The header has half of a character.") from None
    return header


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _split(content: bytes, sizes: Any) -> list[bytes]:
    is_list = isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)
    if not is_list or sum(sizes) != len(content):
        raise WireError("The sizes of the parts do not add up to the message.")
    if len(sizes) > MOST_PARTS:
        raise WireError(f"The message has more than {MOST_PARTS} parts.")
    parts, begin = [], 0
    for size in sizes:
        parts.append(content[begin : begin + size])
        begin += size
    return parts
