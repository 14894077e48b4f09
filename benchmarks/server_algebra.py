"""How the server's part of a FedSplice round grows with τ: the best subset of a quadratic model."""

import time

import numpy as np

from benchmarks.tables import show
from fedsparse.algorithms.splicing import FEWEST_CANDIDATES
from fedsparse.algorithms.subset import Quadratic, best_subset
from fedsparse.threads import one_thread

SPARSITIES = (100, 250, 500, 1000, 2000)
NEIGHBOURS_CORRELATE = 0.6
LONG_ENOUGH = 0.5
"""Seconds; processors' clocks may tick a few milliseconds at a time."""

MOST = 2.3
"""The target for the exponent."""


def model_of(sparsity, seed=0):
    """Least squares on neighbours that correlate, with about τ features that matter, and noise."""
    random = np.random.default_rng(seed)
    size = sparsity + max(sparsity, FEWEST_CANDIDATES)
    rows = 3 * size
    Z = random.standard_normal((rows, size))
    for column in range(1, size):
        Z[:, column] *= np.sqrt(1 - NEIGHBOURS_CORRELATE**2)
        Z[:, column] += NEIGHBOURS_CORRELATE * Z[:, column - 1]
    truth = random.standard_normal(size) * (random.random(size) < sparsity / size)
    y = Z @ truth + 0.6 * np.sqrt(sparsity) * random.standard_normal(rows)
    return Quadratic(Z.T @ Z / rows, Z.T @ y / rows), random.choice(size, sparsity, replace=False)


def seconds(model, sparsity, start):
    """Processor seconds on one thread as in a round, the mean of as many as make up a while."""
    count, began = 0, time.process_time()
    with one_thread():
        while count == 0 or time.process_time() - began < LONG_ENOUGH:
            best_subset(Quadratic(model.hessian, model.linear), sparsity, start=start)
            count += 1
    return (time.process_time() - began) / count


def exponent(times):
    """The slope of log seconds over log τ."""
    return np.polyfit(np.log(SPARSITIES), np.log(times), 1)[0]


def main():
    seconds(model_of(10)[0], 10, np.arange(10))  # compiles, which is not timed
    first, later = [], []
    for sparsity in SPARSITIES:
        model, far = model_of(sparsity)
        first.append(seconds(model, sparsity, None))
        later.append(seconds(model, sparsity, np.sort(far)))
    rows = [
        (f"τ = {sparsity}", f"{begin:.4f}", f"{far:.4f}")
        for sparsity, begin, far in zip(SPARSITIES, first, later, strict=True)
    ]
    powers = [exponent(first), exponent(later)]
    rows.append(("seconds ∝ τ to the", *[f"{power:.2f}" for power in powers]))
    met = ["yes" if power <= MOST else "NO" for power in powers]
    rows.append((f"over {MOST}", *[f"{power / MOST:.2f}" for power in powers]))
    rows.append((f"target ≤ {MOST} met", *met))
    show(
        "The server's part of a FedSplice round, on 2τ features: processor seconds, one thread",
        ["features to choose", "first round [s]", "with a random support to improve [s]"],
        rows,
    )
