"""f_i(x_t) that comes with the first of the local steps: that of `Evaluate`, at no cost to them."""

import numpy as np
import pytest

import fedsparse as fs
from tests import oracle
from tests.builders import CLASSES, LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate, fields_of

ROWS = (5, 9, 30, 6, 1, 64)  # few and many rows for the width, batches that are whole and not
WIDTH = 24
SPARSITIES = {
    "no threshold": None,
    "H_τ": fs.TopKPerClass(4),
    "any projection": fs.TopKGroups([feature // 2 for feature in range(WIDTH)], 3),
}


def start(loss, *, dense):
    random = np.random.default_rng(7)
    shape = (WIDTH, CLASSES) if loss == "softmax" else (WIDTH,)
    return random.standard_normal(shape) * (dense | (random.random(shape) < 0.2))


def steps(x, **options):
    return fs.LocalSteps(x, step_size=0.02, seed=3, round=2, **{"steps": 4, **options})


def answer(request, data, loss, threads=1):
    return fields_of(request, data, LOSS_OBJECTS[loss], threads=threads)


@pytest.mark.parametrize("dense", [True, False], ids=["dense x", "sparse x"])
@pytest.mark.parametrize("batch_size", [None, 4, 10])
@pytest.mark.parametrize("sparsity", SPARSITIES)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
class TestObjectiveOfLocalSteps:
    def options(self, sparsity, batch_size):
        return {"sparsity": SPARSITIES[sparsity], "batch_size": batch_size}

    def test_is_the_objective_where_the_steps_start(
        self, loss, storage, sparsity, batch_size, dense
    ):
        clients, x = clients_for(loss, rows=ROWS), start(loss, dense=dense)
        request = steps(x, with_objective=True, **self.options(sparsity, batch_size))
        values = answer(request, federate(clients, storage), loss)["objective"]
        expected = [oracle.loss_value(Z, y, x, loss, 0.05) for Z, y in clients]
        np.testing.assert_allclose(values, expected, rtol=1e-12)

    def test_leaves_the_steps_as_they_are(self, loss, storage, sparsity, batch_size, dense):
        data, x = federate(clients_for(loss, rows=ROWS), storage), start(loss, dense=dense)
        options = self.options(sparsity, batch_size)
        alone = answer(steps(x, **options), data, loss)
        beside = answer(steps(x, with_objective=True, **options), data, loss)
        assert "objective" not in alone
        for one, other in zip(alone["x"].each(), beside["x"].each(), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
class TestSpecialCases:
    def test_a_snapshot_elsewhere_does_not_matter(self, loss, storage, batch_size, count):
        data, x = federate(clients_for(loss, rows=ROWS), storage), start(loss, dense=True)
        request = steps(
            x, steps=count, batch_size=batch_size, snapshot=2.0 * x, with_objective=True
        )
        expected = answer(fs.Evaluate(x), data, loss)["objective"]
        values = answer(request, data, loss)["objective"]
        np.testing.assert_allclose(values, expected, rtol=1e-12)

    def test_threads_change_nothing(self, loss, storage, batch_size, count):
        data, x = federate(clients_for(loss, rows=ROWS), storage), start(loss, dense=False)
        request = steps(x, steps=count, batch_size=batch_size, with_objective=True)
        one, three = (answer(request, data, loss, threads)["objective"] for threads in (1, 3))
        assert one.tobytes() == three.tobytes()


@pytest.mark.parametrize("sparsity", [None, fs.TopK(4)])
@pytest.mark.parametrize("storage", STORAGES)
def test_weights_of_rows_count(storage, sparsity):
    clients, x = clients_for("logistic"), start("logistic", dense=True)
    plain = federate(clients, storage)
    weights = np.random.default_rng(0).random(plain.samples) + 0.1
    data = fs.FederatedData.from_table(
        plain.features, plain.targets, np.repeat(np.arange(4), plain.counts), row_weights=weights
    )
    expected = answer(fs.Evaluate(x), data, "logistic")["objective"]
    values = answer(steps(x, sparsity=sparsity, with_objective=True), data, "logistic")["objective"]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert not np.allclose(values, answer(fs.Evaluate(x), plain, "logistic")["objective"])
