"""Losses without a compiled form: the answers of those that have one, and one of one's own."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import fedsparse as fs
from fedsparse.engines.path import sparsity_path
from tests import gamma_loss
from tests.builders import STORAGES, answers_of, clients_for, federate
from tests.gamma_loss import Gamma

X = np.zeros(24)
X[:4] = 0.5, -1.0, 0.2, 0.7


@dataclass(frozen=True)
class PlainLogistic(fs.Loss):
    """The logistic loss, worked out by NumPy."""

    name = "plain"
    outcome = "classes"
    measure = "log-loss"
    curvature = 0.25

    def encode(self, data):
        return fs.Logistic().encode(data)

    def values(self, scores, targets):
        return np.logaddexp(0.0, scores) - targets * scores

    def slopes(self, scores, targets):
        return expit(scores) - targets

    def curvatures(self, scores, targets):
        return expit(scores) * expit(-scores)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    "request_",
    [
        fs.Evaluate(X),
        fs.Gradient(X),
        fs.Slopes(X),
        fs.Slopes(X, support=np.array([0, 2, 9])),
        fs.Curvature(X, np.array([0, 1, 2, 3, 11])),
        fs.Curvature(X, np.array([1, 11])),
        fs.Smoothness(),
        fs.LocalSteps(X, steps=4, step_size=0.1, with_objective=True, with_distance=True),
        fs.LocalSteps(X, steps=4, step_size=0.1, sparsity=fs.TopK(3), proximal=0.3),
        fs.LocalSteps(X, steps=4, step_size=0.1, batch_size=3, seed=7, snapshot=X / 2),
        fs.CorrectedSteps(X, 2, 0.1, snapshot=X / 2, gradient=X / 3, with_gradient=True),
    ],
    ids=lambda request: type(request).__name__,
)
def test_answers_are_those_of_the_compiled_form(request_, storage):
    data = federate(clients_for("logistic"), storage)
    plain = answers_of(request_, data, PlainLogistic(l2=0.05))
    compiled = answers_of(request_, data, fs.Logistic(l2=0.05))
    assert plain.sums.keys() == compiled.sums.keys()
    for name, expected in compiled.sums.items():
        np.testing.assert_allclose(plain.sums[name], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("storage", STORAGES)
def test_curvature_in_few_bits_is_rounded_alike(storage, bits):
    data, support = federate(clients_for("logistic"), storage), np.arange(6)
    units = np.where(np.isin(np.arange(24), support), 0.5, 0.0)
    asked = fs.Curvature(X, support, units=units, bits=bits)
    plain, compiled = (
        answers_of(asked, data, loss).mean("hessian") for loss in (PlainLogistic(), fs.Logistic())
    )
    np.testing.assert_allclose(plain, compiled, atol=0.02)


def test_a_matrix_x_is_refused():
    with pytest.raises(fs.OptionError, match="one score a row, and x is a matrix"):
        answers_of(fs.Slopes(np.zeros((24, 3))), federate(clients_for("logistic")), PlainLogistic())


def positive_clients(storage="dense"):
    """Numbers above 0 that two of six features explain, a column of ones last."""
    random = np.random.default_rng(0)
    clients = []
    for rows in (60, 40, 80):
        Z = random.standard_normal((rows, 6))
        Z[:, -1] = 1.0
        means = np.exp(1.0 + Z[:, 0] - 0.7 * Z[:, 3])
        clients.append((Z, random.gamma(4.0, means / 4.0)))
    return federate(clients, storage)


class TestALossOfOnesOwn:
    """Gamma, in a file of its own."""

    def test_it_takes_60_lines_at_most(self):
        assert len(Path(gamma_loss.__file__).read_text("utf-8").splitlines()) <= 60

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize(
        "algorithm",
        [
            fs.FedSplice(fs.TopK(3, keep=(5,)), weights="samples"),
            fs.DistributedIHT(fs.TopK(3, keep=(5,)), weights="samples"),
            fs.FedIterHT(fs.TopK(3, keep=(5,)), local_steps=5, weights="samples"),
            fs.FedIterHT(fs.TopK(3, keep=(5,)), local_steps=5, batch_size=20, weights="samples"),
        ],
        ids=lambda algorithm: type(algorithm).__name__,
    )
    def test_runs_find_what_explains_the_numbers(self, algorithm, storage):
        result = fs.run(algorithm, positive_clients(storage), loss=Gamma(l2=1e-4), rounds=80)
        assert result.support.tolist() == [0, 3, 5]
        np.testing.assert_allclose(result.coef[[0, 3, 5]], [1.0, -0.7, 1.0], atol=0.15)

    def test_a_path_and_its_name_work(self):
        path = sparsity_path(positive_clients(), [1, 2, 3], loss="gamma")
        assert path[1].objective > path[2].objective > path[3].objective

    def test_estimators_choose_and_judge_by_it(self):
        data = positive_clients()
        sites = np.repeat(np.arange(3), data.counts)
        X, y = data.features[:, :-1], data.targets
        model = fs.FedSparseRegressor("cv", loss="gamma", sparsities=[0, 1, 2, 4])
        model.fit(X, y, sites=sites)
        assert set(model.support_) >= {0, 3}
        assert model.selection_.measure == "half the deviance per held-out row"
        assert (model.predict(X) > 0).all()
        assert 0.6 < model.score(X, y) < 1.0

    def test_a_name_of_fedsparse_cannot_be_taken(self):
        with pytest.raises(fs.OptionError, match='Mine is called "squared" as a loss of fedsparse'):
            fs.register_loss(type("Mine", (Gamma,), {"name": "squared"}))
