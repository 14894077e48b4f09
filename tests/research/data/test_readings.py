"""Other readings of the simulations: the benchmark's generator beside the package's own."""

import numpy as np
import pytest

import fedsparse as fs
from benchmarks.readings import Generator, rounds_until, same_data
from fedsparse.research.experiments.experiment_settings import parse_settings
from tests.research.experiments.tiny import TINY

SIZES = {"clients": 4, "samples": 50, "width": 30, "relevant": 5}


def test_the_defaults_draw_simulation_1():
    ours = fs.datasets.simulation_1(**SIZES, seed=3)
    assert same_data(Generator().draw(3, **SIZES), ours)
    assert not same_data(Generator().draw(4, **SIZES), ours)


@pytest.mark.parametrize(
    "other",
    [
        {"spread": "deviation"},
        {"decay": "deviation"},
        {"centre": "constant"},
        {"centre": "zero"},
        {"centre": "shared"},
        {"unit_rows": True},
    ],
)
def test_every_other_reading_draws_other_rows(other):
    assert not same_data(Generator(**other).draw(3, **SIZES), Generator().draw(3, **SIZES))


def test_deviations_make_the_last_features_narrower():
    wide, narrow = (
        Generator(decay=decay).draw(0, **SIZES).client(0).features.std(axis=0)
        for decay in ("variance", "deviation")
    )
    j = np.arange(1, 31)
    assert wide == pytest.approx(narrow * j**0.6, rel=1e-9)


def test_centres_are_what_they_are_called():
    def means(centre):
        data = Generator(centre=centre).draw(0, **{**SIZES, "samples": 4000})
        return np.array([data.client(place).features.mean(axis=0) for place in range(4)])

    assert np.abs(means("zero")).max() < 0.1
    assert np.ptp(means("shared"), axis=0).max() < 0.1
    assert np.ptp(means("shared"), axis=1).max() > 1.0
    assert np.ptp(means("constant"), axis=1).max() < 0.1
    assert np.ptp(means("constant"), axis=0).max() > 0.1


def test_unit_rows_have_length_1():
    features = Generator(unit_rows=True).draw(0, **SIZES).features
    assert np.linalg.norm(features, axis=1) == pytest.approx(np.ones(200))


def test_rounds_are_counted_to_the_first_at_the_goal():
    settings = parse_settings(TINY, "tiny.toml")
    data = fs.datasets.simulation_1(**settings.data.options, seed=0)
    method = fs.FedHT(settings.sparsity, local_steps=2, step_size=0.001)
    objectives = [record.objective for record in fs.run(method, data, rounds=6).records]
    assert rounds_until(objectives[4], method, data, settings, 0) == 4
    assert rounds_until(0.0, method, data, settings, 0) == np.inf
