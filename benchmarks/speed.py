"""Seconds per round against the plain NumPy/SciPy loop, both on two threads, K = 10."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import fedsparse as fs
from benchmarks import plain
from benchmarks.problems import dense_clients, sparse_clients
from benchmarks.tables import show
from fedsparse.compute.kernels.columns import read_ahead
from fedsparse.engines import LocalEngine

THREADS = 2
LOCAL_STEPS = 10
TAU = 200
PLAIN_ROUNDS = 5
REPEATS = 5
OUR_ROUNDS = 40


def memory_bandwidth():
    """Bytes per second when all threads read a large array in order."""
    block = np.ones((50_000, 1000))
    parts = np.array_split(block, THREADS)
    read_ahead(block)
    with ThreadPoolExecutor(THREADS) as pool:
        best = min(_seconds(lambda: list(pool.map(read_ahead, parts))) for _ in range(5))
    return block.nbytes / best


def _seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def plain_seconds(clients, gradient, step_size, l2, local_threshold):
    x = np.zeros(clients[0][0].shape[1])
    options = {"tau": TAU, "local_steps": LOCAL_STEPS, "step_size": step_size, "l2": l2}
    times = []
    for _ in range(PLAIN_ROUNDS):
        began = time.perf_counter()
        x = plain.federated_round(clients, x, gradient, local_threshold=local_threshold, **options)
        times.append(time.perf_counter() - began)
    return float(np.median(times)), x


def our_seconds(engine, algorithm):
    """Median seconds of a round.

    The first ones are left out: they prepare blocks, and BLAS threads still spin beside them.
    """
    state = algorithm.start(engine.shape, 0, engine.lens.loss)
    times = []
    for _ in range(OUR_ROUNDS):
        began = time.perf_counter()
        (answers,) = engine.exchange([engine.ask(algorithm.request(state), algorithm.weights)])
        state = algorithm.update(state, answers)
        times.append(time.perf_counter() - began)
    return float(np.median(times[10:]))


def compare(shape, clients, gradient, loss, step_size):
    data = fs.FederatedData.from_clients(clients)
    stored = data.features.nbytes if not data.is_sparse else _csr_bytes(data.features)
    engine = LocalEngine(data, loss, THREADS)
    rows = []
    for algorithm_class, local_threshold in ((fs.FedIterHT, True), (fs.FedHT, False)):
        algorithm = algorithm_class(TAU, local_steps=LOCAL_STEPS, step_size=step_size)
        ours, theirs = [], []
        for _ in range(REPEATS):  # interleaved, so that both meet the same disturbances
            seconds, x = plain_seconds(clients, gradient, step_size, loss.l2, local_threshold)
            theirs.append(seconds)
            ours.append(our_seconds(engine, algorithm))
        check = fs.run(algorithm, data, loss=loss, rounds=PLAIN_ROUNDS, threads=THREADS)
        assert np.allclose(check.coef, x, atol=1e-9), "the two sides disagree"
        fraction = stored / np.median(ours) / memory_bandwidth()
        rows.append(
            (
                f"{shape} {algorithm_class.__name__}",
                f"{np.median(theirs) * 1e3:.2f}",
                f"{np.median(ours) * 1e3:.2f}",
                f"{np.median(theirs) / np.median(ours):.1f}×",
                f"{fraction:.0%}",
            )
        )
    return rows


def _csr_bytes(matrix):
    return matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


def main():
    rows = compare(
        "dense 100 × 100 × 1000",
        dense_clients(),
        plain.squared_gradient,
        fs.SquaredError(),
        1e-3,
    )
    rows += compare(
        "CSR 100 × 202 × 47,236",
        sparse_clients(),
        plain.logistic_gradient,
        fs.Logistic(),
        1.0,
    )
    show(
        f"Seconds per round, K = {LOCAL_STEPS}, {THREADS} threads "
        f"(BLAS: {os.environ.get('OPENBLAS_NUM_THREADS', 'all cores')})",
        [
            "problem",
            "plain NumPy/SciPy [ms]",
            "fedsparse [ms]",
            "ratio",
            "of memory bandwidth, data read once",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
