"""A search for a site's numbers in bytes: messages, files, or the memory of a process.

A number may lie anywhere and in many forms: float64 of both byte orders, two float32 that follow
each other, a decimal text, a word of fixed point. A form that too many bytes of any process have
(few of its own are neither 0 nor 255) is not searched for.
"""

from collections import defaultdict

import numpy as np

from fedsparse.requests.fixed_point import NARROW, WIDE

_KEY = 8
"""Bytes by which a needle is looked up; the rest is compared."""
_FEWEST_TELLING = 6
_TEXT = 12
"""Characters of a decimal text: 8 digits alone turn up by chance in a gigabyte."""
_CHUNK = 2**17


def numbers_of(client, x):
    """Rows, targets, moments and gradients at x of a site, as arrays by what they are."""
    Z, y = client
    rows = y.size
    return {
        "rows": Z.ravel(),
        "columns": Z.T.ravel(),
        "targets": y,
        "sums": Z.sum(axis=0),
        "squares": (Z**2).sum(axis=0),
        "means": Z.mean(axis=0),
        "gradient": 2.0 * Z.T @ (Z @ x - y) / rows,
        "weighted gradient": 2.0 * Z.T @ (Z @ x - y),
        "objective": np.array([((Z @ x - y) ** 2).mean()]),
    }


def forms_of(numbers):
    """Every form that numbers may have, by its name."""
    numbers = np.asarray(numbers, dtype=np.float64).ravel()
    single = numbers.astype(np.float32)
    fixed = {"128 bits": NARROW.encode(numbers), "192 bits": WIDE.encode(numbers)}
    return {
        "float64": _each(numbers.astype("<f8")),
        "float64, most significant byte first": _each(numbers.astype(">f8")),
        "float32": _pairs(single.astype("<f4")),
        "float32, most significant byte first": _pairs(single.astype(">f4")),
        "text": {_text(number) for number in numbers.tolist()} - {b""},
        **{
            f"fixed point of {name}": {
                found
                for word in words
                for found in _each(word.astype("<u8")) | _pairs(word.astype("<u8"))
            }
            | {words[:, place].astype("<u8").tobytes() for place in range(numbers.size)}
            for name, words in fixed.items()
        },
    }


def needles_of(numbers):
    """All forms of all numbers, as bytes."""
    return {
        found
        for own in numbers.values()
        for form in forms_of(own).values()
        for found in form
        if _is_telling(found)
    }


class Haystack:
    """Looks for needles in bytes, whatever their place.

    Parameters
    ----------
    needles
        As `needles_of` gives them.
    """

    def __init__(self, needles):
        self._by_key = defaultdict(list)
        for needle in needles:
            self._by_key[int.from_bytes(needle[:_KEY], "little")].append(needle)
        self._longest = max(map(len, needles))
        self._keys = np.array(sorted(self._by_key), dtype=np.uint64)
        # A first look at two bytes, and another at two more, leaves few places to look up.
        self._first, self._second = (
            np.bincount((self._keys >> np.uint64(shift)) & np.uint64(0xFFFF), minlength=2**16) > 0
            for shift in (0, 32)
        )

    def hits(self, written):
        """The needles that lie in some bytes."""
        found = set()
        for begin in range(0, len(written), _CHUNK):
            chunk = written[begin : begin + _CHUNK + self._longest]
            if chunk.count(0) < len(chunk):  # most memory of a process has never been used
                for offset in range(_KEY):
                    found |= self._hits_at(chunk, offset)
        return found

    def _hits_at(self, chunk, offset):
        count = (len(chunk) - offset) // _KEY
        if count <= 0:
            return set()
        words = np.frombuffer(chunk, dtype="<u8", count=count, offset=offset)
        parts = words.view("<u2").reshape(-1, 4)
        places = np.flatnonzero(self._first[parts[:, 0]])
        places = places[self._second[parts[places, 2]] & (words[places] != 0)]
        nearest = np.searchsorted(self._keys, words[places]).clip(max=self._keys.size - 1)
        places = places[self._keys[nearest] == words[places]]
        return {
            needle
            for place in places.tolist()
            for needle in self._by_key[int(words[place])]
            if chunk.startswith(needle, offset + _KEY * place)
        }


def hits(written, client, x):
    """How many needles of a site lie anywhere in some bytes."""
    return len(Haystack(needles_of(numbers_of(client, x))).hits(written))


def _each(array):
    return {own.tobytes() for own in array}


def _pairs(array):
    return {array[place : place + 2].tobytes() for place in range(array.size - 1)}


def _text(number):
    """A number's first digits, as JSON, CSV or Python write it; nothing if it has few."""
    written = repr(abs(number)).split("e")[0].lstrip("0.")[:_TEXT]
    return written.encode() if len(written) == _TEXT else b""


def _is_telling(needle):
    is_looked_up = any(needle[:_KEY])
    return is_looked_up and sum(byte not in (0, 255) for byte in needle) >= _FEWEST_TELLING
