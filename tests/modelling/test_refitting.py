"""Refitted coefficients and their errors, against the textbook's formulas on pooled rows."""

import numpy as np
import pandas
import pytest
from scipy import sparse, stats

import fedsparse as fs
from fedsparse.modelling.fitting import FitOptions, fit_model, loss_for, prepare
from fedsparse.modelling.refitting import refitting

SITES = np.repeat(["a", "b", "c"], [60, 25, 35])
SUPPORT = np.array([1, 4, 6])


def table(kind, seed=0):
    """Columns on different scales, of which two matter."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((120, 8)) * np.arange(1.0, 9.0) + 5.0
    scores = (Z[:, 1] - 5.0) / 2.0 - (Z[:, 4] - 5.0) / 6.0
    if kind == "squared":
        return Z, scores + random.standard_normal(120)
    return Z, (random.random(120) < 1.0 / (1.0 + np.exp(-scores))).astype(int)


def refit(Z, y, *, weights=None, **how):
    data = fs.FederatedData.from_table(Z, y, SITES, weights)
    classes = None if y.dtype == float else 2
    engine = fs.LocalEngine(data, loss_for(classes, 1.0), 1)
    options = FitOptions(loss_for(classes, 1.0), auto_rows=1.0, keep=tuple(SUPPORT), **how)

    def conversation():
        prepared = yield from prepare(engine, options)
        model = yield from fit_model(prepared, 3, options)
        found = yield from refitting(prepared, model.result.coef, SUPPORT)
        return found, prepared

    return fs.converse(engine, conversation())


def design(Z, intercept=True):
    return np.column_stack([np.ones(len(Z)), Z[:, SUPPORT]] if intercept else [Z[:, SUPPORT]])


def least_squares(Z, y, weights, intercept=True):
    """Coefficients and errors, the intercept's left out."""
    D, W = design(Z, intercept), np.diag(weights)
    coef = np.linalg.solve(D.T @ W @ D, D.T @ W @ y)
    freedom = len(y) - D.shape[1]
    variance = weights @ (y - D @ coef) ** 2 / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(D.T @ W @ D)))
    return coef[-3:], errors[-3:], freedom


def most_likely(Z, y):
    D, coef = design(Z), np.zeros(4)
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-D @ coef))
        information = D.T @ ((p * (1.0 - p))[:, None] * D)
        coef += np.linalg.solve(information, D.T @ (y - p))
    return coef[1:], np.sqrt(np.diag(np.linalg.inv(information)))[1:]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("how", [{}, {"standardize": False}, {"intercept": False}])
def test_least_squares_are_those_of_pooled_rows(how, storage):
    Z, y = table("squared")
    found = refit(storage(Z), y, **how)[0].plain
    values, errors, freedom = least_squares(Z, y, np.ones(120), how.get("intercept", True))
    np.testing.assert_allclose(found.values, values, rtol=1e-8)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-8)
    reach = errors * stats.t.ppf(0.975, freedom)
    np.testing.assert_allclose(found.intervals(0.95)[:, 1], values + reach, rtol=1e-8)
    np.testing.assert_allclose(
        found.p_values, 2 * stats.t.sf(np.abs(values / errors), freedom), rtol=1e-6
    )


def test_rows_that_weigh_more_count_more():
    Z, y = table("squared")
    weights = np.random.default_rng(1).uniform(0.5, 3.0, 120)
    found = refit(Z, y, weights=weights)[0].plain
    values, errors, _ = least_squares(Z, y, weights)
    np.testing.assert_allclose(found.values, values, rtol=1e-8)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-8)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_log_odds_are_those_of_greatest_likelihood(storage):
    Z, y = table("logistic")
    found = refit(storage(Z), y)[0].plain
    values, errors = most_likely(Z, y)
    np.testing.assert_allclose(found.values, values, rtol=1e-7)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-5)
    assert np.isinf(found.freedom)


def of_task(task, Z, targets, weights=None):
    loss = loss_for(None, 1.0, task=task)
    data = fs.FederatedData.from_table(Z, targets, SITES, weights)
    engine = fs.LocalEngine(data, loss, 1)
    options = FitOptions(loss, auto_rows=1.0, keep=tuple(SUPPORT), intercept=loss.has_intercept)

    def conversation():
        prepared = yield from prepare(engine, options)
        model = yield from fit_model(prepared, 3, options)
        return (yield from refitting(prepared, model.result.coef, SUPPORT))

    return fs.converse(engine, conversation()).plain


def test_log_rates_of_counts_are_those_of_greatest_likelihood():
    Z, _ = table("squared")
    random = np.random.default_rng(3)
    exposure = random.uniform(0.5, 4.0, 120)
    counts = random.poisson(exposure * np.exp((Z[:, 1] - 5.0) / 4.0))
    D, coef = design(Z), np.array([np.log(counts.sum() / exposure.sum()), 0.0, 0.0, 0.0])
    for _ in range(40):
        expected = exposure * np.exp(D @ coef)
        information = D.T @ (expected[:, None] * D)
        coef += np.linalg.solve(information, D.T @ (counts - expected))
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    found = of_task("counts", Z, counts / exposure, exposure)
    np.testing.assert_allclose(found.values, coef[1:], rtol=1e-7)
    np.testing.assert_allclose(found.errors, errors[1:], rtol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of pandas, for what lifelines asks of it
def test_log_hazards_are_those_of_a_model_stratified_by_site():
    lifelines = pytest.importorskip("lifelines")
    Z, _ = table("squared")
    random = np.random.default_rng(4)
    times = (random.exponential(np.exp((5.0 - Z[:, 1]) / 4.0)) + 0.05).round(1) + 0.1
    seen = random.random(120) < 0.7
    columns = {f"z{place}": Z[:, place] for place in SUPPORT}
    frame = pandas.DataFrame({**columns, "time": times, "event": seen, "site": SITES})
    expected = lifelines.CoxPHFitter().fit(
        frame, "time", "event", strata=["site"], fit_options={"precision": 1e-12}
    )
    found = of_task("survival", Z, np.where(seen, times, -times))
    np.testing.assert_allclose(found.values, expected.params_, rtol=1e-6)
    np.testing.assert_allclose(found.errors, expected.standard_errors_, rtol=1e-5)


def test_shrunk_coefficients_are_less_sure_the_less_the_rows_say_beside_the_shrinkage():
    Z, y = table("logistic")
    found, prepared = refit(Z, y)
    D = prepared.scaling.apply(Z)[:, [*SUPPORT, 8]]
    pull, x = 120.0 * prepared.loss.l2 * np.eye(4), np.zeros(4)
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-D @ x))
        information = D.T @ ((p * (1.0 - p))[:, None] * D) + pull
        x += np.linalg.solve(information, D.T @ (y - p) - pull @ x)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))[:3]
    scale = prepared.scaling.scale[SUPPORT]
    np.testing.assert_allclose(found.shrunk.values, x[:3] / scale, rtol=1e-3)
    np.testing.assert_allclose(found.shrunk.errors, errors / scale, rtol=1e-3)
    assert (np.abs(found.shrunk.values) < np.abs(found.plain.values)).all()


def test_features_that_separate_classes_have_no_estimate_without_shrinkage():
    Z, _ = table("logistic")
    found, _ = refit(Z, (Z[:, 1] > 5.0).astype(int))
    assert found.plain is None
    assert np.isfinite(found.shrunk.errors).all()


def test_columns_that_say_the_same_have_no_estimate_without_shrinkage():
    Z, y = table("squared")
    Z[:, 6] = 2.0 * Z[:, 4]
    assert np.isnan(refit(Z, y)[0].plain.errors).tolist() == [False, True, True]
    Z[:, 1] = 3.0 * Z[:, 4]
    assert refit(Z, y)[0].plain is None


def test_rows_that_say_nothing_about_a_column_leave_its_error_open():
    Z, y = table("squared")
    Z[:, 6] = 3.0
    found = refit(Z, y)[0].plain
    assert np.isnan(found.errors).tolist() == [False, False, True]


def test_as_many_coefficients_as_rows_leave_nothing_to_estimate_errors_by():
    Z, y = table("squared")
    data = fs.FederatedData.from_clients([(Z[:2], y[:2]), (Z[2:4], y[2:4])])
    engine, options = fs.LocalEngine(data, "squared", 1), FitOptions(fs.SquaredError())

    def conversation():
        prepared = yield from prepare(engine, options)
        return (yield from refitting(prepared, np.zeros(9), SUPPORT))

    assert fs.converse(engine, conversation()).plain is None


def with_two_levels(Z):
    """Two of the columns tell the two levels of a category apart."""
    is_female = (np.arange(len(Z)) % 2 == 0).astype(float)
    Z[:, 1], Z[:, 6] = is_female, 1.0 - is_female
    return Z


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_beside_all_levels_of_a_category_other_features_are_estimated(kind):
    Z, y = table(kind)
    Z = with_two_levels(Z)
    found = refit(Z, y)[0].plain
    one_level_less = Z.copy()
    one_level_less[:, 6] = 0.0
    right = refit(one_level_less, y)[0].plain
    assert np.isnan(found.errors).tolist() == [True, False, True]
    np.testing.assert_allclose(found.values[1], right.values[1], rtol=1e-6)
    np.testing.assert_allclose(found.errors[1], right.errors[1], rtol=1e-6)
    assert found.freedom == right.freedom
