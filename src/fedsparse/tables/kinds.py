"""Which kind of column text is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from fedsparse.tables.values import is_text

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "category", "identifier", "date", "empty"]
"""``empty``: every value is missing."""

MOST_LEVELS = 200
"""A category may have so many levels."""

FEWEST_IDENTIFIERS = 20
"""With fewer distinct values nobody can tell an identifier from a category."""

_IDENTIFIER_SHARE = 0.9
_DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?Z|[+-]\d{2}:?\d{2})?)?$"
)


def text_kind(series: "pl.Series", counts: Mapping[str, int], forced: bool) -> Kind:
    """Kind of a column that does not hold numbers, or is said to be a category.

    Parameters
    ----------
    series
        The column.
    counts
        How many rows have each of its labels.
    forced
        Whether it is said to be a category.

    Examples
    --------
    >>> import polars as pl
    >>> text_kind(pl.Series("admitted", ["2024-03-01"]), {"2024-03-01": 1}, forced=False)
    'date'
    >>> text_kind(pl.Series("ward", ["ear", "ear"]), {"ear": 2}, forced=False)
    'category'
    """
    if not counts:
        return "empty"
    if forced:
        return "category"
    if series.name == "":
        return "identifier"  # row names, as R writes them
    if not is_text(series.dtype) or _are_dates(counts):
        return "date"
    return "identifier" if is_identifier(counts) else "category"


def is_identifier(counts: Mapping[str, int]) -> bool:
    """Whether nearly all labels differ, so that they tell rows apart instead of describing them.

    Examples
    --------
    >>> is_identifier({f"patient {number}": 1 for number in range(50)})
    True
    >>> is_identifier({"ear": 1, "eye": 1})
    False
    """
    distinct = len(counts)
    return distinct >= FEWEST_IDENTIFIERS and distinct > _IDENTIFIER_SHARE * sum(counts.values())


def _are_dates(counts: Mapping[str, int]) -> bool:
    import polars as pl

    return bool(pl.Series(list(counts), dtype=pl.String).str.contains(_DATE).all())
