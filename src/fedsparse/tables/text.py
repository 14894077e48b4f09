"""Tables as text: values separated by commas, semicolons or tabulators, a header line on top."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.data.compression import decompressed
from fedsparse.errors import DataError
from fedsparse.tables.findings import counted, joined, listed
from fedsparse.tables.values import BLANKS, TRUTHS, WHOLE_BELOW, is_text

if TYPE_CHECKING:
    import polars as pl

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", ".")
"""What stands for a missing value in a text file."""

SEPARATORS = (",", ";", "\t")

_QUOTED = re.compile(rb'"[^"]*"')


def read_text_table(path: Path) -> "pl.DataFrame":
    r"""Read a CSV or TSV file, plain or compressed, with every value as text.

    Parameters
    ----------
    path
        The file; the first line names the columns.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age;ward\n61;surgery\nNA;ear\n")
    >>> read_text_table(path).rows()
    [('61', 'surgery'), (None, 'ear')]
    """
    import polars as pl

    content = _content(path)
    separator = _separator(content)
    header = _header(content, separator, path)
    rows = _check_rows(content, separator, len(header), path)
    frame = _parsed(content, separator)
    if frame is None or frame.height != rows:  # a mark as in 5" was taken for a quotation mark
        _, *records = _records(content, separator, path)
        return pl.DataFrame(records, schema=dict.fromkeys(header, pl.String), orient="row")
    frame.columns = header
    return frame


def typed(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Turn columns of text into numbers or truth values where every value allows it.

    The whole column decides, so that a late value that is not a number leaves the column text
    instead of breaking the reader.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"a": ["1", " 2 "], "b": ["0.5", None], "c": ["x", "1"]})
    >>> typed(frame).dtypes
    [Int64, Float64, String]
    """
    import polars as pl

    text = [name for name, dtype in frame.schema.items() if is_text(dtype)]
    return frame.with_columns([_typed(frame.get_column(name).cast(pl.String)) for name in text])


def _typed(text: "pl.Series") -> "pl.Series":
    converted = _converted(text)
    if converted is not None:
        return converted
    if not any(value.strip(BLANKS) != value or value in MISSING for value in _values(text)):
        return text
    stripped = text.str.strip_chars(BLANKS)
    clean = stripped.set(stripped.is_in(MISSING), None)
    converted = _converted(clean)
    return clean if converted is None else converted


def _converted(text: "pl.Series") -> "pl.Series | None":
    """The values as numbers or truth values; None if some are neither."""
    import polars as pl

    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() == text.null_count():
        return _whole(numbers)
    if _values(text) <= TRUTHS.keys():
        return text.replace_strict(TRUTHS, return_dtype=pl.Boolean)
    return None


def _values(text: "pl.Series") -> set[str]:
    return set(text.unique().to_list()) - {None}


def _whole(numbers: "pl.Series") -> "pl.Series":
    """The numbers as integers, if they are."""
    import polars as pl

    values = numbers.to_numpy()  # NaN where missing
    present = values[~np.isnan(values)]
    is_whole = (present == np.rint(present)).all() and (np.abs(present) < WHOLE_BELOW).all()
    return numbers.cast(pl.Int64) if is_whole else numbers


def _content(path: Path) -> bytes:
    """All bytes of the file, found to be text in UTF-8."""
    with decompressed(path) as file:
        content = file.read()
    try:
        content.isascii() or content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: the text is not UTF-8; save the table as “CSV UTF-8”"
        ) from None
    if b"\0" in content:
        raise DataError(f"{path} is not text, or not UTF-8; save the table as “CSV UTF-8”")
    content = content.removeprefix("\ufeff".encode()).rstrip(b"\r\n")
    if not content.strip():
        raise DataError(f"{path} is empty; its first line must name the columns")
    return content


def _separator(content: bytes) -> str:
    """The separator that splits the first two lines alike, and into most columns."""
    lines = io.BytesIO(content)
    first, second = (_QUOTED.sub(b"", lines.readline()) for _ in range(2))

    def fitness(separator: str) -> tuple[bool, int]:
        in_header, in_row = (line.count(separator.encode()) for line in (first, second))
        return in_header == in_row > 0, in_header

    return max(SEPARATORS, key=fitness)


def _header(content: bytes, separator: str, path: Path) -> list[str]:
    names = [name.strip() for name in next(_records(content, separator, path))]
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise DataError(
            f"{path} has several columns named {listed(duplicates)} (columns "
            f"{joined(_places(names, duplicates[0]))}); give each a name of its own"
        )
    return names


def _places(names: Sequence[str], name: str) -> list[str]:
    return [str(place) for place, other in enumerate(names, start=1) if other == name]


def _check_rows(content: bytes, separator: str, width: int, path: Path) -> int:
    """Number of rows below the header, all of which must be as wide as it."""
    widths = list(_widths(content, separator, path))[1:]
    if not widths:
        raise DataError(f"{path} has a header but no rows; put one row per sample below it")
    if {fields for _, fields in widths} == {width + 1}:
        raise DataError(
            f"{path}: every row has one value more than the header has names; "
            "name the column of row names (in R: write.csv, or col.names=NA)"
        )
    for line, fields in widths:
        if fields != width:
            what = "is empty" if fields == 0 else f"has {counted(fields, 'value')}"
            raise DataError(
                f"{path}, line {line}: the row {what}, the header has {counted(width, 'name')}; "
                "mend or remove it (quote values that contain the separator)"
            )
    return len(widths)


def _widths(content: bytes, separator: str, path: Path) -> Iterator[tuple[int, int]]:
    """Number of the line and of values of every record, the header first."""
    if b'"' in content:
        reader = _records(content, separator, path)
        yield from ((reader.line_num, len(record)) for record in reader)
        return
    mark = separator.encode()
    for number, line in enumerate(io.BytesIO(content), 1):
        yield number, line.count(mark) + 1 if line.strip(b"\r\n") else 0


class _records:  # noqa: N801
    """Iterates over records like csv.reader, and tells its complaints as a DataError."""

    def __init__(self, content: bytes, separator: str, path: Path) -> None:
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")
        self._reader = csv.reader(text, delimiter=separator, strict=True)
        self._path = path

    @property
    def line_num(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        try:
            return next(self._reader)
        except csv.Error:
            raise DataError(
                f"{self._path}, line {self._reader.line_num}: quotation marks do not pair up; "
                'write one inside a value twice ("")'
            ) from None


def _parsed(content: bytes, separator: str) -> "pl.DataFrame | None":
    import polars as pl

    try:
        return pl.read_csv(
            content, separator=separator, infer_schema=False, null_values=list(MISSING)
        )
    except pl.exceptions.PolarsError:
        return None
