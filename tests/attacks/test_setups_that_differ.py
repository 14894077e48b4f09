"""A server tells sites different things about the federation, so that all but one add zeros.

Who is asked is said by places. A server that tells every site other names for them could have all
sites agree to a sum over three, each believing that three others are meant, and only one be in it.
"""

import numpy as np
import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.payloads import Asks, Setup, TellMe, digest_of, lens_to_bytes
from fedsparse.federation.sites.policy import Policy
from fedsparse.requests.wire.request_bytes import encode_request
from tests.attacks.lying_server import LyingServer, five_sites, gradient_at, own_gradient
from tests.federation.federated_tables import NAMES, WIDTH, clients_of

ALONE = "aachen"
FIRST_THREE = (0, 1, 2)


class Permuting(LyingServer):
    """Puts every site but one behind those that are asked."""

    def setup_for(self, name):
        others = [own for own in self.names if own not in (ALONE, name)]
        if name == ALONE:
            return super().setup_for(name)
        return Setup(self.agreed, 3, (ALONE, *others[:2], name, *others[2:]))


class Misplacing(LyingServer):
    """Tells all the same names, and all sites but one that they stand behind the first three."""

    def setup_for(self, name):
        return Setup(self.agreed, 0 if name == ALONE else 3, self.names)


def alone(server):
    return server.sum_of(gradient_at(np.zeros(WIDTH)), which=FIRST_THREE).total("gradient")


def test_names_in_another_order_at_each_site_would_single_one_out(monkeypatch):
    """As it was before what sites are told alike was part of the question."""
    monkeypatch.setattr(Setup, "common", b"")
    found = alone(Permuting(five_sites()))
    expected = own_gradient(clients_of("numbers")[0], np.zeros(WIDTH))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sites_that_were_told_other_names_have_other_masks():
    """What was asked is then another question at every site, and their masks do not cancel."""
    with pytest.raises(Exception, match="not signed for this question"):
        alone(Permuting(five_sites()))


def test_a_site_that_is_given_the_place_of_another_one_refuses():
    with pytest.raises(FederationError, match="gives it the place of another site"):
        alone(Misplacing(five_sites()))


def test_an_encoding_that_differs_makes_another_question():
    """Columns that some sites do not have would make zeros of their answers."""
    own = Setup({"columns": ["age"]}, 0, NAMES)
    assert own.common != Setup({"columns": ["dose"]}, 0, NAMES).common
    assert own.common == Setup({"columns": ["age"]}, 1, NAMES).common


def test_rows_opened_under_one_setup_do_not_answer_under_another():
    """A server shows a setup with a wrong place, then the right one with columns nobody has.

    Rows must not stay open in the wrong place while the right one is what all agree on.
    """
    server = LyingServer(five_sites(policy=Policy(open_sums=True)))
    wrong = Setup(server.agreed, 4, server.names)
    broken = Setup({"columns": "none"}, 0, server.names)
    server.say(ALONE, _asks(server, wrong, wrong.to_bytes()))
    with pytest.raises(FederationError):
        server.say(ALONE, _asks(server, broken, broken.to_bytes()))
    assert isinstance(server.say(ALONE, _asks(server, wrong, None)), TellMe)


def _asks(server, setup, written):
    request = encode_request(gradient_at(np.zeros(WIDTH)))
    lenses = (lens_to_bytes(server.lens),)
    session = digest_of(setup.to_bytes())
    return Asks(session, ((server.lens.digest, request),), written, lenses)
