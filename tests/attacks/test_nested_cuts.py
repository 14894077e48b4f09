"""Two sums over parts that differ by one row, and sums that change as one site moves.

A part of a part may leave out one row of one site and none of all others: both sums together are
that row. If parts began at the place that the server gives a site, it would know where to look, and
how many rows each site has.
"""

from dataclasses import replace

import numpy as np

import fedsparse as fs
from fedsparse.federation.payloads import Setup
from fedsparse.federation.sites import site as site_module
from fedsparse.federation.sites.policy import Policy
from fedsparse.problem.rows import Rows
from tests.attacks.lying_server import LyingServer, sites_of
from tests.attacks.victims import rows_recovered
from tests.federation.federated_tables import NAMES, WIDTH, clients_of

SEEDS = range(24)
LENGTHS = (30, 37, 52, 64, 88)


def rows_found():
    """Of all that is left out where a fifth of all rows is cut again, by a tenth at most."""
    clients = clients_of("numbers")
    server = LyingServer(sites_of(clients, policy=Policy()))
    fifth = Rows().part(0, of=5)

    def told(rows):
        answers = server.sum_of(
            fs.ColumnSums(with_target=True), lens=replace(server.lens, rows=rows)
        )
        if answers.count == 0:
            return np.zeros(WIDTH + 1)
        return np.append(answers.total("total"), answers.total("target"))

    whole = told(fifth)
    found = [whole - told(fifth.but_part(0, of=10, seed=seed)) for seed in SEEDS]
    return rows_recovered(found, np.vstack([np.column_stack(own) for own in clients]), within=1e-9)


def test_two_sums_tell_a_row_where_single_rows_may_be_cut_off(monkeypatch):
    monkeypatch.setattr(site_module, "FEWEST_CUT_OFF", 1)
    assert rows_found() > 0


def test_they_tell_none_by_default():
    assert rows_found() == 0


class Placing(LyingServer):
    """Gives one site a place of its choice, and places in between to names that nobody has."""

    def put(self, name, place):
        others = {own: 20 + k for k, own in enumerate(self.names) if own != name}
        self.places = others | {name: place}
        by_place = {own: name for name, own in self.places.items()}
        self.told = tuple(by_place.get(own, f"nobody {own}") for own in range(25))

    def setup_for(self, name):
        return Setup(self.agreed, self.places[name], self.told)


def beginning_at_the_place(self, targets, keys, identity):
    """How rows were dealt out before."""
    left = np.arange(targets.size)
    for cut in self.cuts:
        left = left[(np.arange(left.size) + identity) % cut.of != cut.number]
    return np.isin(np.arange(targets.size), left)


def last_digits():
    """Of how many rows each site has: at so many places of ten it leaves out one row more."""
    clients = [clients_of("numbers", sites=1, rows=rows)[0] for rows in LENGTHS]
    server, found = Placing(sites_of(clients, policy=Policy())), []
    for name in NAMES:
        seen = []
        for place in range(10):
            server.put(name, place)
            lens = replace(server.lens, rows=Rows().but_part(0, of=10))
            seen.append(round(float(server.sum_of(fs.ColumnSums(), lens=lens).total("rows"))))
        found.append(sum(own < max(seen) for own in seen))
    return found


def test_places_tell_how_many_rows_sites_have_where_parts_begin_there(monkeypatch):
    monkeypatch.setattr(Rows, "_mask", beginning_at_the_place)
    assert last_digits() == [rows % 10 for rows in LENGTHS]


def test_places_tell_nothing_by_default():
    assert last_digits() == [0] * len(LENGTHS)
