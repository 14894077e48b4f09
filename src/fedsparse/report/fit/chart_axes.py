"""Axes of charts: names from data as labels, and scales that start where the numbers do."""

from typing import Literal

import altair as alt

LONGEST = 22
"""Characters; on a phone, half of the width is left for the marks."""

ROW = 17
"""Points of height for a name: fifty of them fit on a sheet of paper."""

SHORTENED = (
    f"length(datum.value) > {LONGEST} "
    f"? slice(datum.value, 0, {LONGEST // 2}) + '…' + slice(datum.value, -{LONGEST // 2 - 1}) "
    ": datum.value"
)
"""Vega expression that leaves out the middle: names in a table often differ in their ends alone."""


def names_axis(*, has_lines: bool = False) -> alt.Axis:
    """An axis of names, for charts with one row per name.

    Parameters
    ----------
    has_lines
        Whether a line leads from each name to its marks.

    Examples
    --------
    >>> names_axis().to_dict()["ticks"]
    False
    """
    return alt.Axis(
        labelExpr=SHORTENED,
        labelLimit=200,
        labelOverlap=False,
        labelPadding=6,
        grid=has_lines,
        ticks=False,
        domain=False,
    )


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
