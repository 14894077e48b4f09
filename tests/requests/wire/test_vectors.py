"""What the wire encoding promises: exact round trips, small messages, no trust in the sender."""

import random
import re
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from fedsparse.requests.wire import rice
from fedsparse.requests.wire.vectors import (
    MAX_LENGTH,
    SparseVector,
    WireError,
    decode,
    decode_sparse,
    dense_size,
    encode,
    encode_sparse,
    encoded_sizes,
)

DTYPES = [np.float64, np.float32]
ANY_DTYPES = [None, *DTYPES]
VERSION = 1
DENSE, SPARSE, FLOAT32, ONES = 0, 1, 2, 4

Reader = Callable[[Any, int | None], object]

# The first call of a loop compiles it, which no deadline should count.
untimed = settings(deadline=None)


def float_of_bits(bits: int) -> float:
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


# Every bit pattern, with the special and the float32-sensitive values made likely.
any_float = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 5e-324, 1e-45, 1e-46, 1e39, 1e300]),
    st.integers(0, 2**64 - 1).map(float_of_bits),
)


@st.composite
def vectors(draw: st.DrawFn) -> NDArray[np.float64]:
    vector = np.zeros(draw(st.integers(0, 400)))
    if vector.size:
        share = draw(st.sampled_from([vector.size, 10, 1]))
        entries = draw(st.dictionaries(st.integers(0, vector.size - 1), any_float, max_size=share))
        for index, value in entries.items():
            vector[index] = value
    return vector


@st.composite
def sparse_rows(draw: st.DrawFn, length: int) -> tuple[list[int], list[float]]:
    entries = draw(st.dictionaries(st.integers(0, length - 1), any_float, max_size=30))
    indices = sorted(entries)
    return indices, [entries[index] for index in indices]


def arriving(vector: NDArray[np.float64], dtype: type[np.floating] | None) -> NDArray[np.float64]:
    """Give the vector as the receiver should see it: rounded, and with unsigned zeros."""
    with np.errstate(all="ignore"):
        rounded = vector.astype(dtype or np.float64).astype(np.float64)
    return np.where(rounded == 0, 0.0, rounded)


def same_bits(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    return first.dtype == second.dtype == np.float64 and first.tobytes() == second.tobytes()


def random_support(seed: int, length: int, count: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).choice(length, count, replace=False))


def varint(number: int) -> bytes:
    head = [byte | 128 for byte in base_128(number)[:-1]]
    return bytes([*head, base_128(number)[-1]])


def base_128(number: int) -> list[int]:
    return [number] if number < 128 else [number % 128, *base_128(number // 128)]


def sealed(content: bytes) -> bytes:
    return content + zlib.crc32(content).to_bytes(4, "little")


def sparse_message(length: int, count: int, parameter: int, rest: bytes) -> bytes:
    head = bytes([VERSION, SPARSE]) + varint(length) + varint(count) + bytes([parameter])
    return sealed(head + rest)


class TestRoundTrip:
    @pytest.mark.parametrize("dtype", DTYPES)
    @untimed
    @given(vector=vectors())
    @example(vector=np.zeros(0))
    @example(vector=np.zeros(1))
    @example(vector=np.ones(1))
    @example(vector=np.zeros(1000))
    @example(vector=np.eye(1, 1000, 999)[0])
    @example(vector=np.linspace(1, 2, 300))
    @example(vector=-np.zeros(5))
    def test_every_vector_arrives_bit_for_bit(
        self, vector: NDArray[np.float64], dtype: type[np.floating]
    ) -> None:
        message = encode(vector, dtype)
        assert same_bits(decode(message), arriving(vector, dtype))
        assert same_bits(decode(message, length=vector.size), arriving(vector, dtype))

    @pytest.mark.parametrize("dtype", DTYPES)
    @untimed
    @given(vector=vectors())
    def test_entries_arrive_as_the_non_zeros(
        self, vector: NDArray[np.float64], dtype: type[np.floating]
    ) -> None:
        expected = arriving(vector, dtype)
        indices, values, length = decode_sparse(encode(vector, dtype), length=vector.size)
        assert indices.dtype == np.int64
        assert indices.tolist() == np.flatnonzero(expected).tolist()
        assert same_bits(values, expected[indices])
        assert length == vector.size

    @untimed
    @given(row=sparse_rows(length=2**63 - 1))
    @example(row=([2**63 - 2], [1.0]))
    @example(row=([0, 1, 2, 2**63 - 2], [1.0, 1.0, 1.0, 1.0]))
    def test_the_longest_vectors_travel_by_their_entries(
        self, row: tuple[list[int], list[float]]
    ) -> None:
        sent = [(index, value) for index, value in zip(*row, strict=True) if value != 0]
        arrived = decode_sparse(encode_sparse(*row, length=2**63 - 1))
        assert arrived.indices.tolist() == [index for index, _ in sent]
        assert same_bits(arrived.values, np.array([value for _, value in sent], dtype=np.float64))
        assert arrived.length == 2**63 - 1

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.5])
    def test_special_values_survive_in_both_forms(
        self, value: float, dtype: type[np.floating]
    ) -> None:
        alone, full = np.zeros(100), np.full(100, value)
        alone[99] = value
        for vector in (alone, full):
            assert same_bits(decode(encode(vector, dtype)), vector)

    def test_float32_rounds_the_small_to_zero_and_the_large_to_infinity(self) -> None:
        vector = np.array([1e-50, 1e300, -1e300, 1e-45])
        arrived = decode(encode(vector, np.float32))
        assert arrived.tolist() == [0.0, np.inf, -np.inf, float(np.float32(1e-45))]

    def test_no_value_makes_the_floating_point_unit_complain(self) -> None:
        signaling = np.array([0x7F800001, 0x00000001], dtype=np.uint32).view(np.float32)
        with np.errstate(all="raise"):
            arrived = decode(sealed(bytes([VERSION, FLOAT32, 2]) + signaling.tobytes()))
            again = encode(np.array([1e-50, 1e300, np.nan]), np.float32)
        assert np.isnan(arrived[0])
        assert np.isnan(decode(again)[2])


class TestOneEncoding:
    @pytest.mark.parametrize("dtype", DTYPES)
    @untimed
    @given(vector=vectors())
    def test_dense_and_sparse_input_give_the_same_bytes(
        self, vector: NDArray[np.float64], dtype: type[np.floating]
    ) -> None:
        support = np.flatnonzero(vector)
        message = encode(vector, dtype)
        assert message == encode_sparse(support, vector[support], vector.size, dtype)
        assert message == encode_sparse(np.arange(vector.size), vector, vector.size, dtype)

    @pytest.mark.parametrize("dtype", DTYPES)
    @untimed
    @given(vector=vectors())
    def test_the_smaller_form_is_sent(
        self, vector: NDArray[np.float64], dtype: type[np.floating]
    ) -> None:
        message = encode(vector, dtype)
        assert len(message) <= dense_size(vector.size, dtype)
        assert (len(message) == dense_size(vector.size, dtype)) or message[1] & SPARSE

    def test_the_format_of_version_1_never_changes(self) -> None:
        # Gaps 2 and 1 at parameter 0: two ones and a zero, a one and a zero, three bits of padding.
        values = np.array([1.0, -2.0], dtype="<f8").tobytes()
        content = bytes([1, 1, 100, 2, 0, 0b11010000]) + values
        assert encode_sparse([2, 4], [1.0, -2.0], 100, np.float64) == sealed(content)
        # Gap 300 at parameter 8: a one, a zero, then 44 in eight bits.
        content = bytes([1, 3, 0xE8, 0x07, 1, 8, 0b10001011, 0]) + b"\x00\x00\x80\x3f"
        assert encode_sparse([300], [1.0], 1000, np.float32) == sealed(content)
        assert encode([1.0], np.float32) == sealed(bytes([1, 2, 1]) + b"\x00\x00\x80\x3f")

    def test_without_a_type_the_shortest_lossless_form_is_sent(self) -> None:
        single = np.array([1.0, -2.0], dtype="<f4").tobytes()
        content = bytes([1, 3, 100, 2, 0, 0b11010000]) + single
        assert encode_sparse([2, 4], [1.0, -2.0], 100) == sealed(content)
        assert encode_sparse([2, 4], [1.0, 1.0], 100) == sealed(bytes([1, 5, 100, 2, 0, 208]))
        assert encode([0.1]) == encode([0.1], np.float64)
        assert encode([0.5, 0.1]) == encode([0.5, 0.1], np.float64)
        assert encode([0.5, np.inf]) == encode([0.5, np.inf], np.float32)
        assert encode([]) == encode([], np.float32)
        assert encode([0.0, -0.0]) == encode([0.0, 0.0])
        assert same_bits(decode(encode([1.0, -0.0, 1.0])), np.array([1.0, 0.0, 1.0]))
        assert same_bits(decode(encode(np.full(9, np.nan))), np.full(9, np.nan))

    @untimed
    @given(vector=vectors())
    def test_without_a_type_nothing_is_longer_and_nothing_lost(
        self, vector: NDArray[np.float64]
    ) -> None:
        message = encode(vector)
        assert len(message) <= len(encode(vector, np.float64))
        is_single = same_bits(arriving(vector, np.float32), arriving(vector, np.float64))
        if is_single and not np.isnan(vector).any():  # bits of NaNs are not looked into
            assert len(message) <= len(encode(vector, np.float32))

    @untimed
    @given(members=st.sets(st.integers(0, 500)), length=st.integers(501, 900))
    def test_a_set_travels_without_values(self, members: set[int], length: int) -> None:
        places = np.array(sorted(members), dtype=np.int64)
        message = encode_sparse(places, np.ones(places.size), length)
        assert decode_sparse(message, length).indices.tolist() == places.tolist()
        assert same_bits(decode_sparse(message).values, np.ones(places.size))
        assert bool(message[1] & ONES) == bool(places.size)

    @untimed
    @given(gaps=st.lists(st.integers(0, 60).flatmap(lambda bits: st.integers(0, 2**bits - 1))))
    def test_no_other_rice_parameter_is_better(self, gaps: list[int]) -> None:
        gap_array = np.array(gaps, dtype=np.int64)
        parameter, bits = rice.best_parameter(gap_array)
        costs = [
            sum((gap >> candidate) + 1 + candidate for gap in gaps)
            for candidate in range(rice.MAX_PARAMETER + 1)
        ]
        assert bits == min(costs) == costs[parameter]


class TestSizes:
    @pytest.mark.parametrize("seed", range(20))
    def test_two_hundred_of_150360_take_close_to_the_entropy(self, seed: int) -> None:
        indices = random_support(seed, length=150_360, count=200)
        message = encode_sparse(indices, np.ones(200), 150_360, np.float32)
        assert len(message) <= 1_150
        assert len(message) - 200 * 4 <= 300
        assert len(encode_sparse(indices, np.ones(200), 150_360)) - 200 * 8 <= 300

    def test_dense_is_the_values_and_nine_bytes(self) -> None:
        assert dense_size(150_360, np.float32) == 601_440 + 9
        assert len(encode(np.ones(150_360), np.float32)) == 601_440 + 9

    @pytest.mark.parametrize("dtype", DTYPES)
    @untimed
    @given(length=st.integers(0, 400))
    def test_dense_size_is_the_length_of_a_full_message(
        self, length: int, dtype: type[np.floating]
    ) -> None:
        assert dense_size(length, dtype) == len(encode(np.ones(length), dtype))

    @pytest.mark.parametrize("dtype", ANY_DTYPES)
    @pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
    @pytest.mark.parametrize("length", [1, 40, 20_000, 2**31 - 1])
    @settings(untimed, max_examples=30)
    @given(data=st.data())
    def test_encoded_sizes_are_the_lengths_of_the_messages(
        self,
        data: st.DataObject,
        length: int,
        index_dtype: type[np.integer],
        dtype: type[np.floating] | None,
    ) -> None:
        rows = data.draw(st.lists(sparse_rows(length=length), max_size=6))
        pointer = np.cumsum([0] + [len(indices) for indices, _ in rows])
        all_indices = np.array([index for row in rows for index in row[0]], dtype=index_dtype)
        all_values = np.array([value for row in rows for value in row[1]], dtype=np.float64)
        sizes = encoded_sizes(pointer, all_indices, all_values, length, dtype)
        assert sizes.dtype == np.int64
        assert sizes.tolist() == [len(encode_sparse(*row, length, dtype)) for row in rows]

    def test_encoded_sizes_count_rows_beyond_dense_reach(self) -> None:
        length = 2**63 - 1
        assert encoded_sizes([0, 1], [length - 1], [1.0], length).tolist() == [
            len(encode_sparse([length - 1], [1.0], length))
        ]

    def test_encoded_sizes_choose_dense_for_full_rows(self) -> None:
        sizes = encoded_sizes([0, 50, 50], np.arange(50), np.full(50, 0.1), 50)
        assert sizes.tolist() == [dense_size(50), len(encode(np.zeros(50)))]


class TestMemory:
    @staticmethod
    def peak_of_decoding(message: bytes) -> int:
        decode_sparse(encode([1.0, 0.0]))  # Loads the compiled loops, which take memory too.
        tracemalloc.start()
        try:
            decode_sparse(message)
        except WireError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return peak

    def test_a_tiny_message_of_huge_length_takes_little(self) -> None:
        message = encode_sparse([2**59], [1.0], length=2**60)
        assert len(message) < 50
        assert decode_sparse(message).indices.tolist() == [2**59]
        assert self.peak_of_decoding(message) < 20_000

    def test_a_tiny_message_of_huge_count_takes_little(self) -> None:
        message = sparse_message(2**60, 2**59, 0, bytes(10))
        assert self.peak_of_decoding(message) < 20_000

    def test_a_claim_of_many_ones_takes_little(self) -> None:
        head = bytes([VERSION, ONES | SPARSE]) + varint(2**60) + varint(2**59) + bytes([0])
        assert self.peak_of_decoding(sealed(head + bytes(10))) < 20_000
        message = encode_sparse(np.arange(80_000), np.ones(80_000), 2**60)
        assert len(message) < 10_040
        assert self.peak_of_decoding(message) < 17 * 80_000 + 40_000

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("length", [10_000, 2**60])
    def test_a_large_message_takes_a_small_multiple(
        self, length: int, dtype: type[np.floating]
    ) -> None:
        message = encode_sparse(np.arange(10_000), np.ones(10_000), length, dtype)
        assert self.peak_of_decoding(message) < 6 * len(message) + 20_000

    def test_a_dense_vector_of_unexpected_length_is_limited(self) -> None:
        message = encode_sparse([5], [1.0], length=MAX_LENGTH + 1)
        with pytest.raises(WireError, match=r"length 134217729, above .* pass length= to accept"):
            decode(message)
        assert decode(message, length=MAX_LENGTH + 1)[5] == 1.0


STREAM_OF_TWO = bytes([0b11010000])
TWO_VALUES = np.array([1.0, -2.0], dtype="<f8").tobytes()
GOOD = sparse_message(100, 2, 0, STREAM_OF_TWO + TWO_VALUES)

MALFORMED = {
    "no bytes": ("text", "A message must be bytes, not str."),
    "an array": (np.zeros(9), "A message must be bytes, not ndarray."),
    "empty": (b"", "The message has 0 bytes, but the shortest has 7."),
    "too short": (GOOD[:6], "The message has 6 bytes, but the shortest has 7."),
    "another version": (b"\x02" + GOOD[1:], "The message has version 2, but only 1 is known."),
    "flipped bit": (
        GOOD[:8] + bytes([GOOD[8] ^ 1]) + GOOD[9:],
        "The checksum does not match: the message is damaged.",
    ),
    "cut off": (GOOD[:-1], "The checksum does not match: the message is damaged."),
    "unknown flag": (
        sealed(bytes([VERSION, 0b1001]) + GOOD[2:-4]),
        "The flags 0b00001001 include unknown ones.",
    ),
    "ones that are dense": (
        sealed(bytes([VERSION, ONES, 2])),
        "The flags 0b00000100 contradict each other.",
    ),
    "ones with float32 values": (
        sealed(bytes([VERSION, ONES | SPARSE | FLOAT32]) + GOOD[2:-4]),
        "The flags 0b00000111 contradict each other.",
    ),
    "ones with values": (
        sealed(bytes([VERSION, ONES | SPARSE]) + GOOD[2:-4]),
        "The message is 16 byte(s) longer than its entries need.",
    ),
    "ones without gaps": (
        sealed(bytes([VERSION, ONES | SPARSE, 100, 2, 0])),
        "The message ends within the gaps between indices.",
    ),
    "cut-off length": (
        sealed(bytes([VERSION, DENSE, 0x80])),
        "The message ends within the length.",
    ),
    "overlong length": (
        sealed(bytes([VERSION, DENSE, 0x80, 0x00])),
        "The length is written with more bytes than it needs.",
    ),
    "huge length": (
        sealed(bytes([VERSION, DENSE]) + b"\xff" * 9 + b"\x01"),
        "The length takes more than 9 bytes.",
    ),
    "missing dense value": (
        sealed(bytes([VERSION, DENSE, 2]) + TWO_VALUES[:-1]),
        "The values take 15 bytes instead of 16.",
    ),
    "extra dense byte": (
        sealed(bytes([VERSION, DENSE, 2]) + TWO_VALUES + b"\x00"),
        "The values take 17 bytes instead of 16.",
    ),
    "claimed dense values": (
        sealed(bytes([VERSION, DENSE]) + varint(2**20)),
        "The values take 0 bytes instead of 8388608.",
    ),
    "cut-off count": (sealed(bytes([VERSION, SPARSE, 9])), "The message ends within the count."),
    "overlong count": (
        sealed(bytes([VERSION, SPARSE, 9, 0x81, 0x00])),
        "The count is written with more bytes than it needs.",
    ),
    "count above length": (
        sparse_message(1, 2, 0, STREAM_OF_TWO + TWO_VALUES),
        "The vector has 2 entries, more than its length 1.",
    ),
    "no parameter": (
        sealed(bytes([VERSION, SPARSE, 9, 0])),
        "The message ends before the Rice parameter.",
    ),
    "parameter out of range": (
        sparse_message(100, 2, 63, STREAM_OF_TWO + TWO_VALUES),
        "The Rice parameter is 63, above the largest, 62.",
    ),
    "missing values": (
        sparse_message(100, 2, 0, TWO_VALUES[:-1]),
        "The message ends before the values of its 2 entries.",
    ),
    "missing stream": (
        sparse_message(100, 2, 0, TWO_VALUES),
        "The message ends within the gaps between indices.",
    ),
    "endless quotient": (
        sparse_message(100, 2, 0, b"\xff" + TWO_VALUES),
        "The message ends within the gaps between indices.",
    ),
    "cut-off remainder": (
        sparse_message(100, 2, 5, STREAM_OF_TWO + TWO_VALUES),
        "The message ends within the gaps between indices.",
    ),
    "index at the length": (
        sparse_message(4, 2, 0, STREAM_OF_TWO + TWO_VALUES),
        "An index is not below the length 4.",
    ),
    "index beyond 64 bits": (
        sparse_message(2**63 - 1, 1, 62, bytes([0b11011111] + [255] * 7 + [0]) + TWO_VALUES[:8]),
        "An index is not below the length 9223372036854775807.",
    ),
    "trailing byte": (
        sparse_message(100, 2, 0, STREAM_OF_TWO + b"\x00" + TWO_VALUES),
        "The message is 1 byte(s) longer than its entries need.",
    ),
    "trailing bytes after no entries": (
        sparse_message(100, 0, 0, b"\x00\x00"),
        "The message is 2 byte(s) longer than its entries need.",
    ),
    "non-zero padding": (
        sparse_message(100, 2, 0, bytes([0b11010001]) + TWO_VALUES),
        "The padding after the gaps is not zero.",
    ),
}


class TestMalformedMessages:
    @pytest.mark.parametrize("read", [decode, decode_sparse])
    @pytest.mark.parametrize("kind", MALFORMED)
    def test_each_kind_is_named(self, kind: str, read: Reader) -> None:
        message, sentence = MALFORMED[kind]
        expected = 2**63 - 1 if kind == "index beyond 64 bits" else None
        with pytest.raises(WireError) as caught:
            read(message, expected)
        assert str(caught.value) == sentence

    @pytest.mark.parametrize("read", [decode, decode_sparse])
    @pytest.mark.parametrize("message", [GOOD, encode(np.ones(100))])
    def test_another_length_than_expected_is_refused(self, message: bytes, read: Reader) -> None:
        read(message, 100)
        with pytest.raises(WireError, match="has length 100, but length 99 was expected"):
            read(message, 99)

    def test_a_wire_error_is_a_value_error(self) -> None:
        assert issubclass(WireError, ValueError)

    def test_a_longer_encoding_than_needed_is_still_read(self) -> None:
        # Gap 3 at parameter 2 and an explicit zero: valid, though the encoder would not write it.
        message = sparse_message(10, 1, 2, bytes([0b01100000]) + bytes(8))
        assert decode_sparse(message).indices.tolist() == [3]
        assert decode(message).tolist() == [0.0] * 10


class TestArguments:
    @pytest.mark.parametrize("vector", [1.0, [[1.0]], [1, 2], [1j], ["a"], [True]])
    def test_a_vector_is_one_dimensional_floats(self, vector: object) -> None:
        with pytest.raises(ValueError, match="vector must be a one-dimensional float array"):
            encode(vector)  # type: ignore[arg-type]

    @pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex64])
    def test_values_travel_as_float64_or_float32(self, dtype: type) -> None:
        with pytest.raises(ValueError, match="dtype must be float64 or float32, not"):
            encode([1.0], dtype)

    @pytest.mark.parametrize(
        "indices", [[2, 1], [1, 1], [-1, 2], [1, 5], np.array([0, 2**63], np.uint64)]
    )
    def test_indices_increase_within_the_length(self, indices: ArrayLike) -> None:
        sentence = "indices must increase strictly within 0 to 4"
        with pytest.raises(ValueError, match=sentence):
            encode_sparse(indices, [1.0, 0.0], 5)
        with pytest.raises(ValueError, match=sentence + ", not as in row 1"):
            encoded_sizes([0, 0, 2], indices, [1.0, 0.0], 5)

    def test_every_index_has_one_value(self) -> None:
        with pytest.raises(
            ValueError, match="indices and values must be equally many, not 2 and 1"
        ):
            encode_sparse([1, 2], [1.0], 5)
        with pytest.raises(
            ValueError, match="indices and values must be equally many, not 1 and 2"
        ):
            encoded_sizes([0, 1], [1], [1.0, 2.0], 5)

    def test_indices_are_integers(self) -> None:
        with pytest.raises(ValueError, match="indices must be a one-dimensional integer array"):
            encode_sparse([1.0], [1.0], 5)

    @pytest.mark.parametrize("length", [-1, 2**63])
    def test_a_length_fits_63_bits(self, length: int) -> None:
        for call in (
            lambda: encode_sparse([], [], length),
            lambda: encoded_sizes([0], [], [], length),
            lambda: dense_size(length),
        ):
            with pytest.raises(ValueError, match=r"length must be from 0 to 2\*\*63 - 1"):
                call()

    @pytest.mark.parametrize("pointer", [[], [-1, 2], [0, 3], [0, 2, 1]])
    def test_a_pointer_stays_within_the_entries(self, pointer: list[int]) -> None:
        with pytest.raises(ValueError, match="pointer must be numbers from 0 to 2"):
            encoded_sizes(pointer, [1, 2], [1.0, 2.0], 5)

    def test_a_narrow_numpy_length_does_not_overflow(self) -> None:
        assert dense_size(np.int32(2**30)) == dense_size(2**30)  # type: ignore[arg-type]
        assert len(encode_sparse([1], [1.0], np.int32(2**30))) < 30  # type: ignore[arg-type]


def fuzz_seeds() -> list[bytes]:
    generator = np.random.default_rng(7)
    seeds = []
    for length in (0, 1, 2, 9, 64, 150, 1000, 150_360, 2**40):
        for count in sorted({0, 1, min(length, 5), min(length, 30)}):
            if count > length:
                continue
            indices = np.unique(generator.integers(0, max(length, 1), count))
            values = generator.normal(size=len(indices))
            seeds += [encode_sparse(indices, values, length, dtype) for dtype in DTYPES]
    return seeds + [encode(generator.normal(size=20), dtype) for dtype in DTYPES]


def mutated(data: bytes, source: random.Random) -> bytes:
    changed = bytearray(data)
    place = source.randrange(len(data))
    kind = source.randrange(5)
    if kind == 0:
        for _ in range(source.randint(1, 3)):
            changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif kind == 1:
        del changed[place:]
    elif kind == 2:
        changed[place:place] = source.randbytes(source.randint(1, 9))
    elif kind == 3:
        del changed[place : place + source.randint(1, 9)]
    else:
        changed[source.randrange(min(14, len(data)))] = source.choice([0, 1, 127, 128, 255])
    return bytes(changed)


def assert_valid(vector: SparseVector, message: bytes) -> None:
    indices, values, length = vector
    assert indices.dtype == np.int64
    assert values.dtype == np.float64
    assert indices.shape == values.shape
    if indices.size:
        assert indices[0] >= 0
        assert indices[-1] < length
        assert (indices[1:] > indices[:-1]).all()
    if length <= 1000:
        dense = decode(message)
        assert dense.size == length
        assert same_bits(dense[indices], values)


def test_no_mutated_message_does_worse_than_a_wire_error() -> None:
    source = random.Random(20_240_229)
    seeds = fuzz_seeds()
    decoded = 0
    complaints = set()
    for trial in range(100_000):
        seed = source.choice(seeds)
        # A repaired checksum lets every second message through to the deeper checks.
        message = sealed(mutated(seed[:-4], source)) if trial % 2 else mutated(seed, source)
        try:
            vector = decode_sparse(message)
        except WireError as error:
            complaints.add(re.sub(r"\d+", "N", str(error)))
            with pytest.raises(WireError):
                decode(message)
        else:
            decoded += 1
            assert_valid(vector, message)
    assert decoded > 1_000
    assert complaints >= {
        "The checksum does not match: the message is damaged.",
        "The length takes more than N bytes.",
        "The vector has N entries, more than its length N.",
        "The Rice parameter is N, above the largest, N.",
        "The message ends before the values of its N entries.",
        "The message ends within the gaps between indices.",
        "An index is not below the length N.",
        "The message is N byte(s) longer than its entries need.",
        "The padding after the gaps is not zero.",
        "The values take N bytes instead of N.",
    }
