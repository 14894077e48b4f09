"""Losses without a compiled form: the answers of those that have one, and one of one's own."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import expit

import fedsparse as fs
from fedsparse.engines.path import sparsity_path
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.specification import FitSpecification
from tests import gamma_loss
from tests.builders import STORAGES, answers_of, clients_for, federate
from tests.gamma_loss import Gamma
from tests.huber_loss import Huber

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

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"name": None}, 'Mine has no name; write name = "…" in the class'),
            ({"name": "my-own"}, "Mine is called 'my-own'; its name must be letters, digits and _"),
            ({"measure": None}, "Mine has no measure"),
            ({"outcome": "number"}, "Mine.outcome is 'number'; it must be one of numbers, classes"),
            ({"link": "ln"}, "Mine.link is 'ln'; it must be one of identity, logit, log"),
        ],
    )
    def test_what_its_class_does_not_say_rightly_is_named_at_once(self, wrong, told):
        with pytest.raises(fs.OptionError, match=told):
            fs.register_loss(type("Mine", (Gamma,), {"name": "mine"} | wrong))

    def test_its_class_is_not_a_loss_yet(self):
        with pytest.raises(fs.OptionError, match=r"loss is the class Gamma; write Gamma\(\)"):
            fs.run(fs.FedIterHT(3), positive_clients(), loss=Gamma)

    @pytest.mark.parametrize("name", ["values", "slopes", "curvatures"])
    @pytest.mark.parametrize(
        "wrong", [lambda *_: 2.0, lambda self, scores, targets: np.ones((scores.size, 1))]
    )
    def test_a_number_for_all_rows_is_refused(self, name, wrong):
        """A sum over rows in place of each row's loss would be a sum of sums."""
        kind = type("Mine", (Gamma,), {name: wrong})
        told = f"Mine.{name} must return an array with a number for each score"
        with pytest.raises(fs.OptionError, match=told):
            fs.run(fs.FedSplice(3), positive_clients(), loss=kind(l2=0.1))

    def test_intervals_go_by_its_dispersion(self):
        """As wide as statsmodels' with the dispersion that deviances tell."""
        data = positive_clients()
        Z, y = data.features, data.targets
        own = fs.FedSparseRegressor(2, loss=Gamma(), l2=0.0, intervals=True).fit(
            Z[:, :-1], y, sites=np.repeat([0, 1, 2], data.counts)
        )
        columns = [0, 3, 5]
        family = sm.families.Gamma(sm.families.links.Log())
        unscaled = sm.GLM(y, Z[:, columns], family=family).fit(scale=1.0, cov_type="eim", tol=1e-12)
        scale = unscaled.deviance / (len(y) - len(columns))
        # Observed information, as everywhere in fedsparse, and not the expected one.
        weights = y / unscaled.fittedvalues
        errors = np.sqrt(
            np.diag(np.linalg.inv((Z[:, columns].T * weights) @ Z[:, columns])) * scale
        )
        reach = errors[:2] * stats.t.isf(0.025, len(y) - len(columns))
        assert own.support_.tolist() == [0, 3]
        ends = np.column_stack([unscaled.params[:2] - reach, unscaled.params[:2] + reach])
        np.testing.assert_allclose(own.coef_interval_[[0, 3]], ends, rtol=1e-5)


class TestALossThatHardlyBends:
    """Huber's, whose second derivative is 0 for rows that are far off."""

    def data(self, far):
        random = np.random.default_rng(0)
        Z = random.standard_normal((300, 12))
        return fs.FederatedData.from_table(Z, far * (Z[:, 3] - Z[:, 7]), np.repeat([0, 1, 2], 100))

    def test_fedsplice_learns_where_some_rows_bend(self):
        result = fs.run(fs.FedSplice(2), self.data(5.0), loss=Huber())
        assert result.support.tolist() == [3, 7]
        np.testing.assert_allclose(result.coef[[3, 7]], [5.0, -5.0], rtol=1e-3)

    def test_fedsplice_says_where_none_does(self):
        with pytest.warns(fs.DivergenceWarning, match="no second derivative. Rescale the targets"):
            result = fs.run(fs.FedSplice(2), self.data(1e6), loss=Huber())
        assert result.support.size == 0

    def test_methods_that_go_by_slopes_do_not_mind(self):
        result = fs.run(fs.FedIterHT(2), self.data(1e6), loss=Huber())
        assert result.support.tolist() == [3, 7]

    def test_a_loss_that_is_no_likelihood_tells_no_intervals(self):
        data = self.data(1.0)
        sites = np.repeat([0, 1, 2], data.counts)
        model = fs.FedSparseRegressor(2, loss="huber", intervals=True)
        with pytest.raises(fs.OptionError, match="a likelihood, and the huber loss is none"):
            model.fit(data.features, data.targets, sites=sites)
        engine = fs.LocalEngine(data, Huber())
        names = [str(place) for place in range(12)]
        asked = FitSpecification(
            sparsity=2, held_out="none", stability=2, loss="tests.huber_loss:Huber"
        )
        found = fs.converse(engine, analysing(engine, asked, names))
        assert found.sure is None
        assert found.estimates_at_sites is None
        assert found.stability is not None
