"""Points for charts: no more than can be seen, in a form that is quick to draw."""

from collections.abc import Sequence

import altair as alt
import polars as pl


def csv_data(table: pl.DataFrame) -> alt.InlineData:
    r"""A table as text inside a chart: smaller than a list of rows, and far quicker to handle.

    Examples
    --------
    >>> csv_data(pl.DataFrame({"round": [0, 1]})).values
    'round\n0\n1\n'
    """
    kinds = {
        name: "number" if kind.is_numeric() else "string" for name, kind in table.schema.items()
    }
    return alt.InlineData(table.write_csv(), format=alt.CsvDataFormat(parse=kinds, type="csv"))


def thinned(table: pl.DataFrame, by: Sequence[str], points: int) -> pl.DataFrame:
    """Keep evenly spaced rows of each group, its first and last among them.

    Parameters
    ----------
    table
        Rows in order within each group.
    by
        Columns that tell the groups apart.
    points
        How many rows of a group to keep, about.

    Examples
    --------
    >>> table = pl.DataFrame({"method": ["Fed-HT"] * 6, "round": range(6)})
    >>> thinned(table, ["method"], 3)["round"].to_list()
    [0, 2, 4, 5]
    """
    place = pl.int_range(pl.len()).over(by)
    count = pl.len().over(by)
    stride = (count / points).ceil().cast(pl.Int64)
    return table.filter((place % stride == 0) | (place == count - 1))
