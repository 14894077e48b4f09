"""Standardization, intercept, and models on the original scale."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from fedsparse.engines.conversation import exchanges_of
from fedsparse.modelling.fitting import FitOptions, fit, fit_model, loss_for, prepare

SITES = np.array(["a", "b", "b", "a", "c"] * 8)


def engine_on(features, targets, sites=SITES, row_weights=None, *, loss="squared"):
    data = fs.FederatedData.from_table(features, targets, sites, row_weights)
    return fs.LocalEngine(data, loss, 1)


def prepared_on(engine, options):
    return fs.converse(engine, prepare(engine, options))


def fitted_on(engine, sparsity, options):
    return fs.converse(engine, fit(engine, sparsity, options))


def scores(model, features):
    return features @ model.coefficients + model.intercept[0]


def table(seed=0, rows=40, width=6):
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, width)) * (random.random((rows, width)) < 0.6)
    return Z * np.logspace(-3, 4, width) + 0.0, random.standard_normal(rows) + 3.0


@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1e6]))
@settings(max_examples=30, deadline=None)
def test_scaling_does_not_depend_on_how_rows_are_spread_over_sites(seed, offset):
    Z, y = table(seed)
    Z = Z + offset
    random = np.random.default_rng(seed)
    weights = random.random(y.size) + 0.1
    engine = engine_on(Z, y, random.integers(0, 4, y.size), weights)
    found = prepared_on(engine, FitOptions(fs.SquaredError())).scaling
    mean = np.average(Z, axis=0, weights=weights)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-12)
    expected = np.average((Z - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(found.scale**2, expected, rtol=1e-6, atol=1e-9 * (1 + offset))
    assert found.offset == pytest.approx(np.average(y, weights=weights), rel=1e-12)


def test_scales_of_sparse_rows_are_those_of_dense_ones():
    Z, y = table()
    dense, csr = (
        prepared_on(engine_on(kind(Z), y), FitOptions(fs.SquaredError())).scaling
        for kind in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr.scale, dense.scale, rtol=1e-12)
    assert not csr.mean.any()


def test_missing_values_become_the_mean_of_those_known():
    """Where clients leave that to the federation, however few they are."""
    Z, y = table()
    data = fs.FederatedData.from_table(Z, y, SITES)
    is_missing = np.random.default_rng(1).random(Z.shape) < 0.2
    known = np.nanmean(np.where(is_missing, np.nan, data.features), axis=0)
    holed, filled = (
        fs.LocalEngine(
            replace(data, features=np.where(is_missing, what, data.features)), few_holes=0
        )
        for what in (np.nan, known)
    )
    options = FitOptions(fs.SquaredError())
    own, whole = (prepared_on(engine, options).scaling for engine in (holed, filled))
    np.testing.assert_allclose(own.fill, known, rtol=1e-12)
    np.testing.assert_allclose(own.scale, whole.scale, rtol=1e-9)
    models = [fitted_on(engine, 3, options).coefficients for engine in (holed, filled)]
    np.testing.assert_allclose(*models, rtol=1e-6)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_features_give_ordinary_least_squares(standardize, intercept):
    Z, y = table(rows=40)
    options = FitOptions(fs.SquaredError(), standardize=standardize, intercept=intercept)
    model = fitted_on(engine_on(Z, y), 6, options)
    design = np.column_stack([Z, np.ones(y.size)]) if intercept else Z
    expected = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(scores(model, Z), design @ expected, rtol=1e-6, atol=1e-6)


def test_sparse_features_are_not_centred_and_give_the_same_predictions():
    Z, y = table()
    options = FitOptions(fs.SquaredError())
    dense, csr = (
        scores(fitted_on(engine_on(kind(Z), y), 3, options), Z)
        for kind in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr, dense, rtol=1e-8)


def test_a_constant_column_does_no_harm():
    Z, y = table()
    Z[:, 2] = 0.1 + 0.2
    options = FitOptions(fs.SquaredError())
    model = fitted_on(engine_on(Z, y), 6, options)
    assert np.abs(model.coefficients[2]) < 1e6
    assert np.isfinite(scores(model, Z)).all()


def test_float32_features_stay_float32():
    Z, y = table()
    engine = engine_on(Z.astype(np.float32), y)
    scaling = prepared_on(engine, FitOptions(fs.SquaredError())).scaling
    assert scaling.apply(Z.astype(np.float32)).dtype == np.float32


def test_a_warm_start_changes_rounds_not_the_model():
    Z, y = table()
    options = FitOptions(fs.SquaredError())
    engine = engine_on(Z, y)
    prepared = prepared_on(engine, options)
    cold = fs.converse(engine, fit_model(prepared, 3, options))
    warm = fs.converse(engine, fit_model(prepared, 3, options, start=cold))
    np.testing.assert_allclose(warm.coefficients, cold.coefficients, rtol=1e-9, atol=1e-12)
    assert warm.result.records[-1].round <= cold.result.records[-1].round


@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_a_far_mean_of_the_targets_is_not_shrunk(mean):
    Z, y = table()
    options = FitOptions(fs.SquaredError(l2=1.0))
    model = fitted_on(engine_on(Z, y + mean), 3, options)
    assert scores(model, Z).mean() == pytest.approx(y.mean() + mean, abs=1e-2)


def test_columns_that_do_not_vary_have_no_coefficient():
    Z, y = np.full((40, 3), 7.1), table()[1]
    options = FitOptions(fs.SquaredError())
    model = fitted_on(engine_on(Z, y), 2, options)
    assert not model.coefficients.any()


def test_an_automatic_penalty_follows_the_rows():
    Z, y = table()
    engine = engine_on(Z, (y > 3).astype(int), loss="logistic")
    options = FitOptions(loss_for(2, 40.0), auto_rows=40.0)
    assert prepared_on(engine, options).loss.l2 == pytest.approx(8 / 40)
    fewer = engine.where(fs.Rows().without(0))
    assert prepared_on(fewer, options).loss.l2 == pytest.approx(8 / 24)


def test_scaling_takes_two_exchanges_and_a_fit_no_others_but_its_rounds():
    Z, y = table()
    engine, options = engine_on(Z, y), FitOptions(fs.SquaredError())
    _, exchanges = fs.converse(engine, exchanges_of(prepare(engine, options)))
    assert exchanges == 2
    plain = FitOptions(fs.SquaredError(), standardize=False)
    _, exchanges = fs.converse(engine, exchanges_of(prepare(engine, plain)))
    assert exchanges == 1


def test_rows_that_nobody_has_are_told_in_one_sentence():
    engine = engine_on(np.ones((2, 1)), [1.0, 2.0], ["a", "b"])
    nobody = engine.where(fs.Rows().without(0).without(1))
    with pytest.raises(fs.DataError, match="no site has a row to learn from"):
        fitted_on(nobody, 1, FitOptions(fs.SquaredError()))
