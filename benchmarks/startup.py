"""Seconds from the shell prompt: importing the package, and the demo's first round."""

import subprocess
import sys
import tempfile
import time

import numpy as np
from benchmarks.tables import show

REPEATS = 5


def seconds_of(command):
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def main():
    python = sys.executable
    nothing = seconds_of([python, "-c", "pass"])
    numba = seconds_of([python, "-c", "import numba"])
    imported = seconds_of([python, "-c", "import fedsparse"])
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "fedsparse.cli", "demo", "--rounds", "1", "--out", folder]
        subprocess.run(command, check=True, capture_output=True)  # compiles, if need be
        demo = seconds_of(command)
    show(
        "Start-up, compiled code cached [s]",
        ["command", "seconds", "of which numba and Python"],
        [
            ("python -c pass", f"{nothing:.2f}", ""),
            ("import numba", f"{numba:.2f}", ""),
            ("import fedsparse", f"{imported:.2f}", f"{numba / imported:.0%}"),
            ("fedsparse demo --rounds 1, to its end", f"{demo:.2f}", f"{numba / demo:.0%}"),
        ],
    )


if __name__ == "__main__":
    main()
