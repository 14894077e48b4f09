"""Memory beyond the data with 100,000 clients of 10 rows."""

import json
import sys

import numpy as np

import fedsparse as fs
from benchmarks.measured import in_own_process, peak_bytes
from benchmarks.problems import sparse_rows
from benchmarks.tables import show

CLIENTS, ROWS, WIDTH, PER_ROW = 100_000, 10, 10_000, 20
METHODS = ("nothing", "FedIterHT", "FedHT", "DistributedIHT")


def table():
    random = np.random.default_rng(0)
    parts = 100
    matrices = [sparse_rows(random, CLIENTS * ROWS // parts, WIDTH, PER_ROW) for _ in range(parts)]
    from scipy import sparse

    matrix = sparse.vstack(matrices, format="csr")
    targets = (random.random(CLIENTS * ROWS) < 0.5).astype(float)
    return matrix, targets, np.repeat(np.arange(CLIENTS), ROWS)


def measure(name):
    """Peak memory and seconds per round; ``nothing`` only makes the data."""
    data = fs.FederatedData.from_table(*table())
    stored = sum(
        part.nbytes
        for part in (data.features.data, data.features.indices, data.features.indptr, data.targets)
    )
    made = peak_bytes()
    seconds = 0.0
    if name != "nothing":
        options = {} if name == "DistributedIHT" else {"local_steps": 5}
        result = fs.run(
            getattr(fs, name)(200, step_size=1.0, **options), data, loss="logistic", rounds=2
        )
        seconds = result.records[-1].seconds / 2
    return {"stored": stored, "made": made, "peak": peak_bytes(), "seconds": seconds}


def main():
    rows = []
    for name in METHODS:
        result = in_own_process("benchmarks.clients", name)
        rows.append(
            (
                name,
                f"{result['stored'] / 1e9:.2f}",
                f"{result['made'] / 1e9:.2f}",
                f"{result['peak'] / 1e9:.2f}",
                f"{(result['peak'] - result['stored']) / 1e9:.2f}",
                f"{result['seconds']:.2f}",
            )
        )
    show(
        f"{CLIENTS:,} clients of {ROWS} rows, {PER_ROW} values a row, d = {WIDTH:,}",
        [
            "method",
            "data [GB]",
            "peak while making data [GB]",
            "peak [GB]",
            "peak − data [GB]",
            "seconds per round",
        ],
        rows,
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
