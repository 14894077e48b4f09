"""Reading a table from a file, whatever its format."""

import io
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fedsparse.errors import DataError
from fedsparse.tables.delimited import read_text, typed
from fedsparse.tables.sentences import nearest
from fedsparse.tables.values import Sheet, as_frame, as_sheet

if TYPE_CHECKING:
    import polars as pl

TEXT = (".csv", ".tsv", ".txt")
BINARY = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")
COMPRESSED = (".gz", ".bz2", ".xz")

_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"


def read_table(path: str | os.PathLike[str]) -> "pl.DataFrame":
    r"""Read a table: CSV or TSV text (plain or compressed), Parquet, Arrow or Feather.

    The suffix must be known, the content decides. Text may be separated by comma, semicolon or
    tabulator. Columns of text become numbers where every value is one.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    DataError
        If the file is missing, empty, damaged or of another kind, or not a plain table.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age,ward\n61,surgery\n47,NA\n")
    >>> read_table(path).rows()
    [(61, 'surgery'), (47, None)]
    """
    table = _read(Path(path))
    return as_frame(table) if isinstance(table, Sheet) else table


def read_sheet(path: str | os.PathLike[str], apart: Collection[str]) -> Sheet:
    r"""Read a table as `read_table` does, but with its numbers in one array.

    Parameters
    ----------
    path
        The file.
    apart
        Columns whose values stand for labels; see `as_sheet`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age,ward\n61,surgery\n47,NA\n")
    >>> read_sheet(path, apart=()).numbers.tolist()
    [[61.0], [47.0]]
    """
    table = _read(Path(path))
    return table if isinstance(table, Sheet) else as_sheet(table, apart)


def _read(file: Path) -> "pl.DataFrame | Sheet":
    check_exists(file)
    if suffix_of(file) not in TEXT + BINARY:
        raise DataError(
            f"{file} has an unknown suffix; name a file that ends in "
            f"{', '.join(TEXT + BINARY)} or .libsvm"
        )
    beginning = _beginning(file)
    reader = _binary_reader(beginning)
    if reader is not None:
        frame = _read_binary(file, reader)
        _refuse_nested(frame, file)
        return typed(frame)
    if suffix_of(file) in TEXT:
        return read_text(file)
    raise _damaged(file)


def check_exists(file: Path) -> None:
    r"""Refuse a path that is not a file, and suggest the nearest.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age\n61\n")
    >>> check_exists(path)
    """
    if file.is_dir():
        raise DataError(f"{file} is a folder; name the files in it")
    if file.exists():
        return
    folder = file.parent
    near = nearest(file.name, [entry.name for entry in folder.iterdir()] if folder.is_dir() else [])
    advice = f'did you mean "{near}"?' if near else "check its name and folder"
    raise DataError(f"there is no file {file}; {advice}")


def suffix_of(file: Path) -> str:
    """The suffix in small letters, that of a compression left out.

    Examples
    --------
    >>> suffix_of(Path("Bari.CSV.gz"))
    '.csv'
    """
    return _uncompressed(file).suffix.lower()


def stem_of(file: Path) -> str:
    """The file's name without suffixes: what a site is called after it.

    Examples
    --------
    >>> stem_of(Path("data/bari.csv.gz"))
    'bari'
    """
    return _uncompressed(file).stem


def _uncompressed(file: Path) -> Path:
    return file.with_suffix("") if file.suffix.lower() in COMPRESSED else file


def _beginning(file: Path) -> bytes:
    try:
        with open(file, "rb") as content:
            return content.read(6)
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror}; name a file that you may read"
        ) from None


def _binary_reader(beginning: bytes) -> "Callable[[io.BytesIO], pl.DataFrame] | None":
    import polars as pl

    if beginning.startswith(_PARQUET):
        return pl.read_parquet
    if beginning.startswith(_ARROW_FILE):
        return pl.read_ipc
    if beginning.startswith(_ARROW_STREAM):
        return pl.read_ipc_stream
    return None


def _read_binary(file: Path, reader: "Callable[[io.BytesIO], pl.DataFrame]") -> "pl.DataFrame":
    import polars as pl

    try:
        # From memory, because a mapped file that someone changes would change the table.
        frame = reader(io.BytesIO(file.read_bytes()))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise _damaged(file) from None
    if frame.height == 0:
        raise DataError(f"{file} has columns but no rows; put one row per sample into it")
    return frame


def _damaged(file: Path) -> DataError:
    if file.stat().st_size == 0:
        return DataError(f"{file} is empty; write the table once more")
    return DataError(f"{file} is damaged or not what its suffix says; write the table once more")


def _refuse_nested(frame: "pl.DataFrame", file: Path) -> None:
    import polars as pl

    for name, dtype in frame.schema.items():
        if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
            raise DataError(
                f'{file}: column "{name}" holds {dtype} values; '
                "give it one number or text per row, or remove it from the file"
            )
