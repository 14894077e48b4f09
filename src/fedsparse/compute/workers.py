"""Threads over clients."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.checks import check_count

# More parts even out threads that are held up; fewer leave more of the last round in cache.
_PARTS_PER_THREAD = 2


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
        check_count("threads", threads)
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._backwards = False

    def run(self, work: Callable[[Int64Array], None], costs: Int64Array) -> None:
        """Call ``work`` on parts of ``range(costs.size)`` that cost about the same.

        Every other call goes through the clients backwards: those met last are still in cache.
        """
        order = np.arange(costs.size)
        if self._backwards:
            order = order[::-1].copy()
        self._backwards = not self._backwards
        if self._pool is None:
            work(order)
            return
        share = np.cumsum(costs[order]) / costs.sum()
        parts = self.threads * _PARTS_PER_THREAD
        cuts = np.searchsorted(share, np.arange(1, parts) / parts, side="right")
        waiting = deque(np.split(order, cuts))

        def take_parts() -> None:
            while waiting:
                try:
                    part = waiting.popleft()
                except IndexError:  # another thread was faster
                    return
                work(part)

        helpers = [self._pool.submit(take_parts) for _ in range(self.threads - 1)]
        take_parts()  # this thread works, too, instead of waiting to be woken
        for helper in helpers:
            helper.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
