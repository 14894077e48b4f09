"""Parsed text files, kept in the cache folder in a form that loads at the speed of the disk."""

import contextlib
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from fedsparse.arrays import FloatArray
from fedsparse.files import write_atomically
from fedsparse.tables.folders import cache_folder

VERSION = 1
"""To be raised when parsing, or the form of the entries, changes."""

Parsed = tuple[sparse.csr_array, FloatArray]


@dataclass(frozen=True)
class Entry:
    """Where the cache keeps what was parsed from one file, and from which state of the file.

    A file that changes takes the place of its older entry, so the cache does not grow with it.
    """

    file: Path
    origin: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, options: str) -> "Entry":
        """Entry of a text file read with some options.

        Parameters
        ----------
        path
            The text file, which must exist.
        options
            All that the result depends on besides the file.

        Examples
        --------
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rows.txt"
        >>> _ = path.write_text("1 1:2")
        >>> entry = Entry.of(path, "width=7")
        >>> entry.file.suffix, entry.origin[1]
        ('.npz', 5)
        """
        identity = f"{path.resolve()}\n{options}"
        name = hashlib.sha256(os.fsencode(identity)).hexdigest()
        state = path.stat()
        return cls(
            cache_folder() / "parsed" / f"{name}.npz", (VERSION, state.st_size, state.st_mtime_ns)
        )

    def load(self) -> Parsed | None:
        """Features and targets, or None if there is no sound entry for this state of the file."""
        try:
            # NumPy does not close a damaged file that it opened itself.
            with open(self.file, "rb") as file, np.load(file, allow_pickle=False) as stored:
                if tuple(stored["origin"]) != self.origin:
                    return None
                features = sparse.csr_array(
                    (stored["values"], stored["indices"], stored["pointer"]),
                    shape=tuple(stored["shape"]),
                )
                features.has_canonical_format = True  # it was when saved; spares a look at it all
                return features, stored["targets"]
        except Exception:  # damage can surface as almost anything, and parsing anew mends it
            return None

    def save(self, features: sparse.csr_array, targets: FloatArray) -> None:
        """Keep them if the cache folder can be written; without it things are merely slower."""
        content = io.BytesIO()
        np.savez(
            content,
            origin=np.array(self.origin, dtype=np.int64),
            values=features.data,
            indices=features.indices,
            pointer=features.indptr,
            shape=np.array(features.shape, dtype=np.int64),
            targets=targets,
        )
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, content.getvalue())
