"""Answers to several requests as one vector of integers, which adds up over clients.

What a client contributes to a request is what it weighs, whether it answers (1 or 0), whether its
answer cannot be written (1 or 0), and w_i v_i of every part of its answer; zeros if it has no rows
to answer on. So a sum over clients tells neither who answered nor what.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compute.asked_entries import EntriesShape
from fedsparse.compute.stacks import DenseStack, Stack, flatten, unflatten
from fedsparse.requests.answers import Answers
from fedsparse.requests.fixed_point import (
    NARROW,
    SHORT,
    WIDE,
    FixedPoint,
    ShortFixedPoint,
    ShortWords,
    Words,
    add,
    negated,
)
from fedsparse.requests.request import Fields, Request, Shapes

_COUNTERS = 3
"""Numbers that come with every request: weight, clients that answer, answers not written."""

Noise = Callable[[int], bytes]
"""Gives so many random bytes."""

_WORTH_NARROWING = 256
"""Vectors up to this size are written in the wide format: there is little to save."""


@dataclass(frozen=True, eq=False)
class Integers:
    """One vector in all formats.

    Examples
    --------
    >>> one = Integers.zeros(2, 1, 3)
    >>> len(one.to_bytes()), Integers.from_bytes(one.to_bytes(), one.sizes).wide.shape
    (68, (3, 1))
    """

    narrow: Words
    wide: Words
    short: ShortWords

    @classmethod
    def zeros(cls, narrow: int, wide: int, short: int = 0) -> "Integers":
        """Nothing yet."""
        return cls(
            np.zeros((NARROW.words, narrow), dtype=np.uint64),
            np.zeros((WIDE.words, wide), dtype=np.uint64),
            np.zeros(short, dtype=np.uint32),
        )

    @classmethod
    def from_bytes(cls, written: bytes, sizes: tuple[int, int, int]) -> "Integers":
        """What `to_bytes` wrote, or a key stream of that length."""
        narrow, wide, short = sizes
        cut, end = NARROW.words * narrow, NARROW.words * narrow + WIDE.words * wide
        words = np.frombuffer(written, dtype="<u8", count=end).astype(np.uint64)
        return cls(
            words[:cut].reshape(NARROW.words, narrow),
            words[cut:].reshape(WIDE.words, wide),
            np.frombuffer(written, "<u4", short, offset=words.nbytes).astype(np.uint32),
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many numbers there are in each format."""
        return self.narrow.shape[1], self.wide.shape[1], self.short.size

    @property
    def length(self) -> int:
        """Length in bytes."""
        return self.narrow.nbytes + self.wide.nbytes + self.short.nbytes

    def to_bytes(self) -> bytes:
        """Word by word, little-endian."""
        long = (self.narrow, self.wide)
        written = [own.astype("<u8", copy=False).tobytes() for own in long]
        return b"".join([*written, self.short.astype("<u4", copy=False).tobytes()])

    def add(self, other: "Integers") -> None:
        """Add another one in place."""
        add(self.narrow, other.narrow)
        add(self.wide, other.wide)
        self.short[:] += other.short

    def negated(self) -> "Integers":
        """What adds up with it to nothing."""
        return Integers(negated(self.narrow), negated(self.wide), np.negative(self.short))


@dataclass(frozen=True)
class _Part:
    """Where a part of an answer lies."""

    name: str
    shape: tuple[int, ...] | None
    format: FixedPoint | ShortFixedPoint
    begin: int

    @property
    def size(self) -> int:
        return 1 if self.shape is None else math.prod(self.shape)

    def of(self, numbers: FloatArray) -> FloatArray:
        own = numbers[self.begin : self.begin + self.size]
        return np.asarray(own[0]) if self.shape is None else unflatten(own, self.shape)


@dataclass(frozen=True)
class _Place:
    """Where what belongs to a request lies."""

    counters: int
    parts: tuple[_Part, ...]


class SumLayout:
    """Where the answers to some requests lie in one vector of integers.

    Parameters
    ----------
    asked
        For every request the shapes of the parts of its answer, and whether features are scaled,
        so that numbers are of a size that is known.

    Attributes
    ----------
    narrow, wide, short
        How many numbers there are in each format.

    Examples
    --------
    >>> layout = SumLayout([({"objective": None}, True)])
    >>> one = layout.encode([({"objective": np.array([0.5])}, 2.0)])
    >>> one.add(layout.encode([({"objective": np.array([2.0])}, 1.0)]))
    >>> (answers,) = layout.decode(one)
    >>> answers.average("objective"), answers.count
    (1.0, 2)
    """

    def __init__(self, asked: Sequence[tuple[Shapes, bool]]) -> None:
        sizes: dict[FixedPoint | ShortFixedPoint, int] = {NARROW: 0, WIDE: 0, SHORT: 0}
        self._places: list[_Place] = []
        for shapes, is_scaled in asked:
            counters = sizes[WIDE]
            sizes[WIDE] += _COUNTERS
            parts = []
            for name, shape in shapes.items():
                size = 1 if shape is None else math.prod(shape)
                form: FixedPoint | ShortFixedPoint = WIDE
                if isinstance(shape, EntriesShape):
                    form = SHORT
                elif is_scaled and size > _WORTH_NARROWING:
                    form = NARROW
                parts.append(_Part(name, shape, form, sizes[form]))
                sizes[form] += size
            self._places.append(_Place(counters, tuple(parts)))
        self.narrow, self.wide, self.short = sizes[NARROW], sizes[WIDE], sizes[SHORT]

    @property
    def bytes(self) -> int:
        """Length of the vector as bytes."""
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each request's part of it."""
        counters = _COUNTERS * WIDE.bytes
        return [
            counters + sum(part.size * part.format.bytes for part in place.parts)
            for place in self._places
        ]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many numbers there are in each format."""
        return self.narrow, self.wide, self.short

    def encode(
        self,
        answers: Sequence[tuple[Fields, float] | None],
        noise: Noise | None = None,
        clients: int = 1,
    ) -> Integers:
        """What one client contributes: its answer to every request and its weight w_i there.

        Parameters
        ----------
        answers
            One a request; None: it has none.
        noise
            Gives random bytes, which stand for an answer that cannot be written. With zeros the
            sum would be that of the other clients, and who makes all but one overflow would have
            that one's answer.
        clients
            How many contributions are added up: short integers have no room for more.
        """
        numbers: dict[FixedPoint | ShortFixedPoint, FloatArray] = {
            NARROW: np.zeros(self.narrow), WIDE: np.zeros(self.wide), SHORT: np.zeros(self.short)
        }  # fmt: skip
        hidden: list[_Place] = []
        for place, own in zip(self._places, answers, strict=True):
            if own is None:
                continue
            fields, weight = own
            weighted = [(part, weight * _numbers_of(fields[part.name])) for part in place.parts]
            is_written = all(part.format.holds(values, clients) for part, values in weighted)
            counters = (weight, 1.0, 0.0) if is_written else (0.0, 1.0, _unwritten(noise))
            numbers[WIDE][place.counters : place.counters + _COUNTERS] = counters
            for part, values in weighted if is_written else ():
                numbers[part.format][part.begin : part.begin + part.size] = values
            if not is_written:
                hidden.append(place)
        found = Integers(
            NARROW.encode(numbers[NARROW]), WIDE.encode(numbers[WIDE]), SHORT.encode(numbers[SHORT])
        )
        if noise is not None:
            for place in hidden:
                _hide(found, place, noise)
        return found

    def decode(self, total: Integers) -> list[Answers]:
        """The sums of every request; NaN where a client's answer could not be written."""
        numbers: dict[FixedPoint | ShortFixedPoint, FloatArray] = {
            NARROW: NARROW.decode(total.narrow),
            WIDE: WIDE.decode(total.wide),
            SHORT: SHORT.decode(total.short),
        }
        return [self._answers(place, numbers) for place in self._places]

    def _answers(
        self, place: _Place, numbers: dict[FixedPoint | ShortFixedPoint, FloatArray]
    ) -> Answers:
        weight, count, unwritten = numbers[WIDE][place.counters : place.counters + _COUNTERS]
        if count == 0:
            return Answers({}, 0.0, 0, 0)
        sums = {part.name: part.of(numbers[part.format]) for part in place.parts}
        if unwritten:
            sums = {name: np.full_like(own, np.nan) for name, own in sums.items()}
            weight = 1.0
        return Answers(sums, float(weight), round(count), round(count))


def _unwritten(noise: Noise | None) -> float:
    """Stands for an answer that is not written; how many there are is not to be seen."""
    return 1.0 if noise is None else 1.0 + int.from_bytes(noise(4), "little")


def _hide(written: Integers, place: _Place, noise: Noise) -> None:
    """Put noise where a client's weight and answer to a request would stand."""
    words = {NARROW: written.narrow, WIDE: written.wide}
    spans = [(WIDE, place.counters, 1), *((own.format, own.begin, own.size) for own in place.parts)]
    for form, begin, size in spans:
        drawn = noise(size * form.bytes)
        if isinstance(form, ShortFixedPoint):
            written.short[begin : begin + size] = np.frombuffer(drawn, dtype="<u4")
        else:
            own = np.frombuffer(drawn, dtype="<u8").reshape(form.words, size)
            words[form][:, begin : begin + size] = own


class RunningIntegers:
    """The sums of one request as integers, on their way; clients without rows would send zeros.

    Parameters
    ----------
    request, shape, is_scaled
        What is asked, about coefficients of which shape, and whether features are scaled.
    clients
        How many contributions are added up.
    """

    def __init__(
        self, request: Request, shape: tuple[int, ...], is_scaled: bool, clients: int
    ) -> None:
        self._layout = layout_of([(request, shape, is_scaled)])
        self._total = Integers.zeros(*self._layout.counts)
        self._clients = clients

    def add(self, fields: Fields, weights: FloatArray) -> None:
        """Add the answers of some clients, each with its w_i."""
        with np.errstate(all="ignore"):
            for of_one, weight in zip(by_client(fields, weights.size), weights, strict=True):
                contribution = [(of_one, float(weight))]
                self._total.add(self._layout.encode(contribution, clients=self._clients))

    def answers(self) -> Answers:
        """The sums over all clients that were added."""
        (found,) = self._layout.decode(self._total)
        return replace(found, bytes_up=self._clients * self._layout.bytes)


def layout_of(asked: Sequence[tuple[Request, tuple[int, ...], bool]]) -> SumLayout:
    """The layout of requests about coefficients of some shapes, each on scaled features or not."""
    return SumLayout(
        [(request.answer_shapes(shape), is_scaled) for request, shape, is_scaled in asked]
    )


def by_client(fields: Fields, clients: int) -> Iterator[Fields]:
    """The answers of several clients, one by one.

    Examples
    --------
    >>> list(by_client({"objective": np.array([1.0, 2.0])}, 2))[1]
    {'objective': array([2.])}
    """
    stacks = {name: own.each() for name, own in fields.items() if isinstance(own, Stack)}
    for place in range(clients):
        yield {
            name: DenseStack(flatten(next(stacks[name]))[None, :], own.shape)
            if isinstance(own, Stack)
            else own[place : place + 1]
            for name, own in fields.items()
        }


def _numbers_of(field: Stack | FloatArray) -> FloatArray:
    if isinstance(field, Stack):
        (own,) = field.each()
        return flatten(own)
    return np.asarray(field, dtype=np.float64)
