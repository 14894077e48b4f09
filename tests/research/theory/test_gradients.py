"""Clients' gradients, their disagreement and their variance against plain formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.research.theory import ClientGradients, client_gradients, gradient_variances
from tests.builders import CLASSES, LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate

WIDTH = 24


def point(loss):
    shape = (WIDTH, CLASSES) if loss == "softmax" else (WIDTH,)
    return np.random.default_rng(1).standard_normal(shape)


def row_gradients(loss, features, targets, x):
    """One gradient per row, the ℓ2 term left out."""
    slopes = loss.derivative(features @ x, targets)
    return np.stack(
        [np.multiply.outer(z, s).ravel() for z, s in zip(features, slopes, strict=True)]
    )


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_and_variances_are_those_of_the_rows(name, storage):
    clients, loss, x = clients_for(name), LOSS_OBJECTS[name], point(name)
    data = federate(clients, storage)
    gradients, variances = client_gradients(data, loss, x), gradient_variances(data, loss, x)
    for client, (features, targets) in enumerate(clients):
        rows = row_gradients(loss, features, targets, x)
        expected = rows.mean(axis=0) + loss.l2 * x.ravel()
        np.testing.assert_allclose(gradients.rows[client], expected, atol=1e-12)
        spread = np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1))
        assert variances[client] == pytest.approx(spread)


class TestDissimilarity:
    def test_equal_clients_do_not_disagree(self):
        pair = clients_for("squared")[2]
        gradients = client_gradients(federate([pair, pair]), fs.SquaredError(), np.zeros(WIDTH))
        assert gradients.dissimilarity() == pytest.approx(1.0)

    def test_by_hand(self):
        gradients = ClientGradients(np.array([[2.0, 0.0], [0.0, 0.0]]))
        assert gradients.dissimilarity() == pytest.approx(np.sqrt(2.0))

    def test_no_bound_exists_where_only_the_average_vanishes(self):
        gradients = ClientGradients(np.array([[1.0, 3.0], [-1.0, 3.0]]))
        assert gradients.dissimilarity(np.array([True, False])) == np.inf
        assert gradients.dissimilarity(np.array([False, True])) == 1.0

    def test_gradients_that_all_vanish_agree(self):
        assert ClientGradients(np.zeros((2, 3))).dissimilarity() == 1.0

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 2**32 - 1))
    def test_is_never_below_one(self, seed):
        rows = np.random.default_rng(seed).standard_normal((4, 5))
        assert ClientGradients(rows).dissimilarity() >= 1.0


class TestBiasEntries:
    def test_are_the_largest_of_the_gradient_and_the_support(self):
        gradients = ClientGradients(np.array([[5.0, 1.0, 0.0, -7.0, 2.0, 0.5]]))
        x = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        chosen = gradients.bias_entries(x, sparsity=1)  # 2Nτ = 2
        assert chosen.tolist() == [True, False, True, True, False, False]

    def test_are_all_when_there_are_fewer_than_asked(self):
        gradients = ClientGradients(np.ones((3, 4)))
        assert gradients.bias_entries(np.zeros(4), sparsity=2).all()
