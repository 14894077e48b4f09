"""Reads the memory of processes while they stand still."""

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path


def family(pid):
    """A process and all that it started, and those started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(ProcessLookupError, FileNotFoundError):
            for child in task.read_text().split():
                found += family(int(child))
    return found


@contextmanager
def standing_still(pids):
    """Stop processes for a while; gives those that have not ended meanwhile."""
    stopped = [pid for pid in pids if _has_got(pid, signal.SIGSTOP)]
    try:
        yield stopped
    finally:
        for pid in stopped:
            _has_got(pid, signal.SIGCONT)


def _has_got(pid, number):
    """Send a signal; whether there is such a process, and not only what is left of one."""
    try:
        os.kill(pid, number)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def memory_of(pid):
    """All that a process can write to and read, region by region.

    What it can only read are files' own bytes, such as a library's.
    """
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            bounds, rights, *_ = line.split(maxsplit=2)
            if not rights.startswith("rw"):
                continue
            begin, end = (int(own, 16) for own in bounds.split("-"))
            yield _read(memory, begin, end - begin)


def _read(memory, begin, size):
    memory.seek(begin)
    parts, left = [], size
    while left:
        part = memory.read(left)
        assert part, "a process changed while it stood still"
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
