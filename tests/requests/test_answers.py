"""Answers: sums over clients, in their order, and nothing of a single one."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.stacks import DenseStack

VECTORS = np.array([[1.0, 0.0], [3.0, 4.0], [0.5, -2.0]])
NUMBERS = np.array([1.0, 5.0, -2.0])


def answers(weights, **options):
    fields = {"x": DenseStack(VECTORS, (2,)), "objective": NUMBERS}
    return fs.Answers.of(fields, np.asarray(weights), **options)


def test_sums_means_and_averages_are_weighted():
    found = answers([3.0, 1.0, 2.0])
    np.testing.assert_allclose(found.total("x"), [3.0, 1.0, 2.0] @ VECTORS)
    np.testing.assert_allclose(found.mean("x"), np.average(VECTORS, axis=0, weights=[3, 1, 2]))
    assert found.average("objective") == pytest.approx(np.average(NUMBERS, weights=[3, 1, 2]))
    assert (found.weight, found.count) == (6.0, 3)


def test_clients_that_all_weigh_nothing_count_the_same():
    """One of weight 0 may be the only one asked."""
    found = answers([0.0, 0.0, 0.0])
    np.testing.assert_allclose(found.mean("x"), VECTORS.mean(axis=0))
    assert found.weight == 3.0


def test_who_did_not_answer_is_absent():
    assert answers([1.0, 1.0, 1.0]).absent == 0
    assert answers([1.0, 1.0, 1.0], asked=5).absent == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_seen_in_the_sums(bad):
    assert answers([1.0, 1.0, 1.0]).is_finite()
    assert not fs.Answers.of({"objective": np.array([1.0, bad])}, np.ones(2)).is_finite()
    vectors = DenseStack(np.array([[1.0], [bad]]), (1,))
    assert not fs.Answers.of({"x": vectors}, np.ones(2)).is_finite()


def test_an_answer_tells_nothing_of_a_single_client():
    public = [name for name in dir(answers([1.0, 1.0, 1.0])) if not name.startswith("_")]
    assert sorted(public) == [
        "absent", "asked", "average", "bytes_up", "count", "is_finite", "mean", "of", "seconds",
        "sums", "total", "weight",
    ]  # fmt: skip


@pytest.mark.parametrize("weights", ["uniform", "samples", (0.1, 0.2, 0.3, 0.4)], ids=str)
def test_an_engine_weighs_clients_as_it_is_asked_to(weights):
    rows = (2, 3, 1, 4)
    clients = [(np.ones((count, 1)), np.full(count, float(count))) for count in rows]
    engine = fs.LocalEngine(fs.FederatedData.from_clients(clients))
    (found,) = engine.exchange([engine.ask(fs.Evaluate(np.zeros(1)), weights)])
    shares = {"uniform": (1, 1, 1, 1), "samples": rows}.get(str(weights), weights)
    expected = np.average([count**2 for count in rows], weights=shares)
    assert found.average("objective") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("request_", "weights"),
    [
        (fs.Smoothness(), "uniform"),
        (fs.SmoothnessAbove(1.0, 2.0), "uniform"),
        (fs.ColumnSums(), "samples"),
    ],
    ids=repr,
)
def test_counts_of_clients_and_sums_over_rows_have_weights_of_their_own(request_, weights):
    """Whatever the algorithm's: all clients count once, or all rows do."""
    engine = fs.LocalEngine(fs.FederatedData.from_clients([([[1.0]], [1.0])] * 3))
    assert engine.ask(request_, "samples").weights == weights
    assert engine.ask(request_, (0.5, 0.5, 0.0)).weights == weights


def test_only_those_asked_are_added_up():
    clients = [([[1.0]], [value]) for value in (1.0, 2.0, 3.0)]
    engine = fs.LocalEngine(fs.FederatedData.from_clients(clients))
    ask = engine.ask(fs.Evaluate(np.zeros(1)), (0.2, 0.3, 0.5), np.array([0, 2]))
    (found,) = engine.exchange([ask])
    assert found.count == found.asked == 2
    assert found.average("objective") == pytest.approx(np.average([1.0, 9.0], weights=[0.2, 0.5]))
