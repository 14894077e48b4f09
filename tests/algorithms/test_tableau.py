"""The tableau against values worked out by themselves for every support."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsparse.algorithms.tableau import COLLINEAR, Tableau


def unit_quadratic(seed, size, sides, correlation):
    """H with a unit diagonal and positive definite, and b."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((3 * size + 2, size))
    Z += np.sqrt(correlation / (1 - correlation)) * random.standard_normal((3 * size + 2, 1))
    Z /= np.linalg.norm(Z, axis=0)
    return Z.T @ Z, random.standard_normal((size, sides))


def value(hessian, linear, support):
    """−½ Σ bᵀ H_S⁻¹ b over the right-hand sides."""
    part = hessian[np.ix_(support, support)]
    return -0.5 * np.sum(linear[support] * np.linalg.solve(part, linear[support]))


def gain(hessian, linear, support, out, into):
    """How much lower the minimum is after an exchange."""
    exchanged = np.append(support[support != out], into)
    return value(hessian, linear, support) - value(hessian, linear, exchanged)


@st.composite
def tableaus(draw):
    """H, b, and a tableau that some sweeps have led to."""
    size = draw(st.integers(2, 9))
    hessian, linear = unit_quadratic(
        draw(st.integers(0, 10**6)),
        size,
        draw(st.integers(1, 3)),
        draw(st.sampled_from([0.0, 0.5, 0.95])),
    )
    places = st.integers(0, size - 1)
    start = np.array(sorted(draw(st.sets(places))), dtype=int)
    tableau = Tableau(hessian, linear, start)
    for feature in draw(st.lists(places, max_size=2 * size)):
        tableau.sweep(feature)
    return hessian, linear, tableau


def nothing(linear):
    return np.zeros(len(linear), dtype=bool)


class TestReadings:
    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(tableaus())
    def test_value(self, problem):
        hessian, linear, tableau = problem
        assert tableau.value == pytest.approx(value(hessian, linear, tableau.support), rel=1e-6)

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(tableaus())
    def test_costs_and_gains_of_single_features(self, problem):
        hessian, linear, tableau = problem
        support = tableau.support
        before = value(hessian, linear, support)
        costs, gains = tableau.removal_costs(), tableau.addition_gains()
        for feature in range(len(linear)):
            change = value(hessian, linear, np.setxor1d(support, [feature])) - before
            expected = (change, -np.inf) if feature in support else (np.inf, -change)
            assert (costs[feature], gains[feature]) == pytest.approx(expected, rel=1e-6, abs=1e-8)

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(tableaus(), st.integers(1, 5), st.data())
    def test_best_exchanges_are_those_of_all_pairs(self, problem, count, data):
        hessian, linear, tableau = problem
        size, support = len(linear), tableau.support
        fixed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        expected = sorted(
            (
                gain(hessian, linear, support, out, into)
                for out in support[~fixed[support]]
                for into in np.setdiff1d(np.arange(size), support)
            ),
            reverse=True,
        )
        expected = [number for number in expected if number > 0][:count]
        found = tableau.best_exchanges(count, fixed=fixed)
        assert [exchange.gain for exchange in found] == pytest.approx(expected, rel=1e-6, abs=1e-8)
        for exchange in found:
            assert not fixed[exchange.out]
            exact = gain(hessian, linear, support, exchange.out, exchange.into)
            assert exchange.gain == pytest.approx(exact, rel=1e-6, abs=1e-8)

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(tableaus(), st.data())
    def test_the_cheapest_of_what_may_go_is_removed(self, problem, data):
        hessian, linear, tableau = problem
        size, support = len(linear), tableau.support
        fixed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        loose = support[~fixed[support]]
        for left in range(loose.size - 1, -1, -1):
            before = tableau.support
            tableau.remove_cheapest(1, fixed=fixed)
            (gone,) = np.setdiff1d(before, tableau.support)
            assert not fixed[gone]
            lowest = min(
                value(hessian, linear, np.setdiff1d(before, [own]))
                for own in before[~fixed[before]]
            )
            reached = value(hessian, linear, tableau.support)
            assert reached == pytest.approx(lowest, rel=1e-6, abs=1e-8)
            assert np.count_nonzero(~fixed[tableau.support]) == left

    @settings(max_examples=100, derandomize=True, deadline=None)
    @given(tableaus(), st.data())
    def test_another_one_taken_over_goes_its_own_way(self, problem, data):
        hessian, linear, tableau = problem
        other = Tableau(hessian, linear, np.arange(0))
        other.become(tableau)
        support = tableau.support
        other.sweep(data.draw(st.integers(0, len(linear) - 1)))
        for own, chosen in ((tableau, support), (other, other.support)):
            assert own.support.tolist() == chosen.tolist()
            assert own.value == pytest.approx(value(hessian, linear, chosen), rel=1e-6, abs=1e-8)


class TestRounding:
    def test_many_sweeps_leave_no_errors(self):
        hessian, linear = unit_quadratic(0, 150, 2, 0.9)
        tableau = Tableau(hessian, linear, np.arange(0))
        for feature in np.random.default_rng(1).integers(0, 150, size=2000):
            tableau.sweep(int(feature))
        expected = value(hessian, linear, tableau.support)
        assert tableau.value == pytest.approx(expected, rel=1e-8)

    def test_a_singular_beginning_leaves_no_errors(self):
        """Its inverse is as large as the ridge is small, until enough features are removed."""
        random = np.random.default_rng(0)
        Z = random.standard_normal((20, 60))
        Z /= np.linalg.norm(Z, axis=0)
        hessian, linear = Z.T @ Z, Z.T @ random.standard_normal((20, 1))
        tableau = Tableau(hessian, linear, np.arange(60))
        for feature in range(50):
            tableau.sweep(feature)
        support = np.arange(50, 60)
        assert tableau.value == pytest.approx(value(hessian, linear, support), rel=1e-8)


class TestDegenerateFeatures:
    def test_a_duplicate_gains_nothing_beside_its_twin(self):
        hessian, linear = unit_quadratic(0, 4, 1, 0.5)
        twice = [0, 1, 2, 3, 0]
        hessian, linear = hessian[np.ix_(twice, twice)], linear[twice]
        tableau = Tableau(hessian, linear, np.array([0, 1]))
        assert tableau.addition_gains()[4] == -1.0
        exchanges = tableau.best_exchanges(10, fixed=nothing(linear))
        assert all((exchange.out, exchange.into) != (1, 4) for exchange in exchanges)

    def test_sweeping_a_duplicate_in_and_out_is_harmless(self):
        hessian, linear = unit_quadratic(0, 3, 1, 0.5)
        twice = [0, 1, 2, 0]
        hessian, linear = hessian[np.ix_(twice, twice)], linear[twice]
        tableau = Tableau(hessian, linear, np.array([0, 1]))
        before = tableau.value
        tableau.sweep(3)
        assert tableau.value == pytest.approx(before, rel=1e-6)
        tableau.sweep(3)
        assert tableau.value == pytest.approx(before, rel=1e-8)

    @settings(max_examples=100, derandomize=True, deadline=None)
    @given(st.integers(0, 10**6), st.floats(1e-12, 1e-4), st.lists(st.integers(0, 7), max_size=20))
    def test_pivots_of_an_indefinite_matrix_are_not_divided_by(self, seed, defect, sweeps):
        """As quantized answers may give: a singular H with a little noise."""
        random = np.random.default_rng(seed)
        Z = random.standard_normal((4, 8))
        Z /= np.linalg.norm(Z, axis=0)
        noise = defect * random.standard_normal((8, 8))
        hessian = Z.T @ Z + noise + noise.T
        np.fill_diagonal(hessian, 1.0)
        linear = Z.T @ random.standard_normal((4, 1))
        tableau = Tableau(hessian, linear, np.arange(8))
        for feature in sweeps:
            tableau.sweep(feature)
        gains, costs = tableau.addition_gains(), tableau.removal_costs()
        assert np.isfinite(gains[~tableau.inside]).all()
        assert np.isfinite(costs[tableau.inside]).all()
        assert gains[~tableau.inside].max(initial=0.0) <= 1.0 / COLLINEAR * np.sum(linear**2)
        for exchange in tableau.best_exchanges(3, fixed=nothing(linear)):
            assert np.isfinite(exchange.gain)
