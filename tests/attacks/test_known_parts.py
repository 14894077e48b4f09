"""Parts of the rows that a server knows are equations: with enough of them, every row is solved.

If rows were drawn by their numbers, who chooses the seed would know which are in a part. Drawn by
features alone, it would know as much wherever it asks about a column that is the same in all rows.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.row_keys import keys_of
from fedsparse.problem.rows import Rows
from tests.attacks.lying_server import LyingServer, sites_of
from tests.attacks.victims import NotToldError, Policy, Server, rows_recovered, site_with
from tests.federation.federated_tables import NAMES, clients_of

SITES, ROWS = 3, 12
SUMS = fs.ColumnSums(with_target=True)
TARGETS = np.random.default_rng(0).standard_normal(24)


def numbers_of_rows(data):
    """Keys that do not depend on what is in the rows."""
    begins = np.repeat(1000 * data.identities - data.pointer[:-1], np.diff(data.pointer))
    return (np.arange(data.samples) + begins).astype(np.uint64)


def keys_without_targets(data):
    return keys_of(data.features, np.zeros(data.samples))


def every_row():
    """Of three sites, from sums over all of them, if rows are drawn by their numbers."""
    clients = clients_of("numbers", sites=SITES, rows=ROWS)
    server = LyingServer(sites_of(clients, NAMES[:SITES], policy=Policy()))
    secret = np.vstack([np.column_stack(own) for own in clients])
    equations, sums = [], []
    for seed in range(3 * SITES * ROWS // 2):
        rows = Rows().but_part(0, of=2 + seed % 4, seed=seed)
        numbers = [np.arange(ROWS, dtype=np.uint64) + np.uint64(1000 * k) for k in range(SITES)]
        equations.append(np.concatenate([rows._mask(np.zeros(ROWS), own, 0) for own in numbers]))
        told = server.sum_of(SUMS, lens=replace(server.lens, rows=rows))
        sums.append(np.append(told.total("total"), told.total("target")))
    found = np.linalg.lstsq(np.array(equations, dtype=float), np.array(sums), rcond=None)[0]
    return rows_recovered(found, secret, within=1e-6)


def test_it_recovers_every_row_of_every_site_where_rows_are_drawn_by_number(monkeypatch):
    monkeypatch.setattr(FederatedData, "row_keys", property(numbers_of_rows))
    assert every_row() == SITES * ROWS


def test_it_recovers_none_where_they_are_drawn_by_what_is_in_them():
    assert every_row() == 0


def every_target():
    """Of a site, from a column that is the same in all rows."""
    rows = np.column_stack([np.zeros(24), TARGETS])
    server = Server(site_with(rows, TARGETS), 1, fs.SquaredError(), intercept=0.0)
    keys = keys_of(np.zeros((24, 1)), np.zeros(24))
    equations, means = [], []
    for one, other, seed in product(range(2, 6), range(2, 6), range(4)):
        own = Rows().but_part(seed % one, of=one, seed=seed).but_part(0, of=other, seed=seed)
        server.lens = replace(server.lens, rows=own)
        means.append(server.ask(SUMS)["target"])
        mask = own._mask(np.zeros(24), keys, 0)
        equations.append(mask / mask.sum())
    found = np.linalg.lstsq(np.array(equations), np.array(means), rcond=None)[0]
    return rows_recovered(found[:, None], TARGETS[:, None], within=1e-6)


def test_it_recovers_every_target_where_rows_are_drawn_by_features_alone(monkeypatch):
    monkeypatch.setattr(FederatedData, "row_keys", property(keys_without_targets))
    assert every_target() == TARGETS.size


def test_it_recovers_none_where_targets_count_as_well():
    assert every_target() == 0


def test_rows_are_not_cut_into_a_single_part_either():
    """The same rows in other words would be another question."""
    server = Server(site_with(TARGETS[:, None], TARGETS), 1, fs.SquaredError())
    server.lens = replace(server.lens, rows=Rows().part(0, of=1))
    with pytest.raises(NotToldError, match="two or more parts"):
        server.ask(SUMS)
