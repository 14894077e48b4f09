"""K local steps on CSR clients.

*Explicit* steps, for full and variance-reduced gradients, update every local coefficient: the
gradient touches all the client's columns anyway. *Lazy* steps, for mini-batches, touch only the
batch's columns and the support.

Answers start at ``places`` in ``indices`` and ``values``; ``counts`` says how long they are. With
local thresholding the answer is x itself, else its change x − decay · x_t on the client's columns.
``losses`` gets the mean loss at x_t if it has room: explicit steps over all rows take it from the
scores of the first step, all others from a pass of its own.
"""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.kernels import random
from fedsparse.compute.kernels.csr import (
    CsrBlock,
    add_mean_gradient,
    add_row,
    columns_of,
    mean_loss,
    scores_of_row,
    to_local,
)
from fedsparse.compute.kernels.csr_select import (
    Columns,
    columns_with,
    supports_of,
    threshold_all,
    threshold_candidates,
    write_supports,
)
from fedsparse.compute.kernels.plan import Plan, batch_key, batch_of, step_in_place
from fedsparse.problem.slopes import to_slopes

# Rescale the lazily scaled vector before its factor loses precision.
_SMALLEST_SCALE = 1e-100


class Start(NamedTuple):
    """Where the steps start: x_t (class, column), the columns it uses, and those always kept."""

    x: FloatArray
    support: Int64Array
    always: Int64Array


class CsrRoom(NamedTuple):
    """CsrRoom for the answers of all clients."""

    places: Int64Array
    indices: Int64Array
    values: FloatArray
    counts: Int64Array
    losses: FloatArray


@compiled
def _local_start(columns: Columns, start: Start) -> FloatArray:
    """x_t on a client's own and outside columns."""
    own = columns.own
    x = np.empty((own.size + columns.outside.size, start.x.shape[0]))
    to_local(own, start.x, start.support, x)
    for position in range(columns.outside.size):
        x[own.size + position] = start.x[:, columns.outside[position]]
    return x


@compiled
def _write_thresholded(
    x: FloatArray, columns: Columns, width: int, room: CsrRoom, answer: int
) -> None:
    supports, sizes = supports_of(x)
    place = room.places[answer]
    room.counts[answer] = write_supports(
        x, supports, sizes, columns, width, room.indices[place:], room.values[place:]
    )


@compiled
def _slopes_at_snapshot(
    block: CsrBlock,
    client: int,
    snapshot: FloatArray,
    snapshot_support: Int64Array,
    loss: int,
    anchor: FloatArray,
    mean: FloatArray,
) -> None:
    """Slopes of all the client's rows at the snapshot, and the mean gradient there."""
    own = columns_of(block, client)
    x = np.empty((own.size, snapshot.shape[0]))
    to_local(own, snapshot, snapshot_support, x)
    begin = block.pointer[client]
    for row in range(anchor.shape[0]):
        scores_of_row(block, begin + row, x, anchor[row])
        to_slopes(loss, anchor[row], block.targets, begin + row)
        add_row(block, begin + row, anchor[row] / anchor.shape[0], mean)


@compiled
def explicit_steps(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: Start,
    snapshot: FloatArray,
    snapshot_support: Int64Array,
    plan: Plan,
    room: CsrRoom,
) -> None:
    """K full or variance-reduced steps on each listed client.

    ``snapshot`` has no rows without variance reduction.
    """
    labels, width = start.x.shape
    nothing = np.empty(0, np.int64)
    slopes, guesses = np.empty(labels), np.zeros(labels, np.int64)
    for answer in order:
        client = clients[answer]
        support = start.support if plan.kept > 0 else nothing
        columns = columns_with(columns_of(block, client), support, start.always)
        x = _local_start(columns, start)
        local_start, gradient = x.copy(), np.empty_like(x)
        magnitudes, scratch = np.empty(x.shape[0]), np.empty(x.shape[0], np.int64)
        begin = block.pointer[client]
        rows = np.arange(block.pointer[client + 1] - begin)
        batch = batch_of(plan, rows.size)
        anchored = snapshot.shape[0] > 0 and batch < rows.size
        anchor = np.empty((rows.size if anchored else 0, labels))
        mean_at_snapshot = np.zeros_like(x)
        if anchored:
            _slopes_at_snapshot(
                block, client, snapshot, snapshot_support, plan.loss, anchor, mean_at_snapshot
            )
        for step in range(plan.steps):
            key = batch_key(plan, block.identities[client], step)
            if batch < rows.size:
                random.draw(key, rows, rows.size, batch)
            gradient[:] = mean_at_snapshot
            with_loss = step == 0 and room.losses.size > 0
            loss = add_mean_gradient(
                block, begin, rows, batch, x, plan.loss, slopes, anchor, gradient, with_loss
            )
            if batch < rows.size:
                random.undo_draw(key, rows, rows.size, batch)
            if with_loss:
                whole = batch == rows.size
                room.losses[answer] = (
                    loss if whole else mean_loss(block, client, x, plan.loss, slopes)
                )
            step_in_place(x.ravel(), local_start.ravel(), gradient.ravel(), plan)
            if plan.kept > 0:
                for label in range(labels):
                    guesses[label] = threshold_all(
                        x, label, plan.kept, columns, magnitudes, scratch, guesses[label]
                    )
        if plan.kept > 0:
            _write_thresholded(x, columns, width, room, answer)
        else:
            _write_change(x, local_start, plan.decay, room, answer)


@compiled
def _write_change(
    x: FloatArray, local_start: FloatArray, decay: float, room: CsrRoom, answer: int
) -> None:
    """Write x − decay · x_t class by class."""
    place = room.places[answer]
    for label in range(x.shape[1]):
        for number in range(x.shape[0]):
            room.values[place] = x[number, label] - decay * local_start[number, label]
            place += 1


@compiled
def _list_touched(
    block: CsrBlock,
    begin: int,
    rows: Int64Array,
    batch: int,
    stamps: Int64Array,
    stamp: int,
    touched: Int64Array,
) -> int:
    """List the columns that a batch touches and stamp them; returns how many there are."""
    found = 0
    for position in range(batch):
        row = begin + rows[position]
        for entry in range(block.row_pointer[row], block.row_pointer[row + 1]):
            number = block.numbers[entry]
            if stamps[number] != stamp:
                stamps[number] = stamp
                touched[found] = number
                found += 1
    return found


@compiled
def lazy_thresholded_steps(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: Start,
    plan: Plan,
    room: CsrRoom,
) -> None:
    """K mini-batch steps, each followed by H_τ: a step costs the batch's entries and τ."""
    labels, width = start.x.shape
    slopes, no_anchor = np.empty(labels), np.empty((0, labels))
    guesses = np.zeros(labels, np.int64)
    for answer in order:
        client = clients[answer]
        columns = columns_with(columns_of(block, client), start.support, start.always)
        x = _local_start(columns, start)
        gradient, local = np.empty_like(x), x.shape[0]
        must_keep = np.zeros(local, np.bool_)
        must_keep[columns.always_here] = True
        supports, sizes = supports_of(x)
        stamps, touched = np.full(local, -1), np.empty(local, np.int64)
        candidates, scratch = np.empty(local, np.int64), np.empty(local, np.int64)
        magnitudes = np.empty(local)
        begin = block.pointer[client]
        rows = np.arange(block.pointer[client + 1] - begin)
        batch = batch_of(plan, rows.size)
        if room.losses.size > 0:
            room.losses[answer] = mean_loss(block, client, x, plan.loss, slopes)
        for step in range(plan.steps):
            key = batch_key(plan, block.identities[client], step)
            random.draw(key, rows, rows.size, batch)
            found = _list_touched(block, begin, rows, batch, stamps, step, touched)
            for position in range(found):
                gradient[touched[position]] = 0.0
            add_mean_gradient(
                block, begin, rows, batch, x, plan.loss, slopes, no_anchor, gradient, False
            )
            random.undo_draw(key, rows, rows.size, batch)
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
                sizes[label], guesses[label] = threshold_candidates(
                    x, label, candidates, size, plan.kept, columns, must_keep, magnitudes,
                    scratch, guesses[label], supports[label],
                )  # fmt: skip
        _write_thresholded(x, columns, width, room, answer)


@compiled
def lazy_steps(
    block: CsrBlock,
    clients: Int64Array,
    order: Int64Array,
    start: Start,
    plan: Plan,
    room: CsrRoom,
) -> None:
    """K mini-batch steps without thresholding: a step costs the batch's entries.

    x = q x_t + s w, so that the ℓ2 and proximal terms change two numbers and the gradient only
    the touched entries of w. The answer is the change s w.
    """
    labels = start.x.shape[0]
    from_start, from_w = np.empty(labels), np.empty(labels)
    for answer in order:
        client = clients[answer]
        own = columns_of(block, client)
        local_start, w = np.empty((own.size, labels)), np.zeros((own.size, labels))
        to_local(own, start.x, start.support, local_start)
        if room.losses.size > 0:
            room.losses[answer] = mean_loss(block, client, local_start, plan.loss, from_start)
        begin = block.pointer[client]
        rows = np.arange(block.pointer[client + 1] - begin)
        batch = batch_of(plan, rows.size)
        slopes = np.empty((batch, labels))
        start_factor, scale = 1.0, 1.0  # q, s
        for step in range(plan.steps):
            key = batch_key(plan, block.identities[client], step)
            random.draw(key, rows, rows.size, batch)
            for position in range(batch):
                row = begin + rows[position]
                scores_of_row(block, row, local_start, from_start)
                scores_of_row(block, row, w, from_w)
                for label in range(labels):
                    slopes[position, label] = (
                        start_factor * from_start[label] + scale * from_w[label]
                    )
                to_slopes(plan.loss, slopes[position], block.targets, row)
            start_factor = plan.shrink * start_factor + plan.pull
            scale *= plan.shrink
            if abs(scale) < _SMALLEST_SCALE:
                w *= scale
                scale = 1.0
            slopes *= -plan.step_size / (scale * batch)
            for position in range(batch):
                add_row(block, begin + rows[position], slopes[position], w)
            random.undo_draw(key, rows, rows.size, batch)
        w *= scale
        _write_change(w, local_start, 0.0, room, answer)
