"""Step sizes by trying: steps that raise f, or lead to no numbers, are taken back."""

import warnings

import numpy as np
import pytest

import fedsparse as fs
from tests.gamma_loss import Gamma

WIDTH = 4


def steep(factor):
    """Numbers so far from 1 that a step from x = 0 overshoots, or overflows."""
    random = np.random.default_rng(0)
    clients = []
    for _ in range(3):
        Z = random.standard_normal((30, WIDTH))
        clients.append((Z, factor * random.gamma(4.0, np.exp(Z[:, 0]))))
    return fs.FederatedData.from_clients(clients)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3, 1e12])
@pytest.mark.parametrize("local_steps", [1, 10])
def test_f_never_ends_above_its_start(factor, local_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("error", fs.DivergenceWarning)
        algorithm = fs.FedHT(2, local_steps=local_steps)
        result = fs.run(algorithm, steep(factor), loss=Gamma(), rounds=40)
    assert result.objective < result.records[0].objective


def test_the_best_x_is_returned():
    result = fs.run(fs.FedAvg(local_steps=3), steep(1e3), loss=Gamma(), rounds=25)
    assert result.objective == min(record.objective for record in result.records)


def test_a_run_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path):
    path, algorithm = tmp_path / "run.npz", fs.FedHT(2, local_steps=5)
    fs.run(algorithm, steep(1e3), loss=Gamma(), rounds=7, checkpoint=path)
    resumed = fs.run(algorithm, steep(1e3), loss=Gamma(), rounds=20, checkpoint=path)
    whole = fs.run(algorithm, steep(1e3), loss=Gamma(), rounds=20)
    assert resumed.coef.tobytes() == whole.coef.tobytes()


def test_a_step_size_that_was_given_is_taken_as_it_is():
    with pytest.warns(fs.DivergenceWarning):
        fs.run(fs.FedHT(2, step_size=50.0), steep(1e3), loss=Gamma(), rounds=20)
