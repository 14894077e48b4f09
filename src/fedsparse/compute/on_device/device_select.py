"""H_τ on a device: exactly τ entries of a row, ties to the lower index, as `problem.select` has it.

Magnitudes are compared as integers, so that NaN lies above infinity: it is kept, and seen.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedsparse.arrays import Int64Array
from fedsparse.compute.kernels.dense import threshold_classes

_INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32}


def keep_largest(
    rows: Tensor, kept: int, is_always: Tensor | None = None, order: Tensor | None = None
) -> None:
    """Set all but the largest entries of every row to zero, in place.

    Parameters
    ----------
    rows
        Of shape (clients, vectors, entries).
    kept
        τ.
    is_always
        Of shape (clients, 1, entries): entries that are kept whatever their size.
    order
        Of shape (clients, entries): places of the entries in increasing order of their index; None:
        that is how they lie.

    Examples
    --------
    >>> rows = torch.tensor([[[3.0, -5.0, 1.0, 3.0]]], dtype=torch.float64)
    >>> keep_largest(rows, 2)
    >>> rows
    tensor([[[ 3., -5.,  0.,  0.]]], dtype=torch.float64)
    """
    if kept >= rows.shape[-1]:
        return
    magnitudes = rows.abs()
    if is_always is not None:
        magnitudes.masked_fill_(is_always, torch.inf)
    keys = magnitudes.view(_INTEGERS[rows.dtype])
    cut = keys.topk(kept, -1, sorted=False).values.amin(-1, keepdim=True)
    is_kept = keys > cut
    is_tied = keys == cut
    quota = kept - is_kept.sum(-1, keepdim=True, dtype=torch.int32)
    is_kept |= is_tied & (_numbered(is_tied, order) <= quota)
    rows.masked_fill_(~is_kept, 0.0)


def _numbered(is_tied: Tensor, order: Tensor | None) -> Tensor:
    """Of every tied entry its number among those of the row, from 1."""
    if order is None:
        return is_tied.cumsum(-1, dtype=torch.int32)
    places = order[:, None, :].expand_as(is_tied)
    numbers = is_tied.gather(-1, places).cumsum(-1, dtype=torch.int32)
    return torch.empty_like(numbers).scatter_(-1, places, numbers)


@dataclass
class CompiledSelection:
    """The same by compiled loops on the processor, which begin at the last step's threshold.

    Attributes
    ----------
    kept, always
        τ, and entries kept whatever their size.
    """

    kept: int
    always: Int64Array
    _guesses: Int64Array | None = field(default=None, init=False)

    def apply(self, rows: Tensor) -> None:
        """Set all but the largest entries of every row to zero, in place."""
        width = rows.shape[-1]
        if self._guesses is None:
            self._guesses = np.zeros(rows.shape[:2], dtype=np.int64)
        magnitudes, scratch = np.empty(width), np.empty(width, dtype=np.int64)
        for client, guesses in zip(rows.numpy(), self._guesses, strict=True):
            threshold_classes(client, self.kept, self.always, magnitudes, scratch, guesses)
