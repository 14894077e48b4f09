"""Full-gradient local steps without thresholding on a client with few rows.

Every iterate is x_k = q x_t − Zᵀ a_k, so the scores Z x_k follow from Z x_t and the Gram matrix
Z Zᵀ alone. The client's block is read once, however many steps there are, and in order: memory is
what these steps wait for, and one stream arrives sooner than several.
"""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels.columns import ColumnBlock, list_support, matrix_at, padded
from fedsparse.compute.kernels.dense import DenseBlock, DenseRoom, add_rows, scores_of_rows
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.kernels.prefetching import prefetch
from fedsparse.problem.slopes import mean_loss, to_mean_slopes


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
    room: DenseRoom,
) -> None:
    """K full-gradient steps on each listed client; losses at the start."""
    labels, width = start.shape
    support, coefficients = np.empty(width + 1, np.int64), np.empty((width + 1, labels))
    used = list_support(start, support, coefficients)
    row = np.empty(labels)
    for place in range(order.size):
        client = clients[order[place]]
        targets = block.targets[block.pointer[client] : block.pointer[client + 1]]
        count = targets.shape[0]
        columns = matrix_at(block.columns, block.offsets[client], width, count)
        gram = matrix_at(grams, gram_offsets[client], count, count)
        first_scores = np.zeros((labels, columns.shape[1]))
        add_rows(columns, support, 0, used, coefficients, first_scores)
        if room.losses.size > 0:
            room.losses[order[place]] = mean_loss(plan.loss, first_scores, targets, row)
        combination = _combination(gram, first_scores, targets, plan, row)
        following = clients[order[min(place + 1, order.size - 1)]]
        ahead = block.offsets[following]
        stride = padded(block.pointer[following + 1] - block.pointer[following])
        answer = room.vectors[order[place]]
        asked = 0
        for column in range(width):
            # The columns that the next client begins with come in while this one's stream by.
            if asked * width < used * column:
                begin = ahead + support[asked] * stride
                prefetch(block.columns, begin, begin + stride)
                asked += 1
            for label in range(labels):
                moved = 0.0
                for entry in range(columns.shape[1]):
                    moved += columns[column, entry] * combination[label, entry]
                answer[label, column] = plan.decay * start[label, column] - moved


@compiled
def _combination(
    gram: FloatArray, first_scores: FloatArray, targets: FloatArray, plan: Plan, row: FloatArray
) -> FloatArray:
    """a_K, by K steps on the scores alone."""
    scores, combination = first_scores.copy(), np.zeros_like(first_scores)
    slopes, moved = np.empty_like(first_scores), np.empty_like(first_scores)
    for step in range(plan.steps):
        slopes[:] = scores
        to_mean_slopes(plan.loss, slopes, targets, row)
        combination[:] = plan.shrink * combination + plan.step_size * slopes
        if step == plan.steps - 1:
            break  # nobody asks for the scores after the last step
        for label in range(scores.shape[0]):
            symmetric_product(gram, slopes[label], moved[label])
        scores[:] = plan.shrink * scores + plan.pull * first_scores - plan.step_size * moved
    return combination


@compiled
def symmetric_product(matrix: FloatArray, vector: FloatArray, product: FloatArray) -> None:
    """Matrix times vector from the lower triangle alone, which is half of the bytes.

    Four rows at a time: each entry left of the diagonal counts for its row and for its column.
    """
    product[:] = 0.0
    count = matrix.shape[0]
    whole = count - count % 4
    for first in range(0, whole, 4):
        factor_0, factor_1 = vector[first], vector[first + 1]
        factor_2, factor_3 = vector[first + 2], vector[first + 3]
        sum_0 = sum_1 = sum_2 = sum_3 = 0.0
        for column in range(first):
            entry_0, entry_1 = matrix[first, column], matrix[first + 1, column]
            entry_2, entry_3 = matrix[first + 2, column], matrix[first + 3, column]
            sum_0 += entry_0 * vector[column]
            sum_1 += entry_1 * vector[column]
            sum_2 += entry_2 * vector[column]
            sum_3 += entry_3 * vector[column]
            product[column] += (
                factor_0 * entry_0 + factor_1 * entry_1 + factor_2 * entry_2 + factor_3 * entry_3
            )
        product[first] += sum_0
        product[first + 1] += sum_1
        product[first + 2] += sum_2
        product[first + 3] += sum_3
        for row in range(first, first + 4):
            for column in range(first, first + 4):
                product[row] += matrix[row, column] * vector[column]
    for row in range(whole, count):
        for column in range(row):
            product[row] += matrix[row, column] * vector[column]
            product[column] += vector[row] * matrix[row, column]
        product[row] += matrix[row, row] * vector[row]
