"""Hessians on a set of features, from the clients' rows.

There are few such rounds and on dense rows each is mostly matrix products, so NumPy does them.
Every product runs on one thread, clients side by side: results do not depend on the number of
threads.
"""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.clients import Clients
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.threads import one_thread

Vector = tuple[Int64Array | None, FloatArray]
"""Indices and values of one client's answer; no indices if it has all entries."""


def hessians(
    clients: Clients, x: FloatArray, support: Int64Array, which: Int64Array
) -> tuple[FloatArray, Stack, Stack]:
    """f_i(x) of each client, and gradient and Hessian of its mean loss on a support.

    The Hessian is its upper triangle, row by row; see `triangle_size`. A client without some of
    the columns leaves their entries out.

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
    """
    losses = np.empty(which.size)
    gradients: list[Vector] = [(None, np.empty(0))] * which.size
    triangles = list(gradients)
    size = support.size

    is_covered = bool(np.isin(np.flatnonzero(x), support, assume_unique=True).all())

    def work(order: Int64Array) -> None:
        for place in order:
            client = int(which[place])
            held, losses[place], gradient, product = clients.mean_hessian(
                x, support, client, is_covered=is_covered
            )
            places = np.arange(size) if held is None else held
            is_upper = places[:, None] <= places
            gradients[place] = (held, gradient)
            pairs = None
            if held is not None:
                pairs = triangle_index(held[:, None], held, size)[is_upper]
            triangles[place] = (pairs, product[is_upper])

    with one_thread():
        clients.workers.run(work, clients.data.counts[which])
    return (
        losses + clients.penalty(x),
        _stacked(gradients, (size,)),
        _stacked(triangles, (triangle_size(size),)),
    )


def triangle_size(size: int) -> int:
    """Entries of the upper triangle of a square matrix.

    Examples
    --------
    >>> triangle_size(3)
    6
    """
    return size * (size + 1) // 2


def triangle_index(row: Int64Array, column: Int64Array, size: int) -> Int64Array:
    """Where the entry of a row and a column ≥ row lies in the upper triangle, row by row.

    Examples
    --------
    >>> triangle_index(np.array([0, 1, 2]), np.array([2, 1, 2]), 3)
    array([2, 3, 5])
    """
    return row * size - row * (row - 1) // 2 + column - row


def from_triangle(triangle: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix of an upper triangle.

    Examples
    --------
    >>> from_triangle(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.empty((size, size))
    upper = np.triu_indices(size)
    matrix[upper] = triangle
    matrix.T[upper] = triangle
    return matrix


def _stacked(vectors: list[Vector], shape: tuple[int, ...]) -> Stack:
    values = [values for _, values in vectors]
    indices = [places for places, _ in vectors if places is not None]
    if not indices:
        return DenseStack(np.stack(values), shape)
    pointer = np.concatenate([[0], np.cumsum([entry.size for entry in values])])
    joined = np.concatenate(indices).astype(np.int64)
    return SparseStack(pointer, joined, np.concatenate(values), shape)
