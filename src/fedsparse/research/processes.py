"""Independent pieces of a study in several processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from fedsparse.threads import one_thread

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def in_processes(
    work: Callable[[_Item], _Found], items: Sequence[_Item], processes: int
) -> list[_Found]:
    """What ``work`` makes of each item, in their order.

    Many small runs gain nothing from threads, which wait for each other and the interpreter. So
    each is made on one thread, and several of them at a time.

    Parameters
    ----------
    work
        A function of a module; with several processes it travels by its name.
    items
        What it is called with.
    processes
        How many at a time; 1: in this process.

    Examples
    --------
    >>> in_processes(abs, [-3, 2], 1)
    [3, 2]
    """
    alone = partial(_on_one_thread, work)
    if min(processes, len(items)) < 2:
        return [alone(item) for item in items]
    # Forked processes would inherit locks of threads that they do not have.
    with ProcessPoolExecutor(min(processes, len(items)), get_context("spawn")) as pool:
        return list(pool.map(alone, items))


def _on_one_thread(work: Callable[[_Item], _Found], item: _Item) -> _Found:
    with one_thread():
        return work(item)
