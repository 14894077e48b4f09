"""Scales of numbers, which start where the numbers do."""

from typing import Literal

import altair as alt


def close_scale(kind: Literal["linear", "log"], padding: int) -> alt.Scale:
    """A scale that need not hold zero, nor end at round numbers.

    Parameters
    ----------
    kind
        As `fedsparse.report.convergence_charts.scale_for` chooses it.
    padding
        Points between the ends of the scale and the outermost marks.

    Examples
    --------
    >>> close_scale("linear", 8).to_dict()
    {'nice': False, 'padding': 8, 'type': 'linear', 'zero': False}
    """
    if kind == "log":  # which cannot hold zero, and charts complain about being told
        return alt.Scale(type=kind, nice=False, padding=padding)
    return alt.Scale(type=kind, nice=False, padding=padding, zero=False)
