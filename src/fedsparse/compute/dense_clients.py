"""Clients with dense rows."""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.block_sums import BlockSums, rows_in_block
from fedsparse.compute.clients import Clients, by_class
from fedsparse.compute.derived_blocks import DerivedBlocks
from fedsparse.compute.kernels import columns, dense, gram, spectrum
from fedsparse.compute.kernels.columns import ColumnBlock
from fedsparse.compute.kernels.dense import DenseBlock, DenseRoom
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.compute.workers import Workers
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import ColumnThreshold

# A block of columns pays while it stays in a core's second-level cache.
_LARGEST_BLOCK = 1 << 17  # float64 values: 1 MiB
# Below this many steps, working out a Gram matrix does not pay.
_FEWEST_GRAM_STEPS = 3
_NO_COLUMNS = np.empty(0, dtype=np.int64)

Write = Callable[[DenseBlock, Int64Array, Int64Array, FloatArray], None]


class DenseClients(Clients):
    """Three ways to take local steps, chosen client by client from its own shape.

    Straight from the rows; from the columns of a small client when x is sparse; through the Gram
    matrix of a client with few rows when it is not.
    """

    def __init__(self, data: FederatedData, loss: Loss, workers: Workers) -> None:
        super().__init__(data, loss, workers)
        assert isinstance(data.features, np.ndarray)
        self._block = DenseBlock(data.features, self.targets, data.pointer, data.identities)
        self._has_few_rows: BoolArray = 2 * data.counts <= data.width
        self._is_small: BoolArray = data.counts * data.width <= _LARGEST_BLOCK

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
        start = by_class(x)
        always = _NO_COLUMNS if threshold is None else threshold.always
        anchor = start[:0] if snapshot is None else by_class(snapshot)
        counts = self.data.counts[which]
        losses = np.full(which.size if with_objective else 0, np.nan)
        if threshold is None:
            room = _room(which.size, start.shape, 0, losses)
            suits = self._has_few_rows[which] & (plan.steps >= _FEWEST_GRAM_STEPS)
            quick = partial(self._steps_by_gram, start, plan)
        else:
            room = _room(which.size, (0, 0), threshold.kept * start.shape[0], losses)
            suits = self._is_small[which]
            quick = partial(self._steps_by_columns, start, plan, always)
        suits = suits & ((plan.batch == 0) | (plan.batch >= counts))
        if suits.any():
            quick(which, np.flatnonzero(suits), room)
        if not suits.all():
            others = np.flatnonzero(~suits)
            self.workers.run(
                lambda order: dense.local_steps(
                    self._block, which, others[order], start, anchor, plan, always, room
                ),
                counts[others],
            )
        objectives = losses + self.penalty(x) if with_objective else None
        if threshold is None:
            return DenseStack(room.vectors.reshape(which.size, -1), self.shape), objectives
        places = np.arange(which.size) * room.indices.shape[1]
        entries = (room.indices.ravel(), room.values.ravel())
        return SparseStack.from_gapped(places, room.counts, *entries, self.shape), objectives

    def _steps_by_gram(
        self,
        start: FloatArray,
        plan: Plan,
        which: Int64Array,
        chosen: Int64Array,
        room: DenseRoom,
    ) -> None:
        block = self._column_block(which[chosen])
        grams = self._grams.of(which[chosen])
        self.workers.run(
            lambda order: gram.gram_steps(
                block, grams, self._grams.offsets, which, chosen[order], start, plan, room
            ),
            self.data.counts[which[chosen]],
        )

    def _steps_by_columns(
        self,
        start: FloatArray,
        plan: Plan,
        always: Int64Array,
        which: Int64Array,
        chosen: Int64Array,
        room: DenseRoom,
    ) -> None:
        block = self._column_block(which[chosen])
        self.workers.run(
            lambda order: columns.thresholded_steps(
                block, which, chosen[order], start, plan, always, room
            ),
            self.data.counts[which[chosen]],
        )

    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``."""
        start, values = by_class(x), np.empty(which.size)
        self.workers.run(
            lambda order: dense.losses_at(self._block, which, order, start, self.loss.code, values),
            self.data.counts[which],
        )
        return values

    def mean_gradients(self, x: FloatArray, which: Int64Array) -> Stack:
        """Mean loss gradient of each client at ``x``."""
        start = by_class(x)
        gradients = np.empty((which.size, *start.shape))
        self.workers.run(
            lambda order: dense.gradients_at(
                self._block, which, order, start, self.loss.code, gradients
            ),
            self.data.counts[which],
        )
        return DenseStack(gradients.reshape(which.size, -1), self.shape)

    def mean_slopes(
        self, x: FloatArray, which: Int64Array, known: Stack | None
    ) -> tuple[FloatArray, Stack, Stack]:
        """Mean loss of each client at ``x``, its gradient and the diagonal of its Hessian."""
        losses, gradients = np.empty(which.size), np.empty((which.size, x.size))
        diagonals = np.empty((which.size if known is None else 0, x.size))
        start = by_class(x)
        self.workers.run(
            lambda order: dense.slopes_at(
                self._block, which, order, start, self.loss.code, losses, gradients, diagonals
            ),
            self.data.counts[which],
        )
        return losses, DenseStack(gradients, self.shape), known or DenseStack(diagonals, self.shape)

    def mean_class_slopes(
        self, x: FloatArray, which: Int64Array
    ) -> tuple[FloatArray, Stack, Stack]:
        """The same for a matrix x, each class by itself."""
        start, losses = by_class(x), np.empty(which.size)
        gradients, diagonals = np.empty((2, which.size, *start.shape))
        self.workers.run(
            lambda order: dense.class_slopes_at(
                self._block, which, order, start, self.loss.code, losses, gradients, diagonals
            ),
            self.data.counts[which],
        )
        both = (own.reshape(which.size, -1) for own in (gradients, diagonals))
        first, second = (DenseStack(rows, self.shape) for rows in both)
        return losses, first, second

    def gradient_on_rows(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """Mean loss gradient over given rows of one client."""
        own = slice(self.data.pointer[client], self.data.pointer[client + 1])
        features, targets = self._block.features[own], self.targets[own]

        def gradient(x: FloatArray, rows: Int64Array) -> FloatArray:
            start = by_class(x)
            result, slopes = np.empty_like(start), np.empty((4, start.shape[0]))
            dense.mean_gradient(
                features, targets, rows, rows.size, start, self.loss.code, result, slopes,
                start[:0], False,
            )  # fmt: skip
            return result[0] if x.ndim == 1 else result.T

        return gradient

    def power_iteration(self, which: Int64Array) -> FloatArray:
        """Work out the largest eigenvalue of ZᵀWZ/B of each client."""
        values = np.empty(which.size)
        few, many = (np.flatnonzero(self._has_few_rows[which] == few) for few in (True, False))
        if few.size:
            grams = self._grams.of(which[few])
            self.workers.run(
                lambda order: spectrum.gram_largest_eigenvalues(
                    grams, self._grams.offsets, self._block, which, few[order], values
                ),
                self.data.counts[which[few]],
            )
        if many.size:
            self.workers.run(
                lambda order: spectrum.dense_largest_eigenvalues(
                    self._block, which, many[order], values
                ),
                self.data.counts[which[many]],
            )
        return values

    def scores(self, x: FloatArray, client: int) -> FloatArray:
        """z·x of every row of a client."""
        rows = np.arange(self.data.pointer[client], self.data.pointer[client + 1])
        scores = np.empty((rows.size, 1))
        dense.scores_of_rows(self._block.features, rows, 0, rows.size, x[None, :], scores)
        return scores[:, 0]

    def mean_hessian(
        self,
        x: FloatArray,
        columns: Int64Array,
        client: int,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> tuple[None, BlockSums]:
        """A client's derivatives by some columns; it has them all.

        Block by block, so that rows are still in cache for the product.
        """
        own = slice(self.data.pointer[client], self.data.pointer[client + 1])
        scores = None if is_covered else self.scores(x, client)
        step = rows_in_block(columns.size)
        parts = (
            self._block_sums(
                x, columns, slice(first, min(first + step, own.stop)), own, scores, is_known
            )
            for first in range(own.start, own.stop, step)
        )
        sums = next(parts)
        for part in parts:
            sums.add(part)
        return None, sums

    def rows_on(self, columns: Int64Array, client: int) -> FloatArray:
        """A client's rows on some columns."""
        own = slice(self.data.pointer[client], self.data.pointer[client + 1])
        rows = np.take(self._block.features[own], columns, axis=1)
        return rows.astype(np.float64, copy=False)

    def _block_sums(
        self,
        x: FloatArray,
        columns: Int64Array,
        block: slice,
        own: slice,
        scores: FloatArray | None,
        is_known: BoolArray,
    ) -> BlockSums:
        """Derivatives over some of a client's rows; scores by the columns unless they are given."""
        rows = np.take(self._block.features[block], columns, axis=1).astype(np.float64, copy=False)
        if scores is None:
            at_rows = rows @ x[columns]
        else:
            at_rows = scores[block.start - own.start : block.stop - own.start]
        share = rows.shape[0] / (own.stop - own.start)
        return BlockSums.of(self.loss.code, rows, at_rows, self.targets[block], share, is_known)

    def _column_block(self, clients: Int64Array) -> ColumnBlock:
        storage = self._columns.of(clients)
        return ColumnBlock(storage, self._columns.offsets, self.targets, self.data.pointer)

    @cached_property
    def _columns(self) -> DerivedBlocks:
        heights = np.where(self._has_few_rows | self._is_small, self.data.width, 0)
        return self._derived(heights, columns.transpose_clients)

    @cached_property
    def _grams(self) -> DerivedBlocks:
        heights = np.where(self._has_few_rows, self.data.counts, 0)
        return self._derived(heights, gram.gram_matrices)

    def _derived(self, heights: Int64Array, write: Write) -> DerivedBlocks:
        """Matrices with padded rows as long as a client has rows, written by a compiled loop."""

        def fill(clients: Int64Array, offsets: Int64Array, storage: FloatArray) -> None:
            self.workers.run(
                lambda order: write(self._block, clients[order], offsets, storage),
                self.data.counts[clients],
            )

        lengths = np.array([columns.padded(count) for count in self.data.counts])
        return DerivedBlocks(heights * lengths, fill)


def _room(clients: int, shape: tuple[int, ...], longest: int, losses: FloatArray) -> DenseRoom:
    """DenseRoom for full vectors of a shape, or for at most ``longest`` non-zeros each."""
    return DenseRoom(
        vectors=np.empty((clients, *shape)),
        indices=np.empty((clients, longest), dtype=np.int64),
        values=np.empty((clients, longest)),
        counts=np.empty(clients, dtype=np.int64),
        losses=losses,
    )
