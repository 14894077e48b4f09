"""Writing files so that a reader never meets half of one."""

import contextlib
import os
import secrets
from pathlib import Path

from fedsparse.errors import DataError

PathLike = str | os.PathLike[str]
"""A path as people write it: as text, or as an object."""

PRIVATE_FILE = 0o600
"""Permissions of a file that only its owner may read."""

_PRIVATE_FOLDER = 0o700


def write_atomically(path: Path, content: bytes, permissions: int = 0o666) -> None:
    """Write a file whole or not at all.

    The content goes to a temporary file in the same folder, reaches the disk, and then takes the
    place of ``path`` in one step. On failure, what was at ``path`` before is untouched.

    Parameters
    ----------
    path
        File to write; its folder must exist.
    content
        All of the file.
    permissions
        Of the file, from its first byte on; the process's mask takes some away.

    Raises
    ------
    OSError
        If the folder cannot be written; its ``filename`` is ``path``.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "note.txt", b"done")
    >>> [file.name for file in folder.iterdir()]
    ['note.txt']
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        new = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
        with open(new, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        _remove(temporary)


def check_ends(path: Path) -> None:
    """Refuse a pipe or a device: reading one may wait, or go on, for ever.

    Raises
    ------
    DataError
        If there is something at ``path`` that is neither a file nor a folder.

    Examples
    --------
    >>> check_ends(Path("/dev/zero"))
    Traceback (most recent call last):
        ...
    fedsparse.errors.DataError: /dev/zero is a pipe or a device, which need not end; save what it
    gives in a file, and name the file
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(
            f"{path} is a pipe or a device, which need not end; save what it gives in a file, and "
            "name the file"
        )


def ready_folder(folder: Path, permissions: int = 0o777) -> None:
    """Make sure a folder exists and can be written, before work whose results go there.

    Parameters
    ----------
    folder
        To make, if need be.
    permissions
        Of a new folder; the process's mask takes some away.

    Raises
    ------
    OSError
        If it cannot be made or written; its ``filename`` is ``folder``.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "results"
    >>> ready_folder(folder)
    >>> folder.is_dir(), list(folder.iterdir())
    (True, [])
    """
    probe = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        folder.mkdir(permissions, parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        _remove(probe)


def ready_private_folder(folder: Path) -> None:
    """The same for a folder into which nobody else may look; one that is open to others is shut.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "keys"
    >>> folder.mkdir(0o755)
    >>> ready_private_folder(folder)
    >>> is_open_to_others(folder)
    False
    """
    ready_folder(folder, _PRIVATE_FOLDER)
    if is_open_to_others(folder):
        folder.chmod(_PRIVATE_FOLDER)


def ready_results_folder(folder: Path) -> bool:
    """The same for a folder that may be shared: a new one is private, an old one stays as it is.

    Returns
    -------
    bool
        Whether others may look into it.

    Examples
    --------
    >>> import tempfile
    >>> ready_results_folder(Path(tempfile.mkdtemp()) / "trained")
    False
    """
    ready_folder(folder, _PRIVATE_FOLDER)
    return is_open_to_others(folder)


def is_open_to_others(path: Path) -> bool:
    """Whether somebody but the owner may use a file or folder.

    Examples
    --------
    >>> import tempfile
    >>> is_open_to_others(Path(tempfile.mkdtemp()))
    False
    """
    return bool(path.stat().st_mode & 0o077)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):  # it was never made, or has been moved into place
        temporary.unlink()
