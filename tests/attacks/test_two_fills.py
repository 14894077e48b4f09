"""Two fills of holes: sums differ by just the rows that have the holes.

The row of a Hessian that belongs to a column with one hole changes by that row, with all of its
columns. With more holes, a part of the rows that lacks one of them gives it by two differences.
"""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.triangles import from_triangle
from fedsparse.engines import local
from fedsparse.engines.lens import Lens
from fedsparse.federation.payloads import Answered, Setup
from fedsparse.federation.sites.policy import Policy
from fedsparse.problem import scaling
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling
from tests.attacks.lying_server import LyingServer, sites_of
from tests.attacks.victims import agreement, rows_recovered, site_with
from tests.federation.asking import asked
from tests.federation.federated_tables import WIDTH, clients_of

HOLED, VICTIM = 4, 2
ALL = Rows()


def federation(holes):
    """A server of five sites of which one misses some values of a column."""
    clients = clients_of("numbers")
    secret = np.delete(clients[VICTIM][0].copy(), HOLED, axis=1)[holes]
    clients[VICTIM][0][holes, HOLED] = np.nan
    server = LyingServer(sites_of(clients, policy=Policy()), agreed=agreement(WIDTH, impute="mean"))
    server.width = WIDTH + 1
    return server, secret


def with_holes(server, rows=ALL):
    """How many rows have a hole, and their sum without the column in question."""
    found = []
    for fill in (0.0, 1.0):
        fills = np.eye(WIDTH)[HOLED] * fill
        how = Scaling(np.zeros(WIDTH), np.ones(WIDTH), 1.0, fill=fills)
        asks = fs.Curvature(np.zeros(WIDTH + 1), np.arange(WIDTH + 1))
        told = server.sum_of(asks, lens=Lens(fs.SquaredError(), rows, how)).total("hessian")
        found.append(from_triangle(told, WIDTH + 1)[HOLED] / 2)
    own = found[1] - found[0]
    return round(own[-1]), np.delete(own[:-1], HOLED)


def in_one_hole():
    server, secret = federation([11])
    return rows_recovered([with_holes(server)[1]], secret, within=1e-9)


def test_it_recovers_the_row_where_the_server_fills_single_holes(monkeypatch):
    monkeypatch.setattr(scaling, "with_few_holes_filled", lambda features, *_: features)
    assert in_one_hole() == 1


def test_it_recovers_none_by_default():
    assert in_one_hole() == 0


def in_six_holes():
    server, secret = federation([1, 5, 9, 14, 20, 27])
    count, every = with_holes(server)
    parts = [with_holes(server, Rows().but_part(0, of=6, seed=seed)) for seed in range(6)]
    found = [every - some for left, some in parts if left == count - 1]
    return rows_recovered(found, secret, within=1e-9)


def test_it_recovers_rows_by_parts_where_only_holes_that_are_left_count(monkeypatch):
    monkeypatch.setattr(local, "holes_of", lambda data: None)
    assert in_six_holes() > 0


def test_it_recovers_none_where_those_cut_off_count_too():
    assert in_six_holes() == 0


@pytest.mark.parametrize("holes", [0, 1, 4, 5])
def test_a_far_fill_is_answered_however_many_holes_there_are(holes):
    """A refusal would say that there are a few."""
    rows = np.linspace(0.0, 1.0, 40)[:, None]
    rows[:holes] = np.nan
    far = Scaling(np.zeros(1), np.ones(1), 1.0, fill=np.array([1e5]))
    setup = Setup(agreement(1, impute="mean"), 0, ("bari",)).to_bytes()
    site, lens = site_with(rows, np.arange(40.0)), Lens(fs.SquaredError(), scaling=far)
    assert isinstance(asked(site, fs.ColumnSums(), setup, lens), Answered)
