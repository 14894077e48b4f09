"""Compiled sums over stacked answers, always in the order of the clients."""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled


@compiled
def squared_norm(vector: FloatArray) -> float:
    """Σ v², the same whatever the number of threads BLAS would use."""
    total = 0.0
    for position in range(vector.size):
        total += vector[position] ** 2
    return total


@compiled
def add_dense_total(rows: FloatArray, weights: FloatArray, total: FloatArray) -> None:
    """Add the weighted sum of rows to ``total``."""
    for client in range(rows.shape[0]):
        for position in range(total.size):
            total[position] += weights[client] * rows[client, position]


@compiled
def dense_squared_distances(rows: FloatArray, x: FloatArray) -> FloatArray:
    """Squared distance of every row to ``x``."""
    distances = np.zeros(rows.shape[0])
    for client in range(rows.shape[0]):
        total = 0.0
        for position in range(x.size):
            total += (rows[client, position] - x[position]) ** 2
        distances[client] = total
    return distances


@compiled
def add_sparse_total(
    pointer: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    weights: FloatArray,
    total: FloatArray,
) -> None:
    """Add the weighted sum of sparse rows to ``total``."""
    for client in range(weights.size):
        for entry in range(pointer[client], pointer[client + 1]):
            total[indices[entry]] += weights[client] * values[entry]


@compiled
def sparse_squared_distances(
    pointer: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    support: Int64Array,
    offsets: FloatArray,
) -> FloatArray:
    """Squared norm of row + offset for every sparse row.

    The offset is sparse as well. Both lists are walked side by side; expanding the square instead
    would lose all digits near convergence.
    """
    distances = np.zeros(pointer.size - 1)
    for client in range(distances.size):
        entry, end, place = pointer[client], pointer[client + 1], 0
        total = 0.0
        while entry < end or place < support.size:
            if place == support.size or (entry < end and indices[entry] < support[place]):
                total += values[entry] ** 2
                entry += 1
            elif entry == end or support[place] < indices[entry]:
                total += offsets[place] ** 2
                place += 1
            else:
                total += (values[entry] + offsets[place]) ** 2
                entry += 1
                place += 1
        distances[client] = total
    return distances


@compiled
def close_gaps(
    starts: Int64Array,
    counts: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    pointer: Int64Array,
) -> None:
    """Move rows of ``counts`` entries at ``starts`` together, in place; fills ``pointer``."""
    filled = 0
    for client in range(counts.size):
        pointer[client] = filled
        for entry in range(starts[client], starts[client] + counts[client]):
            indices[filled] = indices[entry]
            values[filled] = values[entry]
            filled += 1
    pointer[counts.size] = filled
