"""SCAFFOLD with hard thresholding: corrected local steps do not drift."""

import numpy as np
import pytest

import fedsparse as fs
from tests import oracle
from tests.builders import LOSS_OBJECTS, answers_of, clients_for, federate

TAU = 5


def pulling_apart(clients=4, rows=30, width=6, seed=0):
    """Every client has an optimum of its own, and columns of its own size: local steps drift."""
    random = np.random.default_rng(seed)
    sizes = [np.exp(random.standard_normal(width)) for _ in range(clients)]
    return [
        (Z, Z @ random.standard_normal(width))
        for Z in (random.standard_normal((rows, width)) * size for size in sizes)
    ]


def test_many_local_steps_end_at_the_optimum_of_all_where_those_of_fed_ht_do_not():
    clients = pulling_apart()
    best = oracle.newton(clients, np.zeros(6), np.arange(6), "squared", 0.0, np.full(4, 0.25))
    options = {"sparsity": 6, "local_steps": 5}
    run = {"data": federate(clients), "rounds": 400}
    corrected = fs.run(fs.ScaffoldHT(**options), **run)
    plain = fs.run(fs.FedHT(**options), **run)
    np.testing.assert_allclose(corrected.coef, best, atol=1e-8)
    assert np.abs(plain.coef - best).max() > 1e-2


def test_clients_stay_where_the_gradient_of_all_is_zero():
    clients = pulling_apart()
    best = oracle.newton(clients, np.zeros(6), np.arange(6), "squared", 0.0, np.full(4, 0.25))
    steps = {"steps": 7, "step_size": 0.01, "with_distance": True}
    data, loss = federate(clients), fs.SquaredError()
    led = fs.CorrectedSteps(best, **steps, snapshot=best, gradient=np.zeros(6))
    alone = fs.LocalSteps(best, **steps)
    assert answers_of(led, data, loss).average("squared_distance") < 1e-20
    assert answers_of(alone, data, loss).average("squared_distance") > 1e-2


def test_the_first_round_learns_the_gradient_alone():
    result = fs.run(fs.ScaffoldHT(TAU, local_steps=3), federate(clients_for("squared")), rounds=3)
    assert [record.iterations for record in result.records] == [0, 0, 3, 6]
    assert result.records[0].objective == result.records[1].objective


def test_one_client_is_led_by_itself():
    data, loss = federate(clients_for("logistic", rows=(30,))), LOSS_OBJECTS["logistic"]
    options = {"local_steps": 3, "step_size": 0.1}
    led = fs.run(fs.ScaffoldHT(TAU, thresholds_locally=True, **options), data, loss=loss, rounds=7)
    alone = fs.run(fs.FedIterHT(TAU, **options), data, loss=loss, rounds=6)
    np.testing.assert_allclose(led.coef, alone.coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize("server_step", ["adaptive", "extrapolated"])
def test_server_steps_that_need_more_numbers_get_them(server_step):
    data = federate(clients_for("logistic"))
    algorithm = fs.ScaffoldHT(TAU, local_steps=3, server_step=server_step)
    result = fs.run(algorithm, data, loss=LOSS_OBJECTS["logistic"], rounds=15)
    assert result.objective < 0.9 * result.records[0].objective


def test_constraints_that_are_not_compiled_work_at_clients_too():
    constraint = fs.TopKGroups(list("abcdef") * 4, 2)
    algorithm = fs.ScaffoldHT(constraint, thresholds_locally=True, local_steps=2)
    result = fs.run(algorithm, federate(clients_for("squared")), rounds=5)
    assert np.unique(result.support % 6).size == 2


def test_some_of_the_clients_are_refused():
    with pytest.raises(fs.OptionError, match="gradient of every client"):
        fs.ScaffoldHT(TAU, clients_per_round=2)


def test_a_run_that_was_interrupted_goes_on_with_the_same_bits(tmp_path):
    data, path = federate(clients_for("squared")), tmp_path / "run.npz"
    algorithm = fs.ScaffoldHT(TAU, local_steps=2)

    def interrupt(record):
        if record.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.run(algorithm, data, rounds=6, checkpoint=path, on_round=interrupt)
    resumed = fs.run(algorithm, data, rounds=6, checkpoint=path)
    assert resumed.coef.tobytes() == fs.run(algorithm, data, rounds=6).coef.tobytes()
