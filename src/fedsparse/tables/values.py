"""Columns of a table as numbers and as labels, and which kind text is.

The one place that knows about data types.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

BLANKS = " \t\r\n\u00a0"
"""Around a value they mean nothing."""

TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

WHOLE_BELOW = 2.0**53
"""Larger floats are whole merely for lack of digits."""

Kind = Literal["number", "category", "identifier", "date", "empty"]
"""``empty``: every value is missing."""

MOST_LEVELS = 200
"""A category may have so many levels."""

FEWEST_IDENTIFIERS = 20
"""With fewer distinct values nobody can tell an identifier from a category."""

_LONG = re.compile(r"[+-]?[0-9]{16,300}")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_IDENTIFIER_SHARE = 0.9
_DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?Z|[+-]\d{2}:?\d{2})?)?$"
)


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
    >>> label_of("9007199254740993")
    '9007199254740993'
    """
    label = value.strip(BLANKS)
    if _LONG.fullmatch(label):
        return str(int(label))  # a float would not hold all digits
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


def merged_spellings(text: "pl.Series") -> tuple[tuple[str, ...], ...]:
    """Numbers that text tells apart by leading zeros, and labels do not; see `label_of`.

    Examples
    --------
    >>> import polars as pl
    >>> merged_spellings(pl.Series(["01", "1", "2", "10"]))
    (('01', '1'),)
    """
    values = {value.strip(BLANKS) for value in _as_text(text).unique().to_list() if value}
    numbers = {label_of(value) for value in values if _LEADING_ZERO.match(value)}
    groups: dict[str | None, list[str]] = {}
    for value in sorted(values) if numbers else ():
        groups.setdefault(label_of(value), []).append(value)
    return tuple(
        tuple(groups[label]) for label in groups if label in numbers and len(groups[label]) > 1
    )


def spellings_of(
    frame: "pl.DataFrame", names: Collection[str]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """See `merged_spellings`, of those of some columns that are text.

    Examples
    --------
    >>> import polars as pl
    >>> spellings_of(pl.DataFrame({"ward": ["01", "1"], "age": [61, 47]}), ["ward", "age"])
    {'ward': (('01', '1'),)}
    """
    text = [name for name in frame.columns if name in names and is_text(frame.schema[name])]
    found = {name: merged_spellings(frame.get_column(name)) for name in text}
    return {name: groups for name, groups in found.items() if groups}


def is_missing(series: "pl.Series") -> BoolArray:
    """Which values are missing: null, NaN, or blank text.

    Examples
    --------
    >>> import polars as pl
    >>> is_missing(pl.Series(["ear", " ", None])).tolist()
    [False, True, True]
    """
    return (labels(series) if is_text(series.dtype) else _without_nan(series)).is_null().to_numpy()


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table whose numbers lie in one array; it answers like a data frame where both may come.

    A data frame keeps every column apart. That is twice the memory where columns are short, and
    looking at columns one by one takes minutes where hundreds of sites have thousands of them.

    Attributes
    ----------
    columns
        Names of all columns, in the order of the table.
    number_columns
        Names of the columns of ``numbers``.
    numbers
        C-ordered, NaN where a value is missing; nobody writes into it.
    others
        The other columns; there may be numbers among them.
    spellings
        Of some columns of numbers: what a file tells apart and is read as the same; see
        `merged_spellings`.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [61, None], "ward": ["ear", "eye"], "relapse": [1, 0]})
    >>> sheet = as_sheet(frame, apart=("relapse",))
    >>> sheet.numbers.tolist(), sheet.others.columns
    ([[61.0], [nan]], ['ward', 'relapse'])
    >>> sheet.get_column("age").to_list()
    [61.0, None]
    """

    columns: Sequence[str]
    number_columns: Sequence[str]
    numbers: FloatArray
    others: "pl.DataFrame"
    spellings: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    @property
    def height(self) -> int:
        """How many rows there are."""
        return int(self.numbers.shape[0])

    def get_column(self, name: str) -> "pl.Series":
        """A column by its name."""
        import polars as pl

        if name not in self.number_columns:
            return self.others.get_column(name)
        values = self.numbers[:, self.number_columns.index(name)]
        return pl.Series(name, values, nan_to_null=True)

    def of_rows(self, chosen: BoolArray) -> "Sheet":
        """Some of the rows."""
        if chosen.all():
            return self
        others = self.others.filter(chosen) if self.others.width else self.others
        return replace(self, numbers=self.numbers[chosen], others=others)


def as_sheet(frame: "pl.DataFrame", apart: Collection[str]) -> Sheet:
    """The table with its numbers in one array.

    Parameters
    ----------
    frame
        Any table.
    apart
        Columns to leave as they are, because their values stand for labels: a float does not hold
        all digits of a long number.

    Examples
    --------
    >>> import polars as pl
    >>> as_sheet(pl.DataFrame({"age": [61, 47]}), apart=()).numbers.tolist()
    [[61.0], [47.0]]
    """
    numeric = [name for name in number_names(frame) if name not in apart]
    return Sheet(frame.columns, numeric, number_matrix(frame, numeric), frame.drop(numeric))


def as_frame(sheet: Sheet) -> "pl.DataFrame":
    """The table as a data frame, whole numbers as integers.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [61, None], "ward": ["ear", "eye"]})
    >>> as_frame(as_sheet(frame, apart=())).equals(frame)
    True
    """
    import polars as pl

    present = np.nan_to_num(sheet.numbers, nan=0.0)
    is_whole = ((present == np.rint(present)) & (np.abs(present) < WHOLE_BELOW)).all(axis=0)
    columns = {column.name: column for column in sheet.others.get_columns()}
    for name, values, whole in zip(
        sheet.number_columns, sheet.numbers.T, is_whole.tolist(), strict=True
    ):
        numbers = pl.Series(name, values, nan_to_null=True)
        columns[name] = numbers.cast(pl.Int64) if whole else numbers
    # By name: of a list of columns, one that is called "" would get a name.
    return pl.DataFrame({name: columns[name] for name in sheet.columns})


def number_names(frame: "pl.DataFrame | Sheet") -> list[str]:
    """Names of the columns that hold numbers; see `is_number`.

    Examples
    --------
    >>> import polars as pl
    >>> number_names(pl.DataFrame({"age": [61], "ward": ["ear"], "is_ill": [True]}))
    ['age', 'is_ill']
    """
    if isinstance(frame, Sheet):
        return [*frame.number_columns, *number_names(frame.others)]
    return [name for name, dtype in frame.schema.items() if is_number(dtype)]


def number_matrix(frame: "pl.DataFrame | Sheet", names: Sequence[str]) -> FloatArray:
    """Columns of numbers as one C-ordered array to read from, NaN where a value is missing.

    Examples
    --------
    >>> import polars as pl
    >>> number_matrix(pl.DataFrame({"a": [1, None], "b": [True, False]}), ["b", "a"])
    array([[ 1.,  1.],
           [ 0., nan]])
    """
    import polars as pl

    if isinstance(frame, Sheet):
        return _sheet_matrix(frame, names)
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


def _sheet_matrix(sheet: Sheet, names: Sequence[str]) -> FloatArray:
    if list(names) == list(sheet.number_columns):
        return sheet.numbers
    places = {name: place for place, name in enumerate(sheet.number_columns)}
    others = [name for name in names if name not in places]
    own = np.take(sheet.numbers, [places[name] for name in names if name in places], axis=1)
    if not others:
        return own
    is_own = np.array([name in places for name in names], dtype=np.bool_)
    matrix = np.empty((sheet.height, len(names)))
    matrix[:, is_own] = own
    matrix[:, ~is_own] = number_matrix(sheet.others, others)
    return matrix


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
