"""Facts about an experiment's data that its results are read by."""

import numpy as np
import polars as pl
from scipy.sparse.linalg import LinearOperator, eigsh

from fedsparse.arrays import FloatArray
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.requests.smoothness import smoothness_of
from fedsparse.research.data.partition import samples_per_device
from fedsparse.research.experiments.problems import Experiment, Problem


def facts_of(experiment: Experiment, problem: Problem) -> pl.DataFrame:
    """One row of facts: sizes, samples per device beside the paper's, smoothness.

    Parameters
    ----------
    experiment
        What the settings say.
    problem
        The clients of the first seed.
    """
    settings, data = experiment.settings, problem.data
    devices = samples_per_device(data)
    row = {
        "experiment": settings.name,
        "title": problem.title,
        "stand_in": experiment.table.stand_in if experiment.table else "",
        "loss": settings.loss,
        "sparsity": settings.sparsity,
        "rounds": settings.rounds,
        "samples": data.samples,
        "width": data.width,
        "clients": len(data),
        "samples_mean": devices.mean,
        "samples_sd": devices.standard_deviation,
        "paper_mean": settings.claims.samples_mean,
        "paper_sd": settings.claims.samples_sd,
        "smoothness_clients": largest_client_smoothness(data, problem.loss),
        "smoothness_average": average_smoothness(data, problem.loss),
    }
    numbers = dict.fromkeys(("paper_mean", "paper_sd"), pl.Float64)
    return pl.DataFrame([row], schema_overrides=numbers)


def largest_client_smoothness(data: FederatedData, loss: Loss) -> float:
    """max l_i, which the automatic step size goes by, within the steps of its thresholds.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [1.0])])
    >>> round(largest_client_smoothness(data, fs.SquaredError()), 6)
    8.0
    """
    clients = open_clients(data, loss, Workers(available_threads()))
    try:
        return float(smoothness_of(clients, np.arange(len(data))).max())
    finally:
        clients.workers.close()


def average_smoothness(data: FederatedData, loss: Loss) -> float:
    """Smoothness of f = Σ f_i / N itself: what a step of Distributed-IHT may go by.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [1.0])])
    >>> round(average_smoothness(data, fs.SquaredError()), 6)
    4.0
    """
    row_weights = np.repeat(1.0 / (len(data) * data.counts), data.counts)

    def product(vector: FloatArray) -> FloatArray:
        scores = data.features @ vector.ravel()
        return np.asarray(data.features.T @ (row_weights * scores))

    if data.width < 3:  # too narrow for the iteration
        gram = np.column_stack([product(unit) for unit in np.eye(data.width)])
        return loss.smoothness(float(np.linalg.eigvalsh(gram)[-1]))
    operator = LinearOperator((data.width, data.width), matvec=product, dtype=np.float64)
    start = np.ones(data.width)
    largest = eigsh(operator, k=1, which="LA", tol=1e-4, v0=start, return_eigenvectors=False)
    return loss.smoothness(float(largest[0]))
