"""Folds of every site's own rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.data.folds import folds_within_sites, half_of_every_site


@given(
    rows=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    folds=st.integers(2, 7),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_folds_are_even_within_every_site_and_class(rows, folds, seed):
    random = np.random.default_rng(seed)
    clients = [(np.ones((count, 1)), random.integers(0, 2, count)) for count in rows]
    data = fs.FederatedData.from_clients(clients)
    own = folds_within_sites(data, folds, seed=seed, by_class=True)
    for site in range(len(data)):
        part = own[data.pointer[site] : data.pointer[site + 1]]
        counts = np.bincount(part, minlength=folds)
        assert counts.max() - counts.min() <= 1
        for label in (0, 1):
            of_class = np.bincount(part[clients[site][1] == label], minlength=folds)
            assert of_class.max() - of_class.min() <= 1


def test_a_site_draws_its_folds_by_itself():
    clients = [(np.ones((rows, 1)), np.zeros(rows)) for rows in (24, 7, 11)]
    data = fs.FederatedData.from_clients(clients)
    together = folds_within_sites(data, 5, seed=3)
    alone = np.concatenate([folds_within_sites(data.client(site), 5, seed=3) for site in range(3)])
    np.testing.assert_array_equal(together, alone)


def test_halves_take_half_of_every_site():
    data = fs.FederatedData.from_clients(
        [(np.ones((rows, 1)), np.arange(rows) % 2) for rows in (8, 20)]
    )
    half = half_of_every_site(data, seed=4, by_class=True)
    assert [int(half[:8].sum()), int(half[8:].sum())] == [4, 10]
