"""Simulations I and II against their description: moments, labels, seeds, clients."""

import hashlib

import numpy as np
import pytest

from fedsparse.errors import OptionError
from fedsparse.research.data.simulations import simulation_1, simulation_2


def features_of(data):
    return data.features.reshape(len(data), -1, data.width)


def test_default_has_the_size_of_the_paper():
    data = simulation_1()
    assert len(data) == 100
    assert data.width == 1000
    assert set(data.counts) == {100}
    assert data.targets.dtype == np.float64


class TestFeatures:
    def test_variance_within_a_client_falls_as_j_to_the_minus_1_2(self):
        data = simulation_1(clients=20, samples=500, width=50, relevant=10)
        within = features_of(data).var(axis=1, ddof=1).mean(axis=0)
        expected = np.arange(1, 51) ** -1.2
        # 20 × 499 degrees of freedom: the relative standard error is √(2/9980) = 0.014.
        np.testing.assert_allclose(within, expected, rtol=0.07)

    def test_coordinates_within_a_client_are_uncorrelated(self):
        data = simulation_1(clients=1, samples=20_000, width=4, relevant=1)
        correlation = np.corrcoef(data.features.T)
        np.testing.assert_allclose(correlation, np.eye(4), atol=0.035)  # 5 / √20,000

    def test_centres_spread_with_variance_one_around_a_mean_of_the_client(self):
        # With one row per client and width → ∞ the j^(−1.2) noise is negligible in late columns.
        late = features_of(simulation_1(clients=400, samples=1, width=2000))[:, 0, 1000:]
        np.testing.assert_allclose(late.var(axis=1, ddof=1).mean(), 1.0, atol=0.02)
        client_means = late.mean(axis=1)  # B_i plus noise of variance 1/1000
        assert abs(client_means.mean()) < 5 * np.sqrt(0.1 / 400)
        np.testing.assert_allclose(client_means.var(ddof=1), 0.1 + 0.001, rtol=0.35)

    def test_beta_is_the_variance_of_the_client_means(self):
        late = features_of(simulation_1(clients=400, samples=1, width=2000, beta=4.0))[:, 0, 1000:]
        np.testing.assert_allclose(late.mean(axis=1).var(ddof=1), 4.0, rtol=0.35)


class TestTargets:
    def test_relevant_coefficients_and_noise_explain_the_targets(self):
        # Enough rows per client to read off x_i and the variance of b by least squares.
        data = simulation_1(clients=200, samples=400, width=30, relevant=20)
        targets = data.targets.reshape(200, 400, 1)
        design = np.concatenate([features_of(data), np.ones((200, 400, 1))], axis=2)
        transposed = design.transpose(0, 2, 1)
        solution = np.linalg.solve(transposed @ design, transposed @ targets)
        noise = np.square(targets - design @ solution).sum(axis=1) / (400 - 31)
        np.testing.assert_allclose(noise.mean(), 1.0, atol=0.03)
        relevant, irrelevant = solution[:, :20, 0], solution[:, 20:30, 0]
        # A coefficient is estimated with variance j^1.2 / 400, up to 0.15 at j = 30.
        assert np.abs(irrelevant).max() < 6 * np.sqrt(30**1.2 / 400)
        np.testing.assert_allclose(relevant.var(axis=1, ddof=1).mean(), 1.05, atol=0.1)
        # Mean of a client's coefficients: u_i, of variance 0.1, plus noise of variance 1/20.
        means = relevant.mean(axis=1)
        assert abs(means.mean() - 0.1) < 5 * np.sqrt(0.15 / 200)
        np.testing.assert_allclose(means.var(ddof=1), 0.15, rtol=0.35)

    def test_coefficients_and_offset_share_the_mean_u(self):
        # α so large that u_i dominates: a client's offset and coefficients agree on it.
        data = simulation_1(clients=30, samples=400, width=1, relevant=1, alpha=1e6)
        for index in range(len(data)):
            own = data.client(index)
            slope, intercept = np.polyfit(own.features[:, 0], own.targets, 1)
            assert abs(slope - intercept) < 10.0

    def test_alpha_zero_gives_every_client_the_same_mean(self):
        data = simulation_1(clients=500, samples=200, width=1, relevant=1, alpha=0.0)
        slopes = [
            np.polyfit(data.client(i).features[:, 0], data.client(i).targets, 1)[0]
            for i in range(len(data))
        ]
        assert abs(np.mean(slopes) - 0.1) < 5 / np.sqrt(500)
        np.testing.assert_allclose(np.var(slopes), 1.0, rtol=0.35)


class TestSeed:
    def small(self, **options):
        return simulation_1(**{"samples": 4, "width": 10, "relevant": 3, "clients": 3, **options})

    def test_same_seed_same_data(self):
        first, second = self.small(seed=7), self.small(seed=7)
        np.testing.assert_array_equal(first.features, second.features)
        np.testing.assert_array_equal(first.targets, second.targets)

    def test_other_seed_other_data(self):
        assert not np.isin(self.small(seed=8).features, self.small(seed=7).features).any()

    def test_clients_do_not_depend_on_how_many_there_are(self):
        few, many = self.small(clients=2), self.small(clients=9)
        np.testing.assert_array_equal(few.features, many.features[:8])
        np.testing.assert_array_equal(few.targets, many.targets[:8])

    def test_the_data_of_a_seed_are_the_same_on_every_machine(self):
        for simulation, expected in (
            (simulation_1, "5c9059a4c7e3976d"),
            (simulation_2, "b971240f03e1eb8c"),
        ):
            data = simulation(clients=3, samples=120, seed=5)
            content = data.features.tobytes() + data.targets.tobytes()
            assert hashlib.sha256(content).hexdigest()[:16] == expected


class TestLabels:
    def test_default_has_the_size_of_the_paper(self):
        defaults = simulation_2.__kwdefaults__
        assert (defaults["clients"], defaults["samples"], defaults["width"]) == (100, 1000, 1000)
        assert (defaults["alpha"], defaults["beta"], defaults["positives"]) == (1.0, 1.0, 100)

    def test_every_client_has_the_same_rate_of_ones(self):
        data = simulation_2(clients=7, samples=200, width=30, relevant=10, positives=20)
        assert set(data.targets) == {0.0, 1.0}
        assert [data.client(i).targets.sum() for i in range(7)] == [20.0] * 7

    def test_the_highest_scores_of_each_client_are_labelled_one(self):
        options = {"clients": 4, "samples": 300, "width": 30, "relevant": 10, "seed": 3}
        labels = simulation_2(**options, positives=30).targets
        # Same seed and same α, β: Simulation I holds the scores themselves.
        scores = simulation_1(**options, alpha=1.0, beta=1.0).targets
        for own_labels, own_scores in zip(
            labels.reshape(4, 300), scores.reshape(4, 300), strict=True
        ):
            assert own_scores[own_labels == 1].min() > own_scores[own_labels == 0].max()

    def test_features_are_those_of_simulation_1(self):
        options = {"clients": 2, "samples": 40, "width": 30, "relevant": 10}
        np.testing.assert_array_equal(
            simulation_2(**options, positives=5).features,
            simulation_1(**options, alpha=1.0, beta=1.0).features,
        )

    def test_ones_everywhere_are_refused(self):
        with pytest.raises(OptionError, match="positives is 50, but a client has only 50 rows"):
            simulation_2(samples=50, positives=50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "clients must be a whole number of at least 1"),
        ({"samples": 0}, "samples must be a whole number of at least 1"),
        ({"width": 5, "relevant": 6}, "relevant is 6, but there are only 5 features"),
        ({"alpha": -1.0}, "alpha must be a number ≥ 0"),
        ({"beta": float("nan")}, "beta must be a number ≥ 0"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(OptionError, match=message):
        simulation_1(**options)
