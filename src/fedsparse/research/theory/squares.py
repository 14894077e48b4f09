"""Sums of squares of features, dense or CSR."""

import numpy as np
from scipy import sparse

from fedsparse.arrays import FloatArray
from fedsparse.problem.federated import Features


def sums_of_squares(features: Features, axis: int) -> FloatArray:
    """Squared norm of every column (axis 0) or row (axis 1).

    Examples
    --------
    >>> sums_of_squares(np.array([[1.0, 2.0], [3.0, 0.0]]), axis=1)
    array([5., 9.])
    """
    if isinstance(features, sparse.csr_array):
        return np.asarray(features.power(2).sum(axis=axis), dtype=np.float64).ravel()
    pattern = "ij,ij->i" if axis == 1 else "ij,ij->j"
    return np.asarray(np.einsum(pattern, features, features, dtype=np.float64))
