"""Run a piece of a benchmark in a process of its own and read its peak memory."""

import json
import resource
import subprocess
import sys


def in_own_process(module, *arguments):
    """Run ``python -m module arguments`` and return the JSON object it prints last."""
    finished = subprocess.run(
        [sys.executable, "-m", module, *[str(argument) for argument in arguments]],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(finished.stdout.splitlines()[-1])


def peak_bytes():
    """Most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
