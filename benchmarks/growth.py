"""How a round's time and memory grow with the width d, at fixed non-zeros."""

import json
import sys
import time

import numpy as np

import fedsparse as fs
from benchmarks.measured import in_own_process, peak_bytes
from benchmarks.problems import sparse_clients
from benchmarks.tables import show
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers

WIDTHS = (10_000, 100_000, 1_000_000, 10_000_000)
TAU = 200
ROUNDS = 8


def measure(name, width):
    """Median seconds of a round's client side and server side."""
    columns = sparse_clients(width=10_000)  # the same work, spread over more columns
    random = np.random.default_rng(1)
    places = np.sort(random.choice(width, size=10_000, replace=False)).astype(np.int32)
    clients = []
    for matrix, y in columns:
        spread = matrix.copy()
        spread.resize((matrix.shape[0], width))
        spread.indices = places[matrix.indices]
        clients.append((spread, y))
    del columns
    data = fs.FederatedData.from_clients(clients)
    del clients
    algorithm = getattr(fs, name)(TAU, local_steps=10, step_size=1.0)
    opened = open_clients(data, fs.Logistic(), Workers(2))
    state = algorithm.start(opened.shape, 0, opened.loss)
    everyone = np.arange(len(data))
    weights = np.ones(len(data))
    client_times, server_times = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        fields = algorithm.request(state).answer(opened, everyone)
        asked = time.perf_counter()
        state = algorithm.update(state, fs.Answers.of(fields, weights))
        client_times.append(asked - began)
        server_times.append(time.perf_counter() - asked)
    return {
        "clients": float(np.median(client_times[2:])),
        "server": float(np.median(server_times[2:])),
        "peak": peak_bytes(),
    }


def main():
    rows = []
    for name in ("FedIterHT", "FedHT"):
        first = None
        for width in WIDTHS:
            result = in_own_process("benchmarks.growth", name, width)
            first = first or result
            rows.append(
                (
                    f"{name}, d = {width:,}",
                    f"{result['clients'] * 1e3:.1f}",
                    f"{result['clients'] / first['clients']:.2f}×",
                    f"{result['server'] * 1e3:.1f}",
                    f"{result['peak'] / 1e9:.2f}",
                )
            )
    show(
        "Growth with the width: 100 clients × 202 rows, 1.3 million stored values, K = 10",
        ["problem", "clients [ms/round]", "growth", "server [ms/round]", "peak memory [GB]"],
        rows,
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
