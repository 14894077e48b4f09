"""Metrics added up over sites equal those of scikit-learn on all rows."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from fedsparse.modelling.metrics import Judged


def of_numbers(targets, predictions):
    return Judged.of(targets, predictions, is_numbers=True)


def of_classes(codes, scores):
    return Judged.of(codes, scores, is_numbers=False)


@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1e5]))
@settings(max_examples=30, deadline=None)
def test_regression_metrics_add_up(seed, offset):
    random = np.random.default_rng(seed)
    targets = random.standard_normal(50) + offset
    predictions = targets + 0.3 * random.standard_normal(50)
    sites = np.sort(random.integers(0, 4, 50))
    parts = [
        of_numbers(targets[sites == site], predictions[sites == site]) for site in np.unique(sites)
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
    parts = [of_classes(codes[sites == site], scores[sites == site]) for site in np.unique(sites)]
    total = reduce(add, parts)
    found = total.metrics()
    probabilities = 1 / (1 + np.exp(-scores))
    assert found["accuracy"] == metrics.accuracy_score(codes, scores > 0)
    assert found["log-loss"] == pytest.approx(metrics.log_loss(codes, probabilities))
    together = of_classes(codes, scores).metrics()["AUC"]
    assert together == pytest.approx(metrics.roc_auc_score(codes, scores))
    compared = [part for part in parts if part.sums[3]]
    if compared:
        own = [part.metrics()["AUC"] for part in compared]
        weights = [part.sums[3] for part in compared]
        assert found["AUC"] == pytest.approx(np.average(own, weights=weights))
    np.testing.assert_array_equal(total.confusion, metrics.confusion_matrix(codes, scores > 0))


def test_multi_class_metrics():
    scores = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    found = of_classes(np.array([0, 1]), scores)
    assert found.metrics()["accuracy"] == 0.5
    assert "AUC" not in found.metrics()
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_what_cannot_be_worked_out_is_none():
    assert of_classes(np.array([1, 1]), np.array([0.2, 0.3])).metrics()["AUC"] is None
    assert of_numbers(np.array([1.0]), np.array([0.5])).metrics()["R²"] is None
    constant = of_numbers(np.full(3, 0.1), np.full(3, 0.2))
    assert (constant + constant).metrics()["R²"] is None
