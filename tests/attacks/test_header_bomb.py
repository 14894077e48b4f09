"""A message of less than a megabyte whose header takes hundreds once it is read."""

import random
import tracemalloc
import zlib

import pytest

from fedsparse.requests.wire import frame

MEGABYTE = 2**20
BOMBS = {
    "many values": (b"[]," * 2_000_000 + b"0", 100),
    "a long text": (b'"' + b"a" * 36_000_000 + b'"', 60),
}
"""What is in the header, and the megabytes that it takes at least without limits."""


def message_with(content):
    """A frame that shrinks by less than is suspicious."""
    count = len(content) // 28
    noise = bytes(random.Random(0).choices(b"abcdefghijklmnopqrstuvwxyz012345", k=count))
    header = b'{"noise":"' + noise + b'","bomb":[' + content + b'],"sizes":[]}'
    written = zlib.compress(header)
    assert len(header) < 50 * len(written)
    assert len(written) < MEGABYTE
    sealed = bytes([1]) + len(written).to_bytes(4, "little") + written
    return sealed + zlib.crc32(sealed).to_bytes(4, "little")


def megabytes_to(read, message):
    """The most memory that reading takes at a time."""
    tracemalloc.start()
    try:
        read(message)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak / MEGABYTE


def refused(message):
    with pytest.raises(frame.WireError):
        frame.unpacked(message)


@pytest.mark.parametrize(("content", "megabytes"), BOMBS.values(), ids=BOMBS)
def test_it_takes_much_memory_without_limits(content, megabytes, monkeypatch):
    monkeypatch.setattr(frame, "LONGEST_HEADER", 2**40)
    monkeypatch.setattr(frame, "MOST_VALUES", 2**40)
    assert megabytes_to(frame.unpacked, message_with(content)) > megabytes


@pytest.mark.parametrize("content", [content for content, _ in BOMBS.values()], ids=BOMBS)
def test_it_is_refused_before_it_takes_much(content):
    assert megabytes_to(refused, message_with(content)) < 40
