"""How many threads libraries may use."""

from contextlib import AbstractContextManager


def one_thread() -> AbstractContextManager[object]:
    """Let NumPy, SciPy and scikit-learn work on one thread inside a ``with`` block.

    Small products gain nothing from more, and on a busy machine threads that wait for each other
    can cost twenty times what they save. Sums over threads also differ in their last bits.

    Examples
    --------
    >>> import numpy as np
    >>> with one_thread():
    ...     np.ones((2, 2)) @ np.ones(2)
    array([2., 2.])
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits
