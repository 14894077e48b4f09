"""Threads over clients."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.checks import check_count

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

# More parts even out threads that are held up; fewer leave more of the last round in cache.
_PARTS_PER_THREAD = 2


def available_threads() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(work: Callable[[_Item], _Found], items: Sequence[_Item]) -> list[_Found]:
    """What ``work`` makes of each item, in their order, as many at a time as there are cores.

    For few and long pieces of work that mostly hold no interpreter lock.

    Examples
    --------
    >>> side_by_side(abs, [-3, 2])
    [3, 2]
    """
    threads = min(len(items), available_threads())
    if threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        # In the caller's context: how NumPy takes what is not finite is part of it.
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        return [one.result() for one in waiting]


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
