"""Full-gradient local steps from a client's columns (Zᵀ) instead of its rows.

The scores Z x then need only the columns in the support of x, and the gradient is one dot product
per column: a step on a τ-sparse x reads the client's block once where rows would be read twice.
Blocks are padded so that every column starts on a cache line.
"""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels.dense import (
    DenseBlock,
    DenseRoom,
    add_rows,
    scores_of_rows,
    threshold_classes,
    write_sparse,
)
from fedsparse.compute.kernels.plan import Plan, step_in_place
from fedsparse.compute.kernels.prefetching import CACHE_LINE
from fedsparse.problem.slopes import mean_loss, to_mean_slopes


class ColumnBlock(NamedTuple):
    """Columns of the clients: those of client i start at ``offsets[i]`` of ``columns``."""

    columns: FloatArray
    offsets: Int64Array
    targets: FloatArray  # each row's target and weight
    pointer: Int64Array


@compiled
def padded(count: int) -> int:
    """DenseRoom for a column of ``count`` rows, in whole cache lines."""
    return (count + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


@compiled
def matrix_at(storage: FloatArray, offset: int, height: int, count: int) -> FloatArray:
    """A matrix of ``height`` rows of ``count`` values, padded, that starts at ``offset``."""
    stride = padded(count)
    return storage[offset : offset + height * stride].reshape(height, stride)


@compiled
def transpose_clients(
    block: DenseBlock, clients: Int64Array, offsets: Int64Array, columns: FloatArray
) -> None:
    """Write the columns of each listed client at its offset in ``columns``."""
    for client in clients:
        own = block.features[block.pointer[client] : block.pointer[client + 1]]
        count, width = own.shape
        transposed = matrix_at(columns, offsets[client], width, count)
        transposed[:, count:] = 0.0
        for row in range(count):
            for column in range(width):
                transposed[column, row] = own[row, column]


@compiled
def read_ahead(matrix: FloatArray) -> float:
    """Bring a matrix into cache by reading it in order.

    One long stream arrives at the memory's full speed; the many short ones of the loops that follow
    do not. The sum is only there so that the reads are not optimized away.
    """
    flat = matrix.ravel()
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
    block: ColumnBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    plan: Plan,
    always: Int64Array,
    room: DenseRoom,
) -> None:
    """K full-gradient steps, each followed by H_τ, on each listed client; losses at the start."""
    labels, width = start.shape
    x, gradient = np.empty_like(start), np.empty_like(start)
    every_column = np.arange(width)
    support, coefficients = np.empty(width + 1, np.int64), np.empty((width + 1, labels))
    magnitudes, scratch = np.empty(width), np.empty(width, np.int64)
    guesses, row = np.zeros(labels, np.int64), np.empty(labels)
    for answer in order:
        client = clients[answer]
        targets = block.targets[block.pointer[client] : block.pointer[client + 1]]
        columns = matrix_at(block.columns, block.offsets[client], width, targets.shape[0])
        scores = np.empty((labels, columns.shape[1]))
        magnitudes[0] = read_ahead(columns)
        x[:] = start
        for step in range(plan.steps):
            used = list_support(x, support, coefficients)
            scores[:] = 0.0
            add_rows(columns, support, 0, used, coefficients, scores)
            if step == 0 and room.losses.size > 0:
                room.losses[answer] = mean_loss(plan.loss, scores, targets, row)
            to_mean_slopes(plan.loss, scores, targets, row)
            scores_of_rows(columns, every_column, 0, width, scores, gradient.T)
            step_in_place(x.ravel(), start.ravel(), gradient.ravel(), plan)
            threshold_classes(x, plan.kept, always, magnitudes, scratch, guesses)
        room.counts[answer] = write_sparse(x, room.indices[answer], room.values[answer])
