"""Second derivatives on the clients: diagonals, and Hessians on a set of features.

There are few such rounds and each is mostly one matrix product a client, so NumPy does them. Every
product runs on one thread, clients side by side: results do not depend on the number of threads.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.clients.base import Clients
from fedsparse.data.federated import Features
from fedsparse.kernels.slopes import to_mean_slopes
from fedsparse.stacks import DenseStack, SparseStack, Stack
from fedsparse.threads import one_thread

Vector = tuple[Int64Array | None, FloatArray]
"""Indices and values of one client's answer; no indices if it has all entries."""


def mean_diagonals(clients: Clients, x: FloatArray, which: Int64Array) -> Stack:
    """Diagonal of the Hessian of each client's mean loss, on the columns it has.

    Parameters
    ----------
    clients
        Of a loss with one score a row.
    x
        Where.
    which
        Places of the clients.
    """

    def diagonal(client: int, place: int) -> Vector:
        rows, columns = clients.rows_of(client)
        curvatures = _curvatures(clients, client, rows, x if columns is None else x[columns])
        exact = rows.astype(np.float64)  # squares of float32 values do not fit float32
        squares = exact.multiply(exact) if isinstance(exact, sparse.csr_array) else exact * exact
        return columns, np.asarray(squares.T @ curvatures)

    return _stacked(_for_each(clients, which, diagonal), (x.size,))


def mean_hessians(
    clients: Clients, x: FloatArray, support: Int64Array, which: Int64Array
) -> tuple[Stack, Stack]:
    """Gradient and Hessian of each client's mean loss on a support.

    The Hessian is its upper triangle, row by row; see `triangle_size`. A client without some of
    the columns leaves their entries out.

    Parameters
    ----------
    clients, x, which
        As in `mean_diagonals`.
    support
        Features, in increasing order.
    """
    gradients: list[Vector] = [(None, np.empty(0))] * which.size
    size = support.size

    def hessian(client: int, place: int) -> Vector:
        rows, columns = clients.rows_of(client)
        x_here = x if columns is None else x[columns]
        curvatures = _curvatures(clients, client, rows, x_here)
        slopes = _slopes(clients, client, rows, x_here)
        block, held = _restricted(rows, columns, support)
        gradients[place] = (held, block.T @ slopes)
        product = block.T @ (block * curvatures[:, None])
        upper = np.triu_indices(product.shape[0])
        if held is None:
            return None, product[upper]
        return triangle_index(held[upper[0]], held[upper[1]], size), product[upper]

    hessians = _for_each(clients, which, hessian)
    return _stacked(gradients, (size,)), _stacked(hessians, (triangle_size(size),))


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


def _for_each(
    clients: Clients, which: Int64Array, answer: Callable[[int, int], Vector]
) -> list[Vector]:
    """Answers of the clients, several at a time."""
    answers: list[Vector] = [(None, np.empty(0))] * which.size

    def work(order: Int64Array) -> None:
        for place in order:
            answers[place] = answer(int(which[place]), int(place))

    with one_thread():
        clients.workers.run(work, clients.data.counts[which])
    return answers


def _curvatures(clients: Clients, client: int, rows: Features, x: FloatArray) -> FloatArray:
    """Second derivative of every row's weighted loss, over the number of rows."""
    scores = np.asarray(rows @ x, dtype=np.float64)
    weights = clients.targets_of(client)[:, 1]
    return np.asarray(clients.loss.second_derivative(scores) * weights / rows.shape[0])


def _slopes(clients: Clients, client: int, rows: Features, x: FloatArray) -> FloatArray:
    """Derivative of every row's weighted loss, over the number of rows."""
    slopes = np.asarray(rows @ x, dtype=np.float64)[None, :]
    to_mean_slopes(clients.loss.code, slopes, clients.targets_of(client), np.empty(1))
    return np.asarray(slopes[0])


def _restricted(
    rows: Features, columns: Int64Array | None, support: Int64Array
) -> tuple[FloatArray, Int64Array | None]:
    """A client's rows on the support, dense, and which of the support it has (None: all)."""
    if columns is None or not isinstance(rows, sparse.csr_array):
        return np.asarray(rows[:, support], dtype=np.float64), None
    _, own, held = np.intersect1d(columns, support, assume_unique=True, return_indices=True)
    return rows[:, own].toarray().astype(np.float64), held


def _stacked(vectors: list[Vector], shape: tuple[int, ...]) -> Stack:
    values = [values for _, values in vectors]
    indices = [places for places, _ in vectors if places is not None]
    if not indices:
        return DenseStack(np.stack(values), shape)
    pointer = np.concatenate([[0], np.cumsum([entry.size for entry in values])])
    joined = np.concatenate(indices).astype(np.int64)
    return SparseStack(pointer, joined, np.concatenate(values), shape)
