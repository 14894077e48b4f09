"""Clients with CSR rows."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int32Array, Int64Array, UInt32Array
from fedsparse.compute.block_sums import BlockSums
from fedsparse.compute.clients import Clients, by_class
from fedsparse.compute.kernels import csr, csr_steps, spectrum
from fedsparse.compute.kernels.csr import CsrBlock
from fedsparse.compute.kernels.csr_steps import CsrRoom, Start
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.stacks import SparseStack, Stack
from fedsparse.compute.workers import Workers
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.problem.select import nonzero_positions
from fedsparse.problem.sparsity import ColumnThreshold

_FROM_COLUMNS = np.empty(0)
_NO_COLUMNS = np.empty(0, dtype=np.int64)


class SparseClients(Clients):
    """Each client's columns are numbered anew, so that its work never costs O(width)."""

    def __init__(self, data: FederatedData, loss: Loss, workers: Workers) -> None:
        super().__init__(data, loss, workers)
        self.block = _number_columns(data, self.targets)
        # Stored values of each client, and its rows: what its work is proportional to.
        self._entries = np.diff(self.block.row_pointer[data.pointer]) + data.counts

    def local_steps(
        self,
        x: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold | None,
        which: Int64Array,
        *,
        with_objective: bool,
    ) -> tuple[Stack, FloatArray | None]:
        """K local steps from ``x`` on each client, and f_i(x) if asked for."""
        by_label, support = _with_support(x)
        labels = by_label.shape[0]
        losses = np.full(which.size if with_objective else 0, np.nan)
        if threshold is None:
            start = Start(by_label, support, _NO_COLUMNS)
            places, indices = self._on_own_columns(which, labels)
            room = CsrRoom(places, indices, np.empty(indices.size), np.diff(places), losses)
        else:
            start = Start(by_label, support, threshold.always)
            room = self._room_for(which, threshold.kept, support.size, labels, losses)
        if plan.batch == 0 or snapshot is not None or (threshold is not None and plan.pull > 0.0):
            anchor, anchor_support = by_label[:0], support
            if snapshot is not None:
                anchor, anchor_support = _with_support(snapshot)
            self.workers.run(
                lambda order: csr_steps.explicit_steps(
                    self.block, which, order, start, anchor, anchor_support, plan, room
                ),
                self._entries[which],
            )
        else:
            take = csr_steps.lazy_steps if threshold is None else csr_steps.lazy_thresholded_steps
            self.workers.run(
                lambda order: take(self.block, which, order, start, plan, room),
                self._entries[which],
            )
        objectives = losses + self.penalty(x) if with_objective else None
        if threshold is None:
            answer = (room.places, room.indices, room.values, self.shape)
            return SparseStack(*answer, base=x, factor=plan.decay), objectives
        gapped = (room.places, room.counts, room.indices, room.values)
        return SparseStack.from_gapped(*gapped, self.shape), objectives

    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``."""
        start, support = _with_support(x)
        values = np.empty(which.size)
        self.workers.run(
            lambda order: csr.losses_at(
                self.block, which, order, start, support, self.loss.code, values
            ),
            self._entries[which],
        )
        return values

    def mean_gradients(self, x: FloatArray, which: Int64Array) -> Stack:
        """Mean loss gradient of each client at ``x``, on the client's columns."""
        start, support = _with_support(x)
        places, indices = self._on_own_columns(which, start.shape[0])
        values = np.empty(indices.size)
        self.workers.run(
            lambda order: csr.gradients_at(
                self.block, which, order, start, support, self.loss.code, places, values
            ),
            self._entries[which],
        )
        return SparseStack(places, indices, values, self.shape)

    def mean_slopes(
        self, x: FloatArray, which: Int64Array, known: Stack | None
    ) -> tuple[FloatArray, Stack, Stack]:
        """Mean loss of each client at ``x``, gradient and diagonal on the client's columns."""
        start, support = _with_support(x)
        if isinstance(known, SparseStack):
            places, indices = known.pointer, known.indices
        else:
            places, indices = self._on_own_columns(which, 1)
        losses, gradients = np.empty(which.size), np.empty(indices.size)
        diagonals = np.empty(indices.size if known is None else 0)
        self.workers.run(
            lambda order: csr.slopes_at(
                self.block, which, order, start, support, self.loss.code, places, losses,
                gradients, diagonals,
            ),
            self._entries[which],
        )  # fmt: skip
        on_columns = partial(SparseStack, places, indices, shape=self.shape)
        return losses, on_columns(gradients), known or on_columns(diagonals)

    def mean_class_slopes(
        self, x: FloatArray, which: Int64Array
    ) -> tuple[FloatArray, Stack, Stack]:
        """The same for a matrix x, each class by itself."""
        start, support = _with_support(x)
        places, indices = self._on_own_columns(which, start.shape[0])
        losses = np.empty(which.size)
        gradients, diagonals = np.empty((2, indices.size))
        self.workers.run(
            lambda order: csr.class_slopes_at(
                self.block, which, order, start, support, self.loss.code, places, losses,
                gradients, diagonals,
            ),
            self._entries[which],
        )  # fmt: skip
        on_columns = partial(SparseStack, places, indices, shape=self.shape)
        return losses, on_columns(gradients), on_columns(diagonals)

    def gradient_on_rows(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """Mean loss gradient over given rows of one client."""
        own = csr.columns_of(self.block, client)
        begin = self.data.pointer[client]

        def gradient(x: FloatArray, rows: Int64Array) -> FloatArray:
            local = np.ascontiguousarray(x[own].reshape(own.size, -1))
            change, labels = np.zeros_like(local), local.shape[1]
            csr.add_mean_gradient(
                self.block, begin, rows, rows.size, local, self.loss.code, np.empty(labels),
                np.empty((0, labels)), change, False,
            )  # fmt: skip
            result = np.zeros_like(x)
            result[own] = change.reshape(own.size, *x.shape[1:])
            return result

        return gradient

    def power_iteration(self, which: Int64Array) -> FloatArray:
        """Work out the largest eigenvalue of ZᵀWZ/B of each client."""
        values = np.empty(which.size)
        self.workers.run(
            lambda order: spectrum.csr_largest_eigenvalues(self.block, which, order, values),
            self._entries[which],
        )
        return values

    def scores(self, x: FloatArray, client: int) -> FloatArray:
        """z·x of every row of a client."""
        return csr.scores_at(self.block, client, *_with_support(x))

    def mean_hessian(
        self,
        x: FloatArray,
        columns: Int64Array,
        client: int,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> tuple[Int64Array, BlockSums]:
        """Which of some columns a client has, and its derivatives by these.

        From pairs of stored values, or where these are many from rows written out.
        """
        scores = _FROM_COLUMNS if is_covered else self.scores(x, client)
        on_columns, loss = x[columns], self.loss.code
        held, value, gradient, hessian, mass, first = csr.mean_hessian(
            self.block, client, columns, on_columns, scores, loss
        )
        if hessian.size:
            return held, BlockSums(value, gradient, hessian, mass, first)
        held, rows = csr.rows_on(self.block, client, columns)
        scores = rows @ on_columns[held] if is_covered else scores
        return held, BlockSums.of(loss, rows, scores, self.targets_of(client))

    def rows_on(self, columns: Int64Array, client: int) -> FloatArray:
        """A client's rows on some columns, written out; one that it does not have is zero."""
        held, stored = csr.rows_on(self.block, client, columns)
        rows = np.zeros((stored.shape[0], columns.size))
        rows[:, held] = stored
        return rows

    def _room_for(
        self, which: Int64Array, kept: int, support: int, classes: int, losses: FloatArray
    ) -> CsrRoom:
        """Room for answers of at most ``kept`` entries a class, if a client has so many columns."""
        longest = np.minimum(kept, np.diff(self.block.own_pointer)[which] + support) * classes
        places: Int64Array = np.concatenate([[0], np.cumsum(longest)])
        counts = np.zeros(which.size, dtype=np.int64)
        indices = np.empty(places[-1], dtype=np.int64)
        return CsrRoom(places, indices, np.empty(places[-1]), counts, losses)

    def _on_own_columns(self, which: Int64Array, classes: int) -> tuple[Int64Array, Int64Array]:
        """Places and indices of answers on the clients' own columns, known beforehand."""
        counts = np.diff(self.block.own_pointer)[which] * classes
        places: Int64Array = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(places[-1], dtype=np.int64)
        csr.answer_indices(self.block, which, places, classes, self.data.width, indices)
        return places, indices


def _number_columns(data: FederatedData, targets: FloatArray) -> CsrBlock:
    """The rows of all clients with columns numbered client by client."""
    matrix = data.features
    assert isinstance(matrix, sparse.csr_array)
    row_pointer: Int64Array = matrix.indptr.astype(np.int64)
    indices: AnyArray = matrix.indices
    counts = csr.count_columns(row_pointer, indices, data.pointer, data.width)
    own_pointer: Int64Array = np.concatenate([[0], np.cumsum(counts)])
    own_columns: Int32Array = np.empty(own_pointer[-1], dtype=np.int32)
    numbers: UInt32Array = np.empty(indices.size, dtype=np.uint32)
    csr.number_columns(
        row_pointer, indices, data.pointer, data.width, own_pointer, own_columns, numbers
    )
    values: AnyArray = np.asarray(matrix.data)
    return CsrBlock(
        row_pointer, values, numbers, own_pointer, own_columns, targets, data.pointer,
        data.identities,
    )  # fmt: skip


def _with_support(x: FloatArray) -> tuple[FloatArray, Int64Array]:
    """Coefficients class by class, and the features that any class uses."""
    start = by_class(x)
    if start.shape[0] == 1:
        return start, nonzero_positions(start[0])
    return start, np.flatnonzero(start.any(axis=0))
