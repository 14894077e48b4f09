"""Measure what a round sends, and what it takes to get where Distributed-IHT ends, beside FedAvg.

Clients draw their rows from one distribution, so that every algorithm gets there: *dense* rows of
the shape of Simulation I, and *text*, rows of words that fall off like those of a language. All
take the automatic step. Bytes are lengths of real encodings.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import sparse

from fedsparse.algorithms import Algorithm, DistributedIHT, FedAvg, FedHT, FedIterHT
from fedsparse.checks import check_seed
from fedsparse.engines.result import Result
from fedsparse.engines.run import run
from fedsparse.problem.federated import Features, FederatedData
from fedsparse.research.experiments.experiment_tables import rounds_to_reach
from fedsparse.research.processes import in_processes

CLIENTS = 10
SPARSITY = 200
LOCAL_STEPS = 10
RELEVANT = 100
SIZES = {"dense": (100, 1000), "text": (200, 47_236)}
"""Rows of a client, and features; those of Simulation I and of RCV1."""
WORDS = 75
"""Words of a row, counted as often as they are drawn."""


BASELINE = "Distributed-IHT"
ALGORITHMS: dict[str, Algorithm] = {
    BASELINE: DistributedIHT(SPARSITY),
    "Fed-HT": FedHT(SPARSITY, local_steps=LOCAL_STEPS),
    "FedIter-HT": FedIterHT(SPARSITY, local_steps=LOCAL_STEPS),
    "FedAvg": FedAvg(local_steps=LOCAL_STEPS),
}
"""What is run on the same clients."""


@dataclass(frozen=True)
class _Run:
    """An algorithm on clients of one kind."""

    kind: str
    algorithm: str
    rounds: int
    seed: int

    def result(self) -> Result:
        """How it went."""
        data = _drawn(self.kind, self.seed)
        return run(ALGORITHMS[self.algorithm], data, rounds=self.rounds, threads=1)


def measure_messages(*, seed: int = 0, quick: bool = False, processes: int = 1) -> pl.DataFrame:
    """Measure bytes on dense rows and on text.

    Parameters
    ----------
    seed
        Same seed, same table.
    quick
        Fewer rounds.
    processes
        How many at a time; the table does not depend on it.

    Returns
    -------
    polars.DataFrame
        Columns ``rows`` ("dense" or "text"), ``algorithm``, ``down`` and ``up``: bytes of a client
        in a round, the mean of all rounds after the first; ``rounds`` until f is where
        Distributed-IHT ends, and ``total`` bytes of a client until then, null if never.
    """
    check_seed(seed)
    rounds = 20 if quick else 100
    runs = [_Run(kind, name, rounds, seed) for kind in SIZES for name in ALGORITHMS]
    results = dict(zip(runs, in_processes(_Run.result, runs, processes), strict=True))
    goals = {kind: results[_Run(kind, BASELINE, rounds, seed)].objective for kind in SIZES}
    return pl.DataFrame(
        [
            {
                "rows": own.kind,
                "algorithm": own.algorithm,
                **_costs(result.history, goals[own.kind], CLIENTS),
            }
            for own, result in results.items()
        ]
    )


def _costs(history: pl.DataFrame, goal: float, clients: int) -> dict[str, float | int | None]:
    first, last = history.row(1, named=True), history.row(-1, named=True)
    spent = (last["round"] - first["round"]) * clients
    rounds = rounds_to_reach(history, goal)
    total = None
    if rounds is not None:
        there = history.row(by_predicate=pl.col("round") == rounds, named=True)
        total = (there["bytes_down"] + there["bytes_up"]) / clients
    return {
        "down": (last["bytes_down"] - first["bytes_down"]) / spent,
        "up": (last["bytes_up"] - first["bytes_up"]) / spent,
        "rounds": rounds,
        "total": total,
    }


def _drawn(kind: str, seed: int) -> FederatedData:
    """Clients whose targets follow one x* with noise."""
    samples, width = SIZES[kind]
    random = np.random.default_rng(seed)
    truth = np.where(np.arange(width) < RELEVANT, random.standard_normal(width), 0.0)
    parts = []
    for _ in range(CLIENTS):
        features: Features = (
            random.standard_normal((samples, width))
            if kind == "dense"
            else _words(random, samples, width)
        )
        parts.append((features, features @ truth + 0.1 * random.standard_normal(samples)))
    return FederatedData.from_clients(parts)


def _words(random: np.random.Generator, samples: int, width: int) -> sparse.csr_array:
    """Rows of unit length in which the j-th word comes up with a chance of about 1/j."""
    columns = np.floor(width ** random.random((samples, WORDS))).astype(np.int64) - 1
    pointer = np.arange(samples + 1) * WORDS
    rows = sparse.csr_array((np.ones(columns.size), columns.ravel(), pointer), (samples, width))
    rows.sum_duplicates()
    norms = np.sqrt(rows.multiply(rows).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1.0 / norms) @ rows)
