"""Sharing secrets: enough shares give one back, fewer tell nothing."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsparse.federation.secure import shamir

SECRETS = st.binary(min_size=shamir.SECRET_BYTES, max_size=shamir.SECRET_BYTES)
SECRET = bytes(range(200, 232))


@given(SECRETS, st.data())
def test_any_shares_as_many_as_the_threshold_give_the_secret(secret, data):
    count = data.draw(st.integers(1, 12))
    threshold = data.draw(st.integers(1, count))
    shares = shamir.split(secret, threshold, count)
    more = data.draw(st.integers(threshold, count))
    chosen = data.draw(st.permutations(range(count)))[:more]
    assert shamir.join({place: shares[place] for place in chosen}) == secret


def test_every_choice_of_three_of_five_gives_the_same():
    shares = shamir.split(SECRET, 3, 5)
    for chosen in combinations(range(5), 3):
        assert shamir.join({place: shares[place] for place in chosen}) == SECRET


@given(SECRETS, SECRETS)
def test_fewer_shares_fit_every_secret(secret, other):
    """Two of three needed: for any other secret there is a third share that makes it of them."""
    shares = shamir.split(secret, 3, 3)
    points = {0: int.from_bytes(other), 1: int.from_bytes(shares[0]), 2: int.from_bytes(shares[1])}
    third = _through(points, 3).to_bytes(shamir.SHARE_BYTES)
    assert shamir.join({0: shares[0], 1: shares[1], 2: third}) == other


def _through(points, x):
    """The polynomial through points of the field, elsewhere (Lagrange)."""
    total = 0
    for own, value in points.items():
        for other in points:
            if other != own:
                value = value * (x - other) * pow(own - other, -1, shamir.PRIME) % shamir.PRIME
        total += value
    return total % shamir.PRIME


def test_too_few_shares_do_not_give_the_secret():
    shares = shamir.split(SECRET, 3, 5)
    assert shamir.join({0: shares[0], 1: shares[1]}) != SECRET


def test_a_wrong_share_gives_something_else():
    shares = shamir.split(SECRET, 3, 5)
    wrong = (int.from_bytes(shares[1]) ^ 1).to_bytes(shamir.SHARE_BYTES)
    assert shamir.join({0: shares[0], 1: wrong, 2: shares[2]}) != SECRET


def test_a_share_beyond_the_field_is_no_error():
    """Sites may tell any 66 bytes."""
    shares = shamir.split(SECRET, 2, 2)
    assert shamir.join({0: shares[0], 1: b"\xff" * shamir.SHARE_BYTES}) != SECRET


def test_shares_differ_each_time():
    assert shamir.split(SECRET, 2, 2) != shamir.split(SECRET, 2, 2)


@pytest.mark.parametrize("threshold", [0, 4])
def test_a_threshold_that_cannot_be_met_is_a_mistake_in_the_program(threshold):
    with pytest.raises(AssertionError):
        shamir.split(SECRET, threshold, 3)
