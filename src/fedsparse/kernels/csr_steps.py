"""K local steps on CSR clients.

*Explicit* steps, for full and variance-reduced gradients, update every local coefficient: the
gradient touches all the client's columns anyway. *Lazy* steps, for mini-batches, touch only the
batch's columns and the support.
"""

import numpy as np

from fedsparse.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt32Array,
)
from fedsparse.kernels import random
from fedsparse.kernels.compiling import compiled
from fedsparse.kernels.csr import add_row, find, mean_gradient, scores_of_row, to_local
from fedsparse.kernels.plan import Plan, batch_key, batch_of, step_in_place
from fedsparse.kernels.select import cut
from fedsparse.kernels.slopes import to_slopes

# Rescale the lazily scaled vector before its factor loses precision.
_SMALLEST_SCALE = 1e-100


@compiled
def _global_column(own: Int32Array, outside: Int64Array, number: int) -> int:
    return own[number] if number < own.size else outside[number - own.size]


@compiled
def _columns_outside(own: Int32Array, support: Int64Array) -> Int64Array:
    """Support columns the client does not have: they shrink with ℓ2 and compete in H_τ."""
    outside = np.empty(support.size, np.int64)
    found = 0
    for column in support:
        if find(own, column) < 0:
            outside[found] = column
            found += 1
    return outside[:found]


@compiled
def _always_here(own: Int32Array, outside: Int64Array, always: Int64Array) -> Int64Array:
    """Numbers of the columns that H_τ must keep, as far as they have one."""
    numbers = np.empty(always.size, np.int64)
    found = 0
    for column in always:
        number = find(own, column)
        if number < 0:
            place = int(np.searchsorted(outside, column))
            if place == outside.size or outside[place] != column:
                continue
            number = own.size + place
        numbers[found] = number
        found += 1
    return numbers[:found]


@compiled
def _last_tied(
    candidates: Int64Array,
    keys: Int64Array,
    size: int,
    threshold: int,
    quota: int,
    own: Int32Array,
    outside: Int64Array,
) -> int:
    """Highest of the ``quota`` lowest columns whose key is the threshold; −1 if quota is 0."""
    tied = np.empty(size, np.int64)
    found = 0
    for position in range(size):
        if keys[position] == threshold:
            tied[found] = _global_column(own, outside, candidates[position])
            found += 1
    if quota <= 0:
        return -1
    return np.sort(tied[:found])[min(quota, found) - 1]


@compiled
def _threshold_everything(
    x: FloatArray,
    label: int,
    kept: int,
    own: Int32Array,
    outside: Int64Array,
    always_here: Int64Array,
    always: Int64Array,
    magnitudes: FloatArray,
    scratch: Int64Array,
    guess: int,
) -> int:
    """H_τ among all local coefficients of one class, in place; returns the threshold."""
    keys, size = magnitudes.view(np.int64), x.shape[0]
    for number in range(size):
        magnitudes[number] = abs(x[number, label])
    for number in always_here:
        magnitudes[number] = np.inf
    threshold, quota = cut(keys, size, kept - always.size + always_here.size, guess, scratch)
    if quota >= size:
        for number in range(size):
            x[number, label] = x[number, label] if keys[number] >= threshold else 0.0
    elif threshold > 0:
        last = _last_tied(np.arange(size), keys, size, threshold, quota, own, outside)
        for number in range(size):
            tied = keys[number] == threshold
            if keys[number] < threshold or (tied and _global_column(own, outside, number) > last):
                x[number, label] = 0.0
    return threshold


@compiled
def _threshold_class(
    x: FloatArray,
    label: int,
    candidates: Int64Array,
    size: int,
    kept: int,
    own: Int32Array,
    outside: Int64Array,
    marks: BoolArray,
    always: Int64Array,
    magnitudes: FloatArray,
    scratch: Int64Array,
    guess: int,
    support: Int64Array,
) -> tuple[int, int]:
    """H_τ among the candidates of one class, in place; other coefficients are zero already.

    Lists the survivors in ``support``; returns how many they are and the threshold, the guess for
    the next step. Always-kept columns that are no candidates are zero, yet use up their place.
    """
    keys = magnitudes.view(np.int64)
    present = 0
    for position in range(size):
        number = candidates[position]
        magnitudes[position] = abs(x[number, label])
        if always.size > 0 and marks[number]:
            magnitudes[position] = np.inf
            present += 1
    threshold, quota = cut(keys, size, kept - always.size + present, guess, scratch)
    last_tied = 2**62
    if quota < size and threshold > 0:  # zeros at the threshold need no choice among them
        last_tied = _last_tied(candidates, keys, size, threshold, quota, own, outside)
    survivors = 0
    for position in range(size):
        number = candidates[position]
        key = keys[position]
        survives = key > threshold or (
            key == threshold and _global_column(own, outside, number) <= last_tied
        )
        if survives and x[number, label] != 0.0:
            support[survivors] = number
            survivors += 1
        else:
            x[number, label] = 0.0
    return survivors, threshold


@compiled
def _supports(x: FloatArray) -> tuple[Int64Array, Int64Array]:
    """Numbers of the non-zeros of every class, and how many there are."""
    supports = np.empty((x.shape[1], x.shape[0]), np.int64)
    sizes = np.zeros(x.shape[1], np.int64)
    for label in range(x.shape[1]):
        for number in range(x.shape[0]):
            if x[number, label] != 0.0:
                supports[label, sizes[label]] = number
                sizes[label] += 1
    return supports, sizes


@compiled
def _write_thresholded(
    x: FloatArray,
    supports: Int64Array,
    sizes: Int64Array,
    own: Int32Array,
    outside: Int64Array,
    width: int,
    indices: Int64Array,
    values: FloatArray,
) -> int:
    """List the non-zeros in order of (class, column); returns how many there are."""
    filled = 0
    for label in range(x.shape[1]):
        size = sizes[label]
        columns = np.empty(size, np.int64)
        for position in range(size):
            columns[position] = _global_column(own, outside, supports[label, position])
        for position in np.argsort(columns):
            indices[filled] = label * width + columns[position]
            values[filled] = x[supports[label, position], label]
            filled += 1
    return filled


@compiled
def _write_change(
    x: FloatArray, own_start: FloatArray, decay: float, count: int, change: FloatArray
) -> None:
    """Write x − decay · x_t on the client's columns, class by class."""
    for label in range(x.shape[1]):
        for number in range(count):
            change[label * count + number] = x[number, label] - decay * own_start[number, label]


@compiled
def explicit_steps(
    row_pointer: Int64Array,
    stored: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    targets: FloatArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    identities: Int64Array,
    start: FloatArray,
    support: Int64Array,
    snapshot: FloatArray,
    snapshot_support: Int64Array,
    plan: Plan,
    always: Int64Array,
    answer_pointer: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    counts: Int64Array,
) -> None:
    """K full or variance-reduced steps on each listed client.

    With local thresholding the answer is x itself, else its change x − decay · x_t on the client's
    columns. Either way it starts at ``answer_pointer`` and ``counts`` says how long it is.
    """
    labels, width = start.shape
    nobody = np.empty(0, np.int64)
    slopes, guesses, sizes = (
        np.empty(labels),
        np.zeros(labels, np.int64),
        np.empty(labels, np.int64),
    )
    for answer in order:
        client, place = clients[answer], answer_pointer[answer]
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        outside = _columns_outside(own, support) if plan.kept > 0 else nobody
        local = own.size + outside.size
        x, gradient = np.empty((local, labels)), np.empty((local, labels))
        to_local(own, start, support, x)
        for position in range(outside.size):
            x[own.size + position] = start[:, outside[position]]
        own_start = x.copy()
        always_here = _always_here(own, outside, always)
        magnitudes, scratch = np.empty(local), np.empty(local, np.int64)
        begin, count = pointer[client], pointer[client + 1] - pointer[client]
        rows = np.arange(count)
        batch = batch_of(plan, count)
        anchored = snapshot.shape[0] > 0 and batch < count
        anchor = np.empty((count if anchored else 0, labels))
        mean_at_snapshot = np.zeros((local if anchored else 0, labels))
        if anchored:
            at_snapshot = np.empty((own.size, labels))
            to_local(own, snapshot, snapshot_support, at_snapshot)
            for row in range(count):
                first, last = row_pointer[begin + row], row_pointer[begin + row + 1]
                scores_of_row(stored, numbers, first, last, at_snapshot, anchor[row])
                to_slopes(plan.loss, anchor[row], targets[begin + row])
                add_row(stored, numbers, first, last, anchor[row] / count, mean_at_snapshot)
        for step in range(plan.steps):
            key = batch_key(plan, identities[client], step)
            if batch < count:
                random.draw(key, rows, count, batch)
            gradient[:] = 0.0
            if anchored:
                gradient += mean_at_snapshot
            mean_gradient(
                row_pointer, stored, numbers, targets, begin, rows, batch, x, plan.loss,
                gradient, slopes, anchor,
            )  # fmt: skip
            if batch < count:
                random.undo_draw(key, rows, count, batch)
            step_in_place(x.ravel(), own_start.ravel(), gradient.ravel(), plan)
            if plan.kept > 0:
                for label in range(labels):
                    guesses[label] = _threshold_everything(
                        x, label, plan.kept, own, outside, always_here, always, magnitudes,
                        scratch, guesses[label],
                    )  # fmt: skip
        if plan.kept > 0:
            supports, sizes = _supports(x)
            counts[answer] = _write_thresholded(
                x, supports, sizes, own, outside, width, indices[place:], values[place:]
            )
        else:
            counts[answer] = own.size * labels
            _write_change(
                x, own_start, plan.decay, own.size, values[place : place + counts[answer]]
            )


@compiled
def _batch_slopes_and_gradient(
    row_pointer: Int64Array,
    stored: AnyArray,
    numbers: UInt32Array,
    targets: FloatArray,
    begin: int,
    rows: Int64Array,
    batch: int,
    x: FloatArray,
    loss: int,
    gradient: FloatArray,
    slopes: FloatArray,
    anchor: FloatArray,
    stamps: Int64Array,
    stamp: int,
    touched: Int64Array,
) -> int:
    """Mean gradient of a batch on the columns it touches; lists those, returns how many."""
    found = 0
    for position in range(batch):
        row = begin + rows[position]
        for entry in range(row_pointer[row], row_pointer[row + 1]):
            number = numbers[entry]
            if stamps[number] != stamp:
                stamps[number] = stamp
                gradient[number] = 0.0
                touched[found] = number
                found += 1
    mean_gradient(
        row_pointer, stored, numbers, targets, begin, rows, batch, x, loss, gradient, slopes, anchor
    )
    return found


@compiled
def lazy_thresholded_steps(
    row_pointer: Int64Array,
    stored: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    targets: FloatArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    identities: Int64Array,
    start: FloatArray,
    support: Int64Array,
    plan: Plan,
    always: Int64Array,
    answer_pointer: Int64Array,
    indices: Int64Array,
    values: FloatArray,
    counts: Int64Array,
) -> None:
    """K mini-batch steps, each followed by H_τ: a step costs the batch's entries and τ."""
    labels, width = start.shape
    slopes, no_anchor = np.empty(labels), np.empty((0, labels))
    guesses = np.zeros(labels, np.int64)
    for answer in order:
        client, place = clients[answer], answer_pointer[answer]
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        outside = _columns_outside(own, support)
        local = own.size + outside.size
        x, gradient = np.empty((local, labels)), np.empty((local, labels))
        to_local(own, start, support, x)
        for position in range(outside.size):
            x[own.size + position] = start[:, outside[position]]
        marks = np.zeros(local, np.bool_)
        for number in _always_here(own, outside, always):
            marks[number] = True
        supports, sizes = _supports(x)
        candidates = np.empty(local, np.int64)
        stamps, touched = np.full(local, -1), np.empty(local, np.int64)
        magnitudes, scratch = np.empty(local), np.empty(local, np.int64)
        begin, count = pointer[client], pointer[client + 1] - pointer[client]
        rows, batch = np.arange(count), batch_of(plan, count)
        for step in range(plan.steps):
            key = batch_key(plan, identities[client], step)
            random.draw(key, rows, count, batch)
            found = _batch_slopes_and_gradient(
                row_pointer, stored, numbers, targets, begin, rows, batch, x, plan.loss, gradient,
                slopes, no_anchor, stamps, step, touched,
            )  # fmt: skip
            random.undo_draw(key, rows, count, batch)
            for label in range(labels):
                size = 0
                for position in range(sizes[label]):
                    number = supports[label, position]
                    x[number, label] *= plan.shrink
                    candidates[size] = number
                    size += stamps[number] != step
                for position in range(found):
                    number = touched[position]
                    x[number, label] -= plan.step_size * gradient[number, label]
                    candidates[size] = number
                    size += 1
                sizes[label], guesses[label] = _threshold_class(
                    x, label, candidates, size, plan.kept, own, outside, marks, always,
                    magnitudes, scratch, guesses[label], supports[label],
                )  # fmt: skip
        counts[answer] = _write_thresholded(
            x, supports, sizes, own, outside, width, indices[place:], values[place:]
        )


@compiled
def lazy_steps(
    row_pointer: Int64Array,
    stored: AnyArray,
    numbers: UInt32Array,
    own_pointer: Int64Array,
    own_columns: Int32Array,
    targets: FloatArray,
    pointer: Int64Array,
    clients: Int64Array,
    order: Int64Array,
    identities: Int64Array,
    start: FloatArray,
    support: Int64Array,
    plan: Plan,
    answer_pointer: Int64Array,
    values: FloatArray,
) -> None:
    """K mini-batch steps without thresholding: a step costs the batch's entries.

    x = q x_t + s w, so that the ℓ2 and proximal terms change two numbers and the gradient only
    the touched entries of w. The answer is the change s w on the client's columns.
    """
    labels = start.shape[0]
    slopes, scores = np.empty(labels), np.empty(labels)
    for answer in order:
        client, place = clients[answer], answer_pointer[answer]
        own = own_columns[own_pointer[client] : own_pointer[client + 1]]
        own_start, w = np.empty((own.size, labels)), np.zeros((own.size, labels))
        to_local(own, start, support, own_start)
        begin, count = pointer[client], pointer[client + 1] - pointer[client]
        rows, batch = np.arange(count), batch_of(plan, count)
        batch_slopes = np.empty((batch, labels))
        start_factor, scale = 1.0, 1.0  # q, s
        for step in range(plan.steps):
            key = batch_key(plan, identities[client], step)
            random.draw(key, rows, count, batch)
            for position in range(batch):
                row = begin + rows[position]
                first, last = row_pointer[row], row_pointer[row + 1]
                scores_of_row(stored, numbers, first, last, own_start, scores)
                scores_of_row(stored, numbers, first, last, w, slopes)
                for label in range(labels):
                    scores[label] = start_factor * scores[label] + scale * slopes[label]
                to_slopes(plan.loss, scores, targets[row])
                batch_slopes[position] = scores
            start_factor = plan.shrink * start_factor + plan.pull
            scale *= plan.shrink
            if abs(scale) < _SMALLEST_SCALE:
                w *= scale
                scale = 1.0
            for position in range(batch):
                row = begin + rows[position]
                first, last = row_pointer[row], row_pointer[row + 1]
                factors = batch_slopes[position] * (-plan.step_size / (scale * batch))
                add_row(stored, numbers, first, last, factors, w)
            random.undo_draw(key, rows, count, batch)
        for label in range(labels):
            for number in range(own.size):
                values[place + label * own.size + number] = scale * w[number, label]
