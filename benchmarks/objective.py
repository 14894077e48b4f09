"""What f(x_t) and second derivatives cost a round beside what it computes anyway, two threads."""

import time

import numpy as np

import fedsparse as fs
from benchmarks.problems import dense_clients, sparse_clients
from benchmarks.tables import show
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers
from fedsparse.requests import LocalSteps

THREADS = 2
LOCAL_STEPS = 10
TAU = 200
REPEATS = 60


def gene_clients(rows=(38, 20, 12), width=7129, seed=0):
    """Logistic regression on few, wide rows: gene expression at three sites."""
    random = np.random.default_rng(seed)
    return [
        (random.standard_normal((count, width)), (random.random(count) < 0.5).astype(float))
        for count in rows
    ]


PROBLEMS = {
    "dense 100 × 100 × 1000": (dense_clients, fs.SquaredError(), 1e-3),
    "dense 3 × (38, 20, 12) × 7129": (gene_clients, fs.Logistic(), 1e-3),
    "CSR 100 × 202 × 47,236": (sparse_clients, fs.Logistic(), 1.0),
}


def milliseconds(clients, *requests):
    """Median milliseconds of each request, asked by turns so that all meet the same disturbances.

    The first turns are left out: they prepare blocks.
    """
    everyone = np.arange(len(clients.data))
    times = np.empty((REPEATS, len(requests)))
    for turn in range(REPEATS):
        for place, request in enumerate(requests):
            began = time.perf_counter()
            request.answer(clients, everyone)
            times[turn, place] = time.perf_counter() - began
    return np.median(times[10:], axis=0) * 1e3


def rows_of(name, make, loss, step_size):
    """Rows of the two tables for one problem."""
    data = fs.FederatedData.from_clients(make())
    x = fs.run(
        fs.FedHT(TAU, local_steps=LOCAL_STEPS, step_size=step_size), data, loss=loss, rounds=5
    ).coef
    workers = Workers(THREADS)
    clients = open_clients(data, loss, workers)
    rounds = []
    for method, sparsity in (("FedIterHT", fs.TopK(TAU)), ("FedHT", None)):
        plain, with_objective = milliseconds(
            clients,
            *(
                LocalSteps(
                    x, LOCAL_STEPS, step_size, sparsity=sparsity, with_objective=with_objective
                )
                for with_objective in (False, True)
            ),
        )
        rounds.append(
            (f"{name} {method}", f"{plain:.2f}", f"{with_objective:.2f}",
             f"{with_objective / plain:.2f}×")
        )  # fmt: skip
    support = np.flatnonzero(x)
    gradient, slopes, curvature = milliseconds(
        clients, fs.Gradient(x), fs.Slopes(x), fs.Curvature(x, support)
    )
    workers.close()
    second = (name, f"{gradient:.2f}", f"{slopes:.2f}", f"{slopes / gradient:.1f}×",
              f"{curvature:.2f}", f"{curvature / gradient:.1f}×")  # fmt: skip
    return rounds, second


def main():
    rounds, second = zip(
        *(rows_of(name, *problem) for name, problem in PROBLEMS.items()), strict=True
    )
    show(
        f"A round's local steps without and with f(x_t), K = {LOCAL_STEPS}, {THREADS} threads",
        ["problem", "without [ms]", "with [ms]", "ratio"],
        [row for pair in rounds for row in pair],
    )
    show(
        f"Second derivatives beside a gradient, {TAU} features in the support, {THREADS} threads",
        ["problem", "gradient [ms]", "slopes [ms]", "ratio", "curvature [ms]", "ratio"],
        second,
    )


if __name__ == "__main__":
    main()
