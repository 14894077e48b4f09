"""Reading the tables of many sites: 200 CSV files of 50 rows and 7,000 columns of numbers.

Files are made and read by processes of their own, so that the peak is that of reading alone.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measured import in_own_process, peak_bytes
from benchmarks.tables import show

SITES, ROWS, COLUMNS = 200, 50, 7_000
MOST_SECONDS, MOST_BYTES = 20.0, 1e9


def write_sites(folder):
    """One file per site, of numbers with all their digits."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    names = [f"gene {number}" for number in range(COLUMNS)]
    for site in range(SITES):
        frame = pl.DataFrame(random.standard_normal((ROWS, COLUMNS)), schema=names)
        frame = frame.with_columns(relapse=pl.Series(random.integers(0, 2, ROWS)))
        frame.write_csv(folder / f"site-{site:03d}.csv")
    return {"bytes": sum(file.stat().st_size for file in folder.iterdir())}


def read_sites(folder):
    """Seconds and peak memory of reading the files, once the package is imported."""
    from fedsparse.tables import Roles, load_tables

    before = peak_bytes()
    began, began_working = time.perf_counter(), time.process_time()
    loaded = load_tables(sorted(folder.iterdir()), Roles(target="relapse"))
    seconds, working = time.perf_counter() - began, time.process_time() - began_working
    assert loaded.features.shape == (SITES * ROWS, COLUMNS)
    return {
        "seconds": seconds,
        "working": working,
        "before": before,
        "peak": peak_bytes(),
        "array": loaded.features.nbytes,
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        written = in_own_process("benchmarks.reading", "write", folder)
        read = in_own_process("benchmarks.reading", "read", folder)
    show(
        f"Reading {SITES} CSV files of {ROWS} rows and {COLUMNS:,} columns "
        f"({written['bytes'] / 1e6:,.0f} MB of text)",
        ["", "measured", "at most"],
        [
            ("seconds", f"{read['seconds']:.1f}", f"{MOST_SECONDS:.0f}"),
            ("of processors, whatever else they do", f"{read['working']:.1f}", ""),
            ("peak memory [MB]", f"{read['peak'] / 1e6:,.0f}", f"{MOST_BYTES / 1e6:,.0f}"),
            ("of it the array that is read into [MB]", f"{read['array'] / 1e6:,.0f}", ""),
            ("of it before reading [MB]", f"{read['before'] / 1e6:,.0f}", ""),
        ],
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work = {"write": write_sites, "read": read_sites}[sys.argv[1]]
        print(json.dumps(work(Path(sys.argv[2]))))
    else:
        main()
