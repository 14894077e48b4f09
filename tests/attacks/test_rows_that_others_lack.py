"""A lens that shows too few rows of all sites but one: the others add zeros, and it stands alone.

Sites tell how many rows they have. A part of them that is large enough at one site alone makes a
sum over five of which four are nothing; who adds zeros is not known to the others.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.sites.policy import Policy
from fedsparse.problem.rows import Rows
from tests.attacks.lying_server import LyingServer, gradient_at, own_gradient, sites_of
from tests.federation.federated_tables import WIDTH, clients_of

PARTS = 10
LARGE = 4


def clients():
    """Four of 30 rows and one of 200."""
    return [*clients_of("numbers", sites=4), clients_of("numbers", sites=1, rows=200)[0]]


@pytest.mark.xfail(strict=True, reason="a site without enough rows adds zeros, and nobody knows")
def test_a_sum_is_not_opened_in_which_one_site_alone_has_rows():
    """Ten sums, one for every part, would be the large site's gradient over all of its rows."""
    server = LyingServer(sites_of(clients(), policy=Policy(open_sums=True)))
    found = np.zeros(WIDTH)
    for part in range(PARTS):
        lens = replace(server.lens, rows=Rows().part(part, of=PARTS))
        try:
            found += server.sum_of(gradient_at(np.zeros(WIDTH)), lens=lens).total("gradient")
        except FederationError:
            return
    assert not np.allclose(found, own_gradient(clients()[LARGE], np.zeros(WIDTH)), rtol=1e-6)
