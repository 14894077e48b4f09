"""Synthetic problems of the shapes that matter."""

import numpy as np
from scipy import sparse


def dense_clients(clients=100, rows=100, width=1000, seed=0):
    """Linear regression, the shape of the paper's Simulation I."""
    random = np.random.default_rng(seed)
    coefficients = np.where(np.arange(width) < 100, random.standard_normal(width), 0.0)
    result = []
    for _ in range(clients):
        Z = random.standard_normal((rows, width))
        result.append((Z, Z @ coefficients + random.standard_normal(rows)))
    return result


def sparse_clients(clients=100, rows=202, width=47_236, per_row=75, seed=0):
    """Logistic regression on text-like rows: column frequencies fall off like word counts."""
    random = np.random.default_rng(seed)
    result = []
    for _ in range(clients):
        matrix = sparse_rows(random, rows, width, per_row)
        result.append((matrix, (random.random(rows) < 0.5).astype(float)))
    return result


def sparse_rows(random, rows, width, per_row):
    """CSR rows of unit norm whose columns follow a power law."""
    columns = np.floor(width ** random.random((rows, per_row))).astype(np.int32) - 1
    values = random.random((rows, per_row)) + 0.1
    pointer = np.arange(rows + 1) * per_row
    matrix = sparse.csr_array((values.ravel(), columns.ravel(), pointer), shape=(rows, width))
    matrix.sum_duplicates()
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1.0 / norms) @ matrix)
