"""Clients whose loss has no compiled form: scores and sums over rows by NumPy, the loss by itself.

A loss may also couple the rows of a client, as the risk sets of Cox's do. The answers are those of
`Clients`; local steps are taken by `fedsparse.requests.LocalSteps.walk`.
"""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.block_sums import BlockSums
from fedsparse.compute.clients import Clients
from fedsparse.compute.dense_clients import DenseClients
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.sparse_clients import SparseClients
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.errors import OptionError
from fedsparse.problem.losses import AtScores
from fedsparse.problem.sparsity import ColumnThreshold
from fedsparse.threads import one_thread

_COLUMNS = 64
"""Written out at a time."""


class _NumpyClients(Clients):
    """What dense and CSR rows share."""

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
        """There is no compiled loop for the loss."""
        raise OptionError(f"the {self.loss.name} loss has no compiled local steps")

    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``."""
        losses = np.empty(which.size)

        def work(place: int, client: int) -> None:
            losses[place] = self._at(x, client).losses.sum() / self.data.counts[client]

        self._for_each(which, work)
        return losses

    def mean_gradients(self, x: FloatArray, which: Int64Array) -> Stack:
        """Mean loss gradient of each client at ``x``."""
        gradients = [np.empty(0)] * which.size

        def work(place: int, client: int) -> None:
            slopes = self._at(x, client).slopes / self.data.counts[client]
            gradients[place] = self._sum_of_rows(slopes, client)

        self._for_each(which, work)
        return self._stacked(gradients, which)

    def mean_slopes(
        self, x: FloatArray, which: Int64Array, known: Stack | None
    ) -> tuple[FloatArray, Stack, Stack]:
        """Mean loss of each client at ``x``, its gradient and the diagonal of its Hessian."""
        losses = np.empty(which.size)
        gradients, diagonals = [np.empty(0)] * which.size, [np.empty(0)] * which.size

        def work(place: int, client: int) -> None:
            count = self.data.counts[client]
            scores = self.scores(x, client)
            found = self.loss.at_scores(scores, self.targets_of(client))
            losses[place] = found.losses.sum() / count
            gradients[place] = self._sum_of_rows(found.slopes / count, client)
            diagonals[place] = self._diagonal(scores, found.curvatures, client) / count

        self._for_each(which, work)
        return losses, self._stacked(gradients, which), self._stacked(diagonals, which)

    def mean_class_slopes(
        self, x: FloatArray, which: Int64Array
    ) -> tuple[FloatArray, Stack, Stack]:
        """There is none."""
        raise OptionError(f"the {self.loss.name} loss has one score a row, and x is a matrix")

    def gradient_on_rows(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """Mean loss gradient over given rows of one client."""
        rows = self.data.features[self.data.pointer[client] : self.data.pointer[client + 1]]
        targets = self.targets_of(client)

        def gradient(x: FloatArray, chosen: Int64Array) -> FloatArray:
            if chosen.size < targets.shape[0] and not self.loss.is_by_row:
                raise OptionError(
                    f"the {self.loss.name} loss is no mean over rows, so it has no mini-batches; "
                    "leave batch_size out"
                )
            own = rows if chosen.size == targets.shape[0] else rows[chosen]
            with one_thread():
                found = self.loss.at_scores(np.asarray(own @ x), targets[chosen])
                return np.asarray(own.T @ (found.slopes / chosen.size))

        return gradient

    def _mean_hessian(
        self, x: FloatArray, columns: Int64Array, rows: FloatArray, client: int, *, is_covered: bool
    ) -> BlockSums:
        """Derivatives by some columns, on which the client's rows are given."""
        count, targets = self.data.counts[client], self.targets_of(client)
        scores = rows @ x[columns] if is_covered else self.scores(x, client)
        found = self.loss.at_scores(scores, targets)
        curvatures = found.curvatures / count
        hessian = (rows * curvatures[:, None]).T @ rows
        mass, first = float(curvatures.sum()), curvatures @ rows
        drawn = self.loss.drawn(scores, targets, rows)
        if drawn is not None:
            hessian -= drawn.T @ drawn / count
            mass, first = 0.0, np.zeros_like(first)  # it is no sum over single rows
        value = float(found.losses.sum()) / count
        return BlockSums(value, (found.slopes / count) @ rows, hessian, mass, first)

    def _at(self, x: FloatArray, client: int) -> AtScores:
        return self.loss.at_scores(self.scores(x, client), self.targets_of(client))

    def _diagonal(self, scores: FloatArray, curvatures: FloatArray, client: int) -> FloatArray:
        diagonal = self._sum_of_squares(curvatures, client)
        own, targets = self._columns_of(client), self.targets_of(client)
        for begin in range(0, own.size, _COLUMNS):
            part = slice(begin, begin + _COLUMNS)
            drawn = self.loss.drawn(scores, targets, self.rows_on(own[part], client))
            if drawn is None:
                break
            diagonal[part] -= np.einsum("ij,ij->j", drawn, drawn)
        return np.maximum(diagonal, 0.0)  # rounding may leave less of a column that hardly varies

    def _for_each(self, which: Int64Array, work: Callable[[int, int], None]) -> None:
        def run(order: Int64Array) -> None:
            for place in order:
                work(int(place), int(which[place]))

        with one_thread():
            self.workers.run(run, self.data.counts[which])

    @abstractmethod
    def _columns_of(self, client: int) -> Int64Array:
        """The columns that a client has, in increasing order."""

    @abstractmethod
    def _sum_of_rows(self, weights: FloatArray, client: int) -> FloatArray:
        """Σ weight · row on these."""

    @abstractmethod
    def _sum_of_squares(self, weights: FloatArray, client: int) -> FloatArray:
        """Σ weight · row² on these."""

    @abstractmethod
    def _stacked(self, vectors: list[FloatArray], which: Int64Array) -> Stack:
        """Vectors on the columns that clients have."""


class NumpyDenseClients(_NumpyClients, DenseClients):
    """Dense rows."""

    def mean_hessian(
        self,
        x: FloatArray,
        columns: Int64Array,
        client: int,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> tuple[None, BlockSums]:
        """A client's derivatives by some columns; it has them all."""
        rows = self.rows_on(columns, client)
        return None, self._mean_hessian(x, columns, rows, client, is_covered=is_covered)

    def _columns_of(self, client: int) -> Int64Array:
        return np.arange(self.data.width)

    def _sum_of_rows(self, weights: FloatArray, client: int) -> FloatArray:
        return np.asarray(weights @ self._rows(client))

    def _sum_of_squares(self, weights: FloatArray, client: int) -> FloatArray:
        rows = self._rows(client)
        return np.asarray(np.einsum("i,ij,ij->j", weights, rows, rows))

    def _stacked(self, vectors: list[FloatArray], which: Int64Array) -> DenseStack:
        return DenseStack(np.stack(vectors), self.shape)

    def _rows(self, client: int) -> FloatArray:
        own = slice(self.data.pointer[client], self.data.pointer[client + 1])
        return np.asarray(self._block.features[own])


class NumpySparseClients(_NumpyClients, SparseClients):
    """CSR rows."""

    def mean_hessian(
        self,
        x: FloatArray,
        columns: Int64Array,
        client: int,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> tuple[Int64Array, BlockSums]:
        """Which of some columns a client has, and its derivatives by these."""
        held = np.flatnonzero(np.isin(columns, self._columns_of(client), assume_unique=True))
        own = columns[held]
        rows = self.rows_on(own, client)
        return held, self._mean_hessian(x, own, rows, client, is_covered=is_covered)

    def _columns_of(self, client: int) -> Int64Array:
        own = slice(self.block.own_pointer[client], self.block.own_pointer[client + 1])
        return self.block.own_columns[own].astype(np.int64)

    def _sum_of_rows(self, weights: FloatArray, client: int) -> FloatArray:
        numbers, values, of_values = self._stored(weights, client)
        return self._summed(numbers, of_values * values, client)

    def _sum_of_squares(self, weights: FloatArray, client: int) -> FloatArray:
        numbers, values, of_values = self._stored(weights, client)
        return self._summed(numbers, of_values * values * values, client)

    def _stored(
        self, weights: FloatArray, client: int
    ) -> tuple[Int64Array, FloatArray, FloatArray]:
        """Columns of stored values, the values, and the weights of their rows."""
        block, pointer = self.block, self.block.row_pointer
        begin, end = self.data.pointer[client], self.data.pointer[client + 1]
        entries = slice(pointer[begin], pointer[end])
        of_values = np.repeat(weights, np.diff(pointer[begin : end + 1]))
        values = block.values[entries].astype(np.float64)
        return block.numbers[entries].astype(np.int64), values, of_values

    def _summed(self, numbers: Int64Array, values: FloatArray, client: int) -> FloatArray:
        own = int(np.diff(self.block.own_pointer)[client])
        return np.bincount(numbers, weights=values, minlength=own).astype(np.float64, copy=False)

    def _stacked(self, vectors: list[FloatArray], which: Int64Array) -> SparseStack:
        places, indices = self._on_own_columns(which, 1)
        return SparseStack(places, indices, np.concatenate(vectors), self.shape)
