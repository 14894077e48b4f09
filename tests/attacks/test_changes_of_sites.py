"""Nearly the same question with and without a site, again and again.

Sites tell questions apart by their bits. A server that moves x by next to nothing and says that a
site dropped out has that site's answer, and as many of them as it changes who takes part.
"""

import numpy as np
import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.questions import AnsweredQuestions
from tests.attacks.lying_server import LyingServer, five_sites, gradient_at, own_gradient
from tests.federation.federated_tables import NAMES, WIDTH, clients_of

BUT_LAST = NAMES[:-1]
WANTED = 3
"""Gradients of the last site at as many x."""


def stolen(server):
    """Gradients of the last site, each from two sums at nearly the same x."""
    found = []
    for number in range(WANTED):
        x = np.full(WIDTH, float(number))
        whole = server.sum_of(gradient_at(x)).total("gradient")
        fewer = server.sum_of(gradient_at(x + 1e-13), survivors=BUT_LAST).total("gradient")
        found.append(whole - fewer)
    return found


def test_every_change_tells_an_answer_of_the_site_that_came_or_went():
    found = stolen(LyingServer(five_sites()))
    for number, own in enumerate(found):
        truth = own_gradient(clients_of("numbers")[-1], np.full(WIDTH, float(number)))
        np.testing.assert_allclose(own, truth, rtol=1e-6)


def test_sites_answer_together_with_others_a_bounded_number_of_times():
    sites = five_sites(questions=lambda name: AnsweredQuestions(None, most_changes=2))
    with pytest.raises(FederationError, match="have changed 2 times"):
        stolen(LyingServer(sites))


def test_the_bound_outlives_a_restart(tmp_path):
    def started():
        return five_sites(questions=lambda name: AnsweredQuestions(tmp_path / name, most_changes=2))

    server = LyingServer(started())
    server.sum_of(gradient_at(np.zeros(WIDTH)))
    server.sum_of(gradient_at(np.ones(WIDTH)), survivors=BUT_LAST)
    server = LyingServer(started(), run=2)
    server.sum_of(gradient_at(np.full(WIDTH, 2.0)))
    with pytest.raises(FederationError, match="have changed 2 times"):
        server.sum_of(gradient_at(np.full(WIDTH, 3.0)), survivors=BUT_LAST)


def test_a_policy_says_how_often():
    assert Policy().most_changes_of_sites == 50
