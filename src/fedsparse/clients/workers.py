"""Threads over clients."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.errors import OptionError

_PARTS_PER_THREAD = 4  # evens out clients of different size


def available_threads() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Runs one compiled call per part of the clients, several at a time.

    Compiled loops hold no interpreter lock. Every client's answer is worked out by itself, so
    results do not depend on the number of threads.
    """

    def __init__(self, threads: int) -> None:
        if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
            raise OptionError(f"threads must be a whole number of at least 1, not {threads!r}")
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._backwards = False

    def run(self, work: Callable[[Int64Array], None], count: int) -> None:
        """Call ``work`` on parts of ``range(count)`` that together make up the whole.

        Every other call goes through the clients backwards: those met last are still in cache.
        """
        order = np.arange(count)
        if self._backwards:
            order = order[::-1].copy()
        self._backwards = not self._backwards
        if self._pool is None:
            work(order)
            return
        parts = np.array_split(order, min(count, self.threads * _PARTS_PER_THREAD))
        for finished in [self._pool.submit(work, part) for part in parts]:
            finished.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
