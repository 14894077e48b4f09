"""Metrics added up over sites equal those of scikit-learn on all rows."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

import fedsparse as fs
from fedsparse.evaluation import ClassificationSums, RegressionSums, evaluate_held_out
from fedsparse.fitting import FitOptions


@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1e5]))
@settings(max_examples=30, deadline=None)
def test_regression_metrics_add_up(seed, offset):
    random = np.random.default_rng(seed)
    targets = random.standard_normal(50) + offset
    predictions = targets + 0.3 * random.standard_normal(50)
    sites = np.sort(random.integers(0, 4, 50))
    parts = [
        RegressionSums.of(targets[sites == site], predictions[sites == site])
        for site in np.unique(sites)
    ]
    found = reduce(add, parts).metrics()
    assert found["R²"] == pytest.approx(metrics.r2_score(targets, predictions), abs=1e-6)
    assert found["RMSE"] == pytest.approx(metrics.root_mean_squared_error(targets, predictions))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_binary_metrics_add_up(seed):
    random = np.random.default_rng(seed)
    codes = random.integers(0, 2, 60)
    codes[:2] = 0, 1
    scores = 2.0 * random.standard_normal(60) + codes
    sites = random.integers(0, 3, 60)
    parts = [
        ClassificationSums.of(codes[sites == site], scores[sites == site])
        for site in np.unique(sites)
    ]
    total = reduce(add, parts)
    found = total.metrics()
    probabilities = 1 / (1 + np.exp(-scores))
    assert found["accuracy"] == metrics.accuracy_score(codes, scores > 0)
    assert found["log-loss"] == pytest.approx(metrics.log_loss(codes, probabilities))
    together = ClassificationSums.of(codes, scores).metrics()["AUC"]
    assert together == pytest.approx(metrics.roc_auc_score(codes, scores))
    compared = [part for part in parts if part.pairs[1]]
    if compared:
        own = [part.metrics()["AUC"] for part in compared]
        weights = [part.pairs[1] for part in compared]
        assert found["AUC"] == pytest.approx(np.average(own, weights=weights))
    np.testing.assert_array_equal(total.confusion, metrics.confusion_matrix(codes, scores > 0))


def test_multi_class_metrics():
    scores = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    found = ClassificationSums.of(np.array([0, 1]), scores)
    assert found.metrics()["accuracy"] == 0.5
    assert "AUC" not in found.metrics()
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_what_cannot_be_worked_out_is_none():
    assert ClassificationSums.of(np.array([1, 1]), np.array([0.2, 0.3])).metrics()["AUC"] is None
    assert RegressionSums.of(np.array([1.0]), np.array([0.5])).metrics()["R²"] is None
    constant = RegressionSums.of(np.full(3, 0.1), np.full(3, 0.2))
    assert (constant + constant).metrics()["R²"] is None


def labs(by_class=False):
    random = np.random.default_rng(0)
    Z = random.standard_normal((90, 15))
    y = Z[:, 2] - Z[:, 5] + 0.3 * random.standard_normal(90)
    targets = (y > 0).astype(np.int64) if by_class else y
    return fs.FederatedData.from_table(Z, targets, np.repeat(["a", "b", "c"], [60, 24, 6]))


def test_every_row_is_held_out_once_for_every_method():
    found = evaluate_held_out(labs(), lambda train: 2, FitOptions(fs.SquaredError()))
    rows = {(score.method, score.site): score.rows for score in found.scores}
    for method in ("federated", "alone", "pooled"):
        assert rows[method, None] == 90
        assert [rows[method, site] for site in "abc"] == [60, 24, 6]


def test_small_sites_gain_by_joining():
    found = evaluate_held_out(
        labs(by_class=True), lambda train: 2, FitOptions(fs.Logistic(l2=0.04)), labels=("no", "yes")
    )
    accuracy = {(s.method, s.site): s.metrics["accuracy"] for s in found.scores}
    assert accuracy["federated", None] >= accuracy["alone", None]
    assert accuracy["federated", None] == pytest.approx(accuracy["pooled", None], abs=0.03)
    assert found.confusion.classes == ("no", "yes")
    assert sum(map(sum, found.confusion.counts)) == 90


def test_choosing_the_number_of_features_sees_training_rows_only():
    seen = []
    data = labs()
    evaluate_held_out(
        data, lambda train: seen.append(train.samples) or 2, FitOptions(fs.SquaredError()), folds=3
    )
    assert sum(seen) == 2 * 90


def test_one_fold_is_enough_for_large_data():
    found = evaluate_held_out(
        labs(), lambda train: 2, FitOptions(fs.SquaredError()), only_first=True
    )
    assert found.scores[0].rows == 17
    assert found.held_out == "a random fifth of every site's rows"
