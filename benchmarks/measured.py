"""Run a piece of a benchmark in a process of its own and read its peak memory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ONE_THREAD = {
    **os.environ,
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
}
"""The environment of a process that works on one thread."""


def in_own_process(module, *arguments, seconds=None):
    """Run ``python -m module arguments`` and return the JSON object it prints last.

    None if it has not finished after some seconds.
    """
    try:
        finished = subprocess.run(
            [sys.executable, "-m", module, *[str(argument) for argument in arguments]],
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(finished.stdout.splitlines()[-1])


def peak_bytes():
    """Most memory this process has held; unlike ru_maxrss, not that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
