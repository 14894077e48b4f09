"""How many bytes a stack of vectors takes on the wire, without writing them."""

import numpy as np

from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.requests.wire import vectors as wire


def stack_bytes(stack: Stack) -> int:
    """Length of all vectors of a stack, encoded; of a change to a base, of the change alone.

    Examples
    --------
    >>> stack_bytes(DenseStack(np.ones((2, 100)), (100,))) == 2 * wire.dense_size(100)
    True
    """
    if isinstance(stack, SparseStack):
        length = int(np.prod(stack.shape))
        return int(wire.encoded_sizes(stack.pointer, stack.indices, stack.values, length).sum())
    assert isinstance(stack, DenseStack)
    length = stack.rows.shape[1]
    full = np.count_nonzero(stack.rows, axis=1) == length
    every, whole = np.arange(length), np.array([0, length])
    # Zeros may make the sparse form of a vector the shorter one.
    with_zeros = sum(
        int(wire.encoded_sizes(whole, every, row, length)[0]) for row in stack.rows[~full]
    )
    return int(full.sum()) * wire.dense_size(length) + with_zeros
