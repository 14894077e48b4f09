"""Columns of a table as numbers and as labels; the one place that knows about data types."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

BLANKS = " \t\r\n\u00a0"
"""Around a value they mean nothing."""

TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

WHOLE_BELOW = 2.0**53
"""Larger floats are whole merely for lack of digits."""


def is_number(dtype: "pl.DataType") -> bool:
    """Whether a column holds numbers; true and false are 1 and 0.

    Examples
    --------
    >>> import polars as pl
    >>> is_number(pl.Boolean()), is_number(pl.String())
    (True, False)
    """
    import polars as pl

    return dtype.is_numeric() or dtype == pl.Boolean


def is_text(dtype: "pl.DataType") -> bool:
    """Whether a column holds text, plain or from a dictionary.

    Examples
    --------
    >>> import polars as pl
    >>> is_text(pl.Categorical()), is_text(pl.Date())
    (True, False)
    """
    import polars as pl

    return dtype in (pl.String, pl.Categorical, pl.Enum)


def label_of(value: str) -> str | None:
    """The label that a value written as text stands for; None if it is blank.

    What reads as a number or truth value is written in one way, because a site whose whole column
    does reads ``01`` as 1 and ``TRUE`` as true.

    Examples
    --------
    >>> [label_of(value) for value in (" ear", "01", "1.0", "2.5", "TRUE", "")]
    ['ear', '1', '1', '2.5', 'true', None]
    """
    label = value.strip(BLANKS)
    number = number_of(label)
    if number is not None and math.isfinite(number):
        is_short = number.is_integer() and abs(number) < WHOLE_BELOW
        return str(int(number)) if is_short else repr(number)
    if label in TRUTHS:
        return str(TRUTHS[label]).lower()
    return label or None


def number_of(label: str) -> float | None:
    """The number that text stands for; None if it is none.

    Examples
    --------
    >>> number_of("-2.5e3"), number_of("7 mg"), number_of("1_000")
    (-2500.0, None, None)
    """
    try:
        return float(label) if label.isascii() and "_" not in label else None
    except ValueError:
        return None


def labels(series: "pl.Series") -> "pl.Series":
    """The values as labels; see `label_of`. Missing values are null.

    Examples
    --------
    >>> import polars as pl
    >>> labels(pl.Series([1.0, 2.5, None, float("nan")])).to_list()
    ['1', '2.5', None, None]
    """
    text = _as_text(series)
    meant = {value: label_of(value) for value in text.unique().to_list() if value is not None}
    changes = {value: label for value, label in meant.items() if label != value}
    return text.replace(changes) if changes else text


def label_counts(series: "pl.Series") -> dict[str, int]:
    """How many rows have each label, in the order of letters; missing values are not counted.

    Work is done per label, not per row, so that tables of many columns are described quickly.

    Examples
    --------
    >>> import polars as pl
    >>> label_counts(pl.Series(["eye", "ear", "eye ", None]))
    {'ear': 1, 'eye': 2}
    """
    text = _as_text(series)
    values, rows = (column.to_list() for column in text.value_counts().get_columns())
    counts: dict[str, int] = {}
    for value, count in zip(values, rows, strict=True):
        label = None if value is None else label_of(value)
        if label is not None:
            counts[label] = counts.get(label, 0) + count
    return dict(sorted(counts.items()))


def is_missing(series: "pl.Series") -> BoolArray:
    """Which values are missing: null, NaN, or blank text.

    Examples
    --------
    >>> import polars as pl
    >>> is_missing(pl.Series(["ear", " ", None])).tolist()
    [False, True, True]
    """
    return (labels(series) if is_text(series.dtype) else _without_nan(series)).is_null().to_numpy()


def number_matrix(frame: "pl.DataFrame", names: Sequence[str]) -> FloatArray:
    """Columns of numbers as one C-ordered array, NaN where a value is missing.

    Examples
    --------
    >>> import polars as pl
    >>> number_matrix(pl.DataFrame({"a": [1, None], "b": [True, False]}), ["b", "a"])
    array([[ 1.,  1.],
           [ 0., nan]])
    """
    import polars as pl

    # Selecting by name would take a column called ^x$ for a pattern.
    columns = [_numbers(frame.get_column(name)) for name in names]
    if not columns:
        return np.empty((frame.height, 0))
    return pl.DataFrame(columns).to_numpy(order="c", writable=True)


def sorted_labels(found: Sequence[str]) -> tuple[str, ...]:
    """Labels in order: by value if all are numbers, else by letter.

    Examples
    --------
    >>> sorted_labels(["10", "9"]), sorted_labels(["10", "9", "x"])
    (('9', '10'), ('10', '9', 'x'))
    """
    try:
        numbers = {label: float(label) for label in found}
    except ValueError:
        return tuple(sorted(found))
    if not all(math.isfinite(number) for number in numbers.values()):
        return tuple(sorted(found))
    return tuple(sorted(found, key=lambda label: (numbers[label], label)))


def _numbers(series: "pl.Series") -> "pl.Series":
    import polars as pl

    if series.dtype == pl.Float64:
        return series
    return (labels(series) if is_text(series.dtype) else series).cast(pl.Float64)


def _as_text(series: "pl.Series") -> "pl.Series":
    import polars as pl

    if series.dtype == pl.String:
        return series
    if series.dtype == pl.Duration:  # has no text
        return series.to_physical().cast(pl.String)
    return _without_nan(series).cast(pl.String)


def _without_nan(series: "pl.Series") -> "pl.Series":
    return series.fill_nan(None) if series.dtype.is_float() else series
