"""How many threads libraries may use."""

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


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
    controller = _controller("scipy.linalg" in sys.modules, "sklearn" in sys.modules)
    limits: AbstractContextManager[object] = controller.limit(limits=1)
    return limits


@cache
def _controller(with_scipy: bool, with_sklearn: bool) -> "ThreadpoolController":
    """The libraries at hand; looking for them takes milliseconds, so it is done once for each."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
