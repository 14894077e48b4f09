"""Clients with dense rows."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int64Array
from fedsparse.clients.base import Clients, by_class
from fedsparse.clients.blocks import DerivedBlocks
from fedsparse.data.federated import FederatedData
from fedsparse.kernels import columns, dense, gram, spectrum
from fedsparse.kernels.plan import Plan
from fedsparse.losses import Loss
from fedsparse.sparsity import ColumnThreshold
from fedsparse.stacks import DenseStack, SparseStack, Stack

# A block of columns pays while it stays in a core's second-level cache.
_LARGEST_BLOCK = 1 << 17  # float64 values: 1 MiB
# Below this many steps, working out a Gram matrix does not pay.
_FEWEST_GRAM_STEPS = 3
_NOBODY = np.empty(0, dtype=np.int64)


class DenseClients(Clients):
    """Three ways to take local steps, chosen client by client from its own shape.

    Straight from the rows; from the columns of a small client when x is sparse; through the Gram
    matrix of a client with few rows when it is not.
    """

    def __init__(self, data: FederatedData, loss: Loss, threads: int) -> None:
        super().__init__(data, loss, threads)
        assert isinstance(data.features, np.ndarray)
        self._features: AnyArray = data.features

    def local_steps(
        self,
        x: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold | None,
        which: Int64Array,
    ) -> Stack:
        """K local steps from ``x`` on each client."""
        full = (plan.batch == 0) | (plan.batch >= self.data.counts[which])
        if threshold is None:
            return self._unthresholded_steps(x, snapshot, plan, which, full)
        return self._thresholded_steps(x, snapshot, plan, threshold, which, full)

    def _unthresholded_steps(
        self,
        x: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        which: Int64Array,
        full: BoolArray,
    ) -> DenseStack:
        start = by_class(x)
        answers = np.empty((which.size, *start.shape))
        few_rows = 2 * self.data.counts[which] <= self.data.width
        by_gram = full & few_rows & (plan.steps >= _FEWEST_GRAM_STEPS)
        if by_gram.any():
            clients = which[by_gram]
            part = np.empty((clients.size, *start.shape))
            blocks, grams = self._columns.of(clients), self._grams.of(clients)
            self.workers.run(
                lambda order: gram.gram_steps(
                    blocks, self._columns.offsets, grams, self._grams.offsets, self.targets,
                    self.data.pointer, clients, order, start, plan, part,
                ),
                clients.size,
            )  # fmt: skip
            answers[by_gram] = part
        if not by_gram.all():
            part = np.empty((int((~by_gram).sum()), *start.shape))
            self._steps_by_rows(start, snapshot, plan, None, which[~by_gram], part, _no_room())
            answers[~by_gram] = part
        return DenseStack(answers.reshape(which.size, -1), self.shape)

    def _thresholded_steps(
        self,
        x: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold,
        which: Int64Array,
        full: BoolArray,
    ) -> SparseStack:
        start = by_class(x)
        longest = threshold.kept * start.shape[0]
        indices = np.empty((which.size, longest), dtype=np.int64)
        values = np.empty((which.size, longest))
        counts = np.empty(which.size, dtype=np.int64)
        small = self.data.counts[which] * self.data.width <= _LARGEST_BLOCK
        by_columns = full & small
        for chosen, steps in (
            (by_columns, self._steps_by_columns),
            (~by_columns, self._thresholded_steps_by_rows),
        ):
            if chosen.any():
                room = (indices[chosen], values[chosen], counts[chosen])
                steps(start, snapshot, plan, threshold, which[chosen], room)
                indices[chosen], values[chosen], counts[chosen] = room
        starts = np.arange(which.size) * longest
        return SparseStack.from_gapped(starts, counts, indices.ravel(), values.ravel(), self.shape)

    def _steps_by_columns(
        self,
        start: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold,
        clients: Int64Array,
        room: tuple[Int64Array, FloatArray, Int64Array],
    ) -> None:
        blocks = self._columns.of(clients)
        self.workers.run(
            lambda order: columns.thresholded_steps(
                blocks, self.targets, self.data.pointer, clients, order, self._columns.offsets,
                start, plan, threshold.always, *room,
            ),
            clients.size,
        )  # fmt: skip

    def _thresholded_steps_by_rows(
        self,
        start: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold,
        clients: Int64Array,
        room: tuple[Int64Array, FloatArray, Int64Array],
    ) -> None:
        no_answers = np.empty((0, *start.shape))
        self._steps_by_rows(start, snapshot, plan, threshold, clients, no_answers, room)

    def _steps_by_rows(
        self,
        start: FloatArray,
        snapshot: FloatArray | None,
        plan: Plan,
        threshold: ColumnThreshold | None,
        clients: Int64Array,
        answers: FloatArray,
        room: tuple[Int64Array, FloatArray, Int64Array],
    ) -> None:
        always = _NOBODY if threshold is None else threshold.always
        anchor = np.empty((0, start.shape[1])) if snapshot is None else by_class(snapshot)
        self.workers.run(
            lambda order: dense.local_steps(
                self._features, self.targets, self.data.pointer, clients, order,
                self.data.identities, start, anchor, plan, always, answers, *room,
            ),
            clients.size,
        )  # fmt: skip

    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``."""
        start, values = by_class(x), np.empty(which.size)
        self.workers.run(
            lambda order: dense.losses_at(
                self._features, self.targets, self.data.pointer, which, order, start,
                self.loss.code, values,
            ),
            which.size,
        )  # fmt: skip
        return values

    def mean_gradients(self, x: FloatArray, which: Int64Array) -> DenseStack:
        """Mean loss gradient of each client at ``x``."""
        start = by_class(x)
        gradients = np.empty((which.size, *start.shape))
        self.workers.run(
            lambda order: dense.gradients_at(
                self._features, self.targets, self.data.pointer, which, order, start,
                self.loss.code, gradients,
            ),
            which.size,
        )  # fmt: skip
        return DenseStack(gradients.reshape(which.size, -1), self.shape)

    def row_view(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """Mean loss gradient over given rows of one client."""
        begin, end = self.data.pointer[client], self.data.pointer[client + 1]
        features, targets = self._features[begin:end], self.targets[begin:end]

        def gradient(x: FloatArray, rows: Int64Array) -> FloatArray:
            start = by_class(x)
            result, slopes = np.empty_like(start), np.empty((4, start.shape[0]))
            dense.mean_gradient(
                features, targets, rows, rows.size, start, self.loss.code, result, slopes,
                np.empty((0, start.shape[0])),
            )  # fmt: skip
            return result[0] if x.ndim == 1 else result.T

        return gradient

    def largest_eigenvalues(self, which: Int64Array) -> FloatArray:
        """Largest eigenvalue of ZᵀZ/B of each client."""
        values = np.empty(which.size)
        self.workers.run(
            lambda order: spectrum.dense_largest_eigenvalues(
                self._features, self.data.pointer, which, order, values
            ),
            which.size,
        )
        return values

    @cached_property
    def _columns(self) -> DerivedBlocks:
        padded = np.array([columns.padded(count) for count in self.data.counts])

        def fill(clients: Int64Array, offsets: Int64Array, storage: FloatArray) -> None:
            self.workers.run(
                lambda order: columns.transpose_clients(
                    self._features, self.data.pointer, clients[order], offsets, storage
                ),
                clients.size,
            )

        return DerivedBlocks(padded * self.data.width, fill)

    @cached_property
    def _grams(self) -> DerivedBlocks:
        padded = np.array([columns.padded(count) for count in self.data.counts])

        def fill(clients: Int64Array, offsets: Int64Array, storage: FloatArray) -> None:
            self.workers.run(
                lambda order: gram.gram_matrices(
                    self._features, self.data.pointer, clients[order], offsets, storage
                ),
                clients.size,
            )

        return DerivedBlocks(padded * self.data.counts, fill)


def _no_room() -> tuple[Int64Array, FloatArray, Int64Array]:
    return np.empty((0, 0), dtype=np.int64), np.empty((0, 0)), _NOBODY
