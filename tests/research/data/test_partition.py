"""Splits over clients: every row has one owner, no client goes empty, sizes are as promised."""

from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsparse import DataError, FederatedData, OptionError
from fedsparse.research.data.partition import (
    SamplesPerDevice,
    by_categories,
    by_column,
    dirichlet,
    iid,
    samples_per_device,
)

SEEDS = st.integers(0, 2**40)


def in_shuffled_order(sizes, seed=0):
    """A category per row: sizes[c] rows of category c."""
    categories = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed).permutation(categories)


def rows_of(owners, categories):
    """Rows that each client (row of the table) has of each category (column)."""
    table = np.zeros((owners.max() + 1, categories.max() + 1), dtype=int)
    np.add.at(table, (owners, categories), 1)
    return table


@st.composite
def deals(draw):
    """Numbers that fit, categories × parts = clients × per_client, and a size per category."""
    categories = draw(st.integers(1, 9))
    per_client = draw(st.integers(1, categories))
    times = draw(st.integers(1, 7))
    shared = gcd(categories, per_client)
    parts, clients = per_client // shared * times, categories // shared * times
    extra = draw(st.lists(st.integers(0, 25), min_size=categories, max_size=categories))
    sizes = parts + np.array(extra)
    numbers = {"clients": clients, "parts": parts, "per_client": per_client}
    return in_shuffled_order(sizes), numbers


class TestByCategories:
    @given(deals(), SEEDS)
    def test_every_client_takes_parts_of_different_categories_and_every_part_is_taken_once(
        self, deal, seed
    ):
        categories, numbers = deal
        owners = by_categories(categories, **numbers, seed=seed)
        assert owners.dtype == np.int64
        assert owners.shape == categories.shape
        table = rows_of(owners, categories)
        assert table.shape[0] == numbers["clients"]
        assert ((table > 0).sum(axis=1) == numbers["per_client"]).all()
        assert ((table > 0).sum(axis=0) == numbers["parts"]).all()

    @given(deals(), SEEDS)
    def test_parts_of_a_category_differ_by_one_row_at_most(self, deal, seed):
        categories, numbers = deal
        table = rows_of(by_categories(categories, **numbers, seed=seed), categories)
        for column in table.T:
            parts = column[column > 0]
            assert parts.max() - parts.min() <= 1

    def test_default_is_the_split_of_the_paper(self):
        digits = in_shuffled_order([6000] * 10)
        held = samples_per_device(by_categories(digits))
        assert (held.clients, held.mean, held.standard_deviation) == (100, 600.0, 0.0)

    def test_all_pairs_of_categories_are_about_equally_likely(self):
        categories = in_shuffled_order([20] * 10)
        together = np.zeros((10, 10))
        for seed in range(50):
            takes = rows_of(by_categories(categories, seed=seed), categories) > 0
            together += takes.T.astype(float) @ takes
        pairs = together[np.triu_indices(10, k=1)]
        assert pairs.sum() == 50 * 100
        # 5,000 pairs over 45 kinds: 111 each, give or take 11.
        assert 60 < pairs.min() <= pairs.max() < 165

    def test_first_and_last_clients_are_dealt_alike(self):
        """The deal goes around in random order, so no client's number tells what it holds."""
        categories = in_shuffled_order([3, 3, 3])
        tables = [
            rows_of(by_categories(categories, clients=9, parts=3, per_client=1, seed=s), categories)
            for s in range(300)
        ]
        shares = np.mean(tables, axis=0)  # one row per client, of category 0, 1 or 2
        assert np.abs(shares - 1 / 3).max() < 0.13

    def test_rows_of_a_category_are_shuffled(self):
        owners = by_categories(np.repeat([0, 1], 200), clients=4, parts=4, seed=1)
        assert np.unique(owners[:50]).size == 4

    def test_same_seed_same_split_and_another_seed_another_one(self):
        categories = in_shuffled_order([40] * 10)
        np.testing.assert_array_equal(
            by_categories(categories, seed=3), by_categories(categories, seed=3)
        )
        assert (by_categories(categories, seed=3) != by_categories(categories, seed=4)).any()

    def test_categories_may_be_text(self):
        owners = by_categories(["sport"] * 4 + ["news"] * 4, clients=2, parts=2)
        assert np.bincount(owners).tolist() == [4, 4]

    def test_owners_make_a_federation(self):
        categories = in_shuffled_order([20] * 10)
        rows = np.arange(200.0)[:, None]
        data = FederatedData.from_table(rows, categories, by_categories(categories))
        assert len(data) == 100
        assert data.counts.tolist() == [2] * 100
        assert all(np.unique(data.client(i).targets).size == 2 for i in range(100))

    @pytest.mark.parametrize(
        ("numbers", "message"),
        [
            ({"parts": 19}, "190 parts, but 100 clients × 2 per client are 200; set parts to 20"),
            ({"clients": 33}, "66; set clients to 100"),
            ({"clients": 33, "per_client": 3}, "99; set parts to 9 and clients to 30"),
            ({"per_client": 11}, "only 10 different categories; lower per_client to at most 10"),
        ],
    )
    def test_numbers_that_do_not_fit_are_told_with_ones_that_do(self, numbers, message):
        with pytest.raises(OptionError, match=message):
            by_categories(in_shuffled_order([20] * 10), **numbers)

    @given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
    def test_the_way_out_in_the_message_is_one(self, kinds, clients, parts, per_client):
        categories = in_shuffled_order([150] * kinds)
        per_client = min(per_client, kinds)
        numbers = {"clients": clients, "parts": parts, "per_client": per_client}
        try:
            by_categories(categories, **numbers)
        except OptionError as error:
            advice = str(error).split("; set ")[1].split(" and ")
            numbers |= {name: int(value) for name, value in (a.split(" to ") for a in advice)}
            by_categories(categories, **numbers)

    def test_a_category_with_fewer_rows_than_parts_is_named_with_its_size(self):
        with pytest.raises(DataError, match="category tiny has 3 rows, too few for 5 parts"):
            by_categories(["big"] * 50 + ["tiny"] * 3, clients=5, parts=5)


class TestIid:
    @given(st.integers(1, 300), st.data(), SEEDS)
    def test_every_client_has_as_many_rows_give_or_take_one(self, samples, data, seed):
        clients = data.draw(st.integers(1, samples))
        owners = iid(samples, clients=clients, seed=seed)
        assert owners.dtype == np.int64
        assert owners.shape == (samples,)
        counts = np.bincount(owners)
        assert counts.size == clients
        assert counts.max() - counts.min() <= 1

    def test_rows_are_shuffled_by_the_seed(self):
        assert (iid(100, clients=10, seed=1) == iid(100, clients=10, seed=1)).all()
        assert (iid(100, clients=10, seed=1) != iid(100, clients=10, seed=2)).any()

    def test_more_clients_than_rows_are_refused(self):
        with pytest.raises(OptionError, match="only 99 rows; lower clients to at most 99"):
            iid(99)


class TestDirichlet:
    @given(
        st.lists(st.integers(0, 4), min_size=1, max_size=120),
        st.data(),
        st.floats(1e-9, 1e6),
        SEEDS,
    )
    def test_every_row_has_an_owner_and_no_client_is_empty(self, labels, data, alpha, seed):
        clients = data.draw(st.integers(1, len(labels)))
        owners = dirichlet(labels, clients=clients, alpha=alpha, seed=seed)
        assert owners.dtype == np.int64
        assert owners.shape == (len(labels),)
        assert np.unique(owners).tolist() == list(range(clients))

    def test_large_alpha_spreads_each_label_evenly(self):
        labels = in_shuffled_order([1000, 500])
        table = rows_of(dirichlet(labels, clients=10, alpha=1e6), labels)
        assert np.abs(table - [100, 50]).max() <= 2

    def test_small_alpha_puts_a_label_on_few_clients(self):
        labels = in_shuffled_order([1000] * 10)
        table = rows_of(dirichlet(labels, clients=10, alpha=0.01), labels)
        assert (table.max(axis=0) > 500).all()

    def test_shares_of_a_label_vary_as_the_distribution_says(self):
        """A share of Dirichlet(α, …, α) over N has variance (1/N)(1 − 1/N) / (Nα + 1)."""
        labels = in_shuffled_order([400] * 200)
        shares = rows_of(dirichlet(labels, clients=4, alpha=2.0), labels) / 400
        assert np.allclose(shares.var(), 0.25 * 0.75 / 9, rtol=0.15)

    def test_empty_clients_are_given_a_row_of_the_largest(self):
        counts = np.bincount(dirichlet(np.zeros(1000), clients=20, alpha=1e-9))
        assert sorted(counts) == [1] * 19 + [981]

    def test_same_seed_same_split(self):
        labels = in_shuffled_order([300, 200])
        assert (dirichlet(labels, seed=5) == dirichlet(labels, seed=5)).all()
        assert (dirichlet(labels, seed=5) != dirichlet(labels, seed=6)).any()

    @pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, 1e7, "even", True])
    def test_alpha_must_make_sense(self, alpha):
        with pytest.raises(OptionError, match="alpha must be a number above 0"):
            dirichlet([0, 1], clients=2, alpha=alpha)

    def test_more_clients_than_rows_are_refused(self):
        with pytest.raises(OptionError, match="clients is 3, but there are only 2 rows"):
            dirichlet([0, 1], clients=3)


class TestByColumn:
    def test_makes_a_client_of_each_value_in_sorted_order(self):
        assert by_column([30, 4, 30, 100]).tolist() == [1, 0, 1, 2]
        assert by_column(["b", "a", "b"]).dtype == np.int64

    def test_splits_as_a_table_does_by_the_values_themselves(self):
        sites = ["Lyon", "Bern", "Lyon", "Turin"]
        features, targets = np.arange(8.0).reshape(4, 2), [1, 2, 3, 4]
        named = FederatedData.from_table(features, targets, sites)
        numbered = FederatedData.from_table(features, targets, by_column(sites))
        np.testing.assert_array_equal(named.features, numbered.features)
        assert named.names == ("Bern", "Lyon", "Turin")
        assert numbered.names == ("0", "1", "2")


class TestSamplesPerDevice:
    def test_owners_and_their_federation_give_the_same(self):
        owners = [1, 0, 1, 1, 2, 1]
        expected = SamplesPerDevice(3, 6, 2.0, np.sqrt(3.0), 1, 4)
        assert samples_per_device(owners) == expected
        assert samples_per_device(FederatedData.from_table(np.eye(6), owners, owners)) == expected

    def test_a_single_client_has_no_standard_deviation(self):
        assert np.isnan(samples_per_device([0, 0]).standard_deviation)


class TestRefusals:
    @pytest.mark.parametrize("split", [by_categories, dirichlet, by_column, samples_per_device])
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], "there are no"),
            ([1.0, np.nan], "row 1.*missing"),
            (["a", None], "row 1.*missing"),
            ([[1, 2], [3, 4]], "one entry per row"),
            (7, "one entry per row"),
        ],
    )
    def test_values_that_are_not_one_per_row(self, split, values, message):
        with pytest.raises(DataError, match=message):
            split(values)

    @pytest.mark.parametrize("seed", [-1, 0.5, None, True])
    def test_seeds_that_are_not_whole_numbers(self, seed):
        for split in (iid, dirichlet, by_categories):
            values = 10 if split is iid else [0, 1] * 5
            with pytest.raises(OptionError, match="seed must be a whole number"):
                split(values, clients=2, seed=seed)

    @pytest.mark.parametrize("clients", [0, 2.0, True])
    def test_clients_that_are_not_a_count(self, clients):
        for split in (iid, dirichlet, by_categories):
            with pytest.raises(OptionError, match="clients must be a whole number"):
                split(10 if split is iid else [0, 1] * 5, clients=clients)
