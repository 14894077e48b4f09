"""Which files there are, what they hold and which sites they stand for."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from fedsparse.data.compression import decompressed
from fedsparse.errors import DataError, OptionError
from fedsparse.tables.inputs import check_exists, stem_of, suffix_of
from fedsparse.tables.roles import Roles

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]

ALL_ROWS = "all rows"
"""Name of the only site of a file without a site column."""

_LIBSVM = (".libsvm", ".svm", ".svmlight")
_LIBSVM_LINE = re.compile(rb"\S+(\s+qid:\d+)?(\s+\d+:[^\s:]+)+\s*(#.*)?")
_LINES_LOOKED_AT = 100


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
