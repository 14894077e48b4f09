"""The scaling study on designs small enough for a test."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.research.theory.scaling_study import (
    EXPECTED,
    SPARSITY,
    TRUE_SPARSITY,
    Design,
    measure_scaling,
    scaling_slopes,
)


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
            np.mean([Design(model, 4, samples, 40).error(seed) for seed in range(3)])
            for samples in (60, 600)
        )
        assert many < few / 4

    def test_same_seed_same_error(self):
        design = Design("linear", 2, 60, 20)
        assert design.error(3) == design.error(3)
        assert design.error(3) != design.error(4)

    def test_shape_of_the_bound_by_hand(self):
        expected = (2 * 3 * SPARSITY + TRUE_SPARSITY) * np.log(50) / 300
        assert Design("linear", 3, 100, 50).bound_shape == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"model": "poisson"}, "unknown model 'poisson'"),
            ({"clients": 0}, "clients must be"),
            ({"width": 4}, "width must be at least 5"),
        ],
    )
    def test_impossible_designs_are_refused(self, change, message):
        usual = {"model": "linear", "clients": 2, "samples": 10, "width": 20}
        with pytest.raises(fs.OptionError, match=message):
            Design(**{**usual, **change})


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_must_be_a_whole_number(seed):
    with pytest.raises(fs.OptionError, match="seed must be"):
        measure_scaling(seed=seed, quick=True)


class TestSlopes:
    @pytest.mark.parametrize(("sweep", "expected"), EXPECTED.items())
    def test_an_exact_law_is_found_exactly(self, sweep, expected):
        column = sweep.split(",")[0]
        values = np.array([10.0, 40.0, 200.0, 900.0])
        factor = np.log(values) if column == "width" else values
        table = pl.DataFrame(
            {"model": "linear", "sweep": sweep, column: values, "error": 3.0 * factor**expected}
        )
        row = scaling_slopes(table).row(0, named=True)
        assert row["slope"] == row["low"] == row["high"] == row["expected"] == expected

    def test_the_interval_covers_the_truth_of_a_noisy_law(self):
        random = np.random.default_rng(0)
        rows = np.repeat([100.0, 300.0, 900.0, 2700.0], 10)
        errors = 5.0 / rows * np.exp(0.3 * random.standard_normal(rows.size))
        table = pl.DataFrame({"model": "linear", "sweep": "rows", "rows": rows, "error": errors})
        row = scaling_slopes(table).row(0, named=True)
        assert row["low"] < -1.0 < row["high"]
        assert row["high"] - row["low"] < 0.4


@pytest.fixture(scope="module")
def measurements():
    return measure_scaling(quick=True)


@pytest.mark.slow
class TestQuickStudy:
    def test_every_sweep_is_measured_for_both_models(self, measurements):
        pairs = set(measurements.select("model", "sweep").iter_rows())
        assert pairs == {(model, sweep) for model in ("linear", "logistic") for sweep in EXPECTED}
        assert measurements["error"].is_finite().all()
        assert (measurements["rows"] == measurements["clients"] * measurements["samples"]).all()

    def test_errors_fall_about_as_one_over_the_rows(self, measurements):
        slopes = scaling_slopes(measurements).filter(pl.col("sweep") == "rows")
        assert slopes["slope"].is_between(-1.5, -0.7).all()

    def test_errors_do_not_grow_with_the_clients_as_the_bound_does(self, measurements):
        slopes = scaling_slopes(measurements).filter(pl.col("sweep") == "clients")
        assert (slopes["high"] < 1.0).all()
