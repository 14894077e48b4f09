"""EDSL, the rival: one client solves for all, which is good for clients that are alike."""

import warnings

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.algorithms import EDSL
from fedsparse.requests.wire import vectors as wire
from tests import oracle
from tests.builders import (
    LOSS_OBJECTS,
    STORAGES,
    answers_of,
    clients_for,
    federate,
    heavy_tailed,
)

TAU = 3
TRUTH = np.zeros(30)
TRUTH[[2, 11, 25]] = [2.0, -1.5, 1.0]


def alike(loss, *, clients=5, rows=80, noise=0.2):
    """Clients whose rows come from one distribution."""
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(clients):
        Z = random.standard_normal((rows, TRUTH.size))
        score = Z @ TRUTH + noise * random.standard_normal(rows)
        drawn.append((Z, score if loss == "squared" else (score > 0).astype(float)))
    return drawn


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
class TestClientsThatAreAlike:
    def test_the_true_features_are_found(self, loss, storage):
        data = federate(alike(loss), storage)
        result = fs.run(EDSL(TAU), data, loss=LOSS_OBJECTS[loss], rounds=4)
        assert result.support.tolist() == [2, 11, 25]

    def test_a_refit_removes_the_bias(self, loss, storage):
        clients = alike(loss)
        results = [
            fs.run(
                EDSL(TAU, refit=refit),
                federate(clients, storage),
                loss=LOSS_OBJECTS[loss],
                rounds=8,
            )
            for refit in (False, True)
        ]
        assert results[1].objective < results[0].objective
        refitted = results[1]
        slopes = np.mean(
            [oracle.gradient(Z, y, refitted.coef, loss, 0.05) for Z, y in clients], axis=0
        )
        np.testing.assert_allclose(slopes[refitted.support], 0.0, atol=1e-3)

    def test_at_most_tau_features_after_every_round(self, loss, storage):
        data = federate(alike(loss), storage)
        for solver in (0, 2):
            result = fs.run(EDSL(TAU, solver=solver), data, loss=LOSS_OBJECTS[loss], rounds=4)
            assert all(record.nonzeros <= TAU for record in result.records)


def test_one_client_alone_solves_its_own_lasso():
    """Without others there is no shift; the sign conditions of the ℓ1 problem hold for some λ."""
    ((Z, y),) = alike("squared", clients=1)
    x = fs.run(EDSL(TAU), federate([(Z, y)]), rounds=1).coef
    slopes = oracle.gradient(Z, y, x, "squared", 0.0)
    penalty = np.abs(slopes[x != 0])
    np.testing.assert_allclose(slopes[x != 0], -penalty.mean() * np.sign(x[x != 0]), rtol=1e-3)
    assert np.abs(slopes[x == 0]).max() <= penalty.mean() * (1 + 1e-3)


@pytest.mark.parametrize("storage", STORAGES)
def test_bytes_are_gradients_of_all_and_one_solution(storage):
    data = federate(clients_for("squared"), storage)
    loss = LOSS_OBJECTS["squared"]
    result = fs.run(EDSL(TAU), data, loss=loss, rounds=1)
    zero = np.zeros(24)
    gradients = answers_of(fs.Gradient(zero), data, loss)
    solution = len(wire.encode(result.coef))
    down = 4 * len(wire.encode(zero))
    down += len(wire.encode(zero)) + len(wire.encode(gradients.mean("gradient")))
    assert result.records[1].bytes_up == gradients.bytes_up + solution
    assert result.records[1].bytes_down == down


def test_gradients_and_solution_are_one_round():
    result = fs.run(EDSL(TAU), federate(alike("squared")), rounds=3)
    assert [record.round for record in result.records] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [{"sparsity": 0}, {"clients_per_round": 2}, {"solver": -1}, {"solver": 1.5}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(fs.OptionError, match=next(iter(options))):
        EDSL(**({"sparsity": TAU} | options))


def test_a_solver_that_does_not_exist_is_refused():
    with pytest.raises(fs.OptionError, match="solver"):
        fs.run(EDSL(TAU, solver=4), federate(clients_for("squared")), rounds=1)


def test_a_solver_without_weight_still_solves():
    random = np.random.default_rng(0)
    Z = random.standard_normal((50, 20))
    data = fs.FederatedData.from_clients([(Z, Z[:, 0])] * 3)
    result = fs.run(fs.EDSL(3, weights=[0.0, 0.5, 0.5]), data, rounds=5)
    assert not result.diverged
    assert 0 in result.support


def test_a_refit_step_that_is_not_confirmed_is_not_returned():
    data = federate(heavy_tailed(7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.DivergenceWarning)
        result = fs.run(fs.EDSL(4, refit=True), data, loss="logistic", rounds=2)
    assert result.objective <= result.records[1].objective
