"""Names from data as labels of charts."""

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
