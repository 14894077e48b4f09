"""Masks: the same for both who made the key, and gone when they are taken away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsparse.federation.secure import masks
from fedsparse.requests.fixed_sums import Integers

KEYS = st.binary(min_size=32, max_size=32)
LOW_ORDER = [bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little")]


def some(narrow=4, wide=5, short=7, seed=0):
    written = np.random.default_rng(seed).bytes(8 * (2 * narrow + 3 * wide) + 4 * short)
    return Integers.from_bytes(written, (narrow, wide, short))


@given(KEYS, KEYS, st.binary(max_size=40))
def test_two_sites_agree_on_a_key(one, other, context):
    first = masks.agreed_key(one, masks.public_of(other), context)
    assert first == masks.agreed_key(other, masks.public_of(one), context)
    assert first != masks.agreed_key(one, masks.public_of(other), context + b"x")
    assert len(first) == masks.KEY_BYTES


@given(KEYS)
def test_a_mask_that_is_taken_away_leaves_nothing(key):
    numbers = some()
    masks.add_mask(numbers, key)
    assert numbers.to_bytes() != some().to_bytes()
    masks.add_mask(numbers, key, is_taken_away=True)
    assert numbers.to_bytes() == some().to_bytes()


def test_masks_may_be_taken_away_in_any_order():
    keys = [bytes([own]) * 32 for own in range(5)]
    numbers = some()
    for key in keys:
        masks.add_mask(numbers, key)
    for key in keys[::-1]:
        masks.add_mask(numbers, key, is_taken_away=True)
    assert numbers.to_bytes() == some().to_bytes()


def test_a_mask_covers_every_word_of_all_formats():
    zeros = Integers.zeros(1000, 1000, 1000)
    masks.add_mask(zeros, bytes(32))
    assert zeros.narrow.all()
    assert zeros.wide.all()
    assert np.unique(np.concatenate([zeros.narrow.ravel(), zeros.wide.ravel()])).size == 5000
    assert np.unique(zeros.short).size > 990
    own = zeros.to_bytes()
    masks.add_mask(zeros, bytes(32), is_taken_away=True)
    assert not zeros.short.any()
    assert len(own) == zeros.length == 8 * 5000 + 4 * 1000


def test_bits_of_a_mask_are_even():
    """Of 320,000 bits half are set, within five standard deviations."""
    zeros = Integers.zeros(1000, 1000)
    masks.add_mask(zeros, masks.new_key())
    bits = np.unpackbits(np.frombuffer(zeros.to_bytes(), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_what_is_derived_for_one_purpose_says_nothing_of_another():
    assert masks.derived_key(bytes(32), b"a") != masks.derived_key(bytes(32), b"b")


@pytest.mark.parametrize("point", [*LOW_ORDER, b"", bytes(31), bytes(33)])
def test_a_point_that_nobody_can_agree_with_is_no_key(point):
    assert not masks.is_public(point)
