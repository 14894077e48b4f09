"""How steep f itself is, which says how long a step of Distributed-IHT may safely be."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from fedsparse.arrays import FloatArray
from fedsparse.research.experiments import Problem


def smoothness(problem: Problem) -> float:
    """The smoothness constant l of the average of the clients' objectives.

    It is at most the largest of the clients' own, and far less where clients differ.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [2.0]), ([[0.0, 1.0]], [4.0])])
    >>> round(smoothness(Problem("", data, fs.SquaredError(), 1)), 6)
    1.0
    """
    data = problem.data
    weights = np.repeat(1.0 / (len(data) * data.counts), data.counts)
    return problem.loss.smoothness(_largest_eigenvalue(data.features, weights))


def _largest_eigenvalue(features: FloatArray | sparse.csr_array, weights: FloatArray) -> float:
    """Of Zᵀ W Z."""
    width = features.shape[1]

    def product(x: FloatArray) -> FloatArray:
        return np.asarray(features.T @ (weights * (features @ x.ravel())))

    if width < 3:  # too few for Lanczos
        return float(np.linalg.eigvalsh(np.stack([product(unit) for unit in np.eye(width)]))[-1])
    operator = LinearOperator((width, width), matvec=product, dtype=np.float64)
    begin = np.random.default_rng(0).standard_normal(width)
    return float(eigsh(operator, k=1, v0=begin, return_eigenvectors=False)[0])
