"""The best subset of a quadratic: what is guaranteed, and how often the optimum is found."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsparse.algorithms.subset import (
    Quadratic,
    after_exchanges,
    best_subset,
    ranked_exchanges,
)

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
    return np.sum(solution * (0.5 * part @ solution - model.linear[support]))


def lowest(model, sparsity, keep=()):
    """The lowest value of all sets of τ features."""
    rest = [feature for feature in range(model.size) if feature not in keep]
    return min(
        value(model, np.array([*keep, *chosen], dtype=int))
        for chosen in combinations(rest, sparsity - len(keep))
    )


def neighbours(model, support, keep=()):
    """All supports one exchange away."""
    return [
        np.sort(np.append(support[support != out], into))
        for out in np.setdiff1d(support, keep)
        for into in np.setdiff1d(np.arange(model.size), support)
    ]


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


class TestExchanges:
    @settings(max_examples=100, derandomize=True, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 7), st.booleans(), st.data())
    def test_the_first_is_the_best_of_all(self, seed, sparsity, with_kept, data):
        model = quadratic(seed, 8, rows=40)
        start = np.array(sorted(data.draw(st.permutations(range(8)))[:sparsity]))
        keep = start[:1] if with_kept else start[:0]
        before = value(model, start)
        best = min([before] + [value(model, other) for other in neighbours(model, start, keep)])
        assert value(model, after_exchanges(model, start, 1, keep=keep)) == pytest.approx(best)
        ranked = ranked_exchanges(model, start, 3, keep=keep)
        reached = [value(model, other) for other in ranked]
        assert reached == sorted(reached)
        assert min([before, *reached]) == pytest.approx(best)

    def test_none_are_made_where_none_are_allowed(self):
        start = np.array([0, 2])
        assert after_exchanges(quadratic(0, 6), start, 0).tolist() == [0, 2]
        assert after_exchanges(quadratic(0, 6), start, 9, keep=start).tolist() == [0, 2]
        assert ranked_exchanges(quadratic(0, 6), start, 9, keep=start) == []


class TestSeveralRightHandSides:
    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
    def test_share_a_support_that_no_exchange_improves(self, seed, sparsity, sides):
        model = classes(seed, 7, sides)
        chosen = best_subset(model, sparsity)
        reached = value(model, chosen)
        assert model.minimum(chosen) == pytest.approx(reached)
        assert model.minimizer(chosen).shape == (sparsity, sides)
        for other in neighbours(model, chosen):
            assert value(model, other) >= reached - 1e-6 * abs(reached)

    def test_the_optimum_is_found_in_at_least_nine_of_ten_problems(self):
        models = [classes(seed, 8, 3) for seed in range(40)]
        found = sum(
            value(model, best_subset(model, 3)) <= lowest(model, 3) * (1 - 1e-7) for model in models
        )
        assert found >= 36

    def test_one_column_is_the_same_as_none(self):
        model = quadratic(5, 9)
        column = Quadratic(model.hessian, model.linear[:, None])
        chosen = best_subset(model, 4)
        assert best_subset(column, 4).tolist() == chosen.tolist()
        np.testing.assert_allclose(column.minimizer(chosen)[:, 0], model.minimizer(chosen))
        assert column.minimizer(np.array([], dtype=int)).shape == (0, 1)


def classes(seed, size, sides):
    """Several least-squares problems with the same correlated features."""
    model = quadratic(seed, size, rows=40)
    random = np.random.default_rng(seed + 1)
    return Quadratic(model.hessian, model.hessian @ random.standard_normal((size, sides)))


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

    def test_features_to_keep_stay_even_without_curvature(self):
        model = quadratic(0, 6)
        model.hessian[2], model.hessian[:, 2], model.linear[2] = 0.0, 0.0, 0.0
        keep = np.array([2, 5])
        chosen = best_subset(model, 4, keep=keep)
        assert chosen.size == 4
        assert np.isin(keep, chosen).all()
        assert np.isin(keep, after_exchanges(model, chosen, 3, keep=keep)).all()

    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([1e-12, 1e-9, 1e-6]), st.integers(1, 7))
    def test_a_slightly_indefinite_model_gives_a_sound_support(self, seed, defect, sparsity):
        """As quantized answers may: fewer rows than features, and a little noise."""
        sound = quadratic(seed, 8, rows=5)
        noise = defect * np.random.default_rng(seed).standard_normal((8, 8))
        model = Quadratic(sound.hessian + noise + noise.T, sound.linear)
        chosen = best_subset(model, sparsity)
        assert chosen.size == sparsity
        assert np.isfinite(model.minimizer(chosen)).all()

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
