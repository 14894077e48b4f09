"""Where clients take the full gradient that corrects their mini-batch gradients.

Johnson & Zhang, Accelerating Stochastic Gradient Descent using Predictive Variance Reduction,
NeurIPS 2013. The snapshot is x_t of the last round that is a multiple of m.
"""

from fedsparse.algorithms.algorithm import State
from fedsparse.arrays import FloatArray


def snapshot_in(state: State, rounds: bool | int) -> FloatArray | None:
    """The snapshot of the coming round; None without variance reduction.

    Parameters
    ----------
    state
        With x_t, and the snapshot where it is kept.
    rounds
        m, how many rounds a snapshot is kept: True is 1, False is none at all.

    Examples
    --------
    >>> import numpy as np
    >>> first = State(x=np.zeros(1))
    >>> later = first.remember(**snapshot_to_keep(first, 2)).step(np.ones(1), iterations=1)
    >>> snapshot_in(later, 2), snapshot_in(later, True), snapshot_in(later, False)
    (array([0.]), array([1.]), None)
    """
    if not rounds:
        return None
    return state.x if state.round % int(rounds) == 0 else state.memory["snapshot"]


def snapshot_to_keep(state: State, rounds: bool | int) -> dict[str, FloatArray]:
    """What to remember for the rounds after the coming one: nothing if each has its own."""
    snapshot = snapshot_in(state, rounds) if int(rounds) > 1 else None
    return {} if snapshot is None else {"snapshot": snapshot}
