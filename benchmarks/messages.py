"""Bytes of a message and of its support, against dense messages and the entropy bound."""

import math

import numpy as np

from benchmarks.tables import show
from fedsparse.requests.wire import vectors as wire

CASES = ((150_360, 200), (47_236, 200), (1_000, 200), (150_360, 20), (10_000_000, 1_000))


def entropy_bytes(length, count):
    """Bytes to say which ``count`` of ``length`` positions are used: log2 of the binomial."""
    bits = math.lgamma(length + 1) - math.lgamma(count + 1) - math.lgamma(length - count + 1)
    return bits / math.log(2) / 8


def main():
    random = np.random.default_rng(0)
    rows = []
    for length, count in CASES:
        indices = np.sort(random.choice(length, size=count, replace=False))
        values = random.standard_normal(count)
        single = len(wire.encode_sparse(indices, values, length, np.float32))
        double = len(wire.encode_sparse(indices, values, length))
        dense = wire.dense_size(length, np.float32)
        rows.append(
            (
                f"d = {length:,}, τ = {count:,}",
                f"{entropy_bytes(length, count):.0f}",
                single - 4 * count,
                single,
                double,
                f"{dense:,}",
                f"{dense / single:.0f}×",
            )
        )
    show(
        "Bytes of a message",
        [
            "vector",
            "entropy of the support",
            "support and frame",
            "float32",
            "float64",
            "dense float32",
            "dense / sparse",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
