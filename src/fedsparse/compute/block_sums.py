"""Loss, gradient and Hessian on some columns, from blocks of rows written out."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.problem.slopes import mean_derivatives

_BLOCK = 1 << 15
"""Float64 values of a block of rows: a quarter of a MiB, which second-level caches hold."""


def rows_in_block(columns: int) -> int:
    """How many rows to take at a time: so few that they stay in cache, if they have few columns.

    At least as many as columns, since every block adds a matrix of their size to the Hessian.

    Examples
    --------
    >>> rows_in_block(64), rows_in_block(1000)
    (512, 1000)
    """
    return max(_BLOCK // max(columns, 1), columns)


@dataclass
class BlockSums:
    """Sums over some of a client's rows, each row counting its share.

    Examples
    --------
    >>> sums = BlockSums.of(0, np.array([[3.0]]), np.array([1.0]), np.array([[0.0, 1.0]]))
    >>> sums.loss, sums.gradient, sums.hessian, sums.mass, sums.first
    (1.0, array([6.]), array([[18.]]), 2.0, array([6.]))
    """

    loss: float
    gradient: FloatArray
    hessian: FloatArray
    mass: float
    """Of the rows' second derivatives."""
    first: FloatArray
    """Rows, each times its second derivative."""

    @classmethod
    def of(
        cls,
        loss: int,
        rows: FloatArray,
        scores: FloatArray,
        targets: FloatArray,
        share: float = 1.0,
        is_known: BoolArray | None = None,
    ) -> "BlockSums":
        """Sums over a block.

        Parameters
        ----------
        loss
            Code of the loss.
        rows
            On the columns. They are written over.
        scores, targets
            One score, and target and weight, a row.
        share
            What the mean over these rows counts.
        is_known
            Of each column; where most are known, the Hessian between two different ones is 0.
        """
        value, slopes, curvatures = mean_derivatives(loss, scores, targets)
        gradient, first = share * (slopes @ rows), share * (curvatures @ rows)
        rows *= np.sqrt(share * curvatures)[:, None]
        fresh = np.arange(rows.shape[1]) if is_known is None else np.flatnonzero(~is_known)
        hessian = _on_some(rows, fresh) if 2 * fresh.size < rows.shape[1] else rows.T @ rows
        return cls(share * value, gradient, hessian, share * float(curvatures.sum()), first)

    def add(self, other: "BlockSums") -> None:
        """Add those of another block."""
        self.loss += other.loss
        self.gradient += other.gradient
        self.hessian += other.hessian
        self.mass += other.mass
        self.first += other.first


def _on_some(rows: FloatArray, fresh: Int64Array) -> FloatArray:
    """Products of some columns with all, and of every column with itself.

    All of them are symmetric, which is half of the work: of more than half of the columns that is
    no more.
    """
    hessian = np.diag(np.einsum("ij,ij->j", rows, rows))
    hessian[fresh] = rows[:, fresh].T @ rows
    hessian[:, fresh] = hessian[fresh].T
    return hessian
