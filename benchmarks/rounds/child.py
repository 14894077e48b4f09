"""A pooled solver in a process of its own, which the system ends when its time is up."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.rounds.objective import PooledObjective
from benchmarks.rounds.solvers import find_support
from fedsparse.arrays import Int64Array


@dataclass(frozen=True, eq=False)
class Found:
    """What a solver chose, and how long that took."""

    support: Int64Array
    seconds: float


def find_in_time(name: str, folder: Path, sparsity: int, limit: float) -> Found | str:
    """Run a solver on a saved objective; a sentence if it does not come to an end."""
    arguments = [name, str(folder), str(sparsity), str(limit)]
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.rounds.child", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode == -signal.SIGALRM:
        return f"did not finish in {limit:g} s"
    if finished.returncode == -signal.SIGKILL:
        return "was stopped by the system, most likely for want of memory"
    if finished.returncode != 0:
        return f"failed: {(finished.stderr.strip().splitlines() or ['no message'])[-1]}"
    answer = json.loads(finished.stdout.splitlines()[-1])
    return Found(np.array(answer["support"], dtype=np.int64), answer["seconds"])


def main(name: str, folder: str, sparsity: str, limit: str) -> None:
    objective = PooledObjective.load(Path(folder))
    _warm_up(name, objective)
    # Nobody handles this signal, so it ends compiled code, too.
    signal.setitimer(signal.ITIMER_REAL, float(limit))
    began = time.perf_counter()
    support = find_support(name, objective, int(sparsity))
    seconds = time.perf_counter() - began
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    print(json.dumps({"support": support.tolist(), "seconds": seconds}))


def _warm_up(name: str, objective: PooledObjective) -> None:
    """Import what the solver needs, which is not timed: solve a problem of a few rows."""
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 10))
    targets = (features[:, 0] + random.standard_normal(40) > 0).astype(np.float64)
    small = PooledObjective(features, targets, np.full(40, 1 / 40), objective.loss)
    find_support(name, small, 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
