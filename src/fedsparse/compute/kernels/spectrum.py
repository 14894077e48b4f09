"""Largest eigenvalue of each client's ZᵀWZ/B by power iteration, W the weights of its rows."""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels import random
from fedsparse.compute.kernels.columns import matrix_at
from fedsparse.compute.kernels.csr import CsrBlock, add_row, columns_of, scores_of_row
from fedsparse.compute.kernels.dense import DenseBlock, add_rows, scores_of_rows

_TOLERANCE = 1e-13
_MOST_ITERATIONS = 10_000


@compiled
def start_vector(vector: FloatArray) -> None:
    """Fixed pseudo-random entries: no data are orthogonal to them by construction."""
    key = random.key(0, 0, 0, 0)
    for position in range(vector.size):
        vector[position] = random.uniform(key, position) - 0.5


@compiled
def _normalize(vector: FloatArray) -> float:
    """Scale to unit length; returns the length. Squares are taken of numbers near one."""
    largest = 0.0
    for position in range(vector.size):
        largest = max(largest, abs(vector[position]))
    if not largest > 0.0 or not np.isfinite(largest):
        return largest
    vector /= largest
    norm = np.sqrt(np.sum(vector * vector))
    vector /= norm
    return largest * norm


@compiled
def _has_settled(eigenvalue: float, before: float) -> bool:
    return not abs(eigenvalue - before) > _TOLERANCE * eigenvalue


@compiled
def gram_largest_eigenvalues(
    grams: FloatArray,
    offsets: Int64Array,
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    eigenvalues: FloatArray,
) -> None:
    """For clients whose Gram matrix is at hand: Z ZᵀW has the same largest eigenvalue."""
    for answer in order:
        client = clients[answer]
        weights = block.targets[block.pointer[client] : block.pointer[client + 1], 1]
        count = weights.size
        gram = matrix_at(grams, offsets[client], count, count)
        every_row = np.arange(count)
        vector, image = np.zeros((1, gram.shape[1])), np.zeros((1, gram.shape[1]))
        start_vector(vector[0, :count])
        _normalize(vector[0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            vector[0, :count] *= weights
            scores_of_rows(gram, every_row, 0, count, vector, image.T)
            before, eigenvalue = eigenvalue, _normalize(image[0])
            vector[:] = image
            if _has_settled(eigenvalue, before):
                break
        eigenvalues[answer] = eigenvalue / count


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
        weights = block.targets[rows[0] : rows[0] + rows.size, 1]
        scores = np.empty((rows.size, 1))
        start_vector(vector[0])
        _normalize(vector[0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            scores_of_rows(features, rows, 0, rows.size, vector, scores)
            scores[:, 0] *= weights
            image[:] = 0.0
            add_rows(features, rows, 0, rows.size, scores, image)
            before, eigenvalue = eigenvalue, _normalize(image[0])
            vector[:] = image
            if _has_settled(eigenvalue, before):
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
        start_vector(vector[:, 0])
        _normalize(vector[:, 0])
        eigenvalue = 0.0
        for _ in range(_MOST_ITERATIONS):
            image[:] = 0.0
            for row in range(block.pointer[client], block.pointer[client + 1]):
                scores_of_row(block, row, vector, score)
                score[0] *= block.targets[row, 1]
                add_row(block, row, score, image)
            before, eigenvalue = eigenvalue, _normalize(image[:, 0])
            vector[:] = image
            if _has_settled(eigenvalue, before):
                break
        eigenvalues[answer] = eigenvalue / (block.pointer[client + 1] - block.pointer[client])
