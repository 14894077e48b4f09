"""Tables of counts and of survival for the command line's tests."""

import numpy as np
import polars as pl

HOSPITALS = np.array(["Bari", "Cork", "Lyon", "Oslo"])


def fallers(rows=160, seed=0):
    """Falls of patients over some days; markers 1 and 4 decide how many."""
    random = np.random.default_rng(seed)
    markers = random.standard_normal((rows, 6))
    days = random.integers(10, 90, rows)
    rates = np.exp(-3 + 0.7 * markers[:, 1] - 0.6 * markers[:, 4])
    return pl.DataFrame(
        {
            "hospital": HOSPITALS[np.arange(rows) % 4],
            **{f"marker_{number}": markers[:, number] for number in range(6)},
            "falls": random.poisson(rates * days),
            "days": days,
        }
    )


def survivors(rows=160, seed=0):
    """Months until patients died or were last seen; markers 1 and 4 decide over the hazard."""
    random = np.random.default_rng(seed)
    markers = random.standard_normal((rows, 6))
    hazards = np.exp(0.9 * markers[:, 1] - 0.8 * markers[:, 4]) / 20
    times, ends = random.exponential(1 / hazards), random.uniform(5, 60, rows)
    return pl.DataFrame(
        {
            "hospital": HOSPITALS[np.arange(rows) % 4],
            **{f"marker_{number}": markers[:, number] for number in range(6)},
            "months": np.maximum(np.minimum(times, ends).round(1), 0.1),
            "died": (times <= ends).astype(int),
        }
    )


def changed(frame, row, **cells):
    """The table with other values in a row."""
    return frame.with_row_index("at").with_columns(
        **{
            name: pl.when(pl.col("at") == row).then(pl.lit(value)).otherwise(pl.col(name))
            for name, value in cells.items()
        }
    ).drop("at")  # fmt: skip
