"""The scaling study on designs small enough for a test."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.research.theory.scaling_study import (
    EXPECTED,
    FACTORS,
    LONG_SHARE,
    TRUE_SPARSITY,
    Design,
    measure_scaling,
    scaling_slopes,
)


def error_of(design, seed):
    return design.error(*design.draw(seed))


class TestDesign:
    def test_linear_targets_follow_the_truth_up_to_noise(self):
        data, truth = Design("linear", clients=3, samples=400, width=20).draw(seed=1)
        assert len(data) == 3
        assert np.count_nonzero(truth) == TRUE_SPARSITY
        assert np.std(data.targets - data.features @ truth) == pytest.approx(1.0, rel=0.1)

    def test_logistic_labels_follow_the_odds(self):
        data, truth = Design("logistic", clients=2, samples=2000, width=10).draw(seed=1)
        assert set(np.unique(data.targets)) == {0.0, 1.0}
        near_one = np.abs(data.features @ truth - 1.0) < 0.3
        assert data.targets[near_one].mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.06)

    @pytest.mark.parametrize("model", ["linear", "logistic"])
    def test_more_rows_give_a_smaller_error(self, model):
        few, many = (
            np.mean([error_of(Design(model, 4, samples, 40), seed) for seed in range(3)])
            for samples in (60, 600)
        )
        assert many < few / 4

    def test_same_seed_same_error(self):
        design = Design("linear", 2, 60, 20)
        assert error_of(design, 3) == error_of(design, 3)
        assert error_of(design, 3) != error_of(design, 4)

    def test_noise_is_the_standard_deviation_of_the_targets(self):
        data, truth = Design("linear", 2, 1000, 20, noise=3.0).draw(seed=1)
        assert np.std(data.targets - data.features @ truth) == pytest.approx(3.0, rel=0.05)

    def test_stretched_rows_are_a_tenth_and_leave_the_covariance(self):
        data, _ = Design("linear", 2, 20_000, 50, stretch=8.0).draw(seed=1)
        squares = (data.features**2).mean(axis=1)
        assert (squares > 3).mean() == pytest.approx(0.1, abs=0.01)
        assert squares[squares > 3].mean() == pytest.approx(8.0, rel=0.02)
        assert squares.mean() == pytest.approx(1.0, rel=0.02)

    @pytest.mark.parametrize("model", ["linear", "logistic"])
    def test_ordered_rows_are_the_same_rows_in_other_hands(self, model):
        anyhow, ordered = (
            Design(model, 4, 100, 20, ordered=share).draw(seed=1)[0] for share in (0.0, 1.0)
        )
        assert ordered.counts.tolist() == anyhow.counts.tolist() == [100] * 4
        assert np.array_equal(np.sort(ordered.features, axis=0), np.sort(anyhow.features, axis=0))
        assert np.array_equal(np.sort(ordered.targets), np.sort(anyhow.targets))
        assert not np.array_equal(ordered.features, anyhow.features)

    def test_ordered_rows_make_clients_pull_in_one_direction_each(self):
        data, truth = Design("linear", 4, 200, 20, ordered=1.0).draw(seed=1)
        pulls = [
            np.mean((part.features @ truth - part.targets) * (part.features @ truth))
            for part in map(data.client, range(4))
        ]
        assert pulls == sorted(pulls)
        assert pulls[0] < -0.5 < 0.5 < pulls[-1]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"model": "poisson"}, "unknown model 'poisson'"),
            ({"clients": 0}, "clients must be"),
            ({"width": 4}, "width must be at least 5"),
            ({"noise": -1.0}, "noise must be"),
            ({"stretch": 10.0}, "stretch must be a number from 1 to below 10"),
            ({"stretch": 0.5}, "stretch must be a number from 1"),
            ({"ordered": 1.5}, "ordered must be a share from 0 to 1"),
        ],
    )
    def test_impossible_designs_are_refused(self, change, message):
        usual = {"model": "linear", "clients": 2, "samples": 10, "width": 20}
        with pytest.raises(fs.OptionError, match=message):
            Design(**{**usual, **change})


class TestFactors:
    """What a sweep varies, worked out again with plain NumPy."""

    def factor(self, sweep, **changes):
        design = Design(**{"model": "linear", "clients": 3, "samples": 40, "width": 20, **changes})
        data, truth = design.draw(seed=2)
        return FACTORS[sweep](design, data, truth), data, truth

    @pytest.mark.parametrize(
        ("sweep", "changes", "expected"),
        [
            ("rows", {}, 120),
            ("width", {}, np.log(20)),
            ("width, one client", {"clients": 1}, np.log(20)),
            ("clients", {}, 3),
            ("noise", {"noise": 0.5}, 0.25),
            ("spread", {"stretch": 4.0}, (3 * 2) ** 2),
        ],
    )
    def test_known_from_the_design(self, sweep, changes, expected):
        assert self.factor(sweep, **changes)[0] == pytest.approx(expected)

    def test_row_length_is_that_of_the_longest(self):
        found, data, _ = self.factor("row length")
        assert found == pytest.approx(max(row @ row for row in data.features))

    @pytest.mark.parametrize("model", ["linear", "logistic"])
    def test_dissimilarity_compares_gradients_at_the_truth(self, model):
        found, data, truth = self.factor("dissimilarity", model=model, ordered=0.5)
        gradients = []
        for part in map(data.client, range(3)):
            scores = part.features @ truth
            means = scores if model == "linear" else 1 / (1 + np.exp(-scores))
            gradients.append(part.features.T @ (means - part.targets) / 40)
        local = np.mean([gradient @ gradient for gradient in gradients])
        overall = np.mean(gradients, axis=0)
        assert found == pytest.approx(local / (overall @ overall))

    def test_the_bound_on_a_mixtures_moments_is_that_of_its_long_rows(self):
        """β² = m: log E e^{tz} ≤ m t²/2 for every t, and nothing less will do."""
        t = np.linspace(0.1, 30, 300)
        stretch, others = 4.0, (1 - LONG_SHARE * 4.0) / (1 - LONG_SHARE)
        logarithm = np.logaddexp(
            np.log(LONG_SHARE) + stretch * t**2 / 2, np.log(1 - LONG_SHARE) + others * t**2 / 2
        )
        needed = 2 * logarithm / t**2
        assert (needed <= stretch).all()
        assert needed[-1] > 0.99 * stretch


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_must_be_a_whole_number(seed):
    with pytest.raises(fs.OptionError, match="seed must be"):
        measure_scaling(seed=seed, quick=True)


class TestSlopes:
    @pytest.mark.parametrize(("sweep", "expected"), EXPECTED.items())
    def test_an_exact_law_is_found_exactly(self, sweep, expected):
        factor = np.array([10.0, 40.0, 200.0, 900.0])
        table = pl.DataFrame(
            {"model": "linear", "sweep": sweep, "factor": factor, "error": 3.0 * factor**expected}
        )
        row = scaling_slopes(table).row(0, named=True)
        assert row["slope"] == row["low"] == row["high"] == row["expected"] == expected

    def test_the_interval_covers_the_truth_of_a_noisy_law(self):
        random = np.random.default_rng(0)
        rows = np.repeat([100.0, 300.0, 900.0, 2700.0], 10)
        errors = 5.0 / rows * np.exp(0.3 * random.standard_normal(rows.size))
        table = pl.DataFrame({"model": "linear", "sweep": "rows", "factor": rows, "error": errors})
        row = scaling_slopes(table).row(0, named=True)
        assert row["low"] < -1.0 < row["high"]
        assert row["high"] - row["low"] < 0.4


@pytest.fixture(scope="module")
def measurements():
    return measure_scaling(quick=True)


@pytest.mark.slow
class TestQuickStudy:
    def test_every_sweep_is_measured_for_the_models_whose_bound_has_it(self, measurements):
        pairs = set(measurements.select("model", "sweep").iter_rows())
        of_one = {("linear", "noise"), ("linear", "spread"), ("logistic", "row length")}
        of_both = set(EXPECTED) - {sweep for _, sweep in of_one}
        assert pairs == of_one | {(m, sweep) for m in ("linear", "logistic") for sweep in of_both}
        assert measurements["error"].is_finite().all()

    def test_every_sweep_varies_its_factor(self, measurements):
        ranges = measurements.group_by("model", "sweep").agg(
            ratio=pl.col("factor").max() / pl.col("factor").min()
        )
        assert (ranges["ratio"] > 1.9).all()

    def test_errors_grow_as_the_noise_squared(self, measurements):
        slopes = scaling_slopes(measurements).filter(pl.col("sweep") == "noise")
        assert slopes["slope"].is_between(0.7, 1.3).all()

    def test_errors_fall_about_as_one_over_the_rows(self, measurements):
        slopes = scaling_slopes(measurements).filter(pl.col("sweep") == "rows")
        assert slopes["slope"].is_between(-1.5, -0.7).all()

    def test_errors_do_not_grow_with_the_clients_as_the_bound_does(self, measurements):
        slopes = scaling_slopes(measurements).filter(pl.col("sweep") == "clients")
        assert (slopes["high"] < 1.0).all()
