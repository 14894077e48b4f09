"""Poisson's loss beside plain numbers: rates, exposures, scores out of all proportion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import xlogy

import fedsparse as fs
from tests.builders import STORAGES, answers_of

WIDTH = 5


def half_deviance(scores, rates):
    return np.exp(scores) - rates * scores - rates + xlogy(rates, rates)


def counted(seed=0, rows=90):
    """Features with a column of ones, counts and exposures."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, WIDTH))
    Z[:, -1] = 1.0
    exposure = random.uniform(0.2, 3.0, rows)
    return Z, random.poisson(exposure * np.exp(0.8 * Z[:, 0] - 0.5 * Z[:, 1] + 0.5)), exposure


def federated(storage="dense"):
    Z, counts, exposure = counted()
    convert = sparse.csr_array if storage == "csr" else np.asarray
    sites = np.arange(len(counts)) % 3
    return fs.FederatedData.from_table(convert(Z), counts / exposure, sites, exposure)


@settings(deadline=None)
@given(st.floats(-20, 20), st.floats(0, 50))
def test_value_and_derivatives_are_those_of_half_the_deviance(score, rate):
    loss, size = fs.Poisson(), np.exp(score) + rate * (1 + abs(score))
    assert loss.value([score], [rate]) == pytest.approx(
        half_deviance(score, rate), abs=1e-14 * (1 + size)
    )
    assert loss.derivative([score], [rate])[0] == pytest.approx(np.exp(score) - rate, rel=1e-13)
    assert loss.second_derivative(np.array([score]))[0] == pytest.approx(np.exp(score))


def test_scores_out_of_all_proportion_stay_finite_and_nan_is_not_hidden():
    loss = fs.Poisson()
    assert np.isfinite(loss.value([1e4], [1.0]))
    assert loss.value([70.0], [1.0]) < loss.value([80.0], [1.0])
    assert np.isnan(loss.value([np.nan], [1.0]))
    assert np.isnan(loss.derivative([np.nan], [1.0])).all()


@pytest.mark.parametrize("storage", STORAGES)
def test_rows_weigh_by_their_exposure(storage):
    """f is the deviance of the counts over twice the exposure."""
    Z, counts, exposure = counted()
    x = np.array([0.5, -0.2, 0.0, 0.1, 0.3])
    told = answers_of(fs.Slopes(x), federated(storage), fs.Poisson(), "samples")
    expected = np.sum(exposure * half_deviance(Z @ x, counts / exposure)) / exposure.sum()
    assert told.average("objective") == pytest.approx(expected, rel=1e-12)
    slopes = Z.T @ (exposure * np.exp(Z @ x) - counts) / exposure.sum()
    np.testing.assert_allclose(told.mean("gradient"), slopes, atol=1e-12)
    bent = (Z**2).T @ (exposure * np.exp(Z @ x)) / exposure.sum()
    np.testing.assert_allclose(told.mean("diagonal"), bent, rtol=1e-12)


@pytest.mark.parametrize(
    "algorithm",
    [
        fs.DistributedIHT(3, weights="samples"),
        fs.FedIterHT(3, local_steps=5),
        fs.FedHT(3, local_steps=5, refit=True),
        fs.FedIterHT(3, local_steps=5, batch_size=8),
        fs.FedAvg(local_steps=5),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
@pytest.mark.parametrize("storage", STORAGES)
def test_steps_that_raise_f_are_taken_back(algorithm, storage):
    """1/l of rows whose curvature is 1 leads far beyond rates of 50."""
    data = federated(storage)
    sites = np.repeat(np.arange(len(data)), data.counts)
    data = fs.FederatedData.from_table(data.features, 50.0 * data.targets, sites)
    result = fs.run(algorithm, data, loss=fs.Poisson(l2=1e-3), rounds=60)
    assert not result.diverged
    assert result.objective < 0.5 * result.records[0].objective


def test_a_rate_below_zero_is_named():
    data = fs.FederatedData.from_clients({"lab-0": ([[1.0], [1.0]], [1.0, -2.0])})
    with pytest.raises(fs.DataError, match=r"lab-0, row 1 has target -2\.0, but counts"):
        fs.run(fs.FedSplice(1), data, loss="poisson")


def test_counts_that_are_all_zero_are_refused():
    data = fs.FederatedData.from_clients([([[1.0], [1.0]], [0.0, 0.0])])
    with pytest.raises(fs.DataError, match="all counts are 0"):
        fs.run(fs.FedSplice(1), data, loss="poisson")


@pytest.mark.parametrize("option", [{"clients_per_round": 2}, {"server_step": "adaptive"}])
def test_the_automatic_step_needs_all_clients_and_plain_averages(option):
    with pytest.raises(fs.OptionError, match='"auto" compares objectives of all clients'):
        fs.run(fs.FedHT(1, **option), federated(), loss="poisson")
