"""How the server's part of a FedSplice round grows with τ: the best subset of a quadratic model.

On the features that FedSplice takes: where second derivatives must be asked for, 50 candidates
beside τ; under the squared loss, where known ones are kept, as many candidates as τ and what is
known besides.
"""

import time

import numpy as np

from benchmarks.tables import show
from fedsparse.algorithms.splicing import FEWEST_CANDIDATES, FIRST_FEATURES, FedSplice
from fedsparse.algorithms.subset import Quadratic, best_subset
from fedsparse.threads import one_thread

SPARSITIES = (100, 250, 500, 1000, 2000)
NEIGHBOURS_CORRELATE = 0.6
LONG_ENOUGH = 0.5
"""Seconds; processors' clocks may tick a few milliseconds at a time."""

MOST = 2.3
"""The target for the exponent."""


def asked(sparsity):
    """Features on which FedSplice asks for second derivatives when it knows none."""
    return max(sparsity + FEWEST_CANDIDATES, FIRST_FEATURES)


def kept(sparsity):
    """Features of the next splice under the squared loss, those it knows with them."""
    known = asked(sparsity) + sparsity
    most = np.sqrt(2 * FedSplice(sparsity).message_bytes)
    return known if known <= most else 2 * sparsity


def model_of(sparsity, size, seed=0):
    """Least squares on neighbours that correlate, with about τ features that matter, and noise."""
    random = np.random.default_rng(seed)
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
    seconds(model_of(10, 60)[0], 10, np.arange(10))  # compiles, which is not timed
    rows, first, later, known = [], [], [], []
    for sparsity in SPARSITIES:
        model, far = model_of(sparsity, asked(sparsity))
        first.append(seconds(model, sparsity, None))
        later.append(seconds(model, sparsity, np.sort(far)))
        model, far = model_of(sparsity, kept(sparsity))
        known.append(seconds(model, sparsity, np.sort(far)))
        times = [f"{own[-1]:.4f}" for own in (first, later, known)]
        sizes = f"{asked(sparsity):,}", f"{kept(sparsity):,}"
        rows.append((f"τ = {sparsity}", sizes[0], *times[:2], sizes[1], times[2]))
    powers = [exponent(own) for own in (first, later, known)]

    def closing(what, cells):
        return (what, "", *cells[:2], "", cells[2])

    rows.append(closing("seconds ∝ τ to the", [f"{power:.2f}" for power in powers]))
    rows.append(closing(f"over {MOST}", [f"{power / MOST:.2f}" for power in powers]))
    met = ["yes" if power <= MOST else "NO" for power in powers]
    rows.append(closing(f"target ≤ {MOST} met", met))
    show(
        "The server's part of a FedSplice round: processor seconds, one thread",
        [
            "features to choose",
            "asked on", "first round [s]", "with a random support to improve [s]",
            "kept on, squared loss", "the same [s]",
        ],
        rows,
    )  # fmt: skip
