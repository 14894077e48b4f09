"""A row of weight w counts like w copies of it."""

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for

ALGORITHMS = {
    "Fed-HT": fs.FedHT(sparsity=6, local_steps=5),
    "FedIter-HT": fs.FedIterHT(sparsity=6, local_steps=5, weights="samples"),
    "adaptive": fs.FedIterHT(sparsity=6, local_steps=2, server_step="adaptive"),
    "Distributed-IHT": fs.DistributedIHT(sparsity=6, step_size="auto"),
    "few steps": fs.FedHT(sparsity=6, local_steps=2),
    "refit": fs.FedIterHT(sparsity=6, local_steps=3, refit=True),
    "FedSplice": fs.FedSplice(sparsity=4, weights="samples", message_bytes=None),
    "FedSplice, shared features": fs.FedSplice(
        fs.TopKRows(4), weights="samples", message_bytes=None
    ),
}


def weighted_and_repeated(loss, storage, rows=(5, 9, 30, 6)):
    """The same problem twice: rows with whole weights (0 among them), and rows repeated."""
    clients = clients_for(loss, rows=rows)
    features = np.concatenate([Z for Z, _ in clients])
    targets = np.concatenate([y for _, y in clients])
    sites = np.repeat(np.arange(len(rows)), rows)
    weights = np.random.default_rng(1).integers(0, 4, targets.size)
    weights[:3] = 2  # so that every class stays
    convert = sparse.csr_array if storage == "csr" else np.asarray
    again = np.repeat(np.arange(targets.size), weights)
    return (
        fs.FederatedData.from_table(convert(features), targets, sites, 0.5 * weights),
        fs.FederatedData.from_table(convert(features[again]), targets[again], sites[again]),
    )


ONE_SCORE = ("refit",)
"""It takes losses with one score a row."""


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        (name, loss)
        for name in ALGORITHMS
        for loss in LOSSES
        if (name not in ONE_SCORE if loss == "softmax" else "shared" not in name)
    ],
)
def test_weights_equal_repetition(name, loss, storage):
    weighted, repeated = weighted_and_repeated(loss, storage)
    results = [
        fs.run(ALGORITHMS[name], data, loss=LOSS_OBJECTS[loss], rounds=12)
        for data in (weighted, repeated)
    ]
    np.testing.assert_allclose(results[0].coef, results[1].coef, rtol=1e-9, atol=1e-12)
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("rows", [(6, 8), (40, 50)])
def test_smoothness_is_that_of_repeated_rows(rows, storage):
    weighted, repeated = (
        fs.run(fs.FedAvg(step_size="auto"), data, rounds=1)
        for data in weighted_and_repeated("squared", storage, rows)
    )
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-9)


def test_batches_and_snapshots_weigh_rows():
    data, _ = weighted_and_repeated("logistic", "dense")
    algorithm = fs.FedIterHT(sparsity=6, local_steps=3, batch_size=4, variance_reduction=True)
    sparser = fs.FederatedData.from_table(
        sparse.csr_array(data.features), data.targets,
        np.repeat(np.arange(len(data)), data.counts), data.row_weights,
    )  # fmt: skip
    dense, csr = (fs.run(algorithm, each, loss="logistic", rounds=5) for each in (data, sparser))
    np.testing.assert_allclose(dense.coef, csr.coef, rtol=1e-9, atol=1e-12)


def test_a_site_whose_rows_all_weigh_nothing_is_left_out():
    data = fs.FederatedData.from_table([[1.0], [2.0]], [1.0, 2.0], ["a", "b"], [0.0, 3.0])
    assert data.names == ("b",)
    assert data.masses.tolist() == [3.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "row weights of shape"),
        ([1.0, -1.0], "row 1: the row's weight is -1.0"),
        ([1.0, np.nan], "row 1: the row's weight is nan"),
        ([0.0, 0.0], "all rows have weight 0"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(fs.DataError, match=message):
        fs.FederatedData.from_table([[1.0], [2.0]], [1.0, 2.0], ["a", "b"], weights)
