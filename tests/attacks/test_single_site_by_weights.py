"""Sums of the same answers under two kinds of weights: sites with equal rows cancel.

Sites tell how many rows they have. If all but one have the same number n, the sum weighted by rows
less n times the plain sum is that one's answer, times a known number.
"""

import numpy as np
import pytest

from fedsparse.engines.engine import Ask, check_adds_up
from fedsparse.errors import FederationError, OptionError
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Asks, MaskedAsks
from fedsparse.federation.sites.questions import AnsweredQuestions
from fedsparse.requests.wire.vectors import WireError
from tests.attacks.lying_server import LyingServer, gradient_at, own_gradient, sites_of
from tests.federation.federated_tables import ROWS, WIDTH, clients_of

AT_ZERO = gradient_at(np.zeros(WIDTH))
LARGE = 90


class Forgetful(AnsweredQuestions):
    """Allows everything: the defence switched off."""

    def __init__(self, name):
        super().__init__(None)

    def check(self, questions, names, **options):
        pass


def clients():
    """Four of 30 rows and one of 90."""
    return [*clients_of("numbers", sites=4), clients_of("numbers", sites=1, rows=LARGE)[0]]


def odd_one(**options):
    server = LyingServer(sites_of(clients(), **options))
    by_rows = server.sum_of(AT_ZERO, weights="samples").total("gradient")
    plain = server.sum_of(AT_ZERO, weights="uniform").total("gradient")
    return (by_rows - ROWS * plain) * LARGE / (LARGE - ROWS)


def test_two_kinds_of_weights_would_single_out_the_site_with_other_rows():
    expected = own_gradient(clients()[-1], np.zeros(WIDTH))
    np.testing.assert_allclose(odd_one(questions=Forgetful), expected, rtol=1e-9)


def test_sites_answer_a_question_with_one_kind_of_weights():
    with pytest.raises(FederationError, match="same question before with weights 'samples'"):
        odd_one()


def test_weights_of_single_sites_are_no_weights_under_masks():
    masked = MaskedAsks(0, (("bari", b""),), ("0.5",), (None,))
    with pytest.raises(WireError, match="how answers are masked"):
        payloads.from_bytes(payloads.to_bytes(Asks("", (("", b""),), None, (), masked)))


def test_a_server_of_ours_refuses_to_ask_with_them():
    """Before anything is sent."""
    server = LyingServer(sites_of(clients()))
    ask = Ask(server.lens, AT_ZERO, np.array([1.0, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(OptionError, match="would single them out"):
        check_adds_up(ask)
