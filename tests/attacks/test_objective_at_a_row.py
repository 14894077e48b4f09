"""f alone tells a column: with a steep x it is a broken line, and it breaks at every value.

The loss of a row is t |z − c| on the wrong side of the threshold c and 0 on the other. So f / t is
a convex broken line of c whose slope grows by 1 at the value of every row.
"""

import numpy as np
import pytest

import fedsparse as fs
from tests.attacks.victims import NotToldError, Server, secrets, site_with

ROWS, WIDTH = 40, 3
STEEP, STEP = 1e9, 1e-6


def line_at(server, threshold):
    """f / t and its slope right of a threshold."""

    def total(place):
        x = np.zeros(WIDTH + 1)
        x[0], x[WIDTH] = STEEP, -STEEP * place
        return ROWS * server.ask(fs.Evaluate(x, is_penalized=False))["objective"] / STEEP

    here = total(threshold)
    return threshold, here, round((total(threshold + STEP) - here) / STEP)


def values_between(server, left, right):
    """Where the line breaks between two lines."""
    (low, at_low, before), (high, at_high, after) = left, right
    if after == before:
        return []
    if after == before + 1:
        return [(at_low - at_high - before * low + after * high) / (after - before)]
    middle = line_at(server, (low + high) / 2)
    return values_between(server, left, middle) + values_between(server, middle, right)


def column(server):
    return np.array(values_between(server, line_at(server, -6.0), line_at(server, 6.0)))


def test_it_recovers_a_column_where_few_may_dominate():
    Z, labels = secrets(ROWS, WIDTH)
    site = site_with(Z, labels, requests=("Evaluate",), smallest_weight_of_others=0.0)
    server = Server(site, WIDTH, fs.Logistic(l2=0.1))
    found = column(server)
    assert found.size == ROWS
    assert np.abs(found - np.sort(Z[:, 0])).max() < 1e-9
    assert server.requests < 5 * ROWS


def test_it_recovers_none_by_default():
    Z, labels = secrets(ROWS, WIDTH)
    server = Server(site_with(Z, labels), WIDTH, fs.Logistic(l2=0.1))
    with pytest.raises(NotToldError):
        column(server)
