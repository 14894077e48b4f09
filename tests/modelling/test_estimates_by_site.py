"""What single sites say of the chosen features, against statsmodels on each site's rows."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import sparse
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.stats.meta_analysis import combine_effects

import fedsparse as fs
from fedsparse.modelling import estimates_by_site
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.estimates_by_site import MOST_SITES, heterogeneity, told_at_sites
from fedsparse.modelling.model import Feature
from fedsparse.modelling.specification import FitSpecification

SITES = np.repeat(["bari", "cork", "delft"], [90, 60, 70])
NAMES = [str(place) for place in range(6)]


def table(kind, seed=0):
    """Columns on scales of their own, of which 1 and 4 matter, 4 not alike at all sites."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((SITES.size, 6)) * np.arange(1.0, 7.0) + 3.0
    scores = (Z[:, 1] - 3.0) / 2.0 + np.where(SITES == "cork", 0.5, -0.3) * (Z[:, 4] - 3.0) / 5.0
    if kind == "squared":
        return Z, scores + random.standard_normal(SITES.size)
    if kind == "logistic":
        return Z, (random.random(SITES.size) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
    if kind == "poisson":
        return Z, random.poisson(np.exp(scores)).astype(float)
    times = np.round(random.exponential(np.exp(-scores)), 2) + 0.01
    return Z, np.where(random.random(SITES.size) < 0.7, times, -times)


def analysed(Z, y, loss, *, sites=SITES, sums="float", **asked):
    data = fs.FederatedData.from_table(Z, y, sites)
    engine = fs.LocalEngine(data, loss, 1, sums)
    labels = ("no", "yes") if loss == "logistic" else None
    given = {"sparsity": 2, "held_out": "none", "stability": 0} | asked
    specification = FitSpecification(**given)
    names = [str(place) for place in range(Z.shape[1])]
    return fs.converse(engine, analysing(engine, specification, names, labels=labels, keep=(1, 4)))


def by_statsmodels(Z, y, loss):
    """Estimates and standard errors of the columns 1 and 4."""
    if loss == "cox":
        fitted = PHReg(np.abs(y), Z, status=(y > 0).astype(int), ties="efron").fit()
        return fitted.params, fitted.bse
    D = sm.add_constant(Z)
    if loss == "squared":
        fitted = sm.OLS(y, D).fit()
    else:
        family = sm.families.Binomial() if loss == "logistic" else sm.families.Poisson()
        fitted = sm.GLM(y, D, family=family).fit(tol=1e-14)
    return fitted.params[1:], fitted.bse[1:]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "cox"])
def test_they_are_the_most_likely_of_each_sites_rows(loss, storage):
    Z, y = table(loss)
    found = analysed(storage(Z), y, loss).estimates_at_sites
    assert found.support.tolist() == [1, 4]
    for site, values, errors in zip(found.names, found.values, found.errors, strict=True):
        own = str(site) == SITES
        expected = by_statsmodels(Z[own][:, [1, 4]], y[own], loss)
        np.testing.assert_allclose(values, expected[0], rtol=1e-6)
        np.testing.assert_allclose(errors, expected[1], rtol=1e-5)


def test_intervals_are_students_with_each_sites_degrees_of_freedom():
    Z, y = table("squared")
    found = analysed(Z, y, "squared").estimates_at_sites
    feature = Feature(name="1", column="1", coefficients=(1.0,), mean=0.0, scale=1.0)
    (told,) = told_at_sites(found, [feature], [1], None)
    for site, estimated in told.by_site.items():
        own = site == SITES
        fitted = sm.OLS(y[own], sm.add_constant(Z[own][:, [1, 4]])).fit()
        ends = estimated.coefficient.low, estimated.coefficient.high
        np.testing.assert_allclose(ends, fitted.conf_int()[1], rtol=1e-6)


def test_they_cost_no_exchange_of_their_own_where_features_are_found_again(monkeypatch):
    Z, y = table("logistic")
    with_them = analysed(Z, y, "logistic", stability=5)
    assert with_them.estimates_at_sites is not None
    monkeypatch.setattr(estimates_by_site, "MOST_SITES", 1)
    without = analysed(Z, y, "logistic", stability=5)
    assert without.estimates_at_sites is None
    assert with_them.exchanges == without.exchanges


def test_nobody_is_asked_alone_where_sums_are_secure():
    assert analysed(*table("squared"), "squared", sums="fixed").estimates_at_sites is None


def test_of_many_sites_none_is_asked_alone():
    Z, y = table("squared")
    sites = np.arange(SITES.size) % (MOST_SITES + 1)
    assert analysed(Z, y, "squared", sites=sites).estimates_at_sites is None


def test_a_site_whose_rows_cannot_tell_says_nothing():
    Z, y = table("logistic")
    y[SITES == "cork"] = 1  # one class alone
    Z[SITES == "delft", 4] = 2.0  # a column that is the same for all
    found = analysed(Z, y, "logistic").estimates_at_sites
    assert np.isfinite(found.errors).tolist() == [[True, True], [False, False], [True, False]]
    features = [
        Feature(name=str(place), column=str(place), coefficients=(1.0,), mean=0.0, scale=2.0)
        for place in (1, 4)
    ]
    one, other = told_at_sites(found, features, [1, 4], "odds ratio")
    assert one.by_site["cork"] is None
    assert one.inconsistency is not None
    assert other.by_site["delft"] is None
    assert (other.inconsistency, other.p_value) == (None, None)
    bari = one.by_site["bari"]
    assert bari.ratio_per_deviation.value == pytest.approx(np.exp(2.0 * found.values[0, 0]))


@pytest.mark.parametrize("seed", range(3))
def test_how_much_sites_differ_is_higgins_and_thompsons(seed):
    random = np.random.default_rng(seed)
    values, errors = random.standard_normal(5), random.uniform(0.2, 1.0, 5)
    expected = combine_effects(values, errors**2)
    share, p_value = heterogeneity(values, errors)
    assert share == pytest.approx(max(0.0, expected.i2))
    assert p_value == pytest.approx(expected.test_homogeneity().pvalue)
