"""The best subset of a quadratic: what is guaranteed, and how often the optimum is found."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsparse.algorithms.subset import Quadratic, best_subset

LARGEST = 10


def quadratic(seed, size, *, rows=30, correlation=0.6):
    """Least squares on correlated features, of which some matter."""
    random = np.random.default_rng(seed)
    shared = random.standard_normal((rows, 1))
    Z = np.sqrt(1 - correlation) * random.standard_normal((rows, size))
    Z += np.sqrt(correlation) * shared
    truth = random.standard_normal(size) * (random.random(size) < 0.5)
    y = Z @ truth + 0.5 * random.standard_normal(rows)
    return least_squares(Z, y)


def least_squares(Z, y):
    """‖y − Zu‖²/(2 rows), but for a constant."""
    return Quadratic(Z.T @ Z / len(y), Z.T @ y / len(y))


def value(model, support):
    """The lowest value on a support, by least squares: it needs no inverse."""
    part = model.hessian[np.ix_(support, support)]
    solution = np.linalg.lstsq(part, model.linear[support], rcond=1e-9)[0]
    return 0.5 * solution @ part @ solution - model.linear[support] @ solution


def lowest(model, sparsity, keep=()):
    """The lowest value of all sets of τ features."""
    rest = [feature for feature in range(model.size) if feature not in keep]
    return min(
        value(model, np.array([*keep, *chosen], dtype=int))
        for chosen in combinations(rest, sparsity - len(keep))
    )


@st.composite
def problems(draw):
    """A model, τ, features to keep and a support to start from."""
    size = draw(st.integers(1, LARGEST))
    model = quadratic(
        draw(st.integers(0, 10**6)),
        size,
        rows=draw(st.integers(1, 40)),
        correlation=draw(st.sampled_from([0.0, 0.6, 0.99])),
    )
    sparsity = draw(st.integers(1, size))
    kept = draw(st.sets(st.integers(0, size - 1), max_size=sparsity))
    others = draw(st.sets(st.integers(0, size - 1), max_size=sparsity))
    start = sorted(kept | set(sorted(others - kept)[: sparsity - len(kept)]))
    return model, sparsity, np.array(sorted(kept), dtype=int), np.array(start, dtype=int)


class TestGuarantees:
    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(problems())
    def test_at_most_tau_features_in_increasing_order_with_those_to_keep(self, problem):
        model, sparsity, keep, start = problem
        chosen = best_subset(model, sparsity, keep=keep, start=start)
        assert chosen.size <= sparsity
        assert (np.diff(chosen) > 0).all()
        assert np.isin(keep, chosen).all()

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(problems())
    def test_never_worse_than_the_start(self, problem):
        model, sparsity, keep, start = problem
        chosen = best_subset(model, sparsity, keep=keep, start=start)
        # The 1e-10 of ridge that makes inverses safe shifts values by about as much.
        assert value(model, chosen) <= value(model, start) + 1e-8 * abs(value(model, start))

    @settings(max_examples=100, derandomize=True, deadline=None)
    @given(problems())
    def test_no_single_exchange_would_help(self, problem):
        model, sparsity, keep, _ = problem
        chosen = best_subset(model, sparsity, keep=keep)
        reached = value(model, chosen)
        for out in np.setdiff1d(chosen, keep):
            for into in np.setdiff1d(np.arange(model.size), chosen):
                other = np.sort(np.append(chosen[chosen != out], into))
                assert value(model, other) >= reached - 1e-6 * abs(reached)

    def test_all_features_are_taken_when_tau_allows(self):
        assert best_subset(quadratic(0, 5), 5).tolist() == [0, 1, 2, 3, 4]
        assert best_subset(quadratic(0, 5), 9).tolist() == [0, 1, 2, 3, 4]


class TestOptimum:
    @pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95])
    def test_is_found_in_at_least_nine_of_ten_problems(self, correlation):
        random = np.random.default_rng(1)
        found, problems = 0, 70
        for seed in range(problems):
            size = int(random.integers(2, LARGEST + 1))
            sparsity = int(random.integers(1, size))
            model = quadratic(seed, size, correlation=correlation)
            best = lowest(model, sparsity)
            found += value(model, best_subset(model, sparsity)) <= best + 1e-7 * abs(best)
        assert found >= 0.9 * problems

    def test_among_sets_with_the_features_to_keep(self):
        model = quadratic(3, 8)
        keep = np.array([0, 6])
        chosen = best_subset(model, 4, keep=keep)
        assert value(model, chosen) == pytest.approx(lowest(model, 4, keep=(0, 6)))

    def test_is_found_where_features_do_not_interact(self):
        model = Quadratic(np.diag([4.0, 1.0, 2.0, 1.0]), np.array([2.0, 3.0, 0.5, -4.0]))
        assert best_subset(model, 2).tolist() == [1, 3]


class TestDegenerateFeatures:
    def test_of_two_equal_features_one_is_enough(self):
        random = np.random.default_rng(0)
        Z = random.standard_normal((40, 4))
        model = least_squares(np.hstack([Z, Z]), Z @ [3.0, -2.0, 1.0, 0.0])
        chosen = best_subset(model, 3)
        assert sorted(chosen % 4) == [0, 1, 2]

    def test_features_without_curvature_are_never_chosen(self):
        random = np.random.default_rng(0)
        Z = random.standard_normal((40, 6))
        Z[:, [1, 4]] = 0.0
        model = least_squares(Z, Z.sum(axis=1))
        assert best_subset(model, 5).tolist() == [0, 2, 3, 5]
        assert best_subset(least_squares(0 * Z, Z[:, 0]), 3).tolist() == []

    def test_a_combination_of_features_replaces_them(self):
        """The last feature is the sum of the first three, and it is what matters."""
        random = np.random.default_rng(0)
        Z = random.standard_normal((40, 5))
        Z = np.hstack([Z, Z[:, :3].sum(axis=1, keepdims=True)])
        model = least_squares(Z, 2.0 * Z[:, 5] + 0.01 * random.standard_normal(40))
        assert best_subset(model, 1).tolist() == [5]

    @pytest.mark.parametrize("rows", [1, 2, 4])
    def test_fewer_rows_than_features_to_choose(self, rows):
        model = quadratic(0, 9, rows=rows)
        chosen = best_subset(model, 6)
        assert chosen.size == 6
        assert np.isfinite(model.minimizer(chosen)).all()
        assert value(model, chosen) == pytest.approx(lowest(model, 6), rel=1e-6)

    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(st.integers(0, 10**6), st.data())
    def test_units_of_features_do_not_matter(self, seed, data):
        model = quadratic(seed, 8)
        exponents = data.draw(st.lists(st.sampled_from([-6, 0, 6]), min_size=8, max_size=8))
        units = 10.0 ** np.array(exponents)
        rescaled = Quadratic(model.hessian * np.outer(units, units), model.linear * units)
        chosen = best_subset(model, 3)
        assert best_subset(rescaled, 3).tolist() == chosen.tolist()
        np.testing.assert_allclose(
            rescaled.minimizer(chosen) * units[chosen], model.minimizer(chosen), rtol=1e-6
        )


class TestMinimizer:
    @pytest.mark.parametrize("support", [[2], [0, 3], [0, 1, 2, 3, 4]])
    def test_solves_the_equations_on_the_support(self, support):
        model = quadratic(1, 5)
        part = model.hessian[np.ix_(support, support)]
        expected = np.linalg.solve(part, model.linear[support])
        np.testing.assert_allclose(model.minimizer(np.array(support)), expected, rtol=1e-7)
        assert model.minimum(np.array(support)) == pytest.approx(value(model, np.array(support)))

    def test_is_empty_on_no_features(self):
        assert quadratic(1, 5).minimizer(np.array([], dtype=int)).shape == (0,)
        assert quadratic(1, 5).minimum(np.array([], dtype=int)) == 0.0
