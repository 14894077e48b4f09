"""Compiled loops over CSR rows, in each client's own numbering of its columns.

A client of a wide problem touches few columns. They are numbered 0, 1, … in order, so that local
vectors are short and nothing a client does costs O(width). The numbers are unsigned, which spares
the loops a test for negative indices at every entry. Local coefficients are laid out (column,
class): one stored value meets all classes at once.
"""

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int32Array, Int64Array, UInt32Array
from fedsparse.kernels.compiling import compiled, inlined
from fedsparse.kernels.slopes import loss_of_row, to_slopes


@compiled
def count_columns(
    row_pointer: Int64Array,
    columns: AnyArray,
    pointer: Int64Array,
    clients: Int64Array,
    width: int,
    counts: Int64Array,
) -> None:
    """Number of distinct columns of each listed client."""
    last_seen_at = np.full(width, -1, np.int32)
    for client in clients:
        for entry in range(row_pointer[pointer[client]], row_pointer[pointer[client + 1]]):
            if last_seen_at[columns[entry]] != client:
                last_seen_at[columns[entry]] = client
                counts[client] += 1


@compiled
def number_columns(
    row_pointer: Int64Array,
    columns: AnyArray,
    pointer: Int64Array,
    clients: Int64Array,
    width: int,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    numbers: UInt32Array,
) -> None:
    """List each client's columns in order and write every entry's number in that list."""
    number_of = np.full(width, -1, np.int32)
    for client in clients:
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
def _dot(values: AnyArray, numbers: UInt32Array, first: int, last: int, x: FloatArray) -> float:
    """Product of one stored row with a vector; four sums keep the additions from queueing."""
    sum_0 = sum_1 = sum_2 = sum_3 = 0.0
    whole = last - (last - first) % 4
    for entry in range(first, whole, 4):
        sum_0 += values[entry] * x[numbers[entry]]
        sum_1 += values[entry + 1] * x[numbers[entry + 1]]
        sum_2 += values[entry + 2] * x[numbers[entry + 2]]
        sum_3 += values[entry + 3] * x[numbers[entry + 3]]
    for entry in range(whole, last):
        sum_0 += values[entry] * x[numbers[entry]]
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@inlined
def _add(
    values: AnyArray, numbers: UInt32Array, first: int, last: int, slope: float, total: FloatArray
) -> None:
    """Add one stored row times ``slope`` to a vector."""
    for entry in range(first, last):
        total[numbers[entry]] += slope * values[entry]


@compiled
def scores_of_row(
    values: AnyArray, numbers: UInt32Array, first: int, last: int, x: FloatArray, scores: FloatArray
) -> None:
    """Scores of one stored row for every class."""
    if x.shape[1] == 1:
        scores[0] = _dot(values, numbers, first, last, x.ravel())
        return
    scores[:] = 0.0
    for entry in range(first, last):
        for label in range(x.shape[1]):
            scores[label] += values[entry] * x[numbers[entry], label]


@compiled
def add_row(
    values: AnyArray,
    numbers: UInt32Array,
    first: int,
    last: int,
    slopes: FloatArray,
    gradient: FloatArray,
) -> None:
    """Add one stored row to ``gradient``, times its slope for each class."""
    if gradient.shape[1] == 1:
        _add(values, numbers, first, last, slopes[0], gradient.ravel())
        return
    for entry in range(first, last):
        for label in range(gradient.shape[1]):
            gradient[numbers[entry], label] += slopes[label] * values[entry]


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
def losses_at(
    row_pointer: Int64Array,
    values: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    targets: FloatArray,
    pointer: Int64Array,
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
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        x = np.empty((own.size, start.shape[0]))
        to_local(own, start, support, x)
        total = 0.0
        for row in range(pointer[client], pointer[client + 1]):
            scores_of_row(values, numbers, row_pointer[row], row_pointer[row + 1], x, scores)
            total += loss_of_row(loss, scores, targets[row])
        results[answer] = total / (pointer[client + 1] - pointer[client])


@compiled
def mean_gradient(
    row_pointer: Int64Array,
    values: AnyArray,
    numbers: UInt32Array,
    targets: FloatArray,
    begin: int,
    rows: Int64Array,
    count: int,
    x: FloatArray,
    loss: int,
    gradient: FloatArray,
    slopes: FloatArray,
    anchor: FloatArray,
) -> None:
    """Add to ``gradient`` the mean over ``count`` listed rows, counted from row ``begin``.

    ``anchor`` holds every row's slopes at a snapshot, to be subtracted, or has no rows.
    """
    one_class = x.shape[1] == 1
    x_flat, gradient_flat = x.ravel(), gradient.ravel()
    for position in range(count):
        row = begin + rows[position]
        first, last = row_pointer[row], row_pointer[row + 1]
        if one_class:
            slopes[0] = _dot(values, numbers, first, last, x_flat)
        else:
            scores_of_row(values, numbers, first, last, x, slopes)
        to_slopes(loss, slopes, targets[row])
        for label in range(slopes.size):
            if anchor.shape[0] > 0:
                slopes[label] -= anchor[rows[position], label]
            slopes[label] /= count
        if one_class:
            _add(values, numbers, first, last, slopes[0], gradient_flat)
        else:
            add_row(values, numbers, first, last, slopes, gradient)


@compiled
def gradients_at(
    row_pointer: Int64Array,
    values: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    targets: FloatArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    start: FloatArray,
    support: Int64Array,
    loss: int,
    answer_pointer: Int64Array,
    results: FloatArray,
) -> None:
    """Mean loss gradient of each listed client on its own columns, the ℓ2 term left out."""
    labels = start.shape[0]
    slopes, no_anchor = np.empty(labels), np.empty((0, labels))
    for answer in order:
        client = clients[answer]
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        x, gradient = np.empty((own.size, labels)), np.zeros((own.size, labels))
        to_local(own, start, support, x)
        begin = pointer[client]
        rows = np.arange(pointer[client + 1] - begin)
        mean_gradient(
            row_pointer, values, numbers, targets, begin, rows, rows.size, x, loss, gradient,
            slopes, no_anchor,
        )  # fmt: skip
        results[answer_pointer[answer] : answer_pointer[answer + 1]] = gradient.T.copy().ravel()


@compiled
def answer_indices(
    own_pointer: Int64Array,
    own_columns: Int32Array,
    clients: Int64Array,
    starts: Int64Array,
    classes: int,
    width: int,
    indices: Int64Array,
) -> None:
    """Index (class · width + column) of every entry of answers on the clients' own columns."""
    for answer in range(clients.size):
        place = starts[answer]
        for label in range(classes):
            for entry in range(own_pointer[clients[answer]], own_pointer[clients[answer] + 1]):
                indices[place] = label * width + own_columns[entry]
                place += 1
