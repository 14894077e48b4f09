"""The lowest f that anybody finds: what FedSplice alone is measured by."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import fedsparse as fs
from benchmarks.options import Options
from benchmarks.rounds.child import find_in_time
from benchmarks.rounds.objective import PooledObjective
from benchmarks.rounds.progress import tell
from fedsparse.arrays import FloatArray
from fedsparse.research.experiments import Problem

DROPPED = 0.3
"""The share of the support that a restart gives up."""


def solve(problem: Problem, algorithm: fs.FedSplice, rounds: int = 100) -> fs.Result:
    """Run it on the problem."""
    return fs.run(algorithm, problem.data, loss=problem.loss, rounds=rounds)


def restarted(
    problem: Problem, options: Options, best: fs.Result, count: int, seed: int, **own: object
) -> fs.Result:
    """The lowest of several runs that begin at the best so far, some of its support at random gone.

    Parameters
    ----------
    problem, options, own
        What to solve, and how.
    best
        The first beginning.
    count, seed
        How many restarts, and what is drawn.
    """
    random = np.random.default_rng(seed)
    for _ in range(count):
        begin = _thinned(best.coef, random)
        found = solve(problem, options.splice(problem.sparsity, start_at=begin, **own))
        best = min(best, found, key=lambda result: result.objective)
    return best


def by_others(
    problem: Problem, solvers: Sequence[str], limit: float
) -> Iterator[tuple[str, float]]:
    """f of pooled solvers that come to an end, refitted on the features they choose."""
    pooled = PooledObjective.of(problem.data, problem.loss)
    with tempfile.TemporaryDirectory() as folder:
        pooled.save(Path(folder))
        for name in solvers:
            found = find_in_time(name, Path(folder), problem.sparsity, limit)
            if isinstance(found, str):
                tell(f"{name} {found}")
            else:
                yield name, pooled.value(pooled.refit(found.support))


def _thinned(x: FloatArray, random: np.random.Generator) -> FloatArray:
    """Without some of its non-zeros."""
    support = np.argwhere(x)
    gone = random.permutation(len(support))[: int(np.ceil(DROPPED * len(support)))]
    begin = x.copy()
    begin[tuple(support[gone].T)] = 0.0
    return begin
