"""A column that is 0 in all rows but one: its row of a Hessian is that row.

Servers of ours leave such columns out, by counts over all sites. One that lies uses it all the
same.
"""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.triangles import from_triangle
from fedsparse.errors import FederationError
from fedsparse.federation.sites import site as site_module
from fedsparse.federation.sites.policy import Policy
from fedsparse.problem.rows import Rows
from tests.attacks.lying_server import LyingServer, sites_of
from tests.attacks.victims import agreement, rows_recovered
from tests.federation.federated_tables import WIDTH, clients_of

FLAG, VICTIM = 2, 3
ALL = Rows()


def federation(flagged):
    """A server of five sites, and the rows that have the flag."""
    clients = clients_of("numbers")
    for Z, _ in clients:
        Z[:, FLAG] = 0.0
    clients[VICTIM][0][flagged, FLAG] = 1.0
    server = LyingServer(sites_of(clients, policy=Policy()), agreed=agreement(WIDTH))
    return server, clients[VICTIM][0][flagged]


def with_the_flag(server, rows=ALL):
    """The sum of rows that have it."""
    asks = fs.Curvature(np.zeros(WIDTH), np.arange(WIDTH))
    told = server.sum_of(asks, lens=replace(server.lens, rows=rows)).total("hessian")
    return from_triangle(told, WIDTH)[FLAG] / 2


def test_it_recovers_the_row_where_single_rows_may_stand_out(monkeypatch):
    monkeypatch.setattr(site_module, "FEWEST_CUT_OFF", 1)
    server, secret = federation([17])
    assert rows_recovered([with_the_flag(server)], secret, within=1e-9) == 1


def test_it_is_refused_by_default():
    server, _ = federation([17])
    with pytest.raises(FederationError, match="of which its policy lets it tell nothing"):
        with_the_flag(server)


@pytest.mark.xfail(strict=True, reason="that few rows of a part have a level is the rule in folds")
def test_it_recovers_none_by_parts_of_the_rows_in_which_one_has_the_flag():
    """Five rows have it, as many as a policy asks for."""
    server, secret = federation([1, 8, 13, 17, 25])
    parts = [Rows().part(number, of=5, seed=seed) for number in range(5) for seed in range(3)]
    assert rows_recovered([with_the_flag(server, own) for own in parts], secret, within=1e-9) == 0
