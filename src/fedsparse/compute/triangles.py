"""Symmetric matrices as their upper triangles, row by row."""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array


def triangle_size(size: int) -> int:
    """Entries of the upper triangle of a square matrix.

    Examples
    --------
    >>> triangle_size(3)
    6
    """
    return size * (size + 1) // 2


def triangle_index(row: Int64Array, column: Int64Array, size: int) -> Int64Array:
    """Where the entry of a row and a column ≥ row lies in the upper triangle, row by row.

    Examples
    --------
    >>> triangle_index(np.array([0, 1, 2]), np.array([2, 1, 2]), 3)
    array([2, 3, 5])
    """
    return row * size - row * (row - 1) // 2 + column - row


def from_triangle(triangle: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix of an upper triangle.

    Examples
    --------
    >>> from_triangle(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.empty((size, size))
    upper = np.triu_indices(size)
    matrix[upper] = triangle
    matrix.T[upper] = triangle
    return matrix
