"""What clients tell of predictions, read as metrics: those of scikit-learn on all their rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, softmax
from sklearn import metrics

import fedsparse as fs
from fedsparse.modelling.metrics import Judged
from fedsparse.requests import NoBetterThanNull
from tests.builders import STORAGES, answers_of

WIDTH = 4
SEEDS = st.integers(0, 10**6)


def rows(seed, targets_of, storage):
    """Three clients, their rows in one place, and x."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((60, WIDTH)) * (random.random((60, WIDTH)) < 0.7)
    targets = targets_of(random, Z)
    convert = sparse.csr_array if storage == "csr" else np.asarray
    sites = np.sort(random.integers(0, 3, 60))
    return fs.FederatedData.from_table(convert(Z), targets, sites), Z, targets, sites, random


def judged(data, x, loss):
    told = answers_of(fs.Judge(x), data, loss, "samples")
    return Judged.told(told, is_numbers=loss == "squared")


@given(seed=SEEDS, storage=st.sampled_from(STORAGES))
@settings(max_examples=40, deadline=None)
def test_numbers(seed, storage):
    data, Z, y, _, random = rows(seed, lambda r, Z: Z[:, 0] + r.standard_normal(60), storage)
    x = random.standard_normal(WIDTH)
    found = judged(data, x, "squared")
    assert found.rows == 60
    assert found.metrics()["R²"] == pytest.approx(metrics.r2_score(y, Z @ x), rel=1e-9)
    assert found.metrics()["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y, Z @ x))


@given(seed=SEEDS, storage=st.sampled_from(STORAGES))
@settings(max_examples=40, deadline=None)
def test_two_classes(seed, storage):
    def labels(random, Z):
        drawn = (Z[:, 0] + random.standard_normal(60) > 0).astype(int)
        drawn[:2] = 0, 1
        return drawn

    data, Z, y, sites, random = rows(seed, labels, storage)
    x = random.standard_normal(WIDTH)
    scores = Z @ x
    found = judged(data, x, "logistic")
    own = found.metrics()
    assert own["accuracy"] == metrics.accuracy_score(y, scores > 0)
    assert own["log-loss"] == pytest.approx(metrics.log_loss(y, expit(scores)))
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(y, scores > 0))
    # The AUC compares rows of the same client: shares of all such pairs.
    aucs, pairs = [], []
    for site in np.unique(sites):
        is_own = sites == site
        positive = int(y[is_own].sum())
        if 0 < positive < is_own.sum():
            aucs.append(metrics.roc_auc_score(y[is_own], scores[is_own]))
            pairs.append(positive * (int(is_own.sum()) - positive))
    if pairs:
        assert own["AUC"] == pytest.approx(np.average(aucs, weights=pairs))


@given(seed=SEEDS, storage=st.sampled_from(STORAGES))
@settings(max_examples=40, deadline=None)
def test_three_classes(seed, storage):
    def labels(random, Z):
        drawn = random.integers(0, 3, 60)
        drawn[:3] = 0, 1, 2
        return drawn

    data, Z, y, _, random = rows(seed, labels, storage)
    x = random.standard_normal((WIDTH, 3))
    scores = Z @ x
    found = judged(data, x, "softmax")
    own = found.metrics()
    assert own["accuracy"] == metrics.accuracy_score(y, scores.argmax(axis=1))
    expected = metrics.log_loss(y, softmax(scores, axis=1), labels=[0, 1, 2])
    assert own["log-loss"] == pytest.approx(expected)
    assert "AUC" not in own
    matrix = metrics.confusion_matrix(y, scores.argmax(axis=1), labels=[0, 1, 2])
    np.testing.assert_array_equal(found.confusion, matrix)


def test_equal_scores_count_half_in_the_auc():
    data = fs.FederatedData.from_clients([(np.ones((4, 1)), [0, 0, 1, 1])])
    assert judged(data, np.ones(1), "logistic").metrics()["AUC"] == 0.5


def test_a_client_whose_rows_are_of_one_class_compares_nothing():
    data = fs.FederatedData.from_clients([([[1.0], [2.0]], [1, 1]), ([[1.0], [2.0]], [0, 1])])
    alone = answers_of(fs.Judge(np.ones(1)), data.client(0), "logistic")
    assert Judged.told(alone, is_numbers=False).metrics()["AUC"] is None
    assert judged(data, np.ones(1), "logistic").metrics()["AUC"] == 1.0


def test_no_rows_are_no_metrics():
    assert Judged.told(fs.Answers({}, 0.0, 0, 0), is_numbers=True) is None


def no_better(clients, x, loss):
    told = answers_of(NoBetterThanNull(np.asarray(x)), fs.FederatedData.from_clients(clients), loss)
    assert told.weight == told.count
    return float(told.total("no_better"))


class TestNoBetterThanNull:
    Z = np.array([[1.0], [2.0], [3.0], [4.0]])

    def test_numbers_are_compared_with_the_clients_own_mean(self):
        good, turned = self.Z[:, 0] + 0.1, -self.Z[:, 0]
        assert no_better([(self.Z, good), (self.Z, turned)], [1.0], "squared") == 1.0
        assert no_better([(self.Z, good), (self.Z, turned)], [-1.0], "squared") == 1.0
        assert no_better([(self.Z, good), (self.Z, good)], [1.0], "squared") == 0.0

    def test_classes_are_compared_with_the_clients_own_shares(self):
        y, Z = np.array([0, 0, 1, 1]), self.Z - 2.5
        assert no_better([(Z, y), (Z, 1 - y)], [3.0], "logistic") == 1.0
        assert no_better([(Z, y), (Z, y)], [0.0], "logistic") == 2.0

    def test_several_classes(self):
        y, Z = np.array([0, 0, 1, 2]), np.eye(3)[[0, 0, 1, 2]]
        assert no_better([(Z, y), (Z[::-1], y)], 5.0 * np.eye(3), "softmax") == 1.0

    def test_a_client_with_nothing_to_predict_says_nothing_against_it(self):
        assert no_better([(self.Z, np.full(4, 7.0))], [1.0], "squared") == 0.0
