"""Downloads into the cache folder, with a progress bar on a terminal.

Not imported by ``import fedsparse``: what it needs takes long to import.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

_CHUNK = 2**16


class DownloadError(Exception):
    """Why a file could not be downloaded, in a few words."""


def download(address: str, name: str, md5: str | None, folder: Path) -> Path:
    """Download a file; it appears in the folder whole and checked, or not at all.

    Parameters
    ----------
    address
        URL without the file name.
    name
        File name, at the address and in the folder.
    md5
        Checksum of the file, if known.
    folder
        Where to put it; made if need be.

    Raises
    ------
    DownloadError
        If the file cannot be had, kept, or is another one.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> download("http://localhost:1", "letters.bz2", None, folder)
    ... # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fedsparse.research.data.download.DownloadError: there is no connection
    >>> list(folder.iterdir())
    []
    """
    pooch.get_logger().setLevel("WARNING")  # the bar tells
    known = None if md5 is None else f"md5:{md5}"
    shelf = pooch.create(path=folder, base_url=f"{address}/", registry={name: known})
    try:
        with _Bar(name) as bar:
            fetched = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK)
            return Path(shelf.fetch(name, downloader=fetched))
    except requests.HTTPError as error:
        if error.response is not None:
            error.response.close()
        answer = str(error).partition(" for url")[0]
        raise DownloadError(f"the server answered {answer}") from error
    except requests.Timeout as error:
        raise DownloadError("the server did not answer in time") from error
    except requests.ConnectionError as error:
        raise DownloadError("there is no connection") from error
    except requests.RequestException as error:
        raise DownloadError("the connection broke off") from error
    except ValueError as error:  # pooch compares the checksums
        raise DownloadError("what arrived does not have the published MD5 sum") from error
    except OSError as error:
        raise DownloadError(f"it cannot be kept in {folder}: {error.strerror or error}") from error


class _Bar:
    """The progress of one download, as pooch wants it told: total, update, reset, close."""

    def __init__(self, name: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(name, total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def total(self) -> int:
        """Bytes to come; 0 if the server does not say."""
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        """So many bytes more have arrived."""
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        """Count from the start."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()
