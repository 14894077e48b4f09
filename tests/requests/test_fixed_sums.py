"""Answers as one vector of integers: what it adds up to, and what it does not tell."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.asked_entries import AskedEntries, EntriesShape
from fedsparse.compute.stacks import DenseStack
from fedsparse.requests.fixed_point import NARROW, SHORT, WIDE
from fedsparse.requests.fixed_sums import Integers, SumLayout, by_client

SHAPES = {"gradient": (3,), "objective": None}
LAYOUT = SumLayout([(SHAPES, True), (SHAPES, False)])


def answer(vector, number):
    return {
        "gradient": DenseStack(np.asarray([vector], dtype=float), (3,)),
        "objective": np.array([number], dtype=float),
    }


def total_of(*contributions):
    total = Integers.zeros(*LAYOUT.counts)
    for own in contributions:
        total.add(LAYOUT.encode(own))
    return LAYOUT.decode(total)


def test_sums_are_weighted_by_each_client():
    first, second = total_of(
        [(answer([1, 2, 3], 0.5), 2.0), (answer([1, 1, 1], 1.0), 1.0)],
        [(answer([0, -1, 4], 1.5), 3.0), (answer([2, 2, 2], 3.0), 1.0)],
    )
    np.testing.assert_array_equal(first.total("gradient"), [2.0, 1.0, 18.0])
    assert (first.average("objective"), first.weight, first.count) == (1.1, 5.0, 2)
    assert (second.average("objective"), second.weight) == (2.0, 2.0)


def test_who_has_no_rows_adds_zeros_and_does_not_count():
    first, second = total_of([(answer([1, 2, 3], 0.5), 2.0), None], [None, None])
    assert (first.count, first.weight) == (1, 2.0)
    assert (second.count, second.sums) == (0, {})


def test_an_answer_that_cannot_be_written_spoils_its_own_sum_alone():
    """One that diverged is seen in the sum; whose it was is not."""
    first, second = total_of(
        [(answer([1, np.nan, 3], 0.5), 2.0), (answer([1, 1, 1], 1.0), 1.0)],
        [(answer([1, 2, 3], 0.5), 2.0), (answer([1, 1, 1], 1.0), 1.0)],
    )
    assert not first.is_finite()
    assert first.count == 2
    assert second.is_finite()


def test_a_number_too_large_for_its_format_cannot_be_written():
    too_large = answer([0, 0, WIDE.largest], 0.5)
    (first, _) = total_of([(too_large, 1.0), None])
    assert not first.is_finite()


def test_long_vectors_of_scaled_features_are_written_narrow():
    shapes = {"gradient": (300,)}
    scaled, plain = SumLayout([(shapes, True)]), SumLayout([(shapes, False)])
    assert (scaled.narrow, plain.narrow) == (300, 0)
    assert scaled.bytes == 300 * NARROW.bytes + 3 * WIDE.bytes
    assert plain.bytes == 303 * WIDE.bytes


ENTRIES = EntriesShape.of([AskedEntries(np.zeros(2, dtype=np.bool_), np.ones(2))])
SHORT_LAYOUT = SumLayout([({"objective": None, "hessian": ENTRIES}, True)])


def entries(*numbers):
    stack = DenseStack(np.asarray([numbers], dtype=float), (3,))
    return {"objective": np.ones(1), "hessian": stack}


def test_entries_relative_to_units_are_written_in_32_bits():
    assert SHORT_LAYOUT.counts == (0, 4, 3)
    assert SHORT_LAYOUT.bytes == 4 * WIDE.bytes + 3 * SHORT.bytes
    total = Integers.zeros(*SHORT_LAYOUT.counts)
    for numbers in ([1.0, -0.25, 2.0**-20], [0.5, 0.5, -3.0]):
        total.add(SHORT_LAYOUT.encode([(entries(*numbers), 2.0)], clients=2))
    again = Integers.from_bytes(total.to_bytes(), total.sizes)
    (answers,) = SHORT_LAYOUT.decode(again)
    assert answers.total("hessian").tolist() == [3.0, 0.5, 2.0**-19 - 6.0]
    assert (answers.weight, answers.count) == (4.0, 2)


@pytest.mark.parametrize(("clients", "largest"), [(1, 64.0), (15, 8.0), (31, 4.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_of_short_numbers_never_wrap(clients, largest, sign):
    total = Integers.zeros(*SHORT_LAYOUT.counts)
    most = sign * np.nextafter(largest, 0.0)
    for _ in range(clients):
        total.add(SHORT_LAYOUT.encode([(entries(most, 0, 0), 1.0)], clients=clients))
    (answers,) = SHORT_LAYOUT.decode(total)
    np.testing.assert_allclose(answers.total("hessian")[0], clients * most, rtol=1e-6)
    total.add(SHORT_LAYOUT.encode([(entries(sign * largest, 0, 0), 1.0)], clients=clients))
    (answers,) = SHORT_LAYOUT.decode(total)
    assert not answers.is_finite()


def test_short_numbers_that_cannot_be_written_leave_noise():
    drawn = SHORT_LAYOUT.encode([(entries(0, 65.0, 0), 1.0)], lambda size: b"\x07" * size)
    assert drawn.short.tolist() == [0x07070707] * 3
    assert not SHORT_LAYOUT.decode(drawn)[0].is_finite()


def test_the_length_depends_on_nothing_but_what_is_asked():
    zeros = LAYOUT.encode([None, None]).to_bytes()
    full = LAYOUT.encode([(answer([1, 2, 3], 0.5), 2.0)] * 2).to_bytes()
    assert len(zeros) == len(full) == LAYOUT.bytes == sum(LAYOUT.sizes)


def test_bytes_are_read_as_they_were_written():
    written = LAYOUT.encode([(answer([1, -2, 3], 0.5), 2.0)] * 2)
    again = Integers.from_bytes(written.to_bytes(), LAYOUT.counts)
    assert again.to_bytes() == written.to_bytes()


def test_answers_of_several_clients_come_one_by_one():
    vectors = DenseStack(np.array([[1.0, 2.0], [3.0, 4.0]]), (2,))
    first, second = by_client({"x": vectors, "objective": np.array([5.0, 6.0])}, 2)
    assert next(second["x"].each()).tolist() == [3.0, 4.0]
    assert first["objective"].tolist() == [5.0]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_orders_of_clients_give_the_same_bits(loss):
    random = np.random.default_rng(0)
    clients = [(Z, (Z[:, 0] > 0).astype(float)) for Z in random.standard_normal((5, 20, 300))]
    found = set()
    for shift in range(5):
        data = fs.FederatedData.from_clients(clients[shift:] + clients[:shift])
        engine = fs.LocalEngine(data, loss, sums="fixed")
        (answers,) = engine.exchange([engine.ask(fs.Gradient(np.ones(300)), "samples")])
        found.add(answers.total("gradient").tobytes())
        engine.close()
    assert len(found) == 1
