"""A server that knows which rows are in each mini-batch solves a linear system for all of them."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.kernels.random import sample_without_replacement
from fedsparse.federation.sites import site as site_module
from tests.attacks.victims import Server, rows_recovered, secrets, site_with

ROWS, WIDTH, BATCH = 120, 24, 5


def useful_seeds():
    """As many as it takes for the batches to tell all rows apart, and which rows they have."""
    seeds, which = [], np.zeros((0, ROWS))
    while len(seeds) < ROWS or np.linalg.matrix_rank(which) < ROWS:
        seeds.append(len(seeds))
        own = np.zeros(ROWS)
        own[sample_without_replacement(seeds[-1], 0, 0, 0, ROWS, BATCH)] = 1.0 / BATCH
        which = np.vstack([which, own])
    return seeds, which


def solved(server):
    """The rows, if batches are what seed, round and identity say."""
    seeds, which = useful_seeds()
    told = [-server.ask(step(seed))["x"] for seed in seeds]
    # At x = 0 a row adds its features and a 1, times ½ minus its label.
    by_slope = np.linalg.lstsq(which, np.array(told), rcond=None)[0]
    return by_slope[:, :WIDTH] / by_slope[:, WIDTH:]


def step(seed):
    x = np.zeros(WIDTH + 1)
    return fs.LocalSteps(x, steps=1, step_size=1.0, batch_size=BATCH, seed=seed)


@pytest.fixture
def site_and_rows():
    Z, labels = secrets(ROWS, WIDTH)
    return site_with(Z, labels), Z


def test_it_recovers_every_row_where_the_server_chooses_batches(site_and_rows, monkeypatch):
    monkeypatch.setattr(site_module, "with_own_batches", lambda request, *_: request)
    site, Z = site_and_rows
    server = Server(site, WIDTH, fs.Logistic(l2=0.1))
    assert rows_recovered(solved(server), Z, within=1e-9) == ROWS
    assert server.requests < 2 * ROWS


def test_it_recovers_none_where_the_site_draws_them(site_and_rows):
    site, Z = site_and_rows
    found = solved(Server(site, WIDTH, fs.Logistic(l2=0.1)))
    assert rows_recovered(found, Z, within=0.1) == 0


def test_asking_for_the_same_batch_again_gives_another(site_and_rows):
    site, _ = site_and_rows
    server = Server(site, WIDTH, fs.Logistic(l2=0.1))
    first, second = (server.ask(step(seed=0))["x"] for _ in range(2))
    assert np.abs(first - second).max() > 0
