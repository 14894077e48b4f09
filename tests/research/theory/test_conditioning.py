"""Estimated constants against dense eigenvalues."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.research.theory import global_conditioning, restricted_conditioning
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

TALL = {"rows": (40, 60), "width": 6, "density": 0.9}


def hessian(loss, features, x):
    """ZᵀWZ/B + λ for the two losses with one score a row."""
    if loss.name == "squared":
        weights = np.full(len(features), 2.0)
    else:
        chances = 1 / (1 + np.exp(-features @ x))
        weights = chances * (1 - chances)
    return (features.T * weights) @ features / len(features) + loss.l2 * np.eye(features.shape[1])


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ["squared", "logistic"])
class TestAgainstDenseEigenvalues:
    def test_whole_space(self, name, storage):
        clients, loss = clients_for(name, **TALL), LOSS_OBJECTS[name]
        x = np.linspace(-1, 1, 6)
        found = global_conditioning(federate(clients, storage), loss, x)
        for client, (features, _) in enumerate(clients):
            largest = np.linalg.eigvalsh(features.T @ features / len(features))[-1]
            smallest = np.linalg.eigvalsh(hessian(loss, features, x))[0]
            expected = loss.curvature * largest + loss.l2
            assert found.smoothness_of_clients[client] == pytest.approx(expected)
            assert found.convexity_of_clients[client] == pytest.approx(smallest)
        assert found.smoothness == found.smoothness_of_clients.max()
        assert found.convexity == found.convexity_of_clients.min()
        assert not found.is_sampled

    def test_restricted_estimates_lie_between_the_exact_ones_and_the_whole_space(
        self, name, storage
    ):
        clients, loss = clients_for(name, **TALL), LOSS_OBJECTS[name]
        data, x = federate(clients, storage), np.linspace(-1, 1, 6)
        found = restricted_conditioning(data, loss, 2, x)
        whole = global_conditioning(data, loss, x)
        blocks = [
            (features, list(pair)) for features, _ in clients for pair in combinations(range(6), 2)
        ]
        highest = max(
            np.linalg.eigvalsh(Z[:, S].T @ Z[:, S] / len(Z))[-1] * loss.curvature + loss.l2
            for Z, S in blocks
        )
        lowest = min(np.linalg.eigvalsh(hessian(loss, Z, x)[np.ix_(S, S)])[0] for Z, S in blocks)
        assert found.is_sampled
        assert 0.7 * highest <= found.smoothness <= highest * (1 + 1e-9)
        assert found.convexity >= lowest * (1 - 1e-9)
        assert highest <= whole.smoothness * (1 + 1e-9)
        assert lowest >= whole.convexity * (1 - 1e-9)


def test_enough_draws_find_the_exact_restricted_constants():
    clients, loss = clients_for("squared", rows=(30,), width=4, density=0.9), fs.SquaredError()
    features = clients[0][0]
    found = restricted_conditioning(federate(clients), loss, 2, np.zeros(4), draws=60)
    spectra = [
        2 * np.linalg.eigvalsh(features[:, S].T @ features[:, S] / 30)
        for S in map(list, combinations(range(4), 2))
    ]
    assert found.smoothness == pytest.approx(max(one[-1] for one in spectra))
    assert found.convexity == pytest.approx(min(one[0] for one in spectra))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_restricting_never_raises_smoothness_nor_lowers_convexity(seed, sparsity):
    data = federate(clients_for("squared", rows=(20, 12), width=8, seed=seed))
    x = np.zeros(8)
    whole = global_conditioning(data, fs.SquaredError(), x)
    part = restricted_conditioning(data, fs.SquaredError(), sparsity, x, draws=1, seed=seed)
    assert part.smoothness <= whole.smoothness * (1 + 1e-8)
    assert part.convexity >= whole.convexity * (1 - 1e-8)


class TestPlainCases:
    @pytest.mark.parametrize("storage", STORAGES)
    def test_fewer_rows_than_features_leave_only_the_l2_term(self, storage):
        clients = clients_for("squared", rows=(5, 40), width=12)
        found = global_conditioning(federate(clients, storage), fs.SquaredError(), np.zeros(12))
        assert found.convexity == 0.0
        assert found.condition_number == np.inf
        assert found.convexity_of_clients[1] > 0
        assert "1 of 2 clients have fewer than s = 12 rows" in found.notes[0]
        assert "κ is infinite and the theorem is void" in found.notes[1]

    def test_the_l2_term_saves_the_condition_number(self):
        clients = clients_for("logistic", rows=(5, 7), width=12)
        found = global_conditioning(federate(clients), fs.Logistic(l2=0.1), np.zeros(12))
        assert found.convexity == 0.1
        assert np.isfinite(found.condition_number)

    def test_softmax_has_only_the_l2_term(self):
        data = federate(clients_for("softmax", **TALL))
        for found in (
            global_conditioning(data, fs.Softmax(l2=0.2), np.zeros((6, 3))),
            restricted_conditioning(data, fs.Softmax(l2=0.2), 3, np.zeros((6, 3))),
        ):
            assert found.convexity == 0.2
            assert "softmax" in found.notes[0]

    def test_linearly_dependent_columns_have_no_convexity(self):
        features = np.random.default_rng(0).standard_normal((30, 3))
        data = fs.FederatedData.from_clients([(features[:, [0, 1, 2, 2]], np.zeros(30))])
        assert global_conditioning(data, fs.SquaredError(), np.zeros(4)).convexity == 0.0

    def test_an_empty_client_is_smooth(self):
        data = fs.FederatedData.from_clients([(np.zeros((3, 4)), np.zeros(3))])
        found = restricted_conditioning(data, fs.SquaredError(), 2, np.zeros(4))
        assert (found.smoothness, found.convexity) == (0.0, 0.0)

    def test_a_level_of_all_features_is_the_whole_space(self):
        data = federate(clients_for("squared", **TALL))
        found = restricted_conditioning(data, fs.SquaredError(), 100, np.zeros(6))
        assert found.sparsity == 6
        assert not found.is_sampled

    def test_same_seed_same_estimate(self):
        data, x = federate(clients_for("squared", **TALL)), np.zeros(6)
        first, again = (
            restricted_conditioning(data, fs.SquaredError(), 3, x, seed=4) for _ in range(2)
        )
        assert first.smoothness == again.smoothness
        assert first.convexity == again.convexity

    @pytest.mark.parametrize("option", [{"sparsity": 0}, {"sparsity": 2, "draws": 0}])
    def test_counts_are_checked(self, option):
        data = federate(clients_for("squared", **TALL))
        with pytest.raises(fs.OptionError, match="at least 1"):
            restricted_conditioning(data, fs.SquaredError(), x=np.zeros(6), **option)
