"""Reading files that may be compressed; what they are is told by their first bytes."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from fedsparse.errors import DataError
from fedsparse.files import check_ends


@contextmanager
def decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzip, bzip2 or xz file for reading its contents.

    Whatever goes wrong while reading, inside the ``with`` block too, is told as a DataError.

    Parameters
    ----------
    path
        File to read; its suffix does not matter.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "letters"
    >>> _ = path.write_bytes(bz2.compress(b"abc"))
    >>> with decompressed(path) as file:
    ...     file.read()
    b'abc'
    """
    check_ends(path)
    try:
        with open(path, "rb") as raw, _unpacking(raw, raw.peek(6)) as contents:
            yield contents
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check its name and folder") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        raise _damaged(path) from None
    except OSError as error:
        if error.errno is None:  # how bz2 reports a bad stream
            raise _damaged(path) from None
        raise DataError(
            f"{path} cannot be read: {error.strerror}; name a file that you may read"
        ) from None


def _unpacking(raw: IO[bytes], beginning: bytes) -> IO[bytes]:
    if beginning.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(raw))
    if beginning.startswith(b"BZh"):
        return bz2.open(raw)
    if beginning.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(raw)
    return raw


def _damaged(path: Path) -> DataError:
    return DataError(f"the compressed file {path} is damaged or incomplete; get it once more")
