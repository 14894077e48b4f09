"""How many bytes a stack of vectors takes on the wire, without writing them."""

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.requests.wire import rice
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.matrix_bytes import matrices_length
from fedsparse.requests.wire.vector_arguments import FLOAT32, FLOAT64


def stack_bytes(stack: Stack) -> int:
    """Length of all vectors of a stack, encoded; of a change to a base, of the change alone.

    Examples
    --------
    >>> stack_bytes(DenseStack(np.full((2, 100), 0.1), (100,))) == 2 * wire.dense_size(100)
    True
    """
    if isinstance(stack, RoundedStack):
        return _matrices_bytes(stack)
    if isinstance(stack, SparseStack):
        length = int(np.prod(stack.shape))
        return int(wire.encoded_sizes(stack.pointer, stack.indices, stack.values, length).sum())
    assert isinstance(stack, DenseStack)
    length = stack.rows.shape[1]
    itemsizes = np.array([rice.shortest_itemsize(row) for row in stack.rows])
    is_full = (np.count_nonzero(stack.rows, axis=1) == length) & (itemsizes > 0)
    every, whole = np.arange(length), np.array([0, length])
    # Zeros may make the sparse form of a vector the shorter one.
    with_zeros = sum(
        int(wire.encoded_sizes(whole, every, row, length)[0]) for row in stack.rows[~is_full]
    )
    full = sum(
        int((is_full & (itemsizes == dtype.itemsize)).sum()) * wire.dense_size(length, dtype)
        for dtype in (FLOAT32, FLOAT64)
    )
    return full + with_zeros


def _matrices_bytes(stack: RoundedStack) -> int:
    lengths = np.zeros(len(stack.written), dtype=np.int64)

    def measure(order: Int64Array) -> None:
        for place in order:
            lengths[place] = matrices_length(stack.written[place], stack.shape.blocks)

    stack.workers.run(measure, np.ones_like(lengths))
    return int(lengths.sum())
