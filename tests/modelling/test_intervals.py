"""Intervals of metrics: known cases, what they come to with few rows, and that sums are enough."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from fedsparse.modelling import intervals
from fedsparse.modelling.metrics import Judged
from fedsparse.modelling.summary import Score


@pytest.mark.parametrize(("found", "of"), [(0, 6), (3, 10), (6, 6), (411, 600)])
def test_a_share_has_wilsons_interval(found, of):
    expected = proportion_confint(found, of, method="wilson")
    assert intervals.of_share(found, of) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("ones", "others"), [(3, 3), (30, 30), (150, 450)])
def test_an_auc_has_limits_at_which_it_is_just_not_rejected(ones, others):
    pairs, found = ones * others, 0.8
    low, high = intervals.of_auc(found * pairs, pairs, pairs * ((ones + others) / 2 - 1))
    for limit in (low, high):
        first = limit / (2 - limit) - limit**2
        second = 2 * limit**2 / (1 + limit) - limit**2
        each = ((ones + others) / 2 - 1) * (first + second)
        error = np.sqrt((limit * (1 - limit) + each) / pairs)
        assert abs(limit - found) == pytest.approx(1.959964 * error, rel=1e-5)
    assert low < found < high


def test_six_rows_in_perfect_order_are_not_taken_for_certain():
    low, high = intervals.of_auc(9.0, 9.0, 18.0)
    assert low < 0.7
    assert high == 1.0


def test_pairs_of_many_small_sites_tell_less_than_those_of_one_place():
    rows = 60
    one = intervals.of_auc(0.8 * 900, 900, 900 * (rows / 2 - 1))
    of_ten = intervals.of_auc(0.8 * 90, 90, 90 * (6 / 2 - 1))
    assert of_ten[1] - of_ten[0] > one[1] - one[0]


def test_normal_errors_have_the_interval_of_a_deviation():
    low, high = intervals.of_root_mean_square(20.0, 20, 3.0)
    expected = np.sqrt(20.0 / stats.chi2.ppf([0.975, 0.025], 20))
    assert (low, high) == pytest.approx(tuple(expected))


def test_long_tails_widen_intervals():
    normal, heavy = (intervals.of_root_mean_square(60.0, 60, kurtosis) for kurtosis in (3.0, 6.0))
    assert heavy[1] - heavy[0] > normal[1] - normal[0]
    normal, heavy = (intervals.of_share_explained(0.5, 0.7, 60, own) for own in (3.0, 6.0))
    assert heavy[1] - heavy[0] > normal[1] - normal[0]


@pytest.mark.parametrize(("family", "kurtosis"), [(stats.norm, 3.0), (stats.laplace, 6.0)])
def test_kurtosis_is_that_of_the_errors(family, kurtosis):
    drawn = family.rvs(size=200_000, random_state=1)
    found = intervals.kurtosis_of(drawn.size, np.sum(drawn**2), np.sum(drawn**4))
    assert found == pytest.approx(kurtosis, rel=0.05)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_in_which_fourth_powers_are_lost_are_taken_for_normal(unit):
    random = np.random.default_rng(0)
    targets = unit * random.standard_normal(60)
    judged = Judged.of(targets, np.zeros(60), is_numbers=True)
    low, high = judged.intervals()["RMSE"]
    assert low < judged.metrics()["RMSE"] < high


def test_nothing_is_said_of_too_few_rows():
    assert intervals.of_share(0, 0) is None
    assert intervals.of_auc(0.0, 0.0, 0.0) is None
    assert intervals.of_positive_mean(0.7, 0.49, 1) is None
    assert intervals.of_share_explained(0.5, 0.5, 2, 3.0) is None


@pytest.mark.parametrize("is_numbers", [True, False])
def test_intervals_of_sites_added_up_do_not_depend_on_the_centre(is_numbers):
    random = np.random.default_rng(3)
    targets = random.standard_normal(60) + 40.0 if is_numbers else random.integers(0, 2, 60)
    scores = targets + random.standard_normal(60)
    sites = np.repeat([0, 1, 2], 20)
    parts = [
        Judged.of(targets[sites == s], scores[sites == s], is_numbers=is_numbers) for s in (0, 1, 2)
    ]
    forwards, backwards = reduce(add, parts).intervals(), reduce(add, parts[::-1]).intervals()
    assert forwards.keys() == backwards.keys() == parts[0].metrics().keys()
    for name, around in forwards.items():
        assert around == pytest.approx(backwards[name])


def test_several_classes_are_each_compared_with_the_others():
    random = np.random.default_rng(0)
    codes, scores = random.integers(0, 3, 90), random.standard_normal((90, 3))
    scores[np.arange(90), codes] += 2.0
    judged = Judged.of(codes, scores, is_numbers=False)
    assert len(judged.compared) == 3
    assert all(in_order > 0.8 * pairs for in_order, pairs, _ in judged.compared)


class TestGuessing:
    def score(self, low, high):
        return Score(
            method="federated", site=None, rows=60, metrics={"accuracy": 0.9, "AUC": 0.6},
            intervals={"accuracy": (0.8, 0.95), "AUC": (low, high)},
            guessing={"accuracy": 0.5, "AUC": 0.5},
        )  # fmt: skip

    def test_a_model_whose_interval_reaches_a_guess_may_be_guessing(self):
        assert self.score(0.48, 0.7).is_guessing
        assert not self.score(0.51, 0.7).is_guessing

    def test_the_auc_decides_where_there_is_one(self):
        score = self.score(0.48, 0.7)
        assert score.decisive == "AUC"
        without = score.model_copy(update={"metrics": {"accuracy": 0.9, "AUC": None}})
        assert without.decisive == "accuracy"
        assert not without.is_guessing

    def test_too_few_rows_for_an_interval_show_nothing(self):
        score = self.score(0.51, 0.7)
        assert score.model_copy(update={"intervals": {}}).is_guessing
