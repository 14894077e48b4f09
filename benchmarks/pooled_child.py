"""A pooled fit in a process of its own, on one thread: what it chose, and the seconds it took.

Reading is not timed, nor what importing and compiling take: a small problem of the same kind, dense
or CSR with the same loss, is solved first.
"""

import cProfile
import json
import pstats
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

import fedsparse as fs
from benchmarks.measured import ONE_THREAD
from benchmarks.rounds.objective import PooledObjective
from benchmarks.rounds.solvers import find_support
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.research.experiments import Problem

FEDSPLICE = "FedSplice"
SMALL_ROWS, SMALL_WIDTH, SMALL_SPARSITY = 400, 60, 5
SHOWN = 30
ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit chose, the processor seconds it took, and of those for checking the rows.

    Attributes
    ----------
    objectives
        f after each of FedSplice's rounds.
    """

    support: Int64Array
    seconds: float
    checking: float = 0.0
    objectives: Sequence[float] = ()

    def rounds_to(self, goal: float) -> int | None:
        """After how many rounds f was that low; None: never."""
        reached = (round_ for round_, own in enumerate(self.objectives) if own <= goal)
        return next(reached, None)


def fit_alone(
    name: str,
    folder: Path,
    sparsity: int,
    limit: float,
    splicing: dict[str, object] | None = None,
    profile: Path | None = None,
    rounds: int = ROUNDS,
) -> Fitted | str:
    """Fit a saved objective; a sentence if that does not come to an end.

    Parameters
    ----------
    name
        FedSplice, or a name of `benchmarks.rounds.solvers.SOLVERS`.
    folder, sparsity, limit
        The objective, τ, and the processor seconds it may take.
    splicing
        Options of FedSplice.
    profile
        Where to write which functions took the time, which then takes longer.
    rounds
        FedSplice's, at most.
    """
    told = {"rounds": rounds, **(splicing or {})}
    arguments = [name, str(folder), str(sparsity), str(limit), json.dumps(told)]
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.pooled_child", *arguments, str(profile or "")],
        capture_output=True,
        text=True,
        check=False,
        env=ONE_THREAD,
    )
    if finished.returncode == -signal.SIGPROF:
        return f"did not finish in {limit:g} s"
    if finished.returncode != 0:
        return f"failed: {(finished.stderr.strip().splitlines() or ['no message'])[-1]}"
    answer = json.loads(finished.stdout.splitlines()[-1])
    return Fitted(np.array(answer.pop("support"), dtype=np.int64), **answer)


def main(
    name: str, folder: str, sparsity: str, limit: str, splicing: str, profile: str = ""
) -> None:
    objective = PooledObjective.load(Path(folder))
    options = json.loads(splicing)
    _fit(name, _small(objective), SMALL_SPARSITY, options)
    # Nobody handles this signal, so it ends compiled code, too.
    signal.setitimer(signal.ITIMER_PROF, float(limit))
    if profile:
        _profiled(Path(profile), name, objective, int(sparsity), options)
    fitted = _fit(name, objective, int(sparsity), options)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    print(json.dumps({**fitted.__dict__, "support": fitted.support.tolist()}))


def _fit(
    name: str, objective: PooledObjective, sparsity: int, options: dict[str, object]
) -> Fitted:
    began = time.process_time()
    if name != FEDSPLICE:
        return Fitted(find_support(name, objective, sparsity), time.process_time() - began)
    data = fs.FederatedData.from_clients([(objective.features, objective.targets)])
    problem = Problem("", data, objective.loss, sparsity)
    checked = time.process_time()
    rounds, own = options["rounds"], {key: options[key] for key in options if key != "rounds"}
    algorithm = fs.FedSplice(sparsity, **own)
    result = fs.run(algorithm, problem.data, loss=problem.loss, rounds=rounds, threads=1)
    ended = time.process_time()
    objectives = [float(record.objective) for record in result.records]
    return Fitted(result.support, ended - began, checked - began, objectives)


def _small(objective: PooledObjective) -> PooledObjective:
    """A problem of the same kind that takes no time."""
    random = np.random.default_rng(0)
    features: FloatArray | sparse.csr_array = random.standard_normal((SMALL_ROWS, SMALL_WIDTH))
    targets = features[:, 0] - features[:, 1] + random.standard_normal(SMALL_ROWS)
    if not objective.is_squared:
        targets = (targets > 0).astype(np.float64)
    if objective.is_sparse:
        features = sparse.csr_array(features * (random.random(features.shape) < 0.2))
        features.indices = features.indices.astype(objective.features.indices.dtype)
        features.indptr = features.indptr.astype(objective.features.indptr.dtype)
    weights = np.full(SMALL_ROWS, 1 / SMALL_ROWS)
    return replace(objective, features=features, targets=targets, weights=weights)


def _profiled(path: Path, *fit: object) -> None:
    """Write down where a fit spends its time, the most expensive functions first."""
    watch = cProfile.Profile(time.process_time)
    watch.runcall(_fit, *fit)
    with path.open("w") as out:
        figures = pstats.Stats(watch, stream=out).strip_dirs()
        figures.sort_stats("tottime").print_stats(SHOWN)
        figures.sort_stats("cumulative").print_stats(2 * SHOWN)


if __name__ == "__main__":
    main(*sys.argv[1:])
