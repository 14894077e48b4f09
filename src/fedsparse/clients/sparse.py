"""Clients with CSR rows."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray, Int32Array, Int64Array, UInt32Array
from fedsparse.clients.base import Clients, by_class
from fedsparse.data.federated import FederatedData
from fedsparse.kernels import csr, csr_steps, spectrum
from fedsparse.kernels.plan import Plan
from fedsparse.losses import Loss
from fedsparse.sparsity import ColumnThreshold
from fedsparse.stacks import SparseStack

_NOBODY = np.empty(0, dtype=np.int64)


class SparseClients(Clients):
    """Each client's columns are numbered anew, so that its work never costs O(width)."""

    def __init__(self, data: FederatedData, loss: Loss, threads: int) -> None:
        super().__init__(data, loss, threads)
        matrix = data.features
        assert isinstance(matrix, sparse.csr_array)
        everyone = np.arange(len(data))
        row_pointer: Int64Array = matrix.indptr.astype(np.int64)
        indices: AnyArray = matrix.indices
        stored: AnyArray = np.asarray(matrix.data)
        counts = np.zeros(len(data), dtype=np.int64)
        csr.count_columns(row_pointer, indices, data.pointer, everyone, data.width, counts)
        self._own_pointer: Int64Array = np.concatenate([[0], np.cumsum(counts)])
        self._own_columns: Int32Array = np.empty(self._own_pointer[-1], dtype=np.int32)
        self._numbers: UInt32Array = np.empty(indices.size, dtype=np.uint32)
        csr.number_columns(
            row_pointer, indices, data.pointer, everyone, data.width, self._own_pointer,
            self._own_columns, self._numbers,
        )  # fmt: skip
        self._rows = (row_pointer, stored, self._numbers)
        self._matrix = (*self._rows, self._own_pointer, self._own_columns)

    def local_steps(
        self,
        x: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold | None,
        which: Int64Array,
    ) -> SparseStack:
        """K local steps from ``x`` on each client."""
        start, support = _with_support(x)
        if threshold is None:
            starts, indices = self._answer_layout(which, start.shape[0])
            always = _NOBODY
        else:
            longest = threshold.kept * start.shape[0]
            starts = np.arange(which.size + 1) * longest
            indices = np.empty(starts[-1], dtype=np.int64)
            always = threshold.always
        values = np.empty(starts[-1])
        counts = np.diff(starts)
        shared = (*self._matrix, self.targets, self.data.pointer, which)
        after = (self.data.identities, start, support)
        is_lazy = plan.batch > 0 and snapshot is None and (threshold is None or plan.pull == 0.0)
        if not is_lazy:
            anchor, anchor_support = _with_support(x if snapshot is None else snapshot)
            if snapshot is None:
                anchor = anchor[:0]
            self.workers.run(
                lambda order: csr_steps.explicit_steps(
                    *shared, order, *after, anchor, anchor_support, plan, always, starts,
                    indices, values, counts,
                ),
                which.size,
            )  # fmt: skip
        elif threshold is None:
            self.workers.run(
                lambda order: csr_steps.lazy_steps(*shared, order, *after, plan, starts, values),
                which.size,
            )
        else:
            self.workers.run(
                lambda order: csr_steps.lazy_thresholded_steps(
                    *shared, order, *after, plan, always, starts, indices, values, counts
                ),
                which.size,
            )
        if threshold is None:
            return SparseStack(starts, indices, values, self.shape, base=x, factor=plan.decay)
        return SparseStack.from_gapped(starts, counts, indices, values, self.shape)

    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``."""
        start, support = _with_support(x)
        values = np.empty(which.size)
        self.workers.run(
            lambda order: csr.losses_at(
                *self._matrix, self.targets, self.data.pointer, which, order, start, support,
                self.loss.code, values,
            ),
            which.size,
        )  # fmt: skip
        return values

    def mean_gradients(self, x: FloatArray, which: Int64Array) -> SparseStack:
        """Mean loss gradient of each client at ``x``, on the client's columns."""
        start, support = _with_support(x)
        starts, indices = self._answer_layout(which, start.shape[0])
        values = np.empty(starts[-1])
        self.workers.run(
            lambda order: csr.gradients_at(
                *self._matrix, self.targets, self.data.pointer, which, order, start, support,
                self.loss.code, starts, values,
            ),
            which.size,
        )  # fmt: skip
        return SparseStack(starts, indices, values, self.shape)

    def row_view(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """Mean loss gradient over given rows of one client."""
        own = self._own_columns[self._own_pointer[client] : self._own_pointer[client + 1]]
        begin = self.data.pointer[client]

        def gradient(x: FloatArray, rows: Int64Array) -> FloatArray:
            local = np.ascontiguousarray(x[own].reshape(own.size, -1))
            change = np.zeros_like(local)
            csr.mean_gradient(
                *self._rows, self.targets, begin, rows, rows.size, local, self.loss.code, change,
                np.empty(local.shape[1]), np.empty((0, local.shape[1])),
            )  # fmt: skip
            result = np.zeros_like(x)
            result[own] = change.reshape(own.size, *x.shape[1:])
            return result

        return gradient

    def largest_eigenvalues(self, which: Int64Array) -> FloatArray:
        """Largest eigenvalue of ZᵀZ/B of each client."""
        values = np.empty(which.size)
        self.workers.run(
            lambda order: spectrum.csr_largest_eigenvalues(
                *self._rows, self._own_pointer, self.data.pointer, which, order, values
            ),
            which.size,
        )
        return values

    def _answer_layout(self, which: Int64Array, classes: int) -> tuple[Int64Array, Int64Array]:
        """Where answers on the clients' own columns lie, and their indices class by class."""
        counts = np.diff(self._own_pointer)[which]
        starts: Int64Array = np.concatenate([[0], np.cumsum(counts * classes)])
        indices = np.empty(starts[-1], dtype=np.int64)
        csr.answer_indices(
            self._own_pointer, self._own_columns, which, starts, classes, self.data.width, indices
        )
        return starts, indices


def _with_support(x: FloatArray) -> tuple[FloatArray, Int64Array]:
    """Coefficients class by class, and the features that any class uses."""
    start = by_class(x)
    return start, np.flatnonzero(start[0] if start.shape[0] == 1 else start.any(axis=0))
