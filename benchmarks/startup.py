"""Seconds from the shell prompt: importing the package, and the demo's first model."""

import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.tables import show

REPEATS = 5
FIRST_MODEL = b"fitted: "  # the progress bar says so once a model is there


def seconds_of(command):
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def seconds_to_first_model(command):
    """Start the demo on a terminal of its own and wait until its bar shows a model."""
    began = time.perf_counter()
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        command, stdout=other_end, stderr=other_end, stdin=subprocess.DEVNULL, close_fds=True
    )
    os.close(other_end)
    seen = b""
    while FIRST_MODEL not in seen:
        seen += os.read(terminal, 4096)
    seconds = time.perf_counter() - began
    process.terminate()
    process.wait()
    os.close(terminal)
    return seconds


def main():
    python = sys.executable
    numba = seconds_of([python, "-c", "import numba"])
    imported = seconds_of([python, "-c", "import fedsparse"])
    with tempfile.TemporaryDirectory() as folder:
        fedsparse = str(Path(python).with_name("fedsparse"))
        command = [fedsparse, "demo", "--out", folder]
        subprocess.run([*command, "--rounds", "1"], check=True, capture_output=True)  # compiles
        first_model = float(np.median([seconds_to_first_model(command) for _ in range(REPEATS)]))
    show(
        "Start-up, compiled code cached [s]",
        ["from the shell prompt to", "seconds", "× importing numba alone"],
        [
            ("import numba", f"{numba:.2f}", "1.0×"),
            ("import fedsparse", f"{imported:.2f}", f"{imported / numba:.1f}×"),
            (
                "the first model of fedsparse demo",
                f"{first_model:.2f}",
                f"{first_model / numba:.1f}×",
            ),
        ],
    )


if __name__ == "__main__":
    main()
