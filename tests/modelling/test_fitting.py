"""Standardization, intercept, and models on the original scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from fedsparse.data.moments import federated_moments
from fedsparse.fitting import FitOptions, fit_model, loss_for, prepare

SITES = np.array(["a", "b", "b", "a", "c"] * 8)


def table(seed=0, rows=40, width=6):
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, width)) * (random.random((rows, width)) < 0.6)
    return Z * np.logspace(-3, 4, width) + 0.0, random.standard_normal(rows) + 3.0


@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1e6]))
@settings(max_examples=30, deadline=None)
def test_moments_do_not_depend_on_how_rows_are_spread_over_sites(seed, offset):
    Z, y = table(seed)
    Z = Z + offset
    random = np.random.default_rng(seed)
    weights = random.random(y.size) + 0.1
    found = federated_moments(
        fs.FederatedData.from_table(Z, y, random.integers(0, 4, y.size), weights)
    )
    mean = np.average(Z, axis=0, weights=weights)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-12)
    expected = np.average((Z - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(found.variance, expected, rtol=1e-6, atol=1e-9 * (1 + offset))


def test_moments_of_sparse_rows_are_those_of_dense_ones():
    Z, y = table()
    dense, csr = (
        federated_moments(fs.FederatedData.from_table(kind(Z), y, SITES))
        for kind in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr.mean, dense.mean, rtol=1e-12)
    np.testing.assert_allclose(csr.variance, dense.variance, rtol=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_features_give_ordinary_least_squares(standardize, intercept):
    Z, y = table(rows=40)
    options = FitOptions(fs.SquaredError(), standardize=standardize, intercept=intercept)
    model = fit_model(prepare(fs.FederatedData.from_table(Z, y, SITES), options), 6, options)
    design = np.column_stack([Z, np.ones(y.size)]) if intercept else Z
    expected = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(model.scores(Z), design @ expected, rtol=1e-6, atol=1e-6)


def test_sparse_features_are_not_centred_and_give_the_same_predictions():
    Z, y = table()
    options = FitOptions(fs.SquaredError())
    dense, csr = (
        fit_model(
            prepare(fs.FederatedData.from_table(kind(Z), y, SITES), options), 3, options
        ).scores(Z)
        for kind in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr, dense, rtol=1e-8)


def test_a_constant_column_does_no_harm():
    Z, y = table()
    Z[:, 2] = 0.1 + 0.2
    options = FitOptions(fs.SquaredError())
    model = fit_model(prepare(fs.FederatedData.from_table(Z, y, SITES), options), 6, options)
    assert np.abs(model.coefficients[2]) < 1e6
    assert np.isfinite(model.scores(Z)).all()


def test_float32_features_stay_float32():
    Z, y = table()
    data = fs.FederatedData.from_table(Z.astype(np.float32), y, SITES)
    assert prepare(data, FitOptions(fs.SquaredError())).data.features.dtype == np.float32


def test_a_warm_start_changes_rounds_not_the_model():
    Z, y = table()
    options = FitOptions(fs.SquaredError())
    prepared = prepare(fs.FederatedData.from_table(Z, y, SITES), options)
    cold = fit_model(prepared, 3, options)
    warm = fit_model(prepared, 3, options, start=cold)
    np.testing.assert_allclose(warm.coefficients, cold.coefficients, rtol=1e-9, atol=1e-12)
    assert warm.result.records[-1].round <= cold.result.records[-1].round


@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_a_far_mean_of_the_targets_is_not_shrunk(mean):
    Z, y = table()
    options = FitOptions(fs.SquaredError(l2=1.0))
    data = fs.FederatedData.from_table(Z, y + mean, SITES)
    model = fit_model(prepare(data, options), 3, options)
    assert model.scores(Z).mean() == pytest.approx(y.mean() + mean, abs=1e-2)


def test_columns_that_do_not_vary_have_no_coefficient():
    Z, y = np.full((40, 3), 7.1), table()[1]
    options = FitOptions(fs.SquaredError())
    model = fit_model(prepare(fs.FederatedData.from_table(Z, y, SITES), options), 2, options)
    assert not model.coefficients.any()


def test_an_automatic_penalty_follows_the_rows():
    Z, y = table()
    data = fs.FederatedData.from_table(Z, (y > 3).astype(int), SITES)
    options = FitOptions(loss_for(2, 40.0), auto_rows=40.0)
    assert prepare(data, options).loss.l2 == pytest.approx(8 / 40)
    assert prepare(data.client(0), options).loss.l2 == pytest.approx(8 / data.counts[0])
