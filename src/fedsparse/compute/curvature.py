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
from fedsparse.threads import one_thread

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
    losses = np.empty(which.size)
    gradients: list[Vector] = [(None, np.empty(0))] * which.size
    matrices: list[ClientMatrix | None] = [None] * which.size
    every = np.arange(support.size)
    is_covered = bool(np.isin(np.flatnonzero(x), support, assume_unique=True).all())

    def work(order: Int64Array) -> None:
        for place in order:
            held, sums = clients.mean_hessian(x, support, int(which[place]), is_covered=is_covered)
            losses[place] = sums.loss
            gradients[place] = (held, sums.gradient)
            matrices[place] = ClientMatrix(
                every if held is None else held, sums.hessian, sums.mass, sums.first
            )

    with one_thread():
        clients.workers.run(work, clients.data.counts[which])
    return (
        losses + clients.penalty(x),
        _stacked(gradients, (support.size,)),
        asked.stack([[own] for own in matrices if own is not None]),
    )


def _stacked(vectors: list[Vector], shape: tuple[int, ...]) -> Stack:
    values = [values for _, values in vectors]
    indices = [places for places, _ in vectors if places is not None]
    if not indices:
        return DenseStack(np.stack(values), shape)
    pointer = np.concatenate([[0], np.cumsum([entry.size for entry in values])])
    joined = np.concatenate(indices).astype(np.int64)
    return SparseStack(pointer, joined, np.concatenate(values), shape)
