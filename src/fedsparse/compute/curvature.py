"""Hessians on a set of features, from the clients' rows.

There are few such rounds and on dense rows each is mostly matrix products, so NumPy does them.
Every product runs on one thread, clients side by side: results do not depend on the number of
threads.
"""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.asked_entries import ClientMatrix
from fedsparse.compute.clients import Clients
from fedsparse.compute.matrices import AskedMatrices
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack

Vector = tuple[Int64Array | None, FloatArray]
"""Indices and values of one client's answer; no indices if it has all entries."""


def hessians(
    clients: Clients,
    x: FloatArray,
    support: Int64Array,
    which: Int64Array,
    asked: AskedMatrices,
) -> tuple[FloatArray, Stack, Stack]:
    """f_i(x) of each client, and gradient and Hessian of its mean loss on a support.

    A client without some of the columns leaves their entries out.

    Parameters
    ----------
    clients
        Of a loss with one score a row.
    x
        Where.
    support
        Features, in increasing order.
    which
        Places of the clients.
    asked
        Which entries of the Hessian are told.
    """
    every = np.arange(support.size)
    is_covered = bool(np.isin(np.flatnonzero(x), support, assume_unique=True).all())
    (entries,) = asked.blocks
    found = clients.mean_hessians(
        x, support, which, is_covered=is_covered, is_known=entries.is_known
    )
    losses = np.array([sums.loss for _, sums in found])
    matrices = [
        ClientMatrix(every if held is None else held, sums.hessian, sums.mass, sums.first)
        for held, sums in found
    ]
    return (
        losses + clients.penalty(x),
        _stacked([(held, sums.gradient) for held, sums in found], (support.size,)),
        asked.stack([[own] for own in matrices], clients.workers),
    )


def _stacked(vectors: list[Vector], shape: tuple[int, ...]) -> Stack:
    values = [values for _, values in vectors]
    indices = [places for places, _ in vectors if places is not None]
    if not indices:
        return DenseStack(np.stack(values), shape)
    pointer = np.concatenate([[0], np.cumsum([entry.size for entry in values])])
    joined = np.concatenate(indices).astype(np.int64)
    return SparseStack(pointer, joined, np.concatenate(values), shape)
