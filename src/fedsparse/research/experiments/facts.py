"""Facts about an experiment's data that its results are read by."""

import numpy as np
import polars as pl
from scipy.sparse.linalg import LinearOperator, eigsh

from fedsparse.arrays import FloatArray
from fedsparse.engines.engine import Engine
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.requests import Smoothness
from fedsparse.research.data.partition import samples_per_device
from fedsparse.research.experiments.problems import Experiment, Problem


def facts_of(experiment: Experiment, problem: Problem, engine: Engine) -> pl.DataFrame:
    """One row of facts: sizes, samples per device beside the paper's, smoothness.

    Parameters
    ----------
    experiment
        What the settings say.
    problem
        The clients of the first seed.
    engine
        Answers on them.
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
        "smoothness_clients": largest_client_smoothness(engine),
        "smoothness_average": average_smoothness(data, problem.loss),
    }
    numbers = dict.fromkeys(("paper_mean", "paper_sd"), pl.Float64)
    return pl.DataFrame([row], schema_overrides=numbers)


def largest_client_smoothness(engine: Engine) -> float:
    """max l_i, which the automatic step size goes by, within the steps of its thresholds.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [1.0])])
    >>> round(largest_client_smoothness(fs.LocalEngine(data)), 6)
    8.0
    """
    engine.exchange([engine.ask(Smoothness())])  # all at once; each is then known
    places = range(len(engine.names))
    alone = [engine.ask(Smoothness(), which=np.array([place])) for place in places]
    return max(answers.average("smoothness") for answers in engine.exchange(alone))


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
