"""Clients' gradients at one point: how much they disagree, and how much rows of a client do."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers, available_threads
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import hard_threshold
from fedsparse.research.theory.squares import sums_of_squares

# A gradient this much shorter than the clients' own has vanished but for tolerances.
_VANISHED = 1e-6


@dataclass(frozen=True, eq=False)
class ClientGradients:
    """∇f_i(x) of every client at one x, the ℓ2 term included, with weights p_i = 1/N.

    Attributes
    ----------
    rows
        One gradient per client, in the order of x's entries (row order for a matrix).

    Examples
    --------
    >>> gradients = ClientGradients(np.array([[3.0, 1.0], [1.0, -1.0]]))
    >>> gradients.local, gradients.overall
    (6.0, 4.0)
    >>> gradients.dissimilarity(np.array([False, True]))
    inf
    """

    rows: FloatArray

    @property
    def mean(self) -> FloatArray:
        """∇f(x)."""
        return np.asarray(self.rows.mean(axis=0))

    @property
    def local(self) -> float:
        """Σ p_i ‖∇f_i(x)‖²."""
        return self.local_within(None)

    @property
    def overall(self) -> float:
        """‖∇f(x)‖²."""
        return self.overall_within(None)

    def local_within(self, entries: BoolArray | None) -> float:
        """Σ p_i ‖π_I ∇f_i(x)‖² for a set I of entries, None for all."""
        rows = self.rows if entries is None else self.rows[:, entries]
        return float(np.einsum("ij,ij->", rows, rows) / len(rows))

    def overall_within(self, entries: BoolArray | None) -> float:
        """‖π_I ∇f(x)‖² for a set I of entries, None for all."""
        mean = self.mean if entries is None else self.mean[entries]
        return float(mean @ mean)

    def dissimilarity(self, entries: BoolArray | None = None) -> float:
        """The least 𝓑 that Assumption 2 allows here: √(Σ p_i ‖π_I ∇f_i‖² / ‖π_I ∇f‖²).

        Infinite where ∇f vanishes on I and some ∇f_i does not; 1 where all of them vanish.
        """
        local, overall = self.local_within(entries), self.overall_within(entries)
        if local == 0.0:
            return 1.0
        return float(np.sqrt(local / overall)) if overall > _VANISHED**2 * local else np.inf

    def bias_entries(self, x: FloatArray, sparsity: int) -> BoolArray:
        """Entries Ĩ = supp(H_{2Nτ}(∇f(x))) ∪ supp(x) of Theorem 2's bias; τ counts all of x."""
        count = min(2 * len(self.rows) * sparsity, self.mean.size)
        return np.asarray((hard_threshold(self.mean, count) != 0) | (x.ravel() != 0))


def client_gradients(data: FederatedData, loss: Loss, x: FloatArray) -> ClientGradients:
    """Work out ∇f_i(x) of every client.

    Parameters
    ----------
    data, loss
        The problem.
    x
        Coefficients, (d,) or (d, c).

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> client_gradients(data, fs.SquaredError(), np.zeros(1)).rows.tolist()
    [[-4.0], [-8.0]]
    """
    clients = open_clients(data, loss, Workers(available_threads()))
    one = np.ones(1)
    try:
        rows = np.empty((len(data), x.size))
        for client in range(len(data)):
            stack = clients.mean_gradients(x, np.array([client]))
            rows[client] = (stack.total(one) + loss.l2 * x).ravel()
    finally:
        clients.workers.close()
    return ClientGradients(rows)


def gradient_variances(data: FederatedData, loss: Loss, x: FloatArray) -> FloatArray:
    """σ_i² at x: how far the gradients of a client's single rows are from ∇f_i(x), on average.

    Assumption 1 asks for a bound that holds at every x; for the squared loss there is none.

    Parameters
    ----------
    data, loss
        The problem.
    x
        Coefficients, (d,) or (d, c).

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0], [1.0]], [1.0, 3.0])])
    >>> gradient_variances(data, fs.SquaredError(), np.zeros(1)).tolist()
    [4.0]
    """
    features = data.features
    slopes = loss.derivative(features @ x, loss.encode(data).values).reshape(data.samples, -1)
    row_norms = sums_of_squares(features, axis=1)
    second_moments = np.add.reduceat(row_norms * (slopes**2).sum(axis=1), data.pointer[:-1])
    gradients = client_gradients(data, loss, x).rows - loss.l2 * x.ravel()
    means = np.einsum("ij,ij->i", gradients, gradients)
    variances: FloatArray = np.maximum(second_moments / data.counts - means, 0.0)
    return variances
