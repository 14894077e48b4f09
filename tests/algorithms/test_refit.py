"""Refits: the best coefficients on a support, in one to three rounds."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize

import fedsparse as fs
from fedsparse.algorithms import EDSL
from fedsparse.algorithms.refit import LAST_ROUND
from tests import oracle
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

TAU = 5
ROUNDING = 1 + 1e-12
"""Requests at the same x add up the rows' losses in different orders."""
REFITTING = {
    "FedHT": fs.FedHT(TAU, local_steps=3, refit=True),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=3, refit=True),
    "DistributedIHT": fs.DistributedIHT(TAU, refit=True),
    "HTP": fs.HTP(TAU),
    "EDSL": EDSL(TAU, refit=True),
}


def run(algorithm, clients, *, loss="squared", storage="dense", rounds=2):
    return fs.run(
        algorithm, federate(clients, storage), loss=LOSS_OBJECTS[loss], rounds=rounds, threads=1
    )


def least_squares(clients, support, l2=0.05, weights="uniform"):
    """The minimizer of f on a support, from weighted rows; the ℓ2 term is a few rows more."""
    shares = oracle.client_weights(clients, weights)
    scales = [np.sqrt(share / len(y)) for share, (_, y) in zip(shares, clients, strict=True)]
    rows = [scale * Z[:, support] for scale, (Z, _) in zip(scales, clients, strict=True)]
    targets = [scale * y for scale, (_, y) in zip(scales, clients, strict=True)]
    rows.append(np.sqrt(l2 / 2) * np.eye(support.size))
    targets.append(np.zeros(support.size))
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(targets))[0]


def lowest_on(clients, support, loss, l2):
    """The lowest objective on a support, by a general optimizer."""
    width = clients[0][0].shape[1]

    def spread(values):
        x = np.zeros(width)
        x[support] = values
        return x

    def gradient(values):
        x = spread(values)
        return np.mean([oracle.gradient(Z, y, x, loss, l2) for Z, y in clients], axis=0)[support]

    found = optimize.minimize(
        lambda values: oracle.objective(clients, spread(values), loss, l2),
        np.zeros(support.size),
        jac=gradient,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    return found.fun


def phases(result):
    """The records of a run, cut into updates (which count iterations) with their refits."""
    parts = []
    for before, record in pairwise(result.records):
        if record.iterations > before.iterations:
            parts.append([])
        parts[-1].append(record)
    return parts


class TestSquaredLoss:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("name", REFITTING)
    def test_one_more_round_gives_the_minimizer_on_the_support(self, name, storage):
        clients = clients_for("squared")
        result = run(REFITTING[name], clients, storage=storage)
        expected = least_squares(clients, result.support)
        np.testing.assert_allclose(result.coef[result.support], expected, rtol=1e-7)

    @pytest.mark.parametrize("weights", ["samples", (0.4, 0.3, 0.2, 0.1)])
    def test_weights_of_clients_count(self, weights):
        clients = clients_for("squared")
        result = run(fs.FedIterHT(TAU, refit=True, weights=weights), clients)
        expected = least_squares(clients, result.support, weights=weights)
        np.testing.assert_allclose(result.coef[result.support], expected, rtol=1e-7)

    @pytest.mark.parametrize("name", REFITTING)
    def test_updates_and_refits_take_turns(self, name):
        result = run(REFITTING[name], clients_for("squared"), rounds=8)
        assert [len(part) for part in phases(result)] == [2, 2, 2, 2]
        for update, refit in phases(result):
            assert refit.objective <= update.objective
            assert refit.nonzeros <= TAU

    @pytest.mark.parametrize("name", ["FedHT", "FedIterHT", "DistributedIHT"])
    def test_the_update_before_is_the_one_without_refit(self, name):
        clients = clients_for("squared")
        options = {} if name == "DistributedIHT" else {"local_steps": 3}
        with_refit = run(REFITTING[name], clients, rounds=1)
        without = run(getattr(fs, name)(TAU, **options), clients, rounds=1)
        assert with_refit.coef.tobytes() == without.coef.tobytes()


class TestLogisticLoss:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("name", REFITTING)
    def test_never_ends_higher_and_takes_three_rounds_at_most(self, name, storage):
        """One more with the last update, whose refit the rounds may cut off."""
        result = run(
            REFITTING[name], clients_for("logistic"), loss="logistic", storage=storage, rounds=20
        )
        for part in phases(result)[:-1]:
            assert part[-1].objective <= ROUNDING * part[0].objective
            assert 1 <= len(part) - 1 <= LAST_ROUND + 1

    @pytest.mark.parametrize("storage", STORAGES)
    def test_gets_close_to_the_minimizer_on_the_support(self, storage):
        clients = clients_for("logistic")
        update = run(
            fs.FedIterHT(TAU, refit=True), clients, loss="logistic", storage=storage, rounds=1
        )
        result = run(
            fs.FedIterHT(TAU, refit=True), clients, loss="logistic", storage=storage, rounds=4
        )
        best = lowest_on(clients, update.support, "logistic", 0.05)
        gap, gap_before = result.objective - best, update.objective - best
        assert result.support.tolist() == update.support.tolist()
        assert 0 <= gap + 1e-12
        assert gap <= 1e-3 * gap_before

    def test_a_step_that_raises_f_is_halved_or_taken_back(self):
        """Far out the loss is almost flat and a Newton step goes much too far."""
        clients = [(np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 0.0, 0.0]))]
        algorithm = fs.FedHT(1, local_steps=1, step_size=60.0, refit=True)
        result = fs.run(algorithm, federate(clients), loss=fs.Logistic(l2=0.01), rounds=4)
        update, *refit = phases(result)[0]
        assert max(record.objective for record in refit) > update.objective
        assert refit[-1].objective <= update.objective


class TestDegenerateSupports:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    @pytest.mark.parametrize("l2", [0.0, 1e-4])
    def test_equal_columns_and_fewer_rows_than_features(self, loss, storage, l2):
        """The Hessian on the support is singular, but for what the ℓ2 term adds."""
        half = clients_for(loss, rows=(2, 1), width=6, density=1.0)
        clients = [(np.hstack([Z, Z]), y) for Z, y in half]
        kind = type(LOSS_OBJECTS[loss])
        result = fs.run(
            fs.FedIterHT(8, local_steps=3, refit=True),
            federate(clients, storage),
            loss=kind(l2=l2),
            rounds=4,
        )
        update, *refit = phases(result)[0]
        assert not result.diverged
        assert np.isfinite(result.coef).all()
        assert refit[-1].objective <= update.objective
        assert np.count_nonzero(result.coef) <= 8

    @pytest.mark.parametrize("name", REFITTING)
    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    def test_no_support_means_no_refit(self, name, loss):
        """Features of zeros give no gradient, so x stays 0 and every round is an update."""
        clients = [(np.zeros((3, 6)), np.array([0.0, 1.0, 1.0]))] * 2
        result = run(REFITTING[name], clients, loss=loss, rounds=3)
        assert not result.coef.any()
        assert result.records[-1].iterations == 3 * result.records[1].iterations

    def test_features_without_curvature_are_left_out(self):
        """A constraint may keep a feature that no client has."""
        clients = clients_for("squared")
        for Z, _ in clients:
            Z[:, 20] = 0.0
        algorithm = fs.FedHT(fs.TopK(TAU, keep=[20]), refit=True)
        result = run(algorithm, clients)
        assert result.coef[20] == 0.0
        assert np.isfinite(result.coef).all()


def test_refits_go_with_the_adaptive_server_step():
    clients = clients_for("logistic")
    algorithm = fs.FedIterHT(TAU, refit=True, server_step="adaptive")
    result = run(algorithm, clients, loss="logistic", rounds=12)
    expected = oracle.objective(clients, result.coef, "logistic", 0.05)
    assert result.objective == pytest.approx(expected, rel=1e-12)
    assert result.objective <= min(record.objective for record in result.records) * (1 + 1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("name", REFITTING)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_interrupted_and_resumed_gives_the_same_bits(name, loss, at, tmp_path):
    data = federate(clients_for(loss))
    options = {"loss": LOSS_OBJECTS[loss], "rounds": 6, "threads": 1}

    def interrupt(record):
        if record.round == at:
            raise KeyboardInterrupt

    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        fs.run(REFITTING[name], data, checkpoint=path, on_round=interrupt, **options)
    resumed = fs.run(REFITTING[name], data, checkpoint=path, **options)
    expected = fs.run(REFITTING[name], data, **options)
    assert resumed.coef.tobytes() == expected.coef.tobytes()
    assert resumed.history.drop("seconds").equals(expected.history.drop("seconds"))
