"""Losses, gradients and diagonals of Hessians at many points at once, over all clients."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.on_device.device_losses import curvatures, mean_losses, to_mean_slopes
from fedsparse.compute.on_device.device_rows import DeviceRows, Part
from fedsparse.compute.on_device.device_sizes import encoded_sizes
from fedsparse.compute.on_device.lanes import Totals, add_up
from fedsparse.compute.workers import Workers

_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-37, 1e38


@dataclass(frozen=True, eq=False)
class SlopesAsked:
    """Losses and derivatives that several models ask for, the ℓ2 term left out.

    Attributes
    ----------
    points
        x of each model.
    weights
        w_i of each model: (models, clients).
    with_gradient, with_diagonal
        What is asked for beside the losses.
    is_short
        Whether clients round vectors to float32.
    """

    points: Sequence[FloatArray]
    weights: FloatArray
    with_gradient: bool = False
    with_diagonal: bool = False
    is_short: bool = False


def slopes(rows: DeviceRows, asked: SlopesAsked, which: Int64Array, workers: Workers) -> Totals:
    """Sums over clients, model by model.

    ``objective``; ``gradient`` and ``diagonal`` of shape (models · classes, d) where they are asked
    for; and ``bytes`` of the vectors that clients would send.
    """
    look = _Look(rows, asked, which)
    totals = add_up(rows.parts(which, look.needed), look.zeros, look.add, workers)
    for name in ("gradient", "diagonal"):
        if name in totals:
            totals[name] = totals[name][:, :-1]
    return totals


class _Look:
    """Derivatives at all points on one part of the clients after the other."""

    def __init__(self, rows: DeviceRows, asked: SlopesAsked, which: Int64Array) -> None:
        self._rows, self._asked = rows, asked
        self._points = torch.cat([rows.vectors(x) for x in asked.points])
        self._weights = rows.weights(asked.weights, which)

    def needed(self, rows: int, columns: int) -> int:
        """Bytes that work on a client takes."""
        vectors = 3 * columns + 3 * rows
        squares = rows * columns if self._asked.with_diagonal else 0
        return (self._points.shape[0] * vectors + squares) * self._rows.dtype.itemsize

    def zeros(self) -> Totals:
        """Room for sums."""
        models, width = len(self._asked.points), self._rows.width + 1
        totals = {
            "objective": self._rows.zeros(models),
            "bytes": torch.zeros(models, dtype=torch.int64, device=self._rows.device),
        }
        if self._asked.with_gradient:
            totals["gradient"] = self._rows.zeros(self._points.shape[0], width)
        if self._asked.with_diagonal:
            totals["diagonal"] = self._rows.zeros(self._points.shape[0], width)
        return totals

    def add(self, part: Part, totals: Totals) -> None:
        """Add the part's clients to totals."""
        code, classes = self._rows.loss.code, self._rows.classes
        by_vector = part.of(self._points) @ part.rows.mT
        scores = by_vector.view(by_vector.shape[0], -1, classes, by_vector.shape[2])
        weights = part.own(self._weights)
        losses = mean_losses(code, scores, part.targets, part.weights)
        totals["objective"] += (losses * weights).sum(0)
        if "diagonal" in totals:
            bends = curvatures(code, scores, part.weights).flatten(1, 2)
            self._add(part, totals, "diagonal", bends @ part.rows**2, weights)
        if "gradient" in totals:
            first = to_mean_slopes(code, scores, part.targets, part.weights).flatten(1, 2)
            self._add(part, totals, "gradient", first @ part.rows, weights)

    def _add(self, part: Part, totals: Totals, name: str, values: Tensor, weights: Tensor) -> None:
        classes = self._rows.classes
        if self._asked.is_short:
            values = _in_single(values)
        part.add_to(totals[name], values, weights.repeat_interleave(classes, 1))
        by_model = values.reshape(values.shape[0], weights.shape[1], -1)
        positions = part.positions(classes)
        totals["bytes"] += encoded_sizes(by_model, positions, classes * part.width).sum(0)


def _in_single(values: Tensor) -> Tensor:
    """Rounded to float32, but for numbers that it could not hold, or only in a few digits."""
    sizes = values.abs()
    is_held = (sizes == 0.0) | ((sizes > _SMALLEST_SINGLE) & (sizes < _LARGEST_SINGLE))
    return torch.where(is_held, values.float().to(values.dtype), values)
