"""Hessians of clients by products on a device; what is told of them is worked out on the host."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.asked_entries import ClientMatrix
from fedsparse.compute.block_sums import BlockSums
from fedsparse.compute.class_curvature import ClassRows
from fedsparse.compute.clients import ClientHessian
from fedsparse.compute.on_device.device_losses import curvatures, mean_losses, to_mean_slopes
from fedsparse.compute.on_device.device_rows import DeviceRows, Part


class DeviceProducts:
    """Matrices of clients whose rows are on a device, dense.

    Parameters
    ----------
    rows
        There.
    """

    def __init__(self, rows: DeviceRows) -> None:
        self.rows = rows

    def mean_hessians(
        self,
        x: FloatArray,
        columns: Int64Array,
        which: Int64Array,
        *,
        is_covered: bool,
        is_known: BoolArray,
    ) -> list[ClientHessian]:
        """Loss and derivatives by some columns of some clients; see `Clients.mean_hessian`."""
        asked, vector = self.rows.tensor(columns), self.rows.vectors(x)
        found: dict[int, ClientHessian] = {}

        def needed(rows: int, _: int) -> int:
            return self.rows.dtype.itemsize * columns.size * (columns.size + 3 * rows)

        for part in self.rows.parts(which, needed):
            found |= self._of_part(part(), asked, vector, is_covered=is_covered)
        return [found[client] for client in which]

    def _of_part(
        self, part: Part, columns: Tensor, x: Tensor, *, is_covered: bool
    ) -> dict[int, ClientHessian]:
        code, rows = self.rows.loss.code, part.rows[:, :, columns]
        if is_covered:
            scores = x[:, columns] @ rows.mT
        else:
            scores = part.of(x) @ part.rows.mT
        scores = scores[:, None]
        losses = _host(mean_losses(code, scores, part.targets, part.weights)[:, 0])
        bends = curvatures(code, scores, part.weights)[:, 0, 0]
        masses, firsts = _host(bends.sum(-1)), _host((bends[:, None] @ rows)[:, 0])
        first = to_mean_slopes(code, scores, part.targets, part.weights)[:, 0]
        gradients = _host((first @ rows)[:, 0])
        rows = rows * bends.sqrt()[:, :, None]
        hessians = _host(rows.mT @ rows)
        found: dict[int, ClientHessian] = {}
        for place, client in enumerate(part.places):
            sums = BlockSums(
                float(losses[place]),
                gradients[place],
                hessians[place],
                float(masses[place]),
                firsts[place],
            )
            found[int(client)] = (None, sums)
        return found

    def class_rows(
        self, x: FloatArray, features: Int64Array, client: int
    ) -> tuple[float, ClassRows]:
        """Mean loss, and a client's rows on some features, which stay on the device."""
        (whole,) = self.rows.parts(np.array([client]), lambda rows, columns: 0)
        part, code = whole(), self.rows.loss.code
        rows = part.rows[0][:, self.rows.tensor(features)]
        scores = (self.rows.vectors(x) @ rows.mT)[None, None]
        loss = float(mean_losses(code, scores, part.targets, part.weights))
        chances = _host(torch.softmax(scores, 2)[0, 0].T)
        slopes = _host(to_mean_slopes(code, scores, part.targets, part.weights)[0, 0].T)
        own = _RowsOnDevice(np.empty(0), slopes, chances, _host(part.weights[0]), rows)
        return loss, own


@dataclass(frozen=True)
class _RowsOnDevice(ClassRows):
    """Rows whose products are worked out on the device."""

    tensor: Tensor

    def product(self, left: Int64Array, right: Int64Array, weights: FloatArray) -> FloatArray:
        """Σ weight · row[left] row[right]ᵀ."""
        weighted = self._on(left) * self._like(weights)[:, None]
        return _host(weighted.mT @ self._on(right))

    def gradient(self, columns: list[Int64Array]) -> FloatArray:
        """Of all classes from one product."""
        sums = _host(self._like(self.slopes).T @ self.tensor)
        return np.concatenate([own[part] for own, part in zip(sums, columns, strict=True)])

    def matrix(self, features: Int64Array, weights: FloatArray) -> ClientMatrix:
        """Σ weight · row rowᵀ on some features."""
        rows = self._on(features)
        weighted = rows * self._like(weights)[:, None]
        both = _host(weighted.mT @ rows), _host(weighted.sum(0))
        return ClientMatrix(np.arange(features.size), both[0], float(weights.sum()), both[1])

    def _on(self, features: Int64Array) -> Tensor:
        return self.tensor[:, torch.from_numpy(features).to(self.tensor.device)]

    def _like(self, weights: FloatArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(weights)).to(self.tensor)


def _host(tensor: Tensor) -> FloatArray:
    if not tensor.is_cuda:
        return np.asarray(tensor.double().numpy())
    # A GPU writes to memory that cannot be moved by itself, several times faster.
    found = torch.empty(tensor.shape, dtype=torch.float64, pin_memory=True)
    return np.asarray(found.copy_(tensor).numpy())
