"""Reference solutions and measured contraction on problems whose answers are known."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.research.theory import client_gradients, measure_contraction, reference_solution
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate


def diagonal(curvatures, minimizer):
    """One client with f(x) = (2/d)·Σ h_j (x_j − m_j)²/2 for squared loss."""
    features = np.diag(np.sqrt(curvatures))
    return fs.FederatedData.from_clients([(features, features @ np.asarray(minimizer))])


class TestReference:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("name", LOSSES)
    def test_is_sparse_and_stationary_on_its_support(self, name, storage):
        data, loss = federate(clients_for(name), storage), LOSS_OBJECTS[name]
        found = reference_solution(data, loss, 3, gradients=400)
        per_class = found.coef.reshape(found.coef.shape[0], -1)
        assert (np.count_nonzero(per_class, axis=0) <= 3).all()
        gradient = client_gradients(data, loss, found.coef).mean
        assert np.abs(gradient[found.coef.ravel() != 0]).max() < 1e-4

    def test_is_no_worse_than_a_plain_run(self):
        data = federate(clients_for("squared"))
        found = reference_solution(data, fs.SquaredError(), 3, gradients=400)
        plain = fs.run(fs.FedIterHT(3), data, rounds=50)
        assert found.objective <= plain.objective + 1e-12
        assert "minimized on its support" in found.method

    def test_finds_the_truth_when_there_is_no_noise(self):
        random = np.random.default_rng(3)
        truth = np.zeros(20)
        truth[[2, 11]] = 1.5, -2.0
        clients = []
        for _ in range(3):
            features = random.standard_normal((40, 20))
            clients.append((features, features @ truth))
        found = reference_solution(federate(clients), fs.SquaredError(), 2, gradients=400)
        np.testing.assert_allclose(found.coef, truth, atol=1e-6)


class TestContraction:
    @pytest.mark.parametrize("steps", [1, 3])
    def test_is_exact_for_a_parabola(self, steps):
        data = diagonal([1.0, 1.0], [3.0, -4.0])  # f = ½‖x − m‖²·2/2: curvature 1
        algorithm = fs.FedHT(2, local_steps=steps, step_size=0.1)
        measured = measure_contraction(algorithm, data, fs.SquaredError(), np.array([3.0, -4.0]))
        assert measured.factor == pytest.approx(0.9 ** (2 * steps))
        assert measured.squared_distances[0] == pytest.approx(25.0)

    def test_stops_counting_when_the_run_stalls(self):
        data = diagonal([1.0, 1.0], [3.0, 0.0])
        away = np.array([3.0, 0.01])  # the run ends a hundredth from the target
        algorithm = fs.FedHT(2, local_steps=1, step_size=0.5)
        measured = measure_contraction(algorithm, data, fs.SquaredError(), away, rounds=200)
        assert measured.rounds < 15
        assert measured.factor == pytest.approx(0.25, rel=0.1)

    def test_is_at_least_one_for_a_run_that_moves_away(self):
        data = diagonal([1.0, 1.0], [3.0, 1.0])
        algorithm = fs.FedHT(2, local_steps=1, step_size=0.5)
        measured = measure_contraction(
            algorithm, data, fs.SquaredError(), np.array([-1.0, 0.0]), rounds=5
        )
        assert measured.factor >= 1
        assert measured.rounds == 5

    def test_ends_early_when_iterates_overflow(self):
        data = diagonal([1.0, 1.0], [3.0, 1.0])
        algorithm = fs.FedHT(2, local_steps=50, step_size=1e10)
        measured = measure_contraction(algorithm, data, fs.SquaredError(), np.ones(2), rounds=50)
        assert len(measured.squared_distances) < 50

    def test_a_run_that_begins_at_the_target_has_nothing_to_measure(self):
        data = diagonal([1.0, 1.0], [3.0, 1.0])
        measured = measure_contraction(fs.FedHT(2), data, fs.SquaredError(), np.zeros(2))
        assert (measured.factor, measured.rounds) == (1.0, 0)

    def test_asks_for_the_automatic_step_without_counting_it_as_a_round(self):
        data = diagonal([1.0, 2.0], [3.0, 1.0])
        measured = measure_contraction(
            fs.FedIterHT(2), data, fs.SquaredError(), np.array([3.0, 1.0]), rounds=4
        )
        assert len(measured.squared_distances) == 5
