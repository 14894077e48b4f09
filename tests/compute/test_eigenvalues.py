"""Largest eigenvalues of the clients' ZᵀZ/B: worked out once, whoever asks how often."""

import numpy as np
import pytest

from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

ROWS = (5, 9, 30, 6)


@pytest.fixture(params=STORAGES)
def clients(request):
    data = federate(clients_for("squared", rows=ROWS), request.param)
    return open_clients(data, LOSS_OBJECTS["squared"], Workers(1))


@pytest.fixture
def worked_out(clients, monkeypatch):
    """Places that a power iteration was run for, call by call."""
    places, iterate = [], clients.power_iteration

    def noted(which):
        places.append(which.tolist())
        return iterate(which)

    monkeypatch.setattr(clients, "power_iteration", noted)
    return places


def test_are_those_of_the_rows(clients):
    expected = [np.linalg.norm(Z, 2) ** 2 / len(Z) for Z, _ in clients_for("squared", rows=ROWS)]
    np.testing.assert_allclose(clients.largest_eigenvalues(np.arange(4)), expected, rtol=1e-9)


def test_a_client_asked_again_does_not_work_again(clients, worked_out):
    first = clients.largest_eigenvalues(np.array([2, 0]))
    everyone = clients.largest_eigenvalues(np.arange(4))
    again = clients.largest_eigenvalues(np.arange(4))
    assert worked_out == [[2, 0], [1, 3]]
    assert everyone[[2, 0]].tobytes() == first.tobytes()
    assert again.tobytes() == everyone.tobytes()


def test_what_a_caller_does_with_the_answer_is_its_own_affair(clients):
    before = clients.largest_eigenvalues(np.arange(4)).copy()
    clients.largest_eigenvalues(np.arange(4))[:] = 0.0
    assert clients.largest_eigenvalues(np.arange(4)).tobytes() == before.tobytes()
