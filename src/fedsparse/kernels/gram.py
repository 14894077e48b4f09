"""Full-gradient local steps without thresholding on a client with few rows.

Every iterate is x_k = q x_t − Zᵀ a_k, so the scores Z x_k follow from Z x_t and the Gram matrix
Z Zᵀ alone. The client's block is read once, however many steps there are.
"""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.kernels.columns import ColumnBlock, list_support, matrix_at, read_ahead
from fedsparse.kernels.compiling import compiled
from fedsparse.kernels.dense import DenseBlock, add_rows, scores_of_rows
from fedsparse.kernels.plan import Plan
from fedsparse.kernels.slopes import to_mean_slopes


@compiled
def gram_matrices(
    block: DenseBlock, clients: Int64Array, offsets: Int64Array, grams: FloatArray
) -> None:
    """Write Z Zᵀ of each listed client at its offset in ``grams``, rows padded like columns."""
    for client in clients:
        own = block.features[block.pointer[client] : block.pointer[client + 1]].astype(np.float64)
        count = own.shape[0]
        gram = matrix_at(grams, offsets[client], count, count)
        gram[:, count:] = 0.0
        scores_of_rows(own, np.arange(count), 0, count, own, gram)


@compiled
def gram_steps(
    block: ColumnBlock,
    grams: FloatArray,
    gram_offsets: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    plan: Plan,
    answers: FloatArray,
) -> None:
    """K full-gradient steps on each listed client; ``answers`` gets one x per client."""
    labels, width = start.shape
    every_column = np.arange(width)
    support, coefficients = np.empty(width + 1, np.int64), np.empty((width + 1, labels))
    used = list_support(start, support, coefficients)
    row = np.empty(labels)
    for answer in order:
        client = clients[answer]
        targets = block.targets[block.pointer[client] : block.pointer[client + 1]]
        count = targets.shape[0]
        columns = matrix_at(block.columns, block.offsets[client], width, count)
        gram = matrix_at(grams, gram_offsets[client], count, count)
        first_scores = np.zeros((labels, columns.shape[1]))
        row[0] = read_ahead(columns) + read_ahead(gram)
        add_rows(columns, support, 0, used, coefficients, first_scores)
        combination = _combination(gram, first_scores, targets, plan, row)
        change = answers[answer]
        scores_of_rows(columns, every_column, 0, width, combination, change.T)
        for label in range(labels):
            for column in range(width):
                change[label, column] = plan.decay * start[label, column] - change[label, column]


@compiled
def _combination(
    gram: FloatArray, first_scores: FloatArray, targets: FloatArray, plan: Plan, row: FloatArray
) -> FloatArray:
    """a_K, by K steps on the scores alone."""
    every_row = np.arange(targets.shape[0])
    scores, combination = first_scores.copy(), np.zeros_like(first_scores)
    slopes, moved = np.empty_like(first_scores), np.zeros_like(first_scores)
    for _ in range(plan.steps):
        slopes[:] = scores
        to_mean_slopes(plan.loss, slopes, targets, row)
        scores_of_rows(gram, every_row, 0, every_row.size, slopes, moved.T)
        for label in range(scores.shape[0]):
            for place in range(scores.shape[1]):
                combination[label, place] = (
                    plan.shrink * combination[label, place] + plan.step_size * slopes[label, place]
                )
                scores[label, place] = (
                    plan.shrink * scores[label, place]
                    + plan.pull * first_scores[label, place]
                    - plan.step_size * moved[label, place]
                )
    return combination
