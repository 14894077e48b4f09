"""How many bytes vectors take on the wire, worked out where they are.

The lengths that `fedsparse.requests.wire.vectors` writes: the shorter of the dense and the sparse
form, values in the shortest type that loses nothing, gaps at the best Rice parameter.
"""

import torch
from torch import Tensor

_FRAME, _PARAMETER = 6, 1


def encoded_sizes(values: Tensor, positions: Tensor, length: int) -> Tensor:
    """Bytes of vectors, whose entries lie along the last dimension.

    Parameters
    ----------
    values
        Of the entries.
    positions
        Where those that are not 0 stand in their vector, increasing; one for each entry of a
        vector, or of every vector.
    length
        Of the vectors.

    Examples
    --------
    >>> values = torch.tensor([[0.5, 0.25], [0.0, 1.0]], dtype=torch.float64)
    >>> encoded_sizes(values, torch.tensor([1, 3]), 100)
    tensor([18, 10])
    """
    is_there = values != 0
    counts = is_there.sum(-1)
    after_last = torch.where(is_there, positions + 1, 0).amax(-1).long()
    bits = _gap_bits(is_there, positions, counts, after_last)
    itemsizes = _itemsizes(values, is_there, counts)
    dense = _FRAME + _varint_size(length) + length * torch.where(itemsizes == 8, 8, 4)
    head = _FRAME + _varint_size(length) + _PARAMETER + _varint_sizes(counts)
    return torch.minimum(head + (bits + 7) // 8 + counts * itemsizes, dense)


def _itemsizes(values: Tensor, is_there: Tensor, counts: Tensor) -> Tensor:
    """0 if all that is there is 1, 4 if float32 holds it, else 8."""
    is_one = ((values == 1) == is_there).all(-1) & (counts > 0)
    is_short = (values.float().to(values.dtype) == values).all(-1)
    return torch.where(is_one, 0, torch.where(is_short, 4, 8))


def _gap_bits(is_there: Tensor, positions: Tensor, counts: Tensor, after_last: Tensor) -> Tensor:
    """Bits of the gaps at the best parameter k: Σ (k + 1 + (gap >> k)).

    At k = 0 that is the place after the last entry. Any other k takes two bits an entry at least,
    so that vectors at least half full need not be looked at.

    With a mean gap of m the bits are between k + m / 2^k and one more for every entry, so that the
    best k is at most one below or two above that of 2^k ≤ m < 2^(k + 1).
    """
    is_sparse = 2 * counts < after_last
    bits = after_last.clone()
    counts = counts[is_sparse]
    if counts.numel() == 0:
        return bits
    rows, places = is_there[is_sparse].nonzero(as_tuple=True)
    found = positions.expand_as(is_there)[is_sparse][rows, places].long()
    before = torch.cat([found.new_full((1,), -1), found[:-1]])
    before[torch.cat([rows.new_ones(1), rows.diff()]) > 0] = -1
    gaps, last = found - before - 1, counts.cumsum(0) - 1
    best = bits[is_sparse]
    means = torch.div(best - counts, counts, rounding_mode="floor").double()
    likely = torch.log2(means.clamp_(min=1.0)).floor().long()
    for beside in (-1, 0, 1, 2):
        parameters = (likely + beside).clamp_(min=0)
        shifted = gaps >> parameters.repeat_interleave(counts, output_size=gaps.numel())
        own = shifted.cumsum(0)[last].diff(prepend=last.new_zeros(1))
        best = torch.minimum(best, own + counts * (parameters + 1))
    bits[is_sparse] = best
    return bits


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _varint_sizes(numbers: Tensor) -> Tensor:
    sizes = torch.ones_like(numbers)
    for shift in range(7, 63, 7):
        sizes += (numbers >> shift) > 0
    return sizes
