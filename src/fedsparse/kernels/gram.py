"""Full-gradient local steps without thresholding on a client with few rows.

Every iterate is x_k = q x_t − Zᵀ a_k, so the scores Z x_k follow from Z x_t and the Gram matrix
Z Zᵀ alone. The client's block is read once, however many steps there are.
"""

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.kernels.columns import block_of, list_support, padded, read_ahead
from fedsparse.kernels.compiling import compiled
from fedsparse.kernels.dense import add_rows, scores_of_rows
from fedsparse.kernels.plan import Plan
from fedsparse.kernels.slopes import to_mean_slopes


@compiled
def gram_of(grams: FloatArray, offset: int, count: int) -> FloatArray:
    """One client's Gram matrix, its rows padded like the columns of a block."""
    stride = padded(count)
    return grams[offset : offset + count * stride].reshape(count, stride)


@compiled
def gram_matrices(
    features: AnyArray,
    pointer: Int64Array,
    clients: Int64Array,
    offsets: Int64Array,
    grams: FloatArray,
) -> None:
    """Write Z Zᵀ of each listed client at its offset in ``grams``."""
    for client in clients:
        own = features[pointer[client] : pointer[client + 1]].astype(np.float64)
        count = own.shape[0]
        gram = gram_of(grams, offsets[client], count)
        gram[:, count:] = 0.0
        scores_of_rows(own, np.arange(count), 0, count, own, gram)


@compiled
def gram_steps(
    columns: FloatArray,
    column_offsets: Int64Array,
    grams: FloatArray,
    gram_offsets: Int64Array,
    targets: FloatArray,
    pointer: Int64Array,
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
        own_targets = targets[pointer[client] : pointer[client + 1]]
        count = own_targets.size
        block = block_of(columns, column_offsets[client], width, count)
        gram = gram_of(grams, gram_offsets[client], count)
        every_row = np.arange(count)
        first_scores = np.zeros((labels, block.shape[1]))
        slopes, moved = np.empty_like(first_scores), np.zeros_like(first_scores)
        combination = np.zeros_like(first_scores)  # a_k
        row[0] = read_ahead(block)
        add_rows(block, support, 0, used, coefficients, first_scores)
        scores = first_scores.copy()
        for _ in range(plan.steps):
            slopes[:] = scores
            to_mean_slopes(plan.loss, slopes, own_targets, row)
            scores_of_rows(gram, every_row, 0, count, slopes, moved.T)
            for label in range(labels):
                for place in range(count):
                    combination[label, place] = (
                        plan.shrink * combination[label, place]
                        + plan.step_size * slopes[label, place]
                    )
                    scores[label, place] = (
                        plan.shrink * scores[label, place]
                        + plan.pull * first_scores[label, place]
                        - plan.step_size * moved[label, place]
                    )
        change = answers[answer]
        scores_of_rows(block, every_column, 0, width, combination, change.T)
        for label in range(labels):
            for column in range(width):
                change[label, column] = plan.decay * start[label, column] - change[label, column]
