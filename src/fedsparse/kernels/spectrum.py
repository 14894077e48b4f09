"""Largest eigenvalue of each client's ZᵀZ/B by power iteration."""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.kernels import random
from fedsparse.kernels.compiling import compiled
from fedsparse.kernels.csr import CsrBlock, add_row, columns_of, scores_of_row
from fedsparse.kernels.dense import DenseBlock, add_rows, scores_of_rows

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
    block: DenseBlock, clients: Int64Array, order: Int64Array, eigenvalues: FloatArray
) -> None:
    """For dense rows."""
    features, pointer = block.features, block.pointer
    vector = np.empty((1, features.shape[1]))
    image = np.empty_like(vector)
    for answer in order:
        rows = np.arange(pointer[clients[answer]], pointer[clients[answer] + 1])
        scores = np.empty((rows.size, 1))
        _start(vector[0])
        _normalize(vector[0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            scores_of_rows(features, rows, 0, rows.size, vector, scores)
            image[:] = 0.0
            add_rows(features, rows, 0, rows.size, scores, image)
            before, eigenvalue = eigenvalue, _normalize(image[0])
            vector[:] = image
            if abs(eigenvalue - before) <= _TOLERANCE * eigenvalue:
                break
        eigenvalues[answer] = eigenvalue / rows.size


@compiled
def csr_largest_eigenvalues(
    block: CsrBlock, clients: Int64Array, order: Int64Array, eigenvalues: FloatArray
) -> None:
    """For CSR rows."""
    score = np.empty(1)
    for answer in order:
        client = clients[answer]
        width = columns_of(block, client).size
        vector, image = np.empty((width, 1)), np.empty((width, 1))
        _start(vector[:, 0])
        _normalize(vector[:, 0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            image[:] = 0.0
            for row in range(block.pointer[client], block.pointer[client + 1]):
                scores_of_row(block, row, vector, score)
                add_row(block, row, score, image)
            before, eigenvalue = eigenvalue, _normalize(image[:, 0])
            vector[:] = image
            if abs(eigenvalue - before) <= _TOLERANCE * eigenvalue:
                break
        eigenvalues[answer] = eigenvalue / (block.pointer[client + 1] - block.pointer[client])
