"""Text files in the format of LIBSVM and SVMlight: a row is ``target number:value …``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from scipy import sparse

from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.errors import DataError
from fedsparse.problem.checking import check_finite
from fedsparse.tables.compression import decompressed
from fedsparse.tables.dataset import Dataset
from fedsparse.tables.parsed import Entry

CACHED_FROM = 2**18
"""Files of fewer bytes are parsed in a blink and are not kept in the cache."""

EXAMPLE = "'+1 3:0.5 17:1.2'"
_LONGEST_WORD = 40


def load_svmlight(
    path: str | os.PathLike[str], *, width: int | None = None, zero_based: bool | None = None
) -> Dataset:
    r"""Read a LIBSVM or SVMlight text file, plain or compressed by gzip, bzip2 or xz.

    What was parsed from a large file is kept in the cache folder, so that reading it once more
    takes a fraction of a second.

    Parameters
    ----------
    path
        The file. Comments after ``#`` and query numbers (``qid:3``) are left out.
    width
        Number of features d; by default the largest feature number of the file decides. Give it
        when several files belong together.
    zero_based
        Whether the first feature has number 0 rather than 1. By default the file decides: it is
        zero-based if any row uses number 0.

    Returns
    -------
    Dataset
        CSR features and float64 targets, named after the file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "three.txt"
    >>> _ = path.write_text("+1 1:0.5 4:2\n-1 2:1\n+1 4:3\n")
    >>> dataset = load_svmlight(path)
    >>> dataset
    Dataset(three.txt, 3 rows, 4 features, CSR float64)
    >>> dataset.features.toarray()[0].tolist()
    [0.5, 0.0, 0.0, 2.0]
    """
    if width is not None:
        check_count("width", width)
    file = Path(path)
    if not file.is_file() or file.stat().st_size < CACHED_FROM:
        return Dataset(file.name, *parse_svmlight(file, width, zero_based))
    entry = Entry.of(file, f"{width=} {zero_based=}")
    parsed = entry.load()
    if parsed is None:
        parsed = parse_svmlight(file, width, zero_based)
        entry.save(*parsed)
    return Dataset(file.name, *parsed)


def parse_svmlight(
    path: Path, width: int | None, zero_based: bool | None
) -> tuple[sparse.csr_array, FloatArray]:
    """Parse a file without looking at the cache; see `load_svmlight`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.txt"
    >>> _ = path.write_text("3.5 2:1")
    >>> features, targets = parse_svmlight(path, width=3, zero_based=False)
    >>> features.toarray().tolist(), targets.tolist()
    ([[0.0, 1.0, 0.0]], [3.5])
    """
    from sklearn.datasets import load_svmlight_file

    with decompressed(path) as file:
        lines = _NumberedLines(file)
        try:
            matrix, targets = load_svmlight_file(
                lines, zero_based="auto" if zero_based is None else zero_based
            )
        except (ValueError, OverflowError):
            lines.exhaust()
            raise DataError(
                f"{path}, line {lines.number}: {_fault(lines.line, zero_based)}; "
                f"a line looks like {EXAMPLE}"
            ) from None
    features = _widened(sparse.csr_array(matrix), width, path)
    check_finite(features, targets, lambda row: (str(path), row + 1))  # as people count
    return features, targets


class _NumberedLines:
    """Hands lines on and remembers the last, so that an error can say where it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.number = 0
        self.line = b""

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self.number += 1
            self.line = line
            yield line

    def read(self, size: int = -1) -> bytes:
        """Read on; scikit-learn takes only what has this method for a file."""
        return self._file.read(size)

    def exhaust(self) -> None:
        """Read the rest: bzip2's checksum of a block, the better explanation, comes at its end."""
        while self.read(2**20):
            pass


def _widened(matrix: sparse.csr_array, width: int | None, path: Path) -> sparse.csr_array:
    """The matrix with as many columns as asked for, and 32-bit indices where they suffice."""
    if matrix.shape[0] == 0:
        raise DataError(f"{path} has no rows; a line looks like {EXAMPLE}")
    if matrix.nnz == 0 and width is None:
        raise DataError(f"{path} has targets but no features; give the width if that is meant")
    wide = matrix.shape[1] if width is None else width
    if matrix.nnz and matrix.shape[1] > wide:
        raise DataError(
            f"{path} has {matrix.shape[1]} features, more than the width {wide}; "
            "raise width or leave it out"
        )
    widest = max(wide, matrix.nnz)
    index_type = np.int32 if widest <= np.iinfo(np.int32).max else np.int64
    features = sparse.csr_array(
        (matrix.data, matrix.indices.astype(index_type), matrix.indptr.astype(index_type)),
        shape=(matrix.shape[0], wide),
    )
    features.has_canonical_format = True  # the parser refuses rows that are not
    return features


def _fault(line: bytes, zero_based: bool | None) -> str:
    """What is wrong with a line that could not be parsed."""
    target, *words = line.partition(b"#")[0].split()
    if not _is(float, target):
        return f"the target {_shown(target)} is not a number"
    if words and words[0].startswith(b"qid"):
        del words[0]
    last = 0 if zero_based is False else -1
    for word in words:
        number, colon, value = word.partition(b":")
        if not colon or not _is(int, number) or not _is(float, value):
            return f"{_shown(word)} is not a feature number, a colon and a value"
        if int(number) <= last:
            return f"the feature number of {_shown(word)} is not above {last}"
        last = int(number)
    return f"the feature number {last} is too large"


def _is(kind: type[int] | type[float], word: bytes) -> bool:
    try:
        kind(word)
    except ValueError:
        return False
    return True


def _shown(word: bytes) -> str:
    text = word.decode(errors="replace")
    return repr(text if len(text) <= _LONGEST_WORD else f"{text[:_LONGEST_WORD]}…")
