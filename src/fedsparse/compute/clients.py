"""What a set of clients can be asked, whatever their storage."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.block_sums import BlockSums
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.stacks import Stack, squared_norm
from fedsparse.compute.workers import Workers
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, coefficient_shape
from fedsparse.problem.sparsity import ColumnThreshold
from fedsparse.threads import one_thread

if TYPE_CHECKING:
    from fedsparse.compute.class_curvature import ClassRows

_KEPT_SHARE = 0.5
"""Diagonals are kept up to this share of the memory that the rows take."""


class Products(Protocol):
    """Works out matrices of clients elsewhere than in this process's loops."""

    def mean_hessians(
        self,
        x: FloatArray,
        columns: Int64Array,
        which: Int64Array,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> "list[ClientHessian]":
        """`Clients.mean_hessian` of some clients."""
        ...

    def class_rows(
        self, x: FloatArray, features: Int64Array, client: int
    ) -> tuple[float, "ClassRows"]:
        """Mean loss, and a client's rows on some features, of which x is given."""
        ...


ClientHessian = tuple[Int64Array | None, BlockSums]
"""Which of some columns a client has (None: all), and its derivatives by these."""


class Clients(ABC):
    """Clients' data made ready for compiled loops.

    Every method takes the places of the clients to ask and works on all of them in one call.
    Coefficients arrive with shape (d,) or (d, c); `by_class` makes them (c, d) for the loops.
    """

    def __init__(self, data: FederatedData, loss: Loss, workers: Workers) -> None:
        encoded = loss.encode(data)
        self.data = data
        self.loss = loss
        self.targets = np.column_stack([encoded.values, _mean_one(data)])
        self.classes = encoded.classes
        self.shape = coefficient_shape(data.width, encoded.classes, loss)
        self.workers = workers
        self._eigenvalues = np.full(len(data), np.nan)  # not worked out yet
        self.products: Products | None = None  # None: the loops here
        self._diagonals: tuple[Int64Array, Stack] | None = None  # of whom, and what they are

    @abstractmethod
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
        """K local steps from ``x`` on each client, and f_i(x) if asked for.

        f_i(x) is that of `objectives`, to rounding errors: where a step sees all rows, it comes
        from the scores of the first one, whose sums may run in another order. Without a step it
        is NaN.
        """

    @abstractmethod
    def mean_losses(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """Mean loss of each client at ``x``, the ℓ2 term left out."""

    @abstractmethod
    def mean_gradients(self, x: FloatArray, which: Int64Array) -> Stack:
        """Mean loss gradient of each client at ``x``, the ℓ2 term left out."""

    @abstractmethod
    def gradient_on_rows(self, client: int) -> Callable[[FloatArray, Int64Array], FloatArray]:
        """A function of (x, rows) that gives the mean loss gradient over rows of one client."""

    @abstractmethod
    def power_iteration(self, which: Int64Array) -> FloatArray:
        """Work out the largest eigenvalue of ZᵀWZ/B of each client, W its row weights."""

    @abstractmethod
    def mean_slopes(
        self, x: FloatArray, which: Int64Array, known: Stack | None
    ) -> tuple[FloatArray, Stack, Stack]:
        """Mean loss of each client at ``x``, its gradient and the diagonal of its Hessian.

        The ℓ2 term is left out of all three. For losses with one score a row. Diagonals that are
        known are neither worked out nor changed.
        """

    @abstractmethod
    def mean_class_slopes(
        self, x: FloatArray, which: Int64Array
    ) -> tuple[FloatArray, Stack, Stack]:
        """The same for a matrix x: diagonals are second derivatives by each entry."""

    @abstractmethod
    def scores(self, x: FloatArray, client: int) -> FloatArray:
        """z·x of every row of a client, for a vector x: one score a row, or that of one class."""

    @abstractmethod
    def mean_hessian(
        self,
        x: FloatArray,
        columns: Int64Array,
        client: int,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> ClientHessian:
        """Which of some columns a client has (None: all), and its derivatives by these at ``x``.

        Of the Hessian only the upper triangle counts; the ℓ2 term is left out of all. For losses
        with one score a row. ``is_covered`` says that ``x`` is zero on all other columns, so that
        rows on these are all that it takes. Second derivatives between two different columns that
        are known may be left out.
        """

    def mean_hessians(
        self,
        x: FloatArray,
        columns: Int64Array,
        which: Int64Array,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> list[ClientHessian]:
        """The same of some clients."""
        if self.products is not None:
            return self.products.mean_hessians(
                x, columns, which, is_covered=is_covered, is_known=is_known
            )
        found: list[ClientHessian | None] = [None] * which.size

        def work(order: Int64Array) -> None:
            for place in order:
                client = int(which[place])
                found[place] = self.mean_hessian(
                    x, columns, client, is_covered=is_covered, is_known=is_known
                )

        with one_thread():
            self.workers.run(work, self.data.counts[which])
        return [own for own in found if own is not None]

    @abstractmethod
    def rows_on(self, columns: Int64Array, client: int) -> FloatArray:
        """A client's rows on some columns, written out; one that it does not have is zero."""

    def targets_of(self, client: int) -> FloatArray:
        """Target and weight of every row of a client."""
        return self.targets[self.data.pointer[client] : self.data.pointer[client + 1]]

    def objectives(self, x: FloatArray, which: Int64Array) -> FloatArray:
        """f_i(x) of each client."""
        return self.mean_losses(x, which) + self.penalty(x)

    def largest_eigenvalues(self, which: Int64Array) -> FloatArray:
        """Largest eigenvalue of ZᵀWZ/B of each client, W its row weights; kept once worked out."""
        missing = self.without_eigenvalues(which)
        if missing.size:
            self.keep_eigenvalues(missing, self.power_iteration(missing))
        return self._eigenvalues[which]

    def without_eigenvalues(self, which: Int64Array) -> Int64Array:
        """Those of some clients whose eigenvalue is not worked out yet."""
        return np.asarray(which[np.isnan(self._eigenvalues[which])])

    def keep_eigenvalues(self, which: Int64Array, values: FloatArray) -> None:
        """Keep what was worked out elsewhere."""
        self._eigenvalues[which] = values

    def slopes(self, x: FloatArray, which: Int64Array) -> tuple[FloatArray, Stack, Stack]:
        """f_i(x) of each client, and `mean_slopes`' gradient and diagonal, from one pass."""
        if x.ndim > 1:
            losses, gradients, diagonals = self.mean_class_slopes(x, which)
            return losses + self.penalty(x), gradients, diagonals
        known = self._known_diagonals(which)
        losses, gradients, diagonals = self.mean_slopes(x, which, known)
        if known is None:
            self._keep_diagonals(which, diagonals)
        return losses + self.penalty(x), gradients, diagonals

    def _known_diagonals(self, which: Int64Array) -> Stack | None:
        if self._diagonals is None or not np.array_equal(self._diagonals[0], which):
            return None
        return self._diagonals[1]

    def _keep_diagonals(self, which: Int64Array, diagonals: Stack) -> None:
        """Of the squared loss, where they are the same at every x, and short beside the rows.

        Many clients of a few rows each would take as much memory again as their rows.
        """
        if self.loss.is_quadratic and diagonals.bytes <= _KEPT_SHARE * self.data.bytes:
            self._diagonals = (which.copy(), diagonals)

    def penalty(self, x: FloatArray) -> float:
        """The ℓ2 term of f_i(x), the same for all clients."""
        return 0.5 * self.loss.l2 * squared_norm(x) if self.loss.l2 else 0.0


def _mean_one(data: FederatedData) -> FloatArray:
    """Row weights, on average 1 at every client: a weighted sum over B_i is then a mean."""
    if data.row_weights is None:
        return np.ones(data.samples)
    return data.row_weights / np.repeat(data.masses / data.counts, data.counts)


def by_class(x: FloatArray) -> FloatArray:
    """Coefficients as the compiled loops hold them: one row per class, C-ordered.

    Examples
    --------
    >>> by_class(np.zeros(3)).shape, by_class(np.zeros((3, 2))).shape
    ((1, 3), (2, 3))
    """
    return np.ascontiguousarray(x.reshape(1, -1) if x.ndim == 1 else x.T)
