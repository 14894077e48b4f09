"""Matrices derived from each client's rows, made when first needed and kept."""

from collections.abc import Callable

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array

_CACHE_LINE_BYTES = 64

Fill = Callable[[Int64Array, Int64Array, FloatArray], None]


class DerivedBlocks:
    """One block per client in a single aligned array.

    Parameters
    ----------
    sizes
        Entries of each client's block.
    fill
        Called as ``fill(clients, offsets, storage)`` to write the blocks of some clients.
    """

    def __init__(self, sizes: Int64Array, fill: Fill) -> None:
        self.offsets: Int64Array = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        self._size = int(sizes.sum())
        self._fill = fill
        self._storage: FloatArray | None = None
        self._ready: BoolArray = np.zeros(sizes.size, dtype=bool)

    def of(self, clients: Int64Array) -> FloatArray:
        """The storage, with the blocks of these clients filled in."""
        if self._storage is None:
            self._storage = _aligned(self._size)
        missing = clients[~self._ready[clients]]
        if missing.size:
            self._fill(missing, self.offsets, self._storage)
            self._ready[missing] = True
        return self._storage


def _aligned(size: int) -> FloatArray:
    """Uninitialized room that starts on a cache line, which halves the loads of wide vectors."""
    room = np.empty(size * 8 + _CACHE_LINE_BYTES, dtype=np.uint8)
    skip = -room.ctypes.data % _CACHE_LINE_BYTES
    return room[skip : skip + size * 8].view(np.float64)
