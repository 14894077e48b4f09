"""CoSaMP, GraSP and HTP: supports that the gradient points to, Newton's step on them."""

import numpy as np
import pytest

import fedsparse as fs
from tests import oracle
from tests.builders import LOSS_OBJECTS, clients_for, federate

TAU = 4


def designed(noise=0.0, clients=3, rows=60, width=40, seed=0):
    """Independent columns and four true features: what matching pursuit was made for."""
    random = np.random.default_rng(seed)
    truth = np.zeros(width)
    truth[[3, 11, 20, 33]] = [2.0, -1.5, 1.0, -3.0]
    own = []
    for _ in range(clients):
        Z = random.standard_normal((rows, width))
        own.append((Z, Z @ truth + noise * random.standard_normal(rows)))
    return own, truth


@pytest.mark.parametrize(
    "algorithm",
    [fs.CoSaMP(TAU), fs.GraSP(TAU, debias=True), fs.HTP(TAU)],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_true_coefficients_are_found_exactly_without_noise(algorithm):
    clients, truth = designed()
    result = fs.run(algorithm, federate(clients), rounds=8)
    np.testing.assert_allclose(result.coef, truth, atol=1e-9)


def test_debiased_coefficients_are_the_best_on_their_support():
    clients, _ = designed(noise=1.0)
    result = fs.run(fs.GraSP(TAU, debias=True), federate(clients), rounds=6)
    slopes = np.mean([oracle.gradient(Z, y, result.coef, "squared", 0.0) for Z, y in clients], 0)
    np.testing.assert_allclose(slopes[result.support], 0.0, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_x_never_has_more_than_tau_features_and_changes_every_second_round(loss):
    data = federate(clients_for(loss))
    result = fs.run(fs.GraSP(TAU), data, loss=LOSS_OBJECTS[loss], rounds=7)
    most = TAU * (1 if loss != "softmax" else result.coef.shape[1])
    assert all(record.nonzeros <= most for record in result.records)
    assert [record.iterations for record in result.records] == [0, 0, 1, 1, 2, 2, 3, 3]
    values = [record.objective for record in result.records]
    np.testing.assert_allclose(values[0::2], values[1::2], rtol=1e-12)


def test_features_to_keep_are_always_part_of_the_model():
    clients, _ = designed()
    constraint = fs.TopK(TAU, keep=[7])
    for algorithm in (fs.GraSP(constraint), fs.GraSP(constraint, debias=True), fs.HTP(constraint)):
        result = fs.run(algorithm, federate(clients), rounds=6)
        assert result.coef[7] != 0.0
        assert result.support.size == TAU


def test_columns_that_nobody_has_values_in_do_no_harm():
    clients, truth = designed()
    for Z, _ in clients:
        Z[:, 5:9] = 0.0
    result = fs.run(fs.CoSaMP(TAU), federate(clients, "csr"), rounds=6)
    np.testing.assert_allclose(result.coef, truth, atol=1e-9)


def test_more_features_asked_for_than_there_are():
    clients = clients_for("logistic", width=5, density=1.0)
    result = fs.run(fs.GraSP(9), federate(clients), loss=LOSS_OBJECTS["logistic"], rounds=12)
    slopes = np.mean([oracle.gradient(Z, y, result.coef, "logistic", 0.05) for Z, y in clients], 0)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-8)


@pytest.mark.parametrize("make", [fs.GraSP, fs.CoSaMP], ids=["GraSP", "CoSaMP"])
class TestRefusals:
    def test_a_tau_below_one(self, make):
        with pytest.raises(fs.OptionError, match="sparsity must be a whole number of at least 1"):
            make(0)

    def test_some_of_the_clients(self, make):
        with pytest.raises(fs.OptionError, match=f"{make.__name__} asks every client"):
            make(TAU, clients_per_round=2)

    def test_a_constraint_that_cannot_be_doubled(self, make):
        data = federate(clients_for("squared"))
        with pytest.raises(fs.OptionError, match=f"{make.__name__} looks at 2τ .* TopKGroups"):
            fs.run(make(fs.TopKGroups(list("abcdef") * 4, 2)), data)


def test_cosamp_refuses_losses_other_than_the_squared_one():
    with pytest.raises(fs.OptionError, match="use GraSP for the logistic loss"):
        fs.run(fs.CoSaMP(TAU), federate(clients_for("logistic")), loss="logistic")


def test_htp_refuses_several_classes():
    with pytest.raises(fs.OptionError, match="refits need one score a row"):
        fs.run(fs.HTP(TAU), federate(clients_for("softmax")), loss="softmax")
