"""The dense reference: ridge by sums, beside ridge on all rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fedsparse as fs
from fedsparse.engines.conversation import exchanges_of
from fedsparse.modelling.dense import MOST_ROUNDS, fit_dense
from fedsparse.modelling.fitting import FitOptions, prepare
from fedsparse.modelling.judging import evaluate_held_out, given


def rows(is_numbers, width=30):
    random = np.random.default_rng(5)
    Z = random.standard_normal((120, width)) @ np.diag(np.linspace(0.5, 3.0, width))
    y = Z[:, 0] - 0.5 * Z[:, 1] + random.standard_normal(120) + 7.0
    return Z, y if is_numbers else (y > 7.0).astype(int)


def fitted(Z, y, loss):
    data = fs.FederatedData.from_table(Z, y, np.arange(y.size) % 4)
    engine = fs.LocalEngine(data, loss)
    prepared = fs.converse(engine, prepare(engine, FitOptions(engine.lens.loss)))
    return prepared.scaling.on_original_scale(fs.converse(engine, fit_dense(prepared)))


def standardized(Z):
    return (Z - Z.mean(axis=0)) / Z.std(axis=0)


def test_numbers_have_the_ridge_of_pooled_rows():
    Z, y = rows(is_numbers=True)
    coefficients, intercept = fitted(Z, y, "squared")
    pooled = Ridge(alpha=Z.shape[1]).fit(standardized(Z), y)
    expected = pooled.predict(standardized(Z))
    np.testing.assert_allclose(Z @ coefficients + intercept, expected, atol=0.02)


def test_classes_have_the_ridge_of_pooled_rows():
    Z, y = rows(is_numbers=False)
    coefficients, intercept = fitted(Z, y, "logistic")
    pooled = LogisticRegression(C=1 / Z.shape[1], max_iter=1000).fit(standardized(Z), y)
    expected = pooled.decision_function(standardized(Z))
    np.testing.assert_allclose(Z @ coefficients + intercept, expected, atol=0.02)


@pytest.mark.parametrize("width", [5, 300])
def test_it_takes_a_stated_number_of_exchanges_at_most(width):
    Z, y = rows(is_numbers=False, width=width)
    engine = fs.LocalEngine(fs.FederatedData.from_table(Z, y, np.arange(120) % 4), "logistic")
    prepared = fs.converse(engine, prepare(engine, FitOptions(engine.lens.loss)))
    _, exchanges = fs.converse(engine, exchanges_of(fit_dense(prepared)))
    assert exchanges <= MOST_ROUNDS


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        ("squared", lambda random, score: score),
        ("softmax", lambda random, score: np.digitize(score, [-0.7, 0.7])),
        ("poisson", lambda random, score: random.poisson(np.exp(0.3 * score))),
        ("cox", lambda random, score: random.exponential(np.exp(-score)) + 0.01),
    ],
)
def test_it_is_judged_on_every_row_whatever_the_outcome(loss, targets):
    random = np.random.default_rng(0)
    Z = random.standard_normal((90, 6))
    y = targets(random, Z[:, 0] - Z[:, 1])
    engine = fs.LocalEngine(fs.FederatedData.from_table(Z, y, np.arange(90) % 3), loss)
    options = FitOptions(engine.lens.loss, intercept=loss != "cox")
    judging = evaluate_held_out(engine, given(2), options, with_dense=True)
    found = fs.converse(engine, judging)
    assert (found.dense.method, found.dense.rows) == ("dense", 90)
    assert found.dense.metrics.keys() == found.overall.metrics.keys()
    assert all(score.method != "dense" for score in found.scores)
