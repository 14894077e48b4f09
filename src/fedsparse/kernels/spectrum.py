"""Largest eigenvalue of each client's ZᵀZ/B by power iteration."""

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array, UInt32Array
from fedsparse.kernels import csr, dense, random
from fedsparse.kernels.compiling import compiled

_TOLERANCE = 1e-13
_MOST_ITERATIONS = 10_000


@compiled
def _start(vector: FloatArray) -> None:
    """Fixed pseudo-random entries: no data are orthogonal to them by construction."""
    key = random.key(0, 0, 0, 0)
    for position in range(vector.size):
        vector[position] = random.uniform(key, position) - 0.5


@compiled
def _normalize(vector: FloatArray) -> float:
    norm = np.sqrt(np.sum(vector * vector))
    if norm > 0.0:
        vector /= norm
    return norm


@compiled
def dense_largest_eigenvalues(
    features: AnyArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    eigenvalues: FloatArray,
) -> None:
    """For dense rows."""
    vector = np.empty((1, features.shape[1]))
    image = np.empty_like(vector)
    for answer in order:
        rows = np.arange(pointer[clients[answer]], pointer[clients[answer] + 1])
        scores = np.empty((rows.size, 1))
        _start(vector[0])
        _normalize(vector[0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            dense.scores_of_rows(features, rows, 0, rows.size, vector, scores)
            image[:] = 0.0
            dense.add_rows(features, rows, 0, rows.size, scores, image)
            before, eigenvalue = eigenvalue, _normalize(image[0])
            vector[:] = image
            if abs(eigenvalue - before) <= _TOLERANCE * eigenvalue:
                break
        eigenvalues[answer] = eigenvalue / rows.size


@compiled
def csr_largest_eigenvalues(
    row_pointer: Int64Array,
    values: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    eigenvalues: FloatArray,
) -> None:
    """For CSR rows in the client's own numbering of columns."""
    score = np.empty(1)
    for answer in order:
        client = clients[answer]
        width = own_pointer[client + 1] - own_pointer[client]
        vector, image = np.empty((width, 1)), np.empty((width, 1))
        _start(vector[:, 0])
        _normalize(vector[:, 0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            image[:] = 0.0
            for row in range(pointer[client], pointer[client + 1]):
                first, last = row_pointer[row], row_pointer[row + 1]
                csr.scores_of_row(values, numbers, first, last, vector, score)
                csr.add_row(values, numbers, first, last, score, image)
            before, eigenvalue = eigenvalue, _normalize(image[:, 0])
            vector[:] = image
            if abs(eigenvalue - before) <= _TOLERANCE * eigenvalue:
                break
        eigenvalues[answer] = eigenvalue / (pointer[client + 1] - pointer[client])
