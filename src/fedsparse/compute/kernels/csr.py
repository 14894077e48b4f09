"""CSR rows in each client's own numbering of its columns.

A client of a wide problem touches few columns. They are numbered 0, 1, … in order, so that local
vectors are short and nothing a client does costs O(width). Inner loops run from zero over slices,
and the numbers are unsigned: that spares them a test for negative indices at every entry. Local
coefficients are laid out (column, class): one stored value meets all classes at once.
"""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int32Array, Int64Array, UInt32Array
from fedsparse.compiling import compiled, inlined
from fedsparse.problem.slopes import derivatives_at, loss_of_row, to_class_slopes, to_slopes

_PAIR = 64
"""What adding a product of two stored values costs, in steps of a product of dense matrices."""

_FEW_PAIRS = 2_000
"""Added up before a product of dense matrices has begun."""


class CsrBlock(NamedTuple):
    """All clients' rows, as the compiled loops read them.

    Row r has entries ``row_pointer[r]`` to ``row_pointer[r + 1]`` of ``values`` and ``numbers``.
    Client i has rows ``pointer[i]`` to ``pointer[i + 1]``, and its columns are ``own_pointer[i]``
    to ``own_pointer[i + 1]`` of ``own_columns``.
    """

    row_pointer: Int64Array
    values: AnyArray
    numbers: UInt32Array
    own_pointer: Int64Array
    own_columns: Int32Array
    targets: FloatArray  # each row's target and weight
    pointer: Int64Array
    identities: Int64Array


@compiled
def count_columns(
    row_pointer: Int64Array, columns: AnyArray, pointer: Int64Array, width: int
) -> Int64Array:
    """Number of distinct columns of each client."""
    counts = np.zeros(pointer.size - 1, np.int64)
    last_seen_at = np.full(width, -1, np.int32)
    for client in range(counts.size):
        for entry in range(row_pointer[pointer[client]], row_pointer[pointer[client + 1]]):
            if last_seen_at[columns[entry]] != client:
                last_seen_at[columns[entry]] = client
                counts[client] += 1
    return counts


@compiled
def number_columns(
    row_pointer: Int64Array,
    columns: AnyArray,
    pointer: Int64Array,
    width: int,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    numbers: UInt32Array,
) -> None:
    """List each client's columns in order and write every entry's number in that list."""
    number_of = np.full(width, -1, np.int32)
    for client in range(pointer.size - 1):
        first, last = row_pointer[pointer[client]], row_pointer[pointer[client + 1]]
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        found = 0
        for entry in range(first, last):
            if number_of[columns[entry]] < 0:
                number_of[columns[entry]] = 0
                own[found] = columns[entry]
                found += 1
        own.sort()
        for number in range(own.size):
            number_of[own[number]] = number
        for entry in range(first, last):
            numbers[entry] = number_of[columns[entry]]
        for column in own:
            number_of[column] = -1


@inlined
def _dot(values: AnyArray, numbers: UInt32Array, x: FloatArray) -> float:
    """Product of one stored row with a vector."""
    total = 0.0
    for entry in range(numbers.size):
        total += values[entry] * x[numbers[entry]]
    return total


@inlined
def _add(values: AnyArray, numbers: UInt32Array, slope: float, total: FloatArray) -> None:
    """Add one stored row times ``slope`` to a vector."""
    for entry in range(numbers.size):
        total[numbers[entry]] += slope * values[entry]


@compiled
def scores_of_row(block: CsrBlock, row: int, x: FloatArray, scores: FloatArray) -> None:
    """Scores of one row for every class."""
    stored = slice(block.row_pointer[row], block.row_pointer[row + 1])
    values, numbers = block.values[stored], block.numbers[stored]
    if x.shape[1] == 1:
        scores[0] = _dot(values, numbers, x.ravel())
        return
    scores[:] = 0.0
    for entry in range(numbers.size):
        for label in range(x.shape[1]):
            scores[label] += values[entry] * x[numbers[entry], label]


@compiled
def add_row(block: CsrBlock, row: int, slopes: FloatArray, gradient: FloatArray) -> None:
    """Add one row to ``gradient``, times its slope for each class."""
    stored = slice(block.row_pointer[row], block.row_pointer[row + 1])
    values, numbers = block.values[stored], block.numbers[stored]
    if gradient.shape[1] == 1:
        _add(values, numbers, slopes[0], gradient.ravel())
        return
    for entry in range(numbers.size):
        for label in range(gradient.shape[1]):
            gradient[numbers[entry], label] += slopes[label] * values[entry]


@compiled
def columns_of(block: CsrBlock, client: int) -> Int32Array:
    """The client's columns, in order."""
    return block.own_columns[block.own_pointer[client] : block.own_pointer[client + 1]]


@compiled
def find(own: Int32Array, column: int) -> int:
    """Number of a column in the client's list, −1 if the client does not have it."""
    place = np.searchsorted(own, column)
    if place < own.size and own[place] == column:
        return int(place)
    return -1


@compiled
def to_local(own: Int32Array, start: FloatArray, support: Int64Array, x: FloatArray) -> None:
    """Copy ``start`` (class, column) to the client's numbering (number, class).

    ``support`` lists the columns any class uses. Looking those up is cheaper than reading
    ``start`` at every column of the client, unless ``start`` is far from sparse.
    """
    labels = start.shape[0]
    if support.size * 16 < own.size:
        x[: own.size] = 0.0
        for column in support:
            number = find(own, column)
            if number >= 0:
                for label in range(labels):
                    x[number, label] = start[label, column]
        return
    for number in range(own.size):
        for label in range(labels):
            x[number, label] = start[label, own[number]]


@compiled
def add_mean_gradient(
    block: CsrBlock,
    begin: int,
    rows: Int64Array,
    count: int,
    x: FloatArray,
    loss: int,
    slopes: FloatArray,
    anchor: FloatArray,
    gradient: FloatArray,
    with_loss: bool,
) -> float:
    """Add to ``gradient`` the mean over ``count`` listed rows, counted from row ``begin``.

    ``anchor`` holds every row's slopes at a snapshot, to be subtracted, or has no rows. Returns the
    mean loss if asked.
    """
    total = 0.0
    one_class = x.shape[1] == 1
    x_flat, gradient_flat = x.ravel(), gradient.ravel()
    for position in range(count):
        row = begin + rows[position]
        stored = slice(block.row_pointer[row], block.row_pointer[row + 1])
        if one_class:
            slopes[0] = _dot(block.values[stored], block.numbers[stored], x_flat)
        else:
            scores_of_row(block, row, x, slopes)
        if with_loss:
            total += loss_of_row(loss, slopes, block.targets, row)
        to_slopes(loss, slopes, block.targets, row)
        for label in range(slopes.size):
            if anchor.shape[0] > 0:
                slopes[label] -= anchor[rows[position], label]
            slopes[label] /= count
        if one_class:
            _add(block.values[stored], block.numbers[stored], slopes[0], gradient_flat)
        else:
            add_row(block, row, slopes, gradient)
    return total / count


@compiled
def mean_loss(block: CsrBlock, client: int, x: FloatArray, loss: int, scores: FloatArray) -> float:
    """Mean loss of a client at ``x`` in its own numbering; ``scores`` is room for one row."""
    begin, end = block.pointer[client], block.pointer[client + 1]
    total = 0.0
    for row in range(begin, end):
        scores_of_row(block, row, x, scores)
        total += loss_of_row(loss, scores, block.targets, row)
    return total / (end - begin)


@compiled
def losses_at(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    support: Int64Array,
    loss: int,
    results: FloatArray,
) -> None:
    """Mean loss of each listed client, the ℓ2 term left out."""
    scores = np.empty(start.shape[0])
    for answer in order:
        client = clients[answer]
        own = columns_of(block, client)
        x = np.empty((own.size, start.shape[0]))
        to_local(own, start, support, x)
        results[answer] = mean_loss(block, client, x, loss, scores)


@compiled
def gradients_at(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    support: Int64Array,
    loss: int,
    places: Int64Array,
    results: FloatArray,
) -> None:
    """Mean loss gradient of each listed client on its own columns, the ℓ2 term left out."""
    labels = start.shape[0]
    slopes, no_anchor = np.empty(labels), np.empty((0, labels))
    for answer in order:
        client = clients[answer]
        own = columns_of(block, client)
        x, gradient = np.empty((own.size, labels)), np.zeros((own.size, labels))
        to_local(own, start, support, x)
        begin = block.pointer[client]
        rows = np.arange(block.pointer[client + 1] - begin)
        add_mean_gradient(
            block, begin, rows, rows.size, x, loss, slopes, no_anchor, gradient, False
        )
        results[places[answer] : places[answer + 1]] = gradient.T.copy().ravel()


@compiled
def slopes_at(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    support: Int64Array,
    loss: int,
    places: Int64Array,
    losses: FloatArray,
    gradients: FloatArray,
    diagonals: FloatArray,
) -> None:
    """Mean loss, its gradient and the diagonal of its Hessian of each listed client, in one pass.

    For losses with one score a row. The latter two are on the client's own columns. ``diagonals``
    is empty where they are known already.
    """
    score = np.empty(1)
    for answer in order:
        client = clients[answer]
        own = columns_of(block, client)
        x = np.empty((own.size, 1))
        to_local(own, start, support, x)
        gradient = gradients[places[answer] : places[answer + 1]]
        diagonal = diagonals[places[answer] : places[answer + 1]]
        gradient[:] = 0.0
        diagonal[:] = 0.0
        begin, end = block.pointer[client], block.pointer[client + 1]
        total = 0.0
        for row in range(begin, end):
            scores_of_row(block, row, x, score)
            value, slope, curvature = derivatives_at(loss, score[0], block.targets, row)
            total += value
            stored = slice(block.row_pointer[row], block.row_pointer[row + 1])
            values, numbers = block.values[stored], block.numbers[stored]
            _add(values, numbers, slope / (end - begin), gradient)
            if diagonal.size > 0:
                _add_squares(values, numbers, curvature / (end - begin), diagonal)
        losses[answer] = total / (end - begin)


@inlined
def _add_squares(
    values: AnyArray, numbers: UInt32Array, curvature: float, diagonal: FloatArray
) -> None:
    """Add the squares of one stored row times its curvature."""
    for entry in range(numbers.size):
        diagonal[numbers[entry]] += curvature * values[entry] * values[entry]


@compiled
def class_slopes_at(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    support: Int64Array,
    loss: int,
    places: Int64Array,
    losses: FloatArray,
    gradients: FloatArray,
    diagonals: FloatArray,
) -> None:
    """`slopes_at` for several classes; the latter two are laid out class by class."""
    labels = start.shape[0]
    slopes, curvatures = np.empty(labels), np.empty(labels)
    for answer in order:
        client = clients[answer]
        own = columns_of(block, client)
        x = np.empty((own.size, labels))
        to_local(own, start, support, x)
        gradient, diagonal = np.zeros((own.size, labels)), np.zeros((own.size, labels))
        begin, end = block.pointer[client], block.pointer[client + 1]
        total = 0.0
        for row in range(begin, end):
            scores_of_row(block, row, x, slopes)
            total += to_class_slopes(loss, slopes, block.targets, row, curvatures)
            slopes /= end - begin
            curvatures /= end - begin
            add_row(block, row, slopes, gradient)
            for entry in range(block.row_pointer[row], block.row_pointer[row + 1]):
                value = np.float64(block.values[entry])
                for label in range(labels):
                    diagonal[block.numbers[entry], label] += curvatures[label] * value * value
        gradients[places[answer] : places[answer + 1]] = gradient.T.copy().ravel()
        diagonals[places[answer] : places[answer + 1]] = diagonal.T.copy().ravel()
        losses[answer] = total / (end - begin)


@compiled
def scores_at(block: CsrBlock, client: int, start: FloatArray, support: Int64Array) -> FloatArray:
    """Scores of a client's rows, one class."""
    own = columns_of(block, client)
    x = np.empty((own.size, 1))
    to_local(own, start, support, x)
    begin = block.pointer[client]
    scores = np.empty((block.pointer[client + 1] - begin, 1))
    for row in range(scores.size):
        scores_of_row(block, begin + row, x, scores[row])
    return scores[:, 0]


@compiled
def rows_on(block: CsrBlock, client: int, columns: Int64Array) -> tuple[Int64Array, FloatArray]:
    """Which of the columns a client has, and its rows on these, dense."""
    place_of, held = _places(block, client, columns)
    begin = block.pointer[client]
    rows = np.zeros((block.pointer[client + 1] - begin, held.size))
    for row in range(rows.shape[0]):
        for entry in range(block.row_pointer[begin + row], block.row_pointer[begin + row + 1]):
            place = place_of[block.numbers[entry]]
            if place >= 0:
                rows[row, place] += block.values[entry]
    return held, rows


@compiled
def _places(block: CsrBlock, client: int, columns: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Place of each of a client's columns among those listed that it has, and which these are.

    The place of a column that is not listed is −1.
    """
    own = columns_of(block, client)
    place_of, held = np.full(own.size, -1), np.empty(columns.size, np.int64)
    found = 0
    for position in range(columns.size):
        number = find(own, columns[position])
        if number >= 0:
            place_of[number] = found
            held[found] = position
            found += 1
    return place_of, held[:found]


@compiled
def mean_hessian(
    block: CsrBlock,
    client: int,
    columns: Int64Array,
    x: FloatArray,
    scores: FloatArray,
    loss: int,
) -> tuple[Int64Array, float, FloatArray, FloatArray, float, FloatArray]:
    """Which of the columns a client has; its mean loss, and gradient and Hessian on these.

    And the sum of its rows' second derivatives, and of rows times these.

    From pairs of stored values. Columns of a row are in order, so pairs lie in the upper triangle.
    Where there are so many pairs that a product of rows written out is quicker, nothing is worked
    out and the Hessian is empty.

    ``x`` holds the coefficients on the columns; rows' scores come from them if ``scores`` is empty.
    """
    place_of, held = _places(block, client, columns)
    width, count = held.size, block.pointer[client + 1] - block.pointer[client]
    if _count_pairs(block, client, place_of) > max(count * width * width / _PAIR, _FEW_PAIRS):
        return held, 0.0, np.empty(0), np.empty((0, 0)), 0.0, np.empty(0)
    gradient, hessian, first_moments = np.zeros(width), np.zeros((width, width)), np.zeros(width)
    places, values = np.empty(width, np.int64), np.empty(width)
    begin = block.pointer[client]
    total, mass = 0.0, 0.0
    for row in range(begin, begin + count):
        score, found = 0.0, 0
        for entry in range(block.row_pointer[row], block.row_pointer[row + 1]):
            place = place_of[block.numbers[entry]]
            if place >= 0:
                places[found], values[found] = place, block.values[entry]
                score += values[found] * x[held[place]]
                found += 1
        if scores.size > 0:
            score = scores[row - begin]
        value, slope, curvature = derivatives_at(loss, score, block.targets, row)
        total += value
        mass += curvature / count
        for first in range(found):
            gradient[places[first]] += slope / count * values[first]
            factor = curvature / count * values[first]
            first_moments[places[first]] += factor
            for second in range(first, found):
                hessian[places[first], places[second]] += factor * values[second]
    return held, total / count, gradient, hessian, mass, first_moments


@compiled
def _count_pairs(block: CsrBlock, client: int, place_of: Int64Array) -> int:
    """Pairs of stored values in the same row, both in columns that have a place."""
    pairs = 0
    for row in range(block.pointer[client], block.pointer[client + 1]):
        found = 0
        for entry in range(block.row_pointer[row], block.row_pointer[row + 1]):
            found += place_of[block.numbers[entry]] >= 0
        pairs += found * (found + 1) // 2
    return pairs


@compiled
def answer_indices(
    block: CsrBlock,
    clients: Int64Array,
    places: Int64Array,
    classes: int,
    width: int,
    indices: Int64Array,
) -> None:
    """Index (class · width + column) of every entry of answers on the clients' own columns."""
    for answer in range(clients.size):
        place = places[answer]
        for label in range(classes):
            for column in columns_of(block, clients[answer]):
                indices[place] = label * width + column
                place += 1
