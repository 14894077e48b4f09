"""Compiled loops over dense rows.

Coefficients are laid out class by class, shape (classes, width), so that every inner loop runs
along a row of data. Four rows are taken at a time: a coefficient loaded once serves four products.
"""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels import random
from fedsparse.compute.kernels.plan import Plan, batch_key, batch_of, step_in_place
from fedsparse.problem.select import cut
from fedsparse.problem.slopes import derivatives_at, loss_of_row, to_class_slopes, to_slopes


class DenseBlock(NamedTuple):
    """All clients' rows: client i has rows ``pointer[i]`` to ``pointer[i + 1]``."""

    features: AnyArray
    targets: FloatArray  # each row's target and weight
    pointer: Int64Array
    identities: Int64Array


class DenseRoom(NamedTuple):
    """DenseRoom for answers: vectors in full, or rows of non-zeros and how many each has.

    ``losses`` gets the mean loss at the start, the ℓ2 term left out; empty if nobody asks for it.
    """

    vectors: FloatArray
    indices: Int64Array
    values: FloatArray
    counts: Int64Array
    losses: FloatArray


@compiled
def scores_of_rows(
    features: AnyArray, rows: Int64Array, begin: int, end: int, x: FloatArray, scores: FloatArray
) -> None:
    """Scores of the listed rows ``begin … end``, for every class; ``scores[0]`` is the first's."""
    whole = end - (end - begin) % 4
    for first in range(begin, whole, 4):
        row_0, row_1, row_2, row_3 = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        place = first - begin
        for label in range(x.shape[0]):
            sum_0 = sum_1 = sum_2 = sum_3 = 0.0
            for column in range(x.shape[1]):
                coefficient = x[label, column]
                sum_0 += features[row_0, column] * coefficient
                sum_1 += features[row_1, column] * coefficient
                sum_2 += features[row_2, column] * coefficient
                sum_3 += features[row_3, column] * coefficient
            scores[place, label], scores[place + 1, label] = sum_0, sum_1
            scores[place + 2, label], scores[place + 3, label] = sum_2, sum_3
    for position in range(whole, end):
        for label in range(x.shape[0]):
            total = 0.0
            for column in range(x.shape[1]):
                total += features[rows[position], column] * x[label, column]
            scores[position - begin, label] = total


@compiled
def add_rows(
    features: AnyArray,
    rows: Int64Array,
    begin: int,
    end: int,
    slopes: FloatArray,
    gradient: FloatArray,
) -> None:
    """Add the listed rows ``begin … end`` to ``gradient``, each times its slope for the class."""
    whole = end - (end - begin) % 4
    for first in range(begin, whole, 4):
        row_0, row_1, row_2, row_3 = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        place = first - begin
        for label in range(gradient.shape[0]):
            slope_0, slope_1 = slopes[place, label], slopes[place + 1, label]
            slope_2, slope_3 = slopes[place + 2, label], slopes[place + 3, label]
            for column in range(gradient.shape[1]):
                gradient[label, column] += (
                    slope_0 * features[row_0, column]
                    + slope_1 * features[row_1, column]
                    + slope_2 * features[row_2, column]
                    + slope_3 * features[row_3, column]
                )
    for position in range(whole, end):
        for label in range(gradient.shape[0]):
            slope = slopes[position - begin, label]
            for column in range(gradient.shape[1]):
                gradient[label, column] += slope * features[rows[position], column]


@compiled
def mean_gradient(
    features: AnyArray,
    targets: FloatArray,
    rows: Int64Array,
    count: int,
    x: FloatArray,
    loss: int,
    gradient: FloatArray,
    slopes: FloatArray,
    anchor: FloatArray,
    with_loss: bool,
) -> float:
    """Mean loss gradient over the listed rows, the ℓ2 term left out; returns the loss if asked.

    Scores and gradient are worked out four rows at a time, while these are still in the nearest
    cache. ``anchor`` holds each listed row's slopes at a snapshot, to be subtracted; it has no rows
    when there is no snapshot. ``slopes`` is room for four rows.
    """
    gradient[:] = 0.0
    total = 0.0
    for first in range(0, count, 4):
        last = min(first + 4, count)
        scores_of_rows(features, rows, first, last, x, slopes)
        for position in range(first, last):
            row, place = rows[position], position - first
            if with_loss:
                total += loss_of_row(loss, slopes[place], targets, row)
            to_slopes(loss, slopes[place], targets, row)
            for label in range(x.shape[0]):
                if anchor.shape[0] > 0:
                    slopes[place, label] -= anchor[row, label]
                slopes[place, label] /= count
        add_rows(features, rows, first, last, slopes, gradient)
    return total / count


@compiled
def threshold_classes(
    x: FloatArray,
    kept: int,
    always: Int64Array,
    magnitudes: FloatArray,
    scratch: Int64Array,
    guesses: Int64Array,
) -> None:
    """H_τ on every class in place; ``always`` lists the columns kept whatever their size."""
    width = x.shape[1]
    keys = magnitudes.view(np.int64)
    for label in range(x.shape[0]):
        coefficients = x[label]
        for column in range(width):
            magnitudes[column] = abs(coefficients[column])
        for column in always:
            magnitudes[column] = np.inf
        threshold, quota = cut(keys, width, kept, guesses[label], scratch)
        guesses[label] = threshold
        if quota >= width:
            for column in range(width):
                if keys[column] < threshold:
                    coefficients[column] = 0.0
            continue
        for column in range(width):
            tied = keys[column] == threshold
            if keys[column] < threshold or (tied and quota <= 0):
                coefficients[column] = 0.0
            quota -= tied


@compiled
def write_sparse(x: FloatArray, indices: Int64Array, values: FloatArray) -> int:
    """List the non-zeros of ``x`` in order of (class, column); returns how many there are."""
    filled = 0
    for label in range(x.shape[0]):
        for column in range(x.shape[1]):
            if x[label, column] != 0.0:
                indices[filled] = label * x.shape[1] + column
                values[filled] = x[label, column]
                filled += 1
    return filled


@compiled
def _anchor_slopes(
    features: AnyArray,
    targets: FloatArray,
    rows: Int64Array,
    snapshot: FloatArray,
    loss: int,
    anchor: FloatArray,
) -> None:
    """Slopes of all the client's rows at the snapshot."""
    scores_of_rows(features, rows, 0, rows.size, snapshot, anchor)
    for row in range(rows.size):
        to_slopes(loss, anchor[row], targets, row)


@compiled
def local_steps(
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    snapshot: FloatArray,
    plan: Plan,
    always: Int64Array,
    room: DenseRoom,
) -> None:
    """K steps on each listed client, straight from its rows.

    ``snapshot`` has no rows without variance reduction. Answers are non-zeros with local
    thresholding, full vectors without. Losses at the start come from the first step's
    scores, or from a pass of their own where a step sees only a batch of the rows.
    """
    labels, width = start.shape
    x, gradient, mean_at_snapshot = np.empty_like(start), np.empty_like(start), np.zeros_like(start)
    slopes = np.empty((4, labels))
    magnitudes, scratch = np.empty(width), np.empty(width, np.int64)
    guesses = np.zeros(labels, np.int64)
    for answer in order:
        client = clients[answer]
        own = slice(block.pointer[client], block.pointer[client + 1])
        features, targets = block.features[own], block.targets[own]
        rows = np.arange(targets.shape[0])
        batch = batch_of(plan, rows.size)
        anchored = snapshot.shape[0] > 0 and batch < rows.size
        anchor = np.empty((rows.size if anchored else 0, labels))
        if anchored:
            _anchor_slopes(features, targets, rows, snapshot, plan.loss, anchor)
            mean_at_snapshot[:] = 0.0
            add_rows(features, rows, 0, rows.size, anchor / rows.size, mean_at_snapshot)
        x[:] = start
        for step in range(plan.steps):
            key = batch_key(plan, block.identities[client], step)
            if batch < rows.size:
                random.draw(key, rows, rows.size, batch)
            with_loss = step == 0 and room.losses.size > 0
            loss = mean_gradient(
                features, targets, rows, batch, x, plan.loss, gradient, slopes, anchor, with_loss
            )
            if batch < rows.size:
                random.undo_draw(key, rows, rows.size, batch)
            if with_loss:
                whole = batch == rows.size
                room.losses[answer] = (
                    loss if whole else _mean_loss(features, targets, rows, x, plan.loss, slopes)
                )
            if anchored:
                gradient += mean_at_snapshot
            step_in_place(x.ravel(), start.ravel(), gradient.ravel(), plan)
            if plan.kept > 0:
                threshold_classes(x, plan.kept, always, magnitudes, scratch, guesses)
        if plan.kept > 0:
            room.counts[answer] = write_sparse(x, room.indices[answer], room.values[answer])
        else:
            room.vectors[answer] = x


@compiled
def _mean_loss(
    features: AnyArray,
    targets: FloatArray,
    rows: Int64Array,
    x: FloatArray,
    loss: int,
    scores: FloatArray,
) -> float:
    """Mean loss over the listed rows, the ℓ2 term left out; ``scores`` is room for four rows."""
    total = 0.0
    for first in range(0, rows.size, 4):
        last = min(first + 4, rows.size)
        scores_of_rows(features, rows, first, last, x, scores)
        for position in range(first, last):
            total += loss_of_row(loss, scores[position - first], targets, rows[position])
    return total / rows.size


@compiled
def losses_at(
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    x: FloatArray,
    loss: int,
    values: FloatArray,
) -> None:
    """Mean loss of each listed client at ``x``, the ℓ2 term left out."""
    scores = np.empty((4, x.shape[0]))
    for answer in order:
        rows = np.arange(block.pointer[clients[answer]], block.pointer[clients[answer] + 1])
        values[answer] = _mean_loss(block.features, block.targets, rows, x, loss, scores)


@compiled
def gradients_at(
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    x: FloatArray,
    loss: int,
    gradients: FloatArray,
) -> None:
    """Mean loss gradient of each listed client at ``x``, the ℓ2 term left out."""
    slopes = np.empty((4, x.shape[0]))
    no_anchor = np.empty((0, x.shape[0]))
    for answer in order:
        rows = np.arange(block.pointer[clients[answer]], block.pointer[clients[answer] + 1])
        mean_gradient(
            block.features, block.targets, rows, rows.size, x, loss, gradients[answer], slopes,
            no_anchor, False,
        )  # fmt: skip


@compiled
def slopes_at(
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    x: FloatArray,
    loss: int,
    losses: FloatArray,
    gradients: FloatArray,
    diagonals: FloatArray,
) -> None:
    """Mean loss, its gradient and the diagonal of its Hessian of each listed client.

    For losses with one score a row. Rows are read from memory once, four at a time; where fewer
    are left, the last one stands in for the others with derivatives of zero. ``diagonals`` has no
    rows where they are known already.
    """
    slopes, curvatures, four = np.empty((4, 1)), np.empty(4), np.empty(4, np.int64)
    for answer in order:
        rows = np.arange(block.pointer[clients[answer]], block.pointer[clients[answer] + 1])
        gradient, diagonal = gradients[answer : answer + 1], diagonals[answer : answer + 1]
        gradient[:] = 0.0
        diagonal[:] = 0.0
        total = 0.0
        for first in range(0, rows.size, 4):
            last = min(first + 4, rows.size)
            scores_of_rows(block.features, rows, first, last, x, slopes)
            slopes[last - first :] = 0.0
            curvatures[last - first :] = 0.0
            four[:] = rows[last - 1]
            for place in range(last - first):
                row = rows[first + place]
                four[place] = row
                value, slope, curvature = derivatives_at(loss, slopes[place, 0], block.targets, row)
                total += value
                slopes[place, 0] = slope / rows.size
                curvatures[place] = curvature / rows.size
            if diagonal.size > 0:
                _add_with_squares(
                    block.features, four, slopes[:, 0], curvatures, gradient[0], diagonal[0]
                )
            else:
                add_rows(block.features, four, 0, 4, slopes, gradient)
        losses[answer] = total / rows.size


@compiled
def _add_with_squares(
    features: AnyArray,
    rows: Int64Array,
    slopes: FloatArray,
    curvatures: FloatArray,
    gradient: FloatArray,
    diagonal: FloatArray,
) -> None:
    """Add four rows times their slopes to ``gradient``, their squares times curvatures likewise."""
    row_0, row_1, row_2, row_3 = rows[0], rows[1], rows[2], rows[3]
    slope_0, slope_1, slope_2, slope_3 = slopes[0], slopes[1], slopes[2], slopes[3]
    bend_0, bend_1, bend_2, bend_3 = curvatures[0], curvatures[1], curvatures[2], curvatures[3]
    for column in range(gradient.size):
        # In double precision: squares of float32 values do not fit float32.
        value_0 = np.float64(features[row_0, column])
        value_1 = np.float64(features[row_1, column])
        value_2 = np.float64(features[row_2, column])
        value_3 = np.float64(features[row_3, column])
        gradient[column] += (
            slope_0 * value_0 + slope_1 * value_1 + slope_2 * value_2 + slope_3 * value_3
        )
        diagonal[column] += (
            bend_0 * value_0 * value_0
            + bend_1 * value_1 * value_1
            + bend_2 * value_2 * value_2
            + bend_3 * value_3 * value_3
        )


@compiled
def class_slopes_at(
    block: DenseBlock,
    clients: Int64Array,
    order: Int64Array,
    x: FloatArray,
    loss: int,
    losses: FloatArray,
    gradients: FloatArray,
    diagonals: FloatArray,
) -> None:
    """`slopes_at` for several classes; the latter two have a row for each."""
    slopes, curvatures = np.empty((4, x.shape[0])), np.empty((4, x.shape[0]))
    for answer in order:
        rows = np.arange(block.pointer[clients[answer]], block.pointer[clients[answer] + 1])
        gradients[answer] = 0.0
        diagonals[answer] = 0.0
        total = 0.0
        for first in range(0, rows.size, 4):
            last = min(first + 4, rows.size)
            scores_of_rows(block.features, rows, first, last, x, slopes)
            for place in range(last - first):
                total += to_class_slopes(
                    loss, slopes[place], block.targets, rows[first + place], curvatures[place]
                )
            slopes /= rows.size
            curvatures /= rows.size
            add_rows(block.features, rows, first, last, slopes, gradients[answer])
            for place in range(last - first):
                _add_squares(
                    block.features[rows[first + place]], curvatures[place], diagonals[answer]
                )
        losses[answer] = total / rows.size


@compiled
def _add_squares(row: AnyArray, curvatures: FloatArray, diagonal: FloatArray) -> None:
    """Add a row's squares to ``diagonal``, times its curvature for the class."""
    for label in range(curvatures.size):
        for column in range(row.size):
            value = np.float64(row[column])  # squares of float32 values do not fit float32
            diagonal[label, column] += curvatures[label] * value * value
