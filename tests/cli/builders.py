"""Patients of four hospitals, and what their columns are for."""

import numpy as np
import polars as pl

ROLES = ("--target", "relapse", "--site", "hospital", "--drop", "days")


def patients(rows=80, seed=0):
    """Four hospitals; marker_1, marker_4 and the ward decide over a relapse."""
    random = np.random.default_rng(seed)
    markers = random.standard_normal((rows, 8)) * [1, 10, 1, 1, 0.1, 1, 1, 1] + 3
    ward = np.array(["ear", "eye"])[random.integers(0, 2, rows)]
    score = (markers[:, 1] - 3) / 10 - (markers[:, 4] - 3) / 0.1 + (ward == "eye")
    columns = {f"marker_{number}": markers[:, number] for number in range(8)}
    return pl.DataFrame(
        {
            "hospital": np.array(["Bari", "Cork", "Lyon", "Oslo"])[np.arange(rows) % 4],
            "ward": ward,
            **columns,
            "relapse": np.where(score + 0.3 * random.standard_normal(rows) > 0, "yes", "no"),
            "days": 100 + 10 * score,
        }
    )
