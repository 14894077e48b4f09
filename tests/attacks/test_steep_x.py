"""With an x so steep that a column alone decides, two gradients differ by the rows between them.

The score of a row is t (z − c) for a column z, a large t and a threshold c of the server's choice:
its slope is that of class 1 above c and of class 0 below. The gradients at two thresholds differ by
the rows whose z lies between, and the intercept's column says how many they are. Once there is one,
that is the row.
"""

import numpy as np
import pytest

import fedsparse as fs
from tests.attacks.victims import NotToldError, Server, rows_recovered, secrets, site_with

ROWS, WIDTH = 60, 8
STEEP = 1e9


def gradient_at(server, threshold, steepness=STEEP):
    x = np.zeros(WIDTH + 1)
    x[0], x[WIDTH] = steepness, -steepness * threshold
    return ROWS * server.ask(fs.Gradient(x))["gradient"]


def rows_between(server, low, high, at_low, at_high):
    """Every row whose first feature lies between two thresholds."""
    between = at_low - at_high
    count = round(between[WIDTH])
    if count == 1:
        return [between[:WIDTH]]
    if count == 0:
        return []
    middle = (low + high) / 2
    at_middle = gradient_at(server, middle)
    lower = rows_between(server, low, middle, at_low, at_middle)
    return lower + rows_between(server, middle, high, at_middle, at_high)


def stolen(server):
    low, high = -6.0, 6.0
    return rows_between(server, low, high, gradient_at(server, low), gradient_at(server, high))


@pytest.mark.parametrize("l2", [0.0, 0.1], ids=["no ℓ2 term", "an ℓ2 term"])
def test_it_recovers_every_row_where_few_may_dominate(l2):
    Z, labels = secrets(ROWS, WIDTH)
    site = site_with(Z, labels, smallest_weight_of_others=0.0, smallest_l2=0.0)
    server = Server(site, WIDTH, fs.Logistic(l2=l2))
    assert rows_recovered(stolen(server), Z, within=1e-12) == ROWS
    assert server.requests < 3 * ROWS


def test_it_recovers_none_by_default():
    Z, labels = secrets(ROWS, WIDTH)
    server = Server(site_with(Z, labels), WIDTH, fs.Logistic(l2=0.1))
    with pytest.raises(NotToldError):
        stolen(server)
    assert server.requests == 1


@pytest.mark.parametrize("digits", [16, 0], ids=["all values differ", "whole numbers"])
def test_the_steepest_x_that_is_answered_tells_rows_only_roughly(digits):
    """The server tries thresholds and steepness until it is refused."""
    Z, labels = secrets(ROWS, WIDTH)
    Z[:, 0] = Z[:, 0].round(digits)
    site = site_with(Z, labels)
    found = []
    for steepness in (2.0, 5.0, 10.0, 20.0, 40.0):
        server = Server(site, WIDTH, fs.Logistic(l2=0.1))
        told = []
        for threshold in np.linspace(-3.0, 3.0, 121):
            try:
                told.append(gradient_at(server, threshold, steepness))
            except NotToldError:
                told.append(np.full(WIDTH + 1, np.nan))
        between = -np.diff(told, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            found += list(between[:, :WIDTH] / between[:, WIDTH:])
    assert rows_recovered([own for own in found if np.isfinite(own).all()], Z, within=0.3) == 0


def test_local_steps_do_not_lead_to_such_an_x_either():
    Z, labels = secrets(ROWS, WIDTH)
    server = Server(site_with(Z, labels), WIDTH, fs.Logistic(l2=0.1))
    start = np.zeros(WIDTH + 1)
    server.ask(fs.LocalSteps(start, steps=1, step_size=1e9))
    with pytest.raises(NotToldError):
        server.ask(fs.LocalSteps(start, steps=2, step_size=1e9))
