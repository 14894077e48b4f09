"""Cuts of every client's own rows: even, nested, and the same whoever draws them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from fedsparse.problem.rows import PartOfRows

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=6)
SEEDS = st.integers(0, 1000)


def labelled(counts, seed=0):
    """Clients of so many rows, of two classes."""
    random = np.random.default_rng(seed)
    return fs.FederatedData.from_clients(
        [(random.standard_normal((count, 1)), random.integers(0, 2, count)) for count in counts]
    )


def of_each_client(data, values):
    return np.split(values, data.pointer[1:-1])


def parts_of(data, of, **how):
    """The part of every row; a row of none would be of part 0 and break the counts."""
    masks = np.array([fs.Rows().part(number, of=of, **how).mask(data) for number in range(of)])
    assert (masks.sum(axis=0) == 1).all()
    return masks.argmax(axis=0)


@given(counts=COUNTS, of=st.integers(2, 7), seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_parts_are_even_within_every_client_and_class(counts, of, seed):
    data = labelled(counts, seed)
    parts = parts_of(data, of, seed=seed, by_class=True)
    targets = of_each_client(data, data.targets)
    for own, labels in zip(of_each_client(data, parts), targets, strict=True):
        for chosen in (own, own[labels == 0], own[labels == 1]):
            sizes = np.bincount(chosen, minlength=of)
            assert sizes.max() - sizes.min() <= 1


@given(counts=COUNTS, of=st.integers(2, 7), seed=SEEDS, by_class=st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_but_a_part_are_the_other_rows(counts, of, seed, by_class):
    data = labelled(counts)
    how = {"of": of, "seed": seed, "by_class": by_class}
    for number in range(of):
        part = fs.Rows().part(number, **how).mask(data)
        np.testing.assert_array_equal(fs.Rows().but_part(number, **how).mask(data), ~part)


@given(counts=COUNTS, of=st.integers(2, 7), seed=SEEDS, by_class=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_client_draws_its_rows_by_itself(counts, of, seed, by_class):
    """Whatever the others have, and however often it is cut."""
    data = labelled(counts)
    rows = fs.Rows().but_part(0, of=of, seed=seed, by_class=by_class).part(1, of=2, seed=seed)
    alone = [rows.mask(data.client(place)) for place in range(len(data))]
    np.testing.assert_array_equal(rows.mask(data), np.concatenate(alone))


@given(counts=COUNTS, of=st.integers(2, 5), seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_cut_is_of_what_the_one_before_left(counts, of, seed):
    """A cut of a cut equals the cut of data that hold these rows only."""
    data = labelled(counts)
    outer = fs.Rows().but_part(0, of=3, seed=seed + 1)
    left = outer.mask(data)
    if not left.any():
        return
    nested = outer.part(of - 1, of=of, seed=seed).mask(data)
    assert not nested[~left].any()
    inner = fs.Rows().part(of - 1, of=of, seed=seed).mask(data.where(left))
    np.testing.assert_array_equal(nested[left], inner)


def test_small_clients_do_not_all_miss_the_same_part():
    data = labelled([1] * 100)
    assert np.bincount(parts_of(data, 5)).min() > 5


@pytest.mark.parametrize("by_class", [False, True])
def test_who_does_not_know_the_rows_cannot_tell_the_parts(by_class):
    """Clients alike in number, place and labels have other rows in a part, whatever the seed."""
    labels = np.arange(20) % 2
    masks = []
    for own in range(100):
        Z = np.random.default_rng(own).standard_normal((20, 3))
        data = fs.FederatedData.from_clients([(Z, labels)])
        masks.append(fs.Rows().part(0, of=2, seed=3, by_class=by_class).mask(data))
    share = np.mean(masks, axis=0)
    assert len({own.tobytes() for own in masks}) == 100
    assert (np.abs(share - 0.5) < 0.25).all()


def test_dense_and_sparse_rows_are_drawn_alike():
    Z = np.random.default_rng(0).integers(0, 3, (40, 5)).astype(float)
    y = np.arange(40) % 3
    dense, csr = (fs.FederatedData.from_clients([(own, y)]) for own in (Z, sparse.csr_array(Z)))
    rows = fs.Rows().part(1, of=3, seed=2, by_class=True)
    np.testing.assert_array_equal(rows.mask(dense), rows.mask(csr))


def test_halves_take_half_of_every_client():
    data = fs.FederatedData.from_clients(
        [(np.ones((rows, 1)), np.arange(rows) % 2) for rows in (8, 20)]
    )
    half = fs.Rows().part(0, of=2, seed=4, by_class=True).mask(data)
    assert [int(own.sum()) for own in of_each_client(data, half)] == [4, 10]


def test_without_a_client_its_rows_are_gone():
    data = labelled([3, 4, 5])
    chosen, places = fs.Rows().without(1).of(data)
    assert chosen.counts.tolist() == [3, 5]
    assert places.tolist() == [0, 2]
    assert chosen.names == (data.names[0], data.names[2])


def test_clients_without_a_row_have_no_place():
    data = labelled([1, 1, 30])
    parts = parts_of(data, 5)
    chosen, places = fs.Rows().part(int(parts[0]), of=5).of(data)
    assert 0 in places
    assert (1 in places) == (parts[0] == parts[1])
    assert chosen.counts[-1] == 6


@pytest.mark.parametrize("number", [-1, 3, 7])
def test_a_part_that_does_not_exist_is_refused(number):
    with pytest.raises(fs.OptionError, match=f"part {number} of 3 does not exist"):
        fs.Rows().part(number, of=3)


@given(
    cuts=st.lists(
        st.one_of(
            st.integers(0, 50).map(lambda client: fs.Rows().without(client).cuts[0]),
            st.builds(
                lambda of, number, seed, by_class, left_out: PartOfRows(
                    number % of, of, seed, by_class, left_out
                ),
                st.integers(1, 9),
                st.integers(0, 100),
                st.integers(0, 2**63 - 1),
                st.booleans(),
                st.booleans(),
            ),
        ),
        max_size=16,
    )
)
def test_rows_travel_as_json(cuts):
    rows = fs.Rows(tuple(cuts))
    assert fs.Rows.from_json(json.loads(json.dumps(rows.to_json()))) == rows


def test_rows_that_differ_in_their_targets_alone_are_drawn_apart():
    rows = np.zeros((20, 2))
    first, second = (
        fs.FederatedData.from_clients([(rows, np.random.default_rng(seed).standard_normal(20))])
        for seed in range(2)
    )
    assert np.unique(first.row_keys).size == 20
    half = fs.Rows().part(0, of=2)
    assert (half.mask(first) != half.mask(second)).any()


def test_names_of_classes_draw_rows_as_their_places_do():
    rows, places = np.arange(6.0)[:, None], np.array([0, 1, 2, 0, 1, 2])
    named = fs.FederatedData.from_clients([(rows, np.array(["a", "b", "c"])[places])])
    numbered = fs.FederatedData.from_clients([(rows, places)])
    np.testing.assert_array_equal(named.row_keys, numbered.row_keys)
    np.testing.assert_array_equal(named.where(places > 0).row_keys, named.row_keys[places > 0])


GOOD = {"part": [0, 5, 3], "by_class": False, "by_event": False, "is_left_out": True}


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        "all",
        [None],
        [{}],
        [{"without": True}],
        [{"without": "a"}],
        [{"without": 1, "more": 2}],
        [GOOD | {"part": [5, 5, 3]}],
        [GOOD | {"part": [-1, 5, 3]}],
        [GOOD | {"part": [0, 2**31, 3]}],
        [GOOD | {"part": [0, 5, -3]}],
        [GOOD | {"part": [0, 5, 2**63]}],
        [GOOD | {"part": [0.0, 5, 3]}],
        [GOOD | {"part": [0, 5]}],
        [GOOD | {"by_class": 1}],
        [GOOD | {"by_event": 1}],
        [GOOD | {"more": 1}],
        [GOOD] * 17,
    ],
    ids=repr,
)
def test_what_says_nothing_about_rows_is_refused(written):
    with pytest.raises(fs.DataError, match="it is not said which rows are meant"):
        fs.Rows.from_json(written)


@pytest.mark.parametrize("seed", range(3))
def test_folds_of_survival_have_their_share_of_the_events(seed):
    random = np.random.default_rng(0)
    Z, times = random.standard_normal((60, 2)), random.uniform(1.0, 9.0, 60)
    data = fs.FederatedData.from_clients([(Z, np.where(np.arange(60) < 10, times, -times))])
    parts = [fs.Rows().part(fold, of=5, seed=seed, by_event=True).of(data)[0] for fold in range(5)]
    assert [int((own.targets > 0).sum()) for own in parts] == [2] * 5
    assert [own.samples for own in parts] == [12] * 5


def test_which_events_are_in_a_fold_is_drawn_by_the_seed():
    random = np.random.default_rng(0)
    Z, times = random.standard_normal((60, 2)), random.uniform(1.0, 9.0, 60)
    data = fs.FederatedData.from_clients([(Z, np.where(np.arange(60) < 30, times, -times))])
    drawn = {
        tuple(np.sort(fs.Rows().part(0, of=5, seed=seed, by_event=True).of(data)[0].targets))
        for seed in range(10)
    }
    assert len(drawn) == 10
