"""What a person gives: files of tables, whatever their format, and what their columns are for."""

import io
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from fedsparse.errors import DataError, OptionError
from fedsparse.files import PathLike, check_ends
from fedsparse.tables.compression import decompressed
from fedsparse.tables.delimited import read_text, with_spellings
from fedsparse.tables.sentences import Finding, error, listed, nearest
from fedsparse.tables.values import Sheet, as_frame, as_sheet

if TYPE_CHECKING:
    import polars as pl

TEXT = (".csv", ".tsv", ".txt")
BINARY = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")
COMPRESSED = (".gz", ".bz2", ".xz")

_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_ARROW_STREAM = b"\xff\xff\xff\xff"

Paths = PathLike | Sequence[PathLike]

ALL_ROWS = "all rows"
"""Name of the only site of a file without a site column."""

_LIBSVM = (".libsvm", ".svm", ".svmlight")
_LIBSVM_LINE = re.compile(rb"\S+(\s+qid:\d+)?(\s+\d+:[^\s:]+)+\s*(#.*)?")
_LINES_LOOKED_AT = 100


class Roles(BaseModel):
    """Names of columns with a part to play; every other column is a candidate feature.

    Examples
    --------
    >>> roles = Roles(target="relapse", site="hospital", drop=("name",))
    >>> roles.feature_columns(["hospital", "name", "age", "relapse"])
    ['age']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str | None = None
    """What is to be predicted, of survival the time; None for LIBSVM files, which say it
    themselves."""
    event: str | None = None
    """Of survival: whether something happened at that time."""
    exposure: str | None = None
    """Of counts: for how long, or of how many."""
    site: str | None = None
    """Says which site a row belongs to; ``"qid"`` for the query numbers of a LIBSVM file."""
    drop: tuple[str, ...] = ()
    """Not to be used."""
    categories: tuple[str, ...] = ()
    """Categories even if they look like numbers."""
    keep: tuple[str, ...] = ()
    """Always part of the model."""

    def feature_columns(self, columns: Sequence[str]) -> list[str]:
        """The columns that may become features, in the order given."""
        taken = {self.target, self.event, self.exposure, self.site, *self.drop}
        return [name for name in columns if name not in taken]

    @property
    def outcome(self) -> dict[str, str]:
        """The columns that are no features because they are the outcome, by option."""
        named = {
            "--target" if self.event is None else "--time": self.target,
            "--event": self.event,
            "--exposure": self.exposure,
        }
        return {option: name for option, name in named.items() if name is not None}


def check_roles(roles: Roles) -> None:
    """Refuse roles that contradict each other.

    Examples
    --------
    >>> check_roles(Roles(target="relapse", drop=("relapse",)))
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: column "relapse" is named by both --target and --drop; choose one
    """
    claims = [
        *((option, (name,)) for option, name in roles.outcome.items()),
        ("--site", () if roles.site is None else (roles.site,)),
        ("--drop", roles.drop),
        ("--category", roles.categories),
        ("--keep", roles.keep),
    ]
    owners: dict[str, str] = {}
    for option, names in claims:
        for name in names:
            owner = owners.setdefault(name, option)
            if owner != option and owner != "--category":  # categories may be kept
                raise OptionError(
                    f'column "{name}" is named by both {owner} and {option}; choose one'
                )


def role_findings(columns: Sequence[str], where: str, roles: Roles) -> list[Finding]:
    """Errors about roles whose column a table lacks.

    Dropped columns may be absent: dropping is the way out where only some sites have a column.

    Examples
    --------
    >>> for finding in role_findings(["age", "relapse"], "bari.csv", Roles(target="relaps")):
    ...     print(finding.sentence)
    bari.csv has no column "relaps" (--target); did you mean "relapse"?
    """
    if roles.target is None:
        yet = listed(columns)
        return [error(f"no target is named; name a column of {where} with --target, such as {yet}")]
    wanted = list(roles.outcome.items())
    wanted += [("--site", roles.site)] if roles.site is not None else []
    wanted += [("--category", name) for name in roles.categories]
    wanted += [("--keep", name) for name in roles.keep]
    present = set(columns)
    return [
        error(f'{where} has no column "{name}" ({option}); {_advice(name, columns)}', name)
        for option, name in wanted
        if name not in present
    ]


def _advice(name: str, columns: Sequence[str]) -> str:
    near = nearest(name, columns)
    if near is not None:
        return f'did you mean "{near}"?'
    if len(columns) == 1:
        only = f"all it has is {listed(columns)}"
        return f"{only}: columns are separated by comma, semicolon or tabulator"
    return f"it has {listed(columns)}"


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
    table = _read(Path(path), ())
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
    table = _read(Path(path), apart)
    return table if isinstance(table, Sheet) else as_sheet(table, apart)


def _read(file: Path, apart: Collection[str]) -> "pl.DataFrame | Sheet":
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
        return with_spellings(frame, apart)
    if suffix_of(file) in TEXT:
        return read_text(file, apart)
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
    check_ends(file)
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


def as_files(paths: Paths, roles: Roles) -> list[Path]:
    """The files, of which there must be one, or one per site.

    Examples
    --------
    >>> [file.name for file in as_files(["data/bari.csv", "data/cork.csv"], Roles())]
    ['bari.csv', 'cork.csv']
    """
    one = isinstance(paths, (str, os.PathLike))
    files = [Path(paths)] if one else [Path(path) for path in paths]  # type: ignore[arg-type,union-attr]
    if not files:
        raise OptionError("no file is named; name one table, or one per site")
    if len(files) > 1 and roles.site is not None:
        raise OptionError(
            f'--site "{roles.site}" needs all rows in one file, and there are {len(files)}; '
            "leave it out: every file is a site"
        )
    _check_stems(files)
    return files


def site_names(files: Sequence[Path]) -> list[str]:
    """Names of the sites that the files stand for.

    Examples
    --------
    >>> site_names([Path("bari.csv"), Path("cork.csv.gz")]), site_names([Path("all.csv")])
    (['bari', 'cork'], ['all rows'])
    """
    return [ALL_ROWS] if len(files) == 1 else [stem_of(file) for file in files]


def source_text(files: Sequence[Path]) -> str:
    """The files as they were named.

    Examples
    --------
    >>> source_text([Path("bari.csv"), Path("cork.csv")])
    'bari.csv, cork.csv'
    """
    return ", ".join(str(file) for file in files)


def are_libsvm(files: Sequence[Path]) -> bool:
    """Whether the files hold LIBSVM text; all must, or none.

    Examples
    --------
    >>> are_libsvm([Path("bari.libsvm")]), are_libsvm([Path("bari.csv")])
    (True, False)
    """
    answers = [_is_libsvm(file) for file in files]
    if len(set(answers)) > 1:
        libsvm, other = files[answers.index(True)], files[answers.index(False)]
        raise DataError(
            f"{libsvm} is LIBSVM text and {other} is not; give all sites' files the same format"
        )
    return answers[0]


def _check_stems(files: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(stem_of(file), file)
        if other is not file:
            raise OptionError(
                f'{other} and {file} both stand for the site "{stem_of(file)}"; rename one'
            )


def _is_libsvm(file: Path) -> bool:
    """By suffix; the first row of a ``.txt`` file, which could be anything, tells."""
    if suffix_of(file) != ".txt":
        return suffix_of(file) in _LIBSVM
    check_exists(file)
    with decompressed(file) as lines:
        for _, line in zip(range(_LINES_LOOKED_AT), lines, strict=False):
            row = line.strip()
            if row and not row.startswith(b"#"):
                return _LIBSVM_LINE.fullmatch(row) is not None
    return False
