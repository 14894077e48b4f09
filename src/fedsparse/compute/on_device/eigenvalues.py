"""Largest eigenvalues by power iteration as `kernels.spectrum` has it, of many clients at once."""

import numpy as np
import torch
from torch import Tensor

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.kernels.spectrum import start_vector
from fedsparse.compute.on_device.device_rows import DeviceRows, Part

_TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6}
_MOST_ITERATIONS = 10_000
_ITERATIONS_BETWEEN_LOOKS = 16
"""A look at whether all have settled waits for the device."""


def largest_eigenvalues(rows: DeviceRows, which: Int64Array) -> FloatArray:
    """Largest eigenvalue of ZᵀWZ/B of some clients, W their row weights."""
    found = np.empty(rows.count)
    for part in rows.parts(which, lambda height, columns: 8 * (height + 3 * columns)):
        own = part()
        found[own.places] = _of_part(own).double().cpu().numpy()
    return found[which]


def _of_part(part: Part) -> Tensor:
    by_gram = part.columns is None and 2 * part.rows.shape[1] <= part.rows.shape[2]
    matrix = part.gram() if by_gram else part.rows
    vector = _start(part, matrix.shape[2], by_gram)
    _normalize(vector)
    value = vector.new_zeros(vector.shape[0])
    tolerance = _TOLERANCES[vector.dtype]
    is_settled = torch.zeros_like(value, dtype=torch.bool)
    for iteration in range(_MOST_ITERATIONS):
        if by_gram:
            image = matrix @ (vector * part.weights[:, :, None])
        else:
            image = matrix.mT @ ((matrix @ vector) * part.weights[:, :, None])
        length = _normalize(image)
        is_now = ~((length - value).abs() > tolerance * length)
        value = torch.where(is_settled, value, length)
        is_settled |= is_now
        vector = image
        if iteration % _ITERATIONS_BETWEEN_LOOKS == 0 and bool(is_settled.all()):
            break
    return value


def _start(part: Part, size: int, by_gram: bool) -> Tensor:
    """The same pseudo-random entries for all, and 0 where a client has none."""
    entries = np.empty(size)
    start_vector(entries)
    vector = torch.from_numpy(entries).to(part.rows).expand(part.places.size, size)
    if by_gram:
        vector = vector * (part.weights != 0)
    elif part.columns is not None:
        vector = vector * (part.columns < part.width)
    return vector[:, :, None].clone()


def _normalize(vector: Tensor) -> Tensor:
    """Scale each to unit length; returns the lengths. Squares are taken of numbers near one."""
    largest = vector.abs().amax((1, 2), keepdim=True)
    safe = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
    vector /= safe
    norm = torch.linalg.vector_norm(vector, dim=(1, 2), keepdim=True)
    vector /= torch.where(norm > 0, norm, 1.0)
    return torch.where((largest > 0) & largest.isfinite(), largest * norm, largest)[:, 0, 0]
