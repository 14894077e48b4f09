"""One run writes into a folder at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"
"""Held by the run that writes into a folder."""


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock file for a while; gives False at once if another process holds it.

    The lock ends with the process that holds it, however that ends.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> with locked(path) as is_first, locked(path) as is_second:
    ...     is_first, is_second
    (True, False)
    """
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> is_locked(path)
    False
    >>> with locked(path):
    ...     is_locked(path)
    True
    """
    if not path.exists():
        return False
    with locked(path) as is_free:
        return not is_free
