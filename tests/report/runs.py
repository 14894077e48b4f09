"""A made-up table of runs, shared by the tests of reports."""

import numpy as np
import polars as pl

METHODS = ("Distributed-IHT", "Distributed-IHT, extrapolated", "Fed-HT")


def made_up_history(rounds=20, methods=METHODS):
    rates = np.linspace(0.1, 0.4, len(methods))
    steps = np.arange(rounds + 1)
    return pl.concat(
        pl.DataFrame(
            {
                "method": method,
                "round": steps,
                "iterations": 10 * steps,
                "objective": 1000 * np.exp(-rate * steps) + 3,
                "nonzeros": np.minimum(200, 1000 * steps),
                "bytes_down": 170_000 * steps,
                "bytes_up": 800_000 * steps,
                "seconds": 0.01 * steps,
            }
        )
        for method, rate in zip(methods, rates, strict=True)
    )
