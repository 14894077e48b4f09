"""Every engine tells what the local one tells: every algorithm, loss and storage."""

from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import pytest

import fedsparse as fs
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

ROUNDS = 5


@dataclass(frozen=True)
class Kind:
    """An engine, and how far its numbers may be from the local one's: 0 is to the last bit."""

    name: str
    tolerance: float
    options: dict = field(default_factory=dict)


# A new engine is one row.
ENGINES = [
    pytest.param(
        Kind("torch", 1e-9, {"device": "cpu"}),
        id="torch",
        marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    ),
]
LOSSES = {**LOSS_OBJECTS, "poisson": fs.Poisson(l2=0.05), "cox": fs.Cox(l2=0.05)}
ALGORITHMS = {
    "FedHT": fs.FedHT(5, local_steps=4),
    "FedIterHT": fs.FedIterHT(5, local_steps=4),
    "DistributedIHT": fs.DistributedIHT(5),
    "FedAvg": fs.FedAvg(local_steps=4),
    "FedProx": fs.FedProx(local_steps=4, proximal=0.5),
    "FedSplice": fs.FedSplice(5),
    "two steps, extrapolated": fs.FedAvg(local_steps=2, step_size=0.05, server_step="extrapolated"),
    "adaptive": fs.FedIterHT(5, local_steps=3, step_size=0.05, server_step="adaptive"),
    "by samples": fs.FedIterHT(5, local_steps=3, weights="samples"),
    "two clients a round": fs.FedHT(5, local_steps=3, step_size=0.05, clients_per_round=2),
    "refit": fs.FedHT(5, local_steps=3, refit=True),
    "some always kept": fs.FedIterHT(fs.TopKPerClass(5, keep=[3, 23]), local_steps=3),
    "rows of features": fs.FedIterHT(fs.TopKRows(3), local_steps=3),
}
REFUSED = [("refit", "softmax")]
SLOW = [(name, "cox") for name in ("some always kept", "rows of features")]
CASES = [
    (name, loss) for name in ALGORITHMS for loss in LOSSES if (name, loss) not in REFUSED + SLOW
]


def data_for(loss, storage):
    clients = clients_for("squared" if loss in ("poisson", "cox") else loss)
    if loss == "poisson":
        clients = [(Z, np.round(np.abs(y))) for Z, y in clients]
    if loss == "cox":
        clients = [(Z, np.where(y > 0.3, 1.0, -1.0) * (1.0 + np.abs(y))) for Z, y in clients]
    return federate(clients, storage)


def assert_same(result, expected, tolerance):
    """Coefficients and objectives within the tolerance, and every byte."""
    for name in ("round", "iterations", "nonzeros", "bytes_down", "bytes_up"):
        assert result.history[name].to_list() == expected.history[name].to_list()
    scale = np.abs(expected.coef).max()
    np.testing.assert_allclose(result.coef, expected.coef, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(
        result.history["objective"], expected.history["objective"], rtol=tolerance, atol=0
    )


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("algorithm", "loss"), CASES)
@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_agrees_with_the_local_one(kind, algorithm, loss, storage):
    data, own = data_for(loss, storage), ALGORITHMS[algorithm]
    options = {"loss": LOSSES[loss], "rounds": ROUNDS, "seed": 11, "threads": 2}
    expected = fs.run(own, data, **options)
    result = fs.run(own, data, engine=kind.name, **kind.options, **options)
    assert_same(result, expected, kind.tolerance)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ENGINES)
def test_many_models_in_lockstep_are_those_of_one_by_one(kind, storage):
    """Other K, γ and μ, mini-batches beside full gradients, and one model that diverges."""
    algorithms = [
        *(
            fs.FedIterHT(5, local_steps=steps, step_size=size)
            for steps in (1, 3, 4)
            for size in (0.3, 0.05)
        ),
        fs.FedIterHT(5, local_steps=3, step_size=1e200),
        fs.FedIterHT(7, local_steps=3, step_size=0.1),
        fs.FedHT(5, local_steps=5, step_size=0.1),
        fs.FedProx(local_steps=2, proximal=0.5, step_size=0.1),
        fs.FedIterHT(5, local_steps=3, step_size=0.1, batch_size=4),
        fs.FedSplice(3),
        fs.FedSplice(5),
    ]
    data = data_for("logistic", storage)
    options = {"loss": LOSSES["logistic"], "rounds": ROUNDS, "seed": 3}
    with pytest.warns(fs.DivergenceWarning):
        expected = [fs.run(own, data, **options) for own in algorithms]
    with pytest.warns(fs.DivergenceWarning):
        together = fs.run_together(algorithms, data, engine=kind.name, **kind.options, **options)
    for result, one in zip(together, expected, strict=True):
        assert result.diverged == one.diverged
        assert_same(result, one, kind.tolerance)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ENGINES)
def test_ties_between_equal_columns_go_to_the_lower_index(kind, storage):
    """Every column stands there twice, so that H_τ with an odd τ always meets a tie."""
    half = clients_for("squared", rows=(6, 8), width=20, density=0.3)
    data = federate([(np.hstack([Z, Z]), y) for Z, y in half], storage)
    algorithm = fs.FedIterHT(7, local_steps=3, step_size=0.05)
    expected = fs.run(algorithm, data, rounds=ROUNDS)
    result = fs.run(algorithm, data, rounds=ROUNDS, engine=kind.name, **kind.options)
    assert result.support.tolist() == expected.support.tolist()
    assert_same(result, expected, kind.tolerance)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ENGINES)
def test_a_lens_shows_every_engine_the_same_rows(kind, storage):
    data = data_for("logistic", storage)
    random = np.random.default_rng(5)
    weighted = fs.FederatedData.from_table(
        data.features, data.targets, np.repeat(data.names, data.counts), random.random(50) + 0.5
    )
    own = fs.open_engine(weighted, LOSSES["logistic"], engine=kind.name, **kind.options)
    local = fs.LocalEngine(weighted, LOSSES["logistic"])
    rows = fs.Rows().but_part(0, of=3, by_class=True).without(1)
    algorithm = fs.FedIterHT(5, local_steps=3)
    expected = fs.run(algorithm, local.where(rows), rounds=ROUNDS)
    assert_same(fs.run(algorithm, own.where(rows), rounds=ROUNDS), expected, kind.tolerance)
    own.close()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ENGINES)
def test_float32_data_are_computed_in_float64(kind, storage):
    data = federate(clients_for("squared"), storage, np.float32)
    algorithm = fs.FedIterHT(5, local_steps=3)
    expected = fs.run(algorithm, data, rounds=ROUNDS)
    result = fs.run(algorithm, data, rounds=ROUNDS, engine=kind.name, **kind.options)
    assert_same(result, expected, kind.tolerance)
