"""A rule on scaled values is a comparison with a site's extremes, whoever hears of it.

Scaled so that values lie a million deviations away, an answer was refused. Halving the scale gave
the lowest and the highest value of any column. Left out of a secure sum instead, all sites but the
one with the smallest extreme could be left out, and the sum was that one's.
"""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.problem.scaling import Scaling
from tests.attacks.lying_server import LyingServer, five_sites
from tests.attacks.victims import NotToldError, Server, agreement, site_with
from tests.federation.federated_tables import NAMES, clients_of

FAR, MOST = 1e5, 1e6
SECRET = np.random.default_rng(3).lognormal(3.0, 1.0, 60)


def with_the_rule(self, engine, lens, request):
    """Whether no value lies farther from the mean than a million deviations."""
    return np.abs(engine._data.features - lens.scaling.mean).max() <= MOST * lens.scaling.scale


def scaled(centre, distance):
    scaling = Scaling(np.array([centre]), np.array([distance / MOST]), 0.0)
    return Lens(fs.SquaredError(), scaling=scaling)


def farthest(server, centre):
    """How far some value lies from a centre."""
    low, high = 0.0, 1e6
    for _ in range(50):
        middle = (low + high) / 2
        server.lens = scaled(centre, middle)
        try:
            server.ask(fs.ColumnSums())
        except NotToldError:
            low = middle
        else:
            high = middle
    return high


def extremes():
    server = Server(site_with(SECRET[:, None], SECRET), 1, fs.SquaredError(), intercept=0.0)
    return [FAR - farthest(server, FAR), farthest(server, -FAR) - FAR]


def test_the_rule_told_the_lowest_and_the_highest_value(monkeypatch):
    monkeypatch.setattr(Site, "_may_tell", with_the_rule)
    np.testing.assert_allclose(extremes(), [SECRET.min(), SECRET.max()], rtol=1e-8)


def test_any_scale_is_answered_now():
    np.testing.assert_allclose(extremes(), [FAR, -FAR])


def target_left():
    """The sum of the targets of the only site that is not left out; None if none ever is alone."""
    server = LyingServer(five_sites(policy=Policy()), agreed=agreement(1))
    low, high = 90.0, 200.0
    for _ in range(20):
        middle = (low + high) / 2
        answers = server.sum_of(fs.ColumnSums(with_target=True), lens=scaled(-100.0, middle))
        if answers.count == 1:
            return answers.total("target")
        low, high = (middle, high) if answers.count == 0 else (low, middle)
    assert answers.count == len(NAMES)
    return None


def test_the_rule_left_one_site_alone_in_a_sum(monkeypatch):
    monkeypatch.setattr(Site, "_may_tell", with_the_rule)
    found = target_left()
    assert any(found == pytest.approx(y.sum(), rel=1e-9) for _, y in clients_of("numbers"))


def test_no_scale_leaves_a_site_out_now():
    assert target_left() is None
