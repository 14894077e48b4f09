"""P-values of many splits as one, against the paper's formula written down as it stands."""

import numpy as np
import pytest
from scipy import stats

from fedsparse.modelling.multi_split import SplitEstimates, combined_p_values


def as_in_the_paper(p_values, smallest=0.5):
    """min(1, (1 − log γ_min) inf over γ of min(1, q_γ({p / γ}))), γ on a fine grid."""
    shares = np.linspace(smallest, 1.0, 20_001)
    quantiles = np.quantile(p_values, shares, method="inverted_cdf") / shares
    return min(1.0, (1.0 - np.log(smallest)) * min(1.0, quantiles.min()))


def draw(splits, seed, spread=0.3):
    """Splits that chose some of three features; the last was chosen by less than half of them."""
    random = np.random.default_rng(seed)
    values = np.array([1.5, 0.0, 2.0]) + spread * random.standard_normal((splits, 3))
    errors = random.uniform(0.25, 0.4, (splits, 3))
    is_left_out = random.random((splits, 3)) < [0.1, 0.3, 0.0]
    is_left_out[splits // 2 - 1 :, 2] = True
    errors[is_left_out] = np.nan
    freedom = random.choice([20.0, np.inf], splits)
    return SplitEstimates(values, errors, freedom, (~is_left_out).sum(axis=1).clip(1))


@pytest.mark.parametrize("splits", [1, 2, 7, 50])
def test_p_values_are_combined_by_the_formula_of_meinshausen_meier_and_buhlmann(splits):
    p_values = np.random.default_rng(splits).random((splits, 9)) ** 6
    expected = [as_in_the_paper(column) for column in p_values.T]
    np.testing.assert_allclose(combined_p_values(p_values), expected, rtol=1e-3)
    assert (combined_p_values(p_values) <= np.array(expected) * (1 + 1e-9)).all()


def test_within_a_split_the_number_of_features_it_chose_multiplies():
    found = SplitEstimates(
        np.array([[3.0, 1.0]]), np.ones((1, 2)), np.array([np.inf]), np.array([2])
    )
    single = 2.0 * stats.norm.sf([3.0, 1.0])
    expected = [as_in_the_paper([min(1.0, 2 * own)]) for own in single]
    np.testing.assert_allclose(found.p_values, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_an_interval_holds_what_the_test_does_not_refuse(seed, level):
    found = draw(40, seed)
    for place in (0, 1):
        low, high = found.interval(place, level)
        for value in (*np.linspace(low, high, 9)[1:-1], low - 1e-6, high + 1e-6):
            shifted = SplitEstimates(found.values - value, found.errors, found.freedom, found.tests)
            assert (shifted.p_values[place] > 1.0 - level) == (low < value < high)


def test_a_feature_that_less_than_half_of_the_splits_chose_has_no_bounds_and_no_p_value():
    found = draw(50, 0)
    assert np.isinf(found.interval(2, 0.95)).all()
    assert found.p_values[2] == 1.0
    assert found.centres[2] == pytest.approx(np.median(found.values[:24, 2]))


def test_splits_that_contradict_each_other_bound_nothing():
    values = np.repeat([[-9.0], [9.0]], 10, axis=0)
    found = SplitEstimates(values, np.full((20, 1), 0.1), np.full(20, np.inf), np.ones(20))
    assert np.isinf(found.interval(0, 0.95)).all()


def test_a_split_that_could_not_estimate_speaks_for_nothing():
    some = draw(20, 3)
    lost = np.vstack([some.errors, np.full((20, 3), np.nan)])
    both = SplitEstimates(
        np.vstack([some.values] * 2), lost, np.tile(some.freedom, 2), np.tile(some.tests, 2)
    )
    assert both.p_values[0] > some.p_values[0]
