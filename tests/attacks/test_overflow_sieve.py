"""An answer that is too large to be written adds nothing: who sees to it that all but one are has
that one's.

Steps of a size at which squares of all sites but one overflow leave a single answer in the sum, and
a count of the others says when that is so.
"""

import numpy as np

import fedsparse as fs
from fedsparse.federation.sites.policy import Policy
from fedsparse.requests import fixed_sums
from fedsparse.requests.fixed_point import WIDE
from tests.attacks.lying_server import LyingServer, five_sites, own_gradient
from tests.attacks.victims import rows_recovered
from tests.federation.federated_tables import NAMES, ROWS, WIDTH, clients_of

MOST_TRIES = 25


def at(server, step):
    """How many overflowed, by the counter, and a sum that an honest server does not look at."""
    request = fs.LocalSteps(np.zeros(WIDTH), steps=1, step_size=step, with_distance=True)
    exchange = server.asked(request, (("uniform", None),))
    numbers = WIDE.decode(server.integers(exchange).wide)
    return round(numbers[2]), numbers[3 : 3 + WIDTH]


def gradient_left(server):
    """Of the one site that does not overflow; None if no step is found."""
    low, high = 1e10, 1e20
    for _ in range(MOST_TRIES):
        step = np.sqrt(low * high)
        over, total = at(server, step)
        if over == len(NAMES) - 1:
            return -total / step
        low, high = (step, high) if over < len(NAMES) - 1 else (low, step)
    return None


def gradients():
    return [own_gradient(own, np.zeros(WIDTH)) / ROWS for own in clients_of("numbers")]


def test_it_leaves_one_sites_gradient_where_zeros_stand_for_the_others(monkeypatch):
    monkeypatch.setattr(fixed_sums, "_hide", lambda *_: None)
    monkeypatch.setattr(fixed_sums, "_unwritten", lambda noise: 1.0)
    found = gradient_left(LyingServer(five_sites(policy=Policy())))
    assert rows_recovered([found], gradients(), within=1e-12) == 1


def test_it_does_not_see_by_default_how_many_overflow():
    assert gradient_left(LyingServer(five_sites(policy=Policy()))) is None


def test_what_is_left_would_be_noise(monkeypatch):
    monkeypatch.setattr(fixed_sums, "_unwritten", lambda noise: 1.0)
    found = gradient_left(LyingServer(five_sites(policy=Policy())))
    assert rows_recovered([found], gradients(), within=1.0) == 0
