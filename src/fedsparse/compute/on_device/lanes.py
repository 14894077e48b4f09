"""Work on parts of the clients: one after the other on a GPU, on several threads on a processor."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from fedsparse.arrays import Int64Array
from fedsparse.compute.on_device.device_rows import Part
from fedsparse.compute.workers import Workers

Totals = dict[str, Tensor]
"""What parts add to, by name."""


def add_up(
    parts: Sequence[Callable[[], Part]],
    zeros: Callable[[], Totals],
    work: Callable[[Part, Totals], None],
    workers: Workers,
) -> Totals:
    """Totals of all parts.

    Every thread takes the same parts each time, so that rounding depends on their number alone.

    Parameters
    ----------
    parts
        Each is made when its turn comes.
    zeros
        What parts are added to.
    work
        Adds a part to it.
    workers
        Threads; of a GPU one thread does.
    """
    totals = zeros()
    on_gpu = any(total.is_cuda for total in totals.values())
    lanes = 1 if on_gpu else min(workers.threads, len(parts))
    if lanes <= 1:
        for part in parts:
            work(part(), totals)
        return totals
    own = [totals, *(zeros() for _ in range(lanes - 1))]

    def run(order: Int64Array) -> None:
        with _one_thread():
            for lane in order:
                for part in parts[lane::lanes]:
                    work(part(), own[lane])

    workers.run(run, torch.ones(lanes, dtype=torch.int64).numpy())
    for other in own[1:]:
        for name, total in totals.items():
            total += other[name]
    return totals


@contextmanager
def _one_thread() -> Iterator[None]:
    """Products of this thread on one thread: others work beside it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
