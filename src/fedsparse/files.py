"""Writing files so that a reader never meets half of one."""

import contextlib
import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    The content goes to a temporary file in the same folder, reaches the disk, and then takes the
    place of ``path`` in one step. On failure, what was at ``path`` before is untouched.

    Parameters
    ----------
    path
        File to write; its folder must exist.
    content
        All of the file.

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
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        _remove(temporary)


def ready_folder(folder: Path) -> None:
    """Make sure a folder exists and can be written, before work whose results go there.

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
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        _remove(probe)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):  # it was never made, or has been moved into place
        temporary.unlink()
