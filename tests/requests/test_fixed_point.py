"""Fixed point: numbers become the nearest integers, and those add up exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsparse.requests.fixed_point import NARROW, WIDE, add, negated

FORMATS = pytest.mark.parametrize("form", [NARROW, WIDE], ids=["narrow", "wide"])


def numbers_in(form):
    """Floats that it holds: of any size below the largest, and of its own order of size."""
    below = np.nextafter(form.largest, 0.0)
    return st.floats(-below, below) | st.floats(-100.0, 100.0)


def integer_of(written):
    """The only integer of some words, by Python's arithmetic."""
    bits = 64 * written.shape[0]
    value = sum(int(word) << (64 * place) for place, word in enumerate(written[:, 0]))
    return value - (1 << bits) if value >> (bits - 1) else value


def nearest(form, number):
    """The integer nearest to number · 2^fraction, ties to the even one."""
    return round(Fraction(number) * 2**form.fraction)


@FORMATS
@given(data=st.data())
def test_a_number_becomes_the_nearest_integer(form, data):
    number = data.draw(numbers_in(form))
    assert integer_of(form.encode(np.array([number]))) == nearest(form, number)


@FORMATS
@given(data=st.data())
def test_sums_are_those_of_the_integers_in_any_order(form, data):
    numbers = data.draw(st.lists(numbers_in(form), min_size=1, max_size=8))
    order = data.draw(st.permutations(numbers))
    totals = []
    for own in (numbers, order):
        total = np.zeros((form.words, 1), dtype=np.uint64)
        for number in own:
            add(total, form.encode(np.array([number])))
        totals.append(total)
    assert integer_of(totals[0]) == sum(nearest(form, number) for number in numbers)
    assert totals[0].tobytes() == totals[1].tobytes()


@FORMATS
@given(data=st.data())
def test_a_number_comes_back_within_half_a_step_or_its_own_last_bits(form, data):
    number = data.draw(numbers_in(form))
    (found,) = form.decode(form.encode(np.array([number])))
    step = Fraction(1, 2 ** (form.fraction + 1))
    slack = Fraction(2 * float(np.spacing(abs(number))))
    assert abs(Fraction(float(found)) - Fraction(number)) <= step + slack


@FORMATS
@given(data=st.data())
def test_words_of_any_kind_are_added_modulo_their_length(form, data):
    """Masks are such: they wrap around."""
    words = st.lists(st.integers(0, 2**64 - 1), min_size=form.words, max_size=form.words)
    one, other = (np.array([data.draw(words)], dtype=np.uint64).T.copy() for _ in range(2))
    expected = (integer_of(one) + integer_of(other)) % 2 ** (64 * form.words)
    minus = -integer_of(one) % 2 ** (64 * form.words)
    assert integer_of(negated(one)) % 2 ** (64 * form.words) == minus
    add(one, other)
    assert integer_of(one) % 2 ** (64 * form.words) == expected


@FORMATS
def test_a_million_of_the_largest_numbers_do_not_overflow(form):
    largest = np.nextafter(form.largest, 0.0)
    one = integer_of(form.encode(np.array([largest])))
    assert 10**6 * one < 2 ** (64 * form.words - 1)


@FORMATS
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_does_not_fit(form, number):
    assert not form.holds(np.array([1.0, number]))


@FORMATS
def test_what_is_too_large_does_not_fit(form):
    assert form.holds(np.array([np.nextafter(form.largest, 0.0)]))
    assert form.holds(np.array([-np.nextafter(form.largest, 0.0)]))
    assert not form.holds(np.array([form.largest]))
    assert not form.holds(np.array([-form.largest]))


@FORMATS
def test_zeros_of_both_signs_and_the_smallest_numbers_become_nothing(form):
    tiny = np.array([0.0, -0.0, 5e-324, -5e-324, 1e-300])
    assert not form.encode(tiny).any()


@FORMATS
def test_no_numbers_are_none(form):
    assert form.decode(form.encode(np.zeros(0))).shape == (0,)
