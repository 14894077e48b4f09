"""Mini-batches of all rows but one: the site draws which, and the difference tells it.

The full gradient less that of n − 1 rows is one row's. Under secure sums, sites with fewer rows
than a batch use all of theirs, so a batch of one row less than the largest has leaves out one row
of the largest alone.
"""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.federation.sites import site as site_module
from fedsparse.federation.sites.disclosure import with_own_batches
from fedsparse.federation.sites.policy import Policy
from fedsparse.problem.scaling import Scaling
from tests.attacks.lying_server import LyingServer, sites_of
from tests.attacks.victims import Server, rows_recovered, secrets, site_with
from tests.federation.federated_tables import WIDTH, clients_of

ROWS, LARGE = 20, 45


@pytest.fixture
def any_batch(monkeypatch):
    monkeypatch.setattr(
        site_module, "with_own_batches", lambda request, rows, _: with_own_batches(request, rows, 1)
    )


def step(width, batch):
    return fs.LocalSteps(np.zeros(width + 1), steps=1, step_size=1.0, batch_size=batch)


def from_open_sums():
    """How many rows are found, with targets."""
    Z, _ = secrets(ROWS, 4)
    y = Z[:, 0] + 0.5
    server = Server(site_with(Z, y), 4, fs.SquaredError())
    full = server.ask(step(4, None))["x"]
    found = []
    for _ in range(300):
        alone = ROWS * full - (ROWS - 1) * server.ask(step(4, ROWS - 1))["x"]  # 2 y (z, 1)
        if np.abs(alone).max() > 1e-9:
            found.append(np.append(alone[:-1] / alone[-1], alone[-1] / 2))
    return rows_recovered(found, np.column_stack([Z, y]), within=1e-8)


def test_it_recovers_every_row_where_any_batch_will_do(any_batch):
    assert from_open_sums() == ROWS


def test_it_recovers_none_by_default():
    assert from_open_sums() == 0


def from_secure_sums():
    """How many rows' gradients of the largest site are found, less the mean of all of them."""
    clients = [*clients_of("numbers", sites=4), clients_of("numbers", sites=1, rows=LARGE)[0]]
    server = LyingServer(sites_of(clients, policy=Policy()))
    server.lens = Lens(fs.SquaredError(), scaling=Scaling(np.zeros(WIDTH), np.ones(WIDTH), 1.0))
    server.width += 1

    def told(batch):
        return server.sum_of(step(WIDTH, batch), weights="uniform").total("x")

    full = told(None)
    found = [(LARGE - 1) * (told(LARGE - 1) - full) for _ in range(16)]
    Z, y = clients[-1]
    gradients = -2 * y[:, None] * np.column_stack([Z, np.ones(LARGE)])
    return rows_recovered(found, gradients - gradients.mean(axis=0), within=1e-8)


def test_it_recovers_rows_of_the_largest_site_where_any_batch_will_do(any_batch):
    assert from_secure_sums() > 5


def test_it_recovers_none_of_them_by_default():
    assert from_secure_sums() == 0
