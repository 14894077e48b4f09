"""How sure coefficients are: what an analysis works out, and what its model tells."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.certainty import Interval
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.specification import FitSpecification


def labs(kind="numbers", rows=160):
    """Four labs; the features 2 and 5 matter, on scales of their own."""
    random = np.random.default_rng(0)
    Z = random.standard_normal((rows, 9)) * np.arange(1.0, 10.0)
    y = Z[:, 2] / 3.0 - Z[:, 5] / 6.0 + 0.7 * random.standard_normal(rows)
    targets = y if kind == "numbers" else (y > 0).astype(int)
    return fs.FederatedData.from_table(Z, targets, np.arange(rows) % 4)


def analysed(data, sums="float", classes=None, **asked):
    engine = fs.LocalEngine(data, loss_for(classes, 1.0), 1, sums)
    names = [str(place) for place in range(data.width)]
    labels = None if classes is None else tuple(map(str, range(classes)))
    given = {"sparsity": 2, "held_out": "none", "stability": 5} | asked
    return fs.converse(engine, analysing(engine, FitSpecification(**given), names, labels=labels))


class TestInterval:
    def test_a_ratio_that_overflows_has_no_bound(self):
        assert Interval.of(0.0, -1.0, 800.0).as_ratio().high is None
        assert Interval.of(800.0, 1.0, 900.0).as_ratio() is None

    def test_a_ratio_without_bound_below_says_so(self):
        assert Interval.of(0.0, -np.inf, 1.0).as_ratio().low is None


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_features_that_matter_are_told_by_intervals_that_exclude_nothing_but_0(kind):
    found = analysed(labs(kind), classes=None if kind == "numbers" else 2)
    sure = found.sure.certainty(2, 3.0, has_ratio=kind != "numbers")
    assert sure.refitted.coefficient.excludes(0.0)
    assert sure.after_choosing.coefficient.excludes(0.0)
    assert sure.after_choosing.p_value < 0.05
    assert sure.refitted.per_deviation.value == pytest.approx(3 * sure.refitted.coefficient.value)
    if kind == "numbers":
        assert sure.refitted.ratio is None
        assert sure.refitted.coefficient.low < 1 / 3 < sure.refitted.coefficient.high
    else:
        assert sure.shrunk.ratio.value < sure.refitted.ratio.value
        assert sure.refitted.ratio.value == pytest.approx(np.exp(sure.refitted.coefficient.value))


def test_what_is_valid_after_the_choice_is_wider_than_what_is_not():
    sure = analysed(labs()).sure.certainty(2, 1.0, has_ratio=False)
    before, after = sure.refitted.coefficient, sure.after_choosing.coefficient
    assert after.high - after.low > before.high - before.low


def test_the_shrunk_coefficient_is_that_of_the_model():
    found = analysed(labs("two classes"), classes=2)
    shrunk = found.sure.certainty(2, 1.0, has_ratio=False).shrunk
    assert shrunk.coefficient.value == pytest.approx(found.fitted.coefficients[2], rel=1e-12)


def test_of_numbers_all_halves_take_one_more_exchange_however_many():
    assert analysed(labs()).sure.exchanges == analysed(labs(), stability=9).sure.exchanges == 2


def test_sums_of_integers_tell_the_same():
    one, other = (
        analysed(labs("two classes"), sums, classes=2).sure for sums in ("float", "fixed")
    )
    for place in (2, 5):
        ours, theirs = (sure.certainty(place, 1.0, has_ratio=False) for sure in (one, other))
        assert ours.after_choosing.coefficient.low == pytest.approx(
            theirs.after_choosing.coefficient.low, rel=1e-6
        )


def test_without_half_samples_nothing_is_valid_after_the_choice():
    sure = analysed(labs(), stability=0).sure
    assert sure.certainty(2, 1.0, has_ratio=False).after_choosing is None
    assert sure.how_sure(None).splits == 0


@pytest.mark.parametrize("asked", [{"intervals": "no"}, {"method": "FedIterHT", "step_size": 0.01}])
def test_nothing_is_asked_for_where_that_is_not_wanted_or_the_method_does_without(asked):
    assert analysed(labs(), **asked).sure is None


def test_another_method_asks_for_second_derivatives_if_told_to():
    asked = {"method": "FedIterHT", "step_size": 0.01, "intervals": "yes"}
    assert analysed(labs(), **asked).sure.certainty(2, 1.0, has_ratio=False).refitted is not None


def test_several_classes_have_no_intervals():
    data = labs()
    classes = np.digitize(data.targets, [-0.7, 0.7])
    three = fs.FederatedData.from_table(data.features, classes, np.repeat(range(4), 40))
    assert analysed(three, classes=3).sure is None
