"""Gaps that no honest stream has, whose arithmetic would leave the 64-bit range."""

import numpy as np
import pytest

from fedsparse.requests.wire.rice import MAX_PARAMETER, OUT_OF_RANGE, unpack


def read(quotient, parameter, length):
    """One gap of ``quotient`` ones, a zero and low bits that are all zero."""
    bits = [1] * quotient + [0] + [0] * parameter
    indices = np.full(1, -7)
    return unpack(np.packbits(bits), parameter, length, indices), indices[0]


@pytest.mark.parametrize("parameter", [1, 30, 60, 61, MAX_PARAMETER])
@pytest.mark.parametrize("quotient", [1, 2, 4, 8, 64])
def test_a_gap_past_the_end_is_refused_even_where_it_wraps_around(quotient, parameter):
    """Shifted by 62 places, 4 is 0 in 64 bits: the gap would seem to be none."""
    told, index = read(quotient, parameter, length=1)
    assert (told, index) == (OUT_OF_RANGE, -7)


@pytest.mark.parametrize("parameter", [0, 1, 5, 30])
def test_the_last_position_is_read_and_the_one_behind_it_refused(parameter):
    gap = 3 << parameter
    assert read(3, parameter, length=gap + 1) == (3 + 1 + parameter, gap)
    assert read(3, parameter, length=gap)[0] == OUT_OF_RANGE
