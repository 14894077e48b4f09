"""Full-gradient local steps from a client's columns (Zᵀ) instead of its rows.

The scores Z x then need only the columns in the support of x, and the gradient is one dot product
per column: a step on a τ-sparse x reads the client's block once where rows would be read twice.
Blocks are padded so that every column starts on a cache line.
"""

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.kernels.compiling import compiled
from fedsparse.kernels.dense import add_rows, scores_of_rows, threshold_classes, write_sparse
from fedsparse.kernels.plan import Plan, step_in_place
from fedsparse.kernels.slopes import to_mean_slopes

CACHE_LINE = 8  # float64 values


@compiled
def padded(count: int) -> int:
    """Room for a column of ``count`` rows, in whole cache lines."""
    return (count + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


@compiled
def block_of(columns: FloatArray, offset: int, width: int, count: int) -> FloatArray:
    """One client's columns as a matrix (width, padded count)."""
    stride = padded(count)
    return columns[offset : offset + width * stride].reshape(width, stride)


@compiled
def transpose_clients(
    features: AnyArray,
    pointer: Int64Array,
    clients: Int64Array,
    offsets: Int64Array,
    columns: FloatArray,
) -> None:
    """Write the columns of each listed client at its offset in ``columns``."""
    for client in clients:
        own = features[pointer[client] : pointer[client + 1]]
        count, width = own.shape
        block = block_of(columns, offsets[client], width, count)
        block[:, count:] = 0.0
        for row in range(count):
            for column in range(width):
                block[column, row] = own[row, column]


@compiled
def read_ahead(block: FloatArray) -> float:
    """Bring a block into cache by reading it in order.

    One long stream arrives at the memory's full speed; the many short ones of the loops that follow
    do not. The sum is only there so that the reads are not optimized away.
    """
    flat = block.ravel()
    total = 0.0
    for position in range(flat.size):
        total += flat[position]
    return total


@compiled
def list_support(x: FloatArray, support: Int64Array, coefficients: FloatArray) -> int:
    """List the columns that any class uses, with their coefficients; returns how many."""
    filled = 0
    if x.shape[0] == 1:  # without a branch, which the general case cannot do
        for column in range(x.shape[1]):
            support[filled] = column
            coefficients[filled, 0] = x[0, column]
            filled += x[0, column] != 0.0
        return filled
    for column in range(x.shape[1]):
        used = False
        for label in range(x.shape[0]):
            coefficients[filled, label] = x[label, column]
            used |= x[label, column] != 0.0
        support[filled] = column
        filled += used
    return filled


@compiled
def thresholded_steps(
    columns: FloatArray,
    targets: FloatArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    offsets: Int64Array,
    start: FloatArray,
    plan: Plan,
    always: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    counts: Int64Array,
) -> None:
    """K full-gradient steps, each followed by H_τ, on each listed client."""
    labels, width = start.shape
    x, gradient = np.empty_like(start), np.empty_like(start)
    every_column = np.arange(width)
    support, coefficients = np.empty(width + 1, np.int64), np.empty((width + 1, labels))
    magnitudes, scratch = np.empty(width), np.empty(width, np.int64)
    guesses, row = np.zeros(labels, np.int64), np.empty(labels)
    for answer in order:
        client = clients[answer]
        own_targets = targets[pointer[client] : pointer[client + 1]]
        block = block_of(columns, offsets[client], width, own_targets.size)
        scores = np.empty((labels, block.shape[1]))
        magnitudes[0] = read_ahead(block)
        x[:] = start
        for _ in range(plan.steps):
            used = list_support(x, support, coefficients)
            scores[:] = 0.0
            add_rows(block, support, 0, used, coefficients, scores)
            to_mean_slopes(plan.loss, scores, own_targets, row)
            scores_of_rows(block, every_column, 0, width, scores, gradient.T)
            step_in_place(x.ravel(), start.ravel(), gradient.ravel(), plan)
            threshold_classes(x, plan.kept, always, magnitudes, scratch, guesses)
        counts[answer] = write_sparse(x, indices[answer], values[answer])
