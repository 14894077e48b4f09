"""Tables as text: values separated by commas, semicolons or tabulators, a header line on top."""

import csv
import io
import itertools
import mmap
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.errors import DataError
from fedsparse.tables.compression import decompressed
from fedsparse.tables.sentences import counted, joined, listed
from fedsparse.tables.values import (
    BLANKS,
    TRUTHS,
    WHOLE_BELOW,
    Sheet,
    as_sheet,
    is_text,
    spellings_of,
)

if TYPE_CHECKING:
    import polars as pl

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", ".")
"""What stands for a missing value in a text file."""

SEPARATORS = (",", ";", "\t")

_BLOCK = 2**20  # bytes that are converted at a time: what is in between stays in the cache
_QUOTED = re.compile(rb'"[^"]*"')


def read_text(path: Path, apart: Collection[str] = ()) -> "pl.DataFrame | Sheet":
    r"""Read a CSV or TSV file, plain or compressed.

    Columns become numbers or truth values where every value allows it. The whole column decides,
    so that a late value that is not a number leaves the column text instead of breaking the reader.

    Parameters
    ----------
    path
        The file; the first line names the columns.
    apart
        Columns whose values stand for labels; see `as_sheet`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age;ward\n61;surgery\nNA;ear\n")
    >>> sheet = read_text(path)
    >>> sheet.numbers.tolist(), sheet.others.rows()
    ([[61.0], [nan]], [('surgery',), ('ear',)])
    """
    import polars as pl

    content = _content(path)
    separator = _separator(content)
    header = _header(content, separator, path)
    rows = _check_rows(content, separator, len(header), path)

    def text(places: Sequence[int]) -> "pl.DataFrame":
        return _text_columns(content, separator, header, places, rows, path)

    if not _is_plain(content):
        return with_spellings(text(range(len(header))), apart)
    numbers, are_numbers = _numbers(content, separator, rows, len(header))
    # Of numbers that are labels the spelling counts.
    labels = text(
        [place for place, name in enumerate(header) if are_numbers[place] and name in apart]
    )
    spellings = spellings_of(labels, apart)
    are_numbers &= ~_are_long(numbers)
    places = np.flatnonzero(~are_numbers).tolist()
    if not places:
        return Sheet(header, header, numbers, pl.DataFrame(), spellings)
    return Sheet(
        header,
        tuple(itertools.compress(header, are_numbers)),
        _some_columns(numbers, are_numbers),
        typed(text(places)),
        spellings,
    )


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


def with_spellings(frame: "pl.DataFrame", apart: Collection[str]) -> "pl.DataFrame | Sheet":
    """The table, `typed`; what that makes of labels which the text told apart goes with it.

    Examples
    --------
    >>> import polars as pl
    >>> with_spellings(pl.DataFrame({"ward": ["01", "1"]}), apart=["ward"]).spellings
    {'ward': (('01', '1'),)}
    """
    spellings = spellings_of(frame, apart)
    if not spellings:
        return typed(frame)
    return replace(as_sheet(typed(frame), apart), spellings=spellings)


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
        return _whole(numbers, text)
    if _values(text) <= TRUTHS.keys():
        return text.replace_strict(TRUTHS, return_dtype=pl.Boolean)
    return None


def _values(text: "pl.Series") -> set[str]:
    return set(text.unique().to_list()) - {None}


def _whole(numbers: "pl.Series", text: "pl.Series") -> "pl.Series":
    """The numbers as integers, if they are; long ones from their text, which has all digits."""
    import polars as pl

    values = numbers.to_numpy()  # NaN where missing, and where it says NAN
    present = values[~np.isnan(values)]
    is_whole = (present == np.rint(present)).all() and (np.abs(present) < WHOLE_BELOW).all()
    if len(present) < len(numbers) - numbers.null_count():
        numbers = numbers.fill_nan(None)
    if is_whole:
        return numbers.cast(pl.Int64)
    if not (np.abs(present) >= WHOLE_BELOW).any():
        return numbers
    integers = text.cast(pl.Int64, strict=False)
    return integers if integers.null_count() == numbers.null_count() else numbers


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
    content = content.removeprefix("\ufeff".encode())
    if content.endswith((b"\n\n", b"\n\r\n", b"\r")):  # an end like any other needs no copy
        content = content.rstrip(b"\r\n")
    if not content or content.isspace():
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


def _header(content: bytes, separator: str, path: Path) -> tuple[str, ...]:
    first = content[: content.find(b"\n") + 1]
    if b'"' in first or not first:  # there may be a line end in a name
        names = tuple(name.strip() for name in next(_records(content, separator, path)))
    else:
        names = _names(first, separator)
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        called = f"named {listed(duplicates)}" if duplicates[0] else "without a name"
        raise DataError(
            f"{path} has several columns {called} (columns "
            f"{joined(_places(names, duplicates[0]))}); give each a name of its own"
        )
    return names


@lru_cache(maxsize=1)  # hundreds of files have the same thousands of names
def _names(line: bytes, separator: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in line.decode().split(separator))


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
    if not _is_plain(content):
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


def _is_plain(content: bytes) -> bool:
    """Whether every line is a record: there are no quotation marks, unless in the header."""
    return content.find(b'"', content.find(b"\n") + 1) < 0


def _numbers(content: bytes, separator: str, rows: int, width: int) -> tuple[FloatArray, BoolArray]:
    """All values as numbers, NaN where one is missing, and which columns hold nothing else.

    The values of all columns are converted in one go: there may be more columns than rows.
    """
    numbers = _lasting(rows, width)
    are_numbers = np.ones(width, dtype=np.bool_)
    lines = io.BytesIO(content)
    lines.readline()
    first = 0
    while block := lines.readlines(_BLOCK):
        last = first + len(block)
        values, are_odd = _as_numbers(_values_of(block, separator))
        numbers[first:last] = values.reshape(-1, width)
        are_numbers &= ~are_odd.reshape(-1, width).any(axis=0)
        first = last
    return numbers, are_numbers


def _are_long(numbers: FloatArray) -> BoolArray:
    """Which columns hold whole numbers that a float cannot tell apart, or numbers as large."""
    with np.errstate(invalid="ignore"):
        highest, lowest = np.fmax.reduce(numbers), np.fmin.reduce(numbers)
    return np.asarray(np.maximum(highest, -lowest) >= WHOLE_BELOW)


def _some_columns(numbers: FloatArray, are_chosen: BoolArray) -> FloatArray:
    chosen = _lasting(numbers.shape[0], int(are_chosen.sum()))
    return np.compress(are_chosen, numbers, axis=1, out=chosen)


def _lasting(rows: int, width: int) -> FloatArray:
    """An array of zeros whose memory the system gets back once nobody needs it.

    Others are cut from a heap, which does not shrink while there is something at its end: tables
    of hundreds of sites would stay in memory beside what they are encoded to.
    """
    count = rows * width
    pages = mmap.mmap(-1, max(count, 1) * np.dtype(np.float64).itemsize)
    return np.frombuffer(pages, count=count).reshape(rows, width)


def _values_of(lines: list[bytes], separator: str) -> "pl.Series":
    """The values of all lines, one after the other."""
    import polars as pl

    text = b"".join(lines)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    text = text.removesuffix(b"\n")
    values = text.replace(b"\n", separator.encode()).decode()
    return pl.Series([values]).str.split(separator).explode()


def _as_numbers(text: "pl.Series") -> tuple[FloatArray, BoolArray]:
    """The values as numbers, NaN where there is none, and which are neither number nor missing."""
    import polars as pl

    numbers = text.cast(pl.Float64, strict=False)
    places = numbers.is_null().arg_true()
    values, are_odd = numbers.to_numpy(writable=True), np.zeros(len(text), dtype=np.bool_)
    if len(places):
        rest = text.gather(places).str.strip_chars(BLANKS)
        stripped = rest.cast(pl.Float64, strict=False)
        values[places] = stripped.to_numpy()
        are_odd[places] = (stripped.is_null() & ~rest.is_in(MISSING)).to_numpy()
    return values, are_odd


def _text_columns(
    content: bytes,
    separator: str,
    header: Sequence[str],
    places: Sequence[int],
    rows: int,
    path: Path,
) -> "pl.DataFrame":
    """Some columns, every value as text."""
    import polars as pl

    if not places:
        return pl.DataFrame()  # asked for no columns, polars 1 reads all
    names = [header[place] for place in places]
    frame = _parsed(content, separator, places)
    if frame is None or frame.height != rows:
        # A mark as in 5" was taken for a quotation mark.
        _, *records = _records(content, separator, path)
        chosen = [[record[place] for place in places] for record in records]
        return pl.DataFrame(chosen, schema=dict.fromkeys(names, pl.String), orient="row")
    frame.columns = names
    return frame


def _parsed(content: bytes, separator: str, places: Sequence[int]) -> "pl.DataFrame | None":
    import polars as pl

    try:
        return pl.read_csv(
            content,
            columns=list(places),
            separator=separator,
            infer_schema=False,
            null_values=list(MISSING),
        )
    except pl.exceptions.PolarsError:
        return None
