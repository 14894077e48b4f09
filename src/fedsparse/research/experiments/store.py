"""Finished work on disk, found again by its configuration.

Each piece is a Parquet file of its own, written whole or not at all. A reproduction that was
stopped finds what it had finished and goes on from there.
"""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from fedsparse.files import ready_folder, write_atomically


class Store:
    """A folder of finished tables.

    Parameters
    ----------
    folder
        Made if it is not there.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> def work():
    ...     print("working")
    ...     return pl.DataFrame({"objective": [1.0]})
    >>> store.recall("rcv1", {"seed": 0}, work).height
    working
    1
    >>> store.recall("rcv1", {"seed": 0}, work).height
    1
    """

    def __init__(self, folder: Path) -> None:
        ready_folder(folder)
        self._folder = folder

    def recall(
        self, name: str, configuration: dict[str, Any], work: Callable[[], pl.DataFrame]
    ) -> pl.DataFrame:
        """The table of a configuration: from disk, or from ``work`` and then saved."""
        known = self.find(name, configuration)
        return self.keep(name, configuration, work()) if known is None else known

    def find(self, name: str, configuration: dict[str, Any]) -> pl.DataFrame | None:
        """The saved table of a configuration; None if there is none that can be read."""
        path = self._path(name, configuration)
        if not path.exists():
            return None
        try:
            return pl.read_parquet(io.BytesIO(path.read_bytes()))
        except pl.exceptions.PolarsError:  # damaged: it will be worked out again
            return None

    def keep(self, name: str, configuration: dict[str, Any], table: pl.DataFrame) -> pl.DataFrame:
        """Save a table, and hand it on."""
        write_atomically(self._path(name, configuration), as_parquet(table))
        return table

    def _path(self, name: str, configuration: dict[str, Any]) -> Path:
        text = json.dumps(configuration, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self._folder / f"{name}-{digest}.parquet"


def as_parquet(table: pl.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file.

    Examples
    --------
    >>> as_parquet(pl.DataFrame({"x": [1]}))[:4]
    b'PAR1'
    """
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()
