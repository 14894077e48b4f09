"""Where a data set's file comes from: the user's folder, the cache, or the network."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedsparse.errors import DataError
from fedsparse.tables.folders import DATA_VARIABLE, cache_folder, data_folder, in_data_folder


@dataclass(frozen=True)
class Source:
    """A compressed file that is published somewhere.

    Attributes
    ----------
    folder
        Folder for it, in the user's folder and in the cache.
    name
        File name, with the suffix of its compression.
    address
        Where it is published: a URL without the file name.
    md5
        Published checksum of the compressed file, if there is one.

    Examples
    --------
    >>> source = Source("letters", "letters.bz2", "https://example.org/sets")
    >>> source.url
    'https://example.org/sets/letters.bz2'
    >>> source.in_data_folder() is None
    True
    """

    folder: str
    name: str
    address: str
    md5: str | None = None

    @property
    def url(self) -> str:
        """Where the file is published."""
        return f"{self.address}/{self.name}"

    def in_data_folder(self) -> Path | None:
        """The user's own copy, compressed or plain."""
        return in_data_folder(f"{self.folder}/{self.name}", f"{self.folder}/{Path(self.name).stem}")

    @contextmanager
    def obtained(self) -> Iterator[Path]:
        """Find or download the file, for a ``with`` block that reads and checks it.

        A download that turns out to be bad is removed, so that a retry gets it anew. The user's
        own copy is left alone.
        """
        own = self.in_data_folder()
        if own is not None:
            yield own
            return
        kept = cache_folder() / self.folder / self.name
        if not kept.is_file():
            self._download(kept.parent)
        try:
            yield kept
        except DataError as error:
            with contextlib.suppress(OSError):
                kept.unlink()
            raise DataError(
                f"{error} (it came from {self.url}; the next call downloads it anew)"
            ) from None

    def _download(self, folder: Path) -> None:
        from fedsparse.research.data.download import DownloadError, download

        try:
            download(self.address, self.name, self.md5, folder)
        except DownloadError as error:
            raise DataError(
                f"{self.name} could not be downloaded from {self.url} ({error}); "
                f"get it in another way and {self._advice()}"
            ) from None

    def _advice(self) -> str:
        own = data_folder()
        if own is not None:
            return f"put it into the folder {own / self.folder}"
        return f"set {DATA_VARIABLE} to a folder that holds it as {self.folder}/{self.name}"
