"""The scikit-learn estimators."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import fedsparse as fs
from fedsparse.errors import OptionError

CHECK_ALL = """
import json, sys
from sklearn.utils.estimator_checks import check_estimator
import fedsparse as fs
found = check_estimator(getattr(fs, sys.argv[1])(), on_fail=None, on_skip=None)
keys = ("check_name", "status", "exception")
print(json.dumps([[str(check[key]) for key in keys] for check in found]))
"""


def patients(classes=None, rows=90, width=12, seed=0):
    """Features, and a target that columns 3 and 7 decide; three hospitals."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, width)) * np.linspace(1, 50, width) + 5
    score = (X[:, 3] - 5) / X[:, 3].std() - 2 * (X[:, 7] - 5) / X[:, 7].std()
    y = score + 10
    if classes is not None:
        y = np.asarray(classes)[np.digitize(score, [-0.7, 0.7][: len(classes) - 1])]
    return X, y, np.repeat(["north", "south", "west"], rows // 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FedSparseRegressor", "FedSparseClassifier"])
def test_every_check_of_scikit_learn_passes_and_none_is_skipped(name):
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK_ALL, name],
        capture_output=True, text=True, env=environment, timeout=300, check=True,
    )  # fmt: skip
    checks = json.loads(done.stdout.splitlines()[-1])
    assert len(checks) > 50
    assert [check for check in checks if check[1] != "passed"] == []


def test_the_relevant_features_are_found_and_given_back_on_their_own_scale():
    X, y, sites = patients()
    model = fs.FedSparseRegressor(sparsity=2).fit(X, y, sites=sites)
    assert model.support_.tolist() == [3, 7]
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-3)
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("classes", [["ill", "well"], [7, 3], ["a", "b", "c"], [True, False]])
def test_labels_of_any_kind_come_back(classes):
    X, y, sites = patients(classes)
    model = fs.FedSparseClassifier(sparsity=2).fit(X, y, sites=sites)
    assert model.classes_.tolist() == sorted(classes)
    assert set(model.predict(X)) <= set(classes)
    assert model.score(X, y) > 0.8
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    assert model.coef_.shape == (1 if len(classes) == 2 else len(classes), X.shape[1])


def test_sites_do_not_change_the_model():
    X, y, sites = patients(["ill", "well"])
    apart = fs.FedSparseClassifier(sparsity=3).fit(X, y, sites=sites)
    together = fs.FedSparseClassifier(sparsity=3).fit(X, y)
    np.testing.assert_allclose(apart.coef_, together.coef_, rtol=1e-6, atol=1e-12)
    assert len(apart.history_) > 1


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        lambda columns: pl.DataFrame(columns),
        lambda columns: np.column_stack(list(columns.values())),
        lambda columns: sparse.csr_matrix(np.column_stack(list(columns.values()))),
        lambda columns: np.column_stack(list(columns.values())).astype(np.float32),
    ],
    ids=["pandas", "polars", "array", "csr", "float32"],
)
def test_tables_of_any_kind_give_the_same_model(convert):
    X, y, sites = patients()
    columns = {f"gene {number}": X[:, number] for number in range(X.shape[1])}
    model = fs.FedSparseRegressor(sparsity=2).fit(convert(columns), y, sites=sites)
    assert model.support_.tolist() == [3, 7]
    np.testing.assert_allclose(model.predict(convert(columns)), y, rtol=2e-3)


def test_feature_names_are_kept_and_selected():
    X, y, _ = patients()
    table = pd.DataFrame(X, columns=[f"gene {number}" for number in range(X.shape[1])])
    model = fs.FedSparseRegressor(sparsity=2).fit(table, y)
    assert model.feature_names_in_.tolist() == table.columns.tolist()
    assert model.get_feature_names_out().tolist() == ["gene 3", "gene 7"]
    assert model.transform(table).shape == (90, 2)


@pytest.mark.parametrize("classes", [None, ["ill", "well"], ["a", "b", "c"]])
def test_features_to_keep_stay(classes):
    X, y, sites = patients(classes)
    table = pd.DataFrame(X, columns=[f"gene {number}" for number in range(X.shape[1])])
    kind = fs.FedSparseRegressor if classes is None else fs.FedSparseClassifier
    model = kind(sparsity=3, keep=["gene 0", 1]).fit(table, y, sites=sites)
    assert {0, 1} <= set(model.support_.tolist())


def test_the_intercept_is_not_shrunk_where_one_class_is_rare():
    random = np.random.default_rng(0)
    X = random.standard_normal((4000, 5))
    y = random.random(4000) < 0.01
    model = fs.FedSparseClassifier(sparsity=1, l2=0.01).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=1e-3)


def test_sample_weights_count_rows():
    X, y, sites = patients(["ill", "well"])
    weights = np.random.default_rng(1).integers(0, 3, y.size)
    again = np.repeat(np.arange(y.size), weights)
    weighted = fs.FedSparseClassifier(sparsity=3).fit(X, y, sites=sites, sample_weight=weights)
    repeated = fs.FedSparseClassifier(sparsity=3).fit(X[again], y[again], sites=sites[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("sparsity", ["cv", "ebic"])
@pytest.mark.parametrize("classes", [None, ["ill", "well"]])
def test_the_number_of_features_is_chosen_by_the_data(sparsity, classes):
    X, y, sites = patients(classes)
    kind = fs.FedSparseRegressor if classes is None else fs.FedSparseClassifier
    model = kind(sparsity=sparsity, sparsities=[1, 2, 4, 8]).fit(X, y, sites=sites)
    assert model.sparsity_ == 2
    assert model.selection_.method == sparsity
    scaling, last_objective = 2, 1
    rounds = scaling + model.n_iter_ + last_objective
    assert model.rounds_ == rounds + model.selection_.rounds
    assert model.rounds_ < 60


def test_any_algorithm_can_be_used():
    X, y, sites = patients()
    algorithm = fs.FedIterHT(sparsity=99, local_steps=3, server_step="adaptive")
    model = fs.FedSparseRegressor(sparsity=2, algorithm=algorithm).fit(X, y, sites=sites)
    assert model.support_.tolist() == [3, 7]


def test_sites_are_routed_through_pipelines_and_searches():
    X, y, sites = patients(["ill", "well"])
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(MaxAbsScaler(), fs.FedSparseClassifier())
        search = GridSearchCV(pipeline, {"fedsparseclassifier__sparsity": [1, 2, 5]}, cv=3)
        search.fit(X, y, sites=sites)
        fitted = search.best_estimator_[-1]
        scores = cross_val_score(pipeline, X, y, cv=3, params={"sites": sites})
    one_place = fs.FedSparseClassifier(fitted.sparsity_).fit(MaxAbsScaler().fit_transform(X), y)
    # Three sites answer more than one: only if the sites got there does more travel.
    assert fitted.history_["bytes_up"][-1] > 2 * one_place.history_["bytes_up"][-1]
    assert scores.shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": 0}, "sparsity must be a whole number"),
        ({"sparsity": "aic"}, '"cv" or "ebic"'),
        ({"keep": ["gene 99"]}, "'gene 99', which is no column"),
        ({"keep": [0, 1, 2], "sparsity": 2}, "3 features are to be kept"),
        ({"keep": [99]}, "keep names feature 99"),
        ({"keep": [12]}, "keep names feature 12"),
        ({"keep": [1.5]}, "names or whole numbers"),
        ({"keep": "gene 7"}, "keep must be a list"),
        ({"l2": "much"}, "l2 must be a number"),
        ({"l2": -1.0}, "l2 must be a number"),
        ({"fit_intercept": "no"}, "fit_intercept must be true or false"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1"),
        ({"sparsity": "cv", "folds": 1}, "folds must be a whole number of at least 2"),
        ({"sparsity": "cv", "sparsities": [-1]}, "sparsities must be a list, each a whole number"),
        ({"algorithm": fs.FedIterHT}, "algorithm must be an object"),
        ({"algorithm": fs.EDSL(2)}, "EDSL cannot keep an intercept"),
    ],
)
def test_wrong_options_are_refused(options, message):
    X, y, _ = patients()
    with pytest.raises(fs.OptionError, match=message):
        fs.FedSparseRegressor(**options).fit(X, y)


def test_without_an_intercept_there_is_none():
    X = np.random.default_rng(0).standard_normal((100, 3)) + 5
    model = fs.FedSparseRegressor(1, fit_intercept=False).fit(X, 2 * X[:, 0])
    assert model.intercept_ == 0.0
    np.testing.assert_allclose(model.coef_, [2.0, 0.0, 0.0], rtol=1e-3)


def test_all_of_few_features_can_be_chosen():
    random = np.random.default_rng(0)
    X = random.standard_normal((500, 4))
    y = X.sum(axis=1) + 0.1 * random.standard_normal(500)
    assert fs.FedSparseRegressor("cv").fit(X, y).sparsity_ == 4


def test_base_rates_of_several_classes_are_met():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((100, 5)), np.repeat([0, 1, 2], [84, 8, 8])
    chances = fs.FedSparseClassifier(1).fit(X, y).predict_proba(X).mean(axis=0)
    np.testing.assert_allclose(chances, [0.84, 0.08, 0.08], atol=0.03)


@pytest.mark.parametrize("classes", [("ill", "well"), ("ill", "unclear", "well")])
def test_logarithms_of_probabilities_are_finite_where_these_vanish(classes):
    X, y, _ = patients(classes)
    model = fs.FedSparseClassifier(2).fit(X, y)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert np.isfinite(model.predict_log_proba(1e6 * X)).all()


class TestClassWeights:
    def test_balanced_classes_count_the_same(self):
        X, y, _ = patients(["ill", "well"])
        rows = np.concatenate([np.flatnonzero(y == "ill")[:6], np.flatnonzero(y == "well")])
        X, y = X[rows], y[rows]
        plain, balanced = (
            fs.FedSparseClassifier(2, class_weight=weight).fit(X, y)
            for weight in (None, "balanced")
        )
        assert balanced.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.05

    def test_are_weights_of_rows(self):
        X, y, sites = patients(["ill", "unclear", "well"])
        of_rows = np.linspace(1, 2, len(y))
        by_class = {"ill": 3.0, "well": 0.5}
        weights = of_rows * np.array([by_class.get(label, 1.0) for label in y])
        one = fs.FedSparseClassifier(2).fit(X, y, sites, weights)
        other = fs.FedSparseClassifier(2, class_weight=by_class).fit(X, y, sites, of_rows)
        np.testing.assert_array_equal(other.coef_, one.coef_)

    @pytest.mark.parametrize(
        ("weight", "message"),
        [
            ("much", 'class_weight must be None, "balanced" or a dict'),
            ({"sick": 2.0}, "'sick', which is no class of y; they are 'ill', 'well'"),
            ({"ill": -1.0}, "class_weight of 'ill' must be a number"),
            ({"ill": "2"}, "class_weight of 'ill' must be a number"),
        ],
    )
    def test_wrong_ones_are_refused(self, weight, message):
        X, y, _ = patients(["ill", "well"])
        with pytest.raises(fs.OptionError, match=message):
            fs.FedSparseClassifier(2, class_weight=weight).fit(X, y)


class TestSitesAsAColumn:
    @pytest.fixture(params=[pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
    def table(self, request):
        X, y, sites = patients(["ill", "well"])
        columns = {f"gene {place}": X[:, place] for place in range(X.shape[1])}
        return request.param({**columns, "hospital": sites}), X, y, sites

    def test_give_the_model_of_labels_given_apart(self, table):
        frame, X, y, sites = table
        model = fs.FedSparseClassifier(2).fit(frame, y, sites="hospital")
        expected = fs.FedSparseClassifier(2).fit(X, y, sites=sites)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.history_["bytes_up"][-1] == expected.history_["bytes_up"][-1]
        assert "hospital" not in model.feature_names_in_

    def test_are_no_feature_of_tables_to_predict_for(self, table):
        frame, _, y, _ = table
        model = fs.FedSparseClassifier(2).fit(frame, y, sites="hospital")
        plain = frame[[name for name in frame.columns if name != "hospital"]]
        np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(plain))
        np.testing.assert_array_equal(model.transform(frame), model.transform(plain))
        assert model.score(frame, y) == model.score(plain, y)

    def test_which_there_are_not_are_refused(self, table):
        frame, X, y, _ = table
        with pytest.raises(fs.OptionError, match="did you mean 'hospital'"):
            fs.FedSparseClassifier(2).fit(frame, y, sites="hospitl")
        with pytest.raises(fs.OptionError, match="a column that X does not have; give a pandas"):
            fs.FedSparseClassifier(2).fit(X, y, sites="hospital")

    def test_go_through_searches(self, table):
        frame, _, y, _ = table
        with sklearn.config_context(enable_metadata_routing=True):
            search = GridSearchCV(fs.FedSparseClassifier(), {"sparsity": [1, 2]}, cv=3)
            search.fit(frame, y, sites="hospital")
        assert search.best_estimator_.sites_column_ == "hospital"


def test_one_site_label_per_row_is_asked_for():
    X, y, sites = patients()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fs.FedSparseRegressor().fit(X, y, sites=sites[:-1])


class TestIntervals:
    """Coefficients 3 and −2 of twelve features, with noise."""

    SITES = np.repeat(["a", "b", "c"], 40)

    def rows(self, *, labels=False):
        random = np.random.default_rng(2)
        X = random.standard_normal((120, 12))
        y = 3.0 * X[:, 4] - 2.0 * X[:, 9] + random.standard_normal(120)
        return X, np.where(y + random.standard_normal(120) > 0, "ill", "well") if labels else y

    def test_of_numbers(self):
        X, y = self.rows()
        model = fs.FedSparseRegressor(2, stability=5, intervals=True).fit(X, y, self.SITES)
        assert np.flatnonzero(model.p_values_ < 0.05).tolist() == [4, 9]
        for ends in (model.coef_interval_, model.coef_interval_after_choosing_):
            assert ends.shape == (12, 2)
            assert (ends[[4, 9], 0] < [3.0, -2.0]).all()
            assert (ends[[4, 9], 1] > [3.0, -2.0]).all()
        assert not model.coef_refitted_[[0, 1, 2]].any()
        assert np.isinf(model.coef_interval_after_choosing_[0]).all()
        assert model.stability_.subsamples == 10

    def test_of_two_classes_in_the_shape_of_the_coefficients(self):
        X, y = self.rows(labels=True)
        model = fs.FedSparseClassifier(2, stability=5, intervals=True).fit(X, y, self.SITES)
        assert model.coef_refitted_.shape == model.p_values_.shape == model.coef_.shape
        assert model.coef_interval_.shape == (1, 12, 2)
        assert (np.abs(model.coef_refitted_) >= np.abs(model.coef_)).all()

    def test_of_times_until_an_event(self):
        X, _ = self.rows()
        times = np.random.default_rng(1).exponential(np.exp(2.0 * X[:, 4] - 2.0 * X[:, 9]))
        outcome = np.column_stack([times < 3.0, np.minimum(times, 3.0)])
        model = fs.FedSparseCox(2, stability=5, intervals=True).fit(X, outcome, self.SITES)
        assert np.flatnonzero(model.p_values_ < 0.05).tolist() == [4, 9]
        assert (model.coef_interval_[4] < 0).all()
        assert (model.coef_interval_[9] > 0).all()

    def test_without_half_samples_there_is_nothing_valid_after_the_choice(self):
        X, y = self.rows()
        model = fs.FedSparseRegressor(2, intervals=True).fit(X, y, self.SITES)
        assert np.isfinite(model.coef_interval_).all()
        assert not hasattr(model, "p_values_")
        assert model.rounds_ > fs.FedSparseRegressor(2).fit(X, y, self.SITES).rounds_

    def test_of_three_classes_are_refused_before_anything_is_fitted(self):
        X, y = self.rows()
        with pytest.raises(OptionError, match="two classes and not with more"):
            fs.FedSparseClassifier(2, intervals=True).fit(X, np.digitize(y, [-1, 1]))


def survivors(seed=0, rows=240):
    """Features, whether and when an event was seen, and where."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, 12))
    until, watched = random.exponential(np.exp(X[:, 4] - X[:, 7])), random.uniform(0.5, 4.0, rows)
    events, times = until <= watched, np.minimum(until, watched)
    return X, events, times, np.repeat(["north", "south", "west"], rows // 3)


def as_structured(events, times):
    return np.array(list(zip(events, times, strict=True)), dtype=[("died", "?"), ("months", "f8")])


class TestCox:
    def test_outcomes_may_be_structured_or_two_columns(self):
        X, events, times, sites = survivors()
        y = as_structured(events, times)
        models = [
            fs.FedSparseCox(2).fit(X, own, sites=sites)
            for own in (y, y[["months", "died"]], np.column_stack([events, times]))
        ]
        assert models[0].support_.tolist() == [4, 7]
        for other in models[1:]:
            np.testing.assert_array_equal(other.coef_, models[0].coef_)

    @pytest.mark.parametrize("ties", ["efron", "breslow"])
    def test_the_gradient_of_all_strata_is_zero_at_the_model(self, ties):
        X, events, times, sites = survivors()
        times = np.ceil(4.0 * times)
        signed = np.where(events, times, -times)
        model = fs.FedSparseCox(3, l2=0.0, ties=ties).fit(X, as_structured(events, times), sites)
        data = fs.FederatedData.from_table(X, signed, sites)
        engine = fs.LocalEngine(data, fs.Cox(ties=ties))
        (told,) = engine.exchange([engine.ask(fs.Gradient(model.coef_), "samples")])
        np.testing.assert_allclose(told.mean("gradient")[model.support_], 0.0, atol=1e-4)

    def test_survival_falls_from_one_and_risks_are_in_order(self):
        X, events, times, sites = survivors()
        y = as_structured(events, times)
        model = fs.FedSparseCox("cv", sparsities=[1, 2, 4]).fit(X, y, sites=sites)
        survival = model.predict_survival_function(X)
        assert survival.shape == (240, model.times_.size)
        assert (np.diff(survival, axis=1) <= 0).all()
        np.testing.assert_array_equal(model.predict_survival_function(X, times=[0.0]), 1.0)
        riskiest = model.predict(X).argmax()
        assert (survival[riskiest] == survival.min(axis=0)).all()
        assert 0.7 < model.score(X, y, sites=sites) < 1.0

    def test_mean_survival_is_about_what_was_seen(self):
        """Kaplan and Meier's, where nothing was cut short."""
        X, _, _, sites = survivors(rows=900)
        random = np.random.default_rng(1)
        until = random.exponential(np.exp(0.5 * X[:, 4]))
        model = fs.FedSparseCox(1, bins=40).fit(X, as_structured(np.ones(900, bool), until), sites)
        seen = [(until > time).mean() for time in (0.3, 1.0, 2.0)]
        told = model.predict_survival_function(X, times=[0.3, 1.0, 2.0]).mean(axis=0)
        np.testing.assert_allclose(told, seen, atol=0.04)

    @pytest.mark.parametrize(
        ("events", "times", "match"),
        [
            ([1, 0, 1], [1.0, 0.0, 2.0], "row 1: the time is 0, and a time is above 0"),
            ([1, 2, 0], [1.0, 1.0, 2.0], r"row 1: the event is 2\.0, and an event is 1"),
            ([0, 0, 0], [1.0, 1.0, 2.0], "no row has an event"),
        ],
    )
    def test_bad_outcomes_are_told_in_a_sentence(self, events, times, match):
        with pytest.raises(fs.DataError, match=match):
            fs.FedSparseCox(1).fit(np.eye(3), np.column_stack([events, times]))

    def test_one_column_is_no_outcome(self):
        with pytest.raises(fs.DataError, match="structured array of an event and a time"):
            fs.FedSparseCox(1).fit(np.eye(3), [1.0, 2.0, 3.0])

    def test_it_can_be_cloned(self):
        model = fs.FedSparseCox(3, ties="breslow", bins=7)
        assert clone(model).get_params() == model.get_params()


class TestPoisson:
    def counted(self, rows=300):
        random = np.random.default_rng(0)
        X, exposure = random.standard_normal((rows, 6)), random.uniform(0.2, 3.0, rows)
        return X, random.poisson(40.0 * exposure * np.exp(0.6 * X[:, 1] - 0.4 * X[:, 3])), exposure

    def test_it_is_scikit_learns_with_exposure_as_weight(self):
        X, counts, exposure = self.counted()
        model = fs.FedSparseRegressor(6, loss="poisson", l2=0.0, rounds=200)
        model.fit(X, counts / exposure, sites=np.arange(300) % 3, sample_weight=exposure)
        theirs = PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-10)
        theirs.fit(X, counts / exposure, sample_weight=exposure)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
        assert model.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
        own = model.score(X, counts / exposure, sample_weight=exposure)
        expected = theirs.score(X, counts / exposure, sample_weight=exposure)
        assert own == pytest.approx(expected, abs=1e-6)

    def test_the_unit_of_exposure_changes_the_intercept_alone(self):
        X, counts, exposure = self.counted()
        years, days = (
            fs.FedSparseRegressor(2, loss="poisson").fit(X, counts / own, sample_weight=own)
            for own in (exposure, 365.0 * exposure)
        )
        np.testing.assert_allclose(years.coef_, days.coef_, atol=1e-6)
        assert years.intercept_ - days.intercept_ == pytest.approx(np.log(365.0), abs=1e-6)

    def test_a_loss_of_classes_is_refused(self):
        with pytest.raises(fs.OptionError, match="'logistic' is no loss of numbers"):
            fs.FedSparseRegressor(1, loss="logistic").fit(np.eye(3), [0.0, 1.0, 1.0])
