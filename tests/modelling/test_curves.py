"""Curves from counts in bins, beside the same curves from rows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics
from statsmodels.api import GLM, OLS, add_constant, families

import fedsparse as fs
from fedsparse.errors import OptionError
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.curves import FEWEST_SHOWN, calibration_of_numbers, curves_of
from fedsparse.modelling.metrics import Judged
from fedsparse.modelling.specification import FitSpecification
from fedsparse.requests import ScoreCounts
from fedsparse.requests.score_counts import edges_with
from tests.builders import answers_of


def rows(size=400, factor=2.0):
    """Scores that are too extreme by a factor, and classes."""
    random = np.random.default_rng(4)
    truth = 1.5 * random.standard_normal(size) - 0.5
    return factor * truth, (random.random(size) < 1 / (1 + np.exp(-truth))).astype(int)


def curves(scores, codes, threshold=0.5, labels=("no", "yes")):
    shape = scores.reshape(codes.size, -1)
    data = fs.FederatedData.from_table(shape, codes, np.arange(codes.size) % 3)
    loss = "logistic" if scores.ndim == 1 else "softmax"
    x = np.ones(1) if scores.ndim == 1 else np.eye(scores.shape[1])
    counts = answers_of(ScoreCounts(x, threshold), data, loss).total("counts")
    judged = Judged.of(codes, scores, is_numbers=False)
    return curves_of(judged, counts, threshold, labels)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.777, 1.0])
def test_sensitivity_and_specificity_are_those_of_the_rows_at_any_threshold(threshold):
    scores, codes = rows()
    (found,) = curves(scores, codes, threshold)
    is_taken = 1 / (1 + np.exp(-scores)) >= threshold
    assert found.label == "yes"
    assert (found.rows, found.of_class) == (400, codes.sum())
    assert found.sensitivity == pytest.approx(is_taken[codes == 1].mean())
    assert found.specificity == pytest.approx(1 - is_taken[codes == 0].mean())
    for share, around in (
        (found.sensitivity, found.sensitivity_interval),
        (found.specificity, found.specificity_interval),
    ):
        assert around[0] <= share <= around[1]


def test_points_lie_on_the_roc_curve():
    scores, codes = rows()
    (found,) = curves(scores, codes)
    probabilities = 1 / (1 + np.exp(-scores))
    for point in found.points:
        is_taken = probabilities >= point.threshold
        assert point.sensitivity == pytest.approx(is_taken[codes == 1].mean())
        assert point.specificity == pytest.approx(1 - is_taken[codes == 0].mean())
        odds = point.threshold / (1 - point.threshold)
        benefit = np.mean(is_taken & (codes == 1)) - odds * np.mean(is_taken & (codes == 0))
        assert point.net_benefit == pytest.approx(benefit)
    assert found.auc == pytest.approx(metrics.roc_auc_score(codes, scores))


def test_calibration_is_about_that_of_a_regression_on_rows():
    scores, codes = rows(factor=1.5)
    (found,) = curves(scores, codes)
    fit = GLM(codes, add_constant(scores), families.Binomial()).fit()
    assert found.calibration.slope == pytest.approx(fit.params[1], rel=0.05)
    assert found.calibration.intercept == pytest.approx(fit.params[0], abs=0.05)
    assert found.calibration.slope_interval == pytest.approx(fit.conf_int()[1], rel=0.1)
    assert found.calibration.slope_interval[1] < 1.0  # they are too extreme


def test_no_point_speaks_of_few_rows():
    scores, codes = rows(size=60)
    (found,) = curves(scores, codes)
    assert min(share.rows for share in found.shares) >= FEWEST_SHOWN
    assert sum(share.rows for share in found.shares) == 60
    assert len(found.points) == len(found.shares) - 1


def test_each_of_several_classes_is_told_from_the_others():
    random = np.random.default_rng(0)
    codes, scores = random.integers(0, 3, 300), random.standard_normal((300, 3))
    scores[np.arange(300), codes] += 2.0
    found = curves(scores, codes, labels=("a", "b", "c"))
    assert [own.label for own in found] == ["a", "b", "c"]
    assert all(own.rows == 300 for own in found)
    assert all(own.auc > 0.8 for own in found)


def test_one_class_alone_has_no_curves():
    (found,) = curves(np.array([0.5, 1.0]), np.array([1, 1]))
    assert found.auc is None
    assert found.specificity is None
    assert found.calibration is None
    assert found.points == ()


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_calibration_of_numbers_is_a_regression_on_rows(offset):
    random = np.random.default_rng(2)
    predictions = random.standard_normal(80) + offset
    targets = 0.7 * (predictions - offset) + offset + random.standard_normal(80)
    found = calibration_of_numbers(Judged.of(targets, predictions, is_numbers=True))
    fit = OLS(targets, add_constant(predictions)).fit()
    assert (found.intercept, found.slope) == pytest.approx(tuple(fit.params))
    assert found.slope_interval == pytest.approx(tuple(fit.conf_int()[1]))
    assert found.intercept_interval == pytest.approx(tuple(fit.conf_int()[0]))


def test_where_single_answers_are_seen_no_bin_holds_few_rows():
    scores, codes = rows(size=40)
    data = fs.FederatedData.from_clients([(scores[:, None], codes)])
    asked = ScoreCounts(np.ones(1), fewest=5)
    found = answers_of(asked, data, "logistic").total("counts").reshape(-1, 2)
    together = found.sum(axis=1)
    assert together.sum() == 40
    assert together[together > 0].min() >= 5
    np.testing.assert_array_equal(found.sum(axis=0), np.bincount(codes))


@pytest.mark.parametrize("threshold", [0.11, 0.5, 0.9])
def test_bins_that_are_joined_stay_on_their_side_of_the_threshold(threshold):
    scores, codes = rows(size=40)
    data = fs.FederatedData.from_clients([(scores[:, None], codes)])
    asked = ScoreCounts(np.ones(1), threshold, fewest=8)
    found = answers_of(asked, data, "logistic").total("counts").reshape(-1, 2)
    first_above = np.searchsorted(edges_with(threshold), threshold, side="right")
    above = expit(scores) >= threshold
    np.testing.assert_array_equal(found[first_above:].sum(axis=0), np.bincount(codes[above]))


def analysed(threshold, sums="float"):
    scores, codes = rows(size=90)
    random = np.random.default_rng(1)
    Z = np.column_stack([scores, random.standard_normal((90, 4))])
    data = fs.FederatedData.from_table(Z, codes, np.repeat(["a", "b", "c"], 30))
    engine = fs.LocalEngine(data, "logistic", sums=sums)
    asked = FitSpecification(sparsity=1, stability=0, threshold=threshold)
    asking = analysing(engine, asked, list("12345"), labels=("no", "yes"))
    return fs.converse(engine, asking).evaluation


def test_an_analysis_has_curves_at_the_users_threshold():
    (found,) = analysed(0.3).curves
    assert found.threshold == 0.3
    assert found.rows == 90


def test_secure_sums_tell_the_same_counts():
    assert analysed(0.3, "fixed").curves[0].rows == 90


def test_a_threshold_says_nothing_of_numbers():
    data = fs.datasets.simulation_1(clients=3, samples=20, width=9, relevant=2)
    engine = fs.LocalEngine(data, "squared")
    with pytest.raises(OptionError, match="has numbers"):
        fs.converse(engine, analysing(engine, FitSpecification(threshold=0.2), list("123456789")))


@pytest.mark.parametrize("threshold", [-0.1, 1.5])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(OptionError, match="threshold must be a number from 0 to 1"):
        FitSpecification(threshold=threshold)


def test_a_threshold_without_rows_to_judge_on_is_refused():
    with pytest.raises(OptionError, match="leave one of them out"):
        FitSpecification(threshold=0.5, held_out="none")
