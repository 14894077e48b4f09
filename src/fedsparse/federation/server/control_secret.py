"""The secret by which the server knows its owner: who can read a file of the server's folder."""

import re
import secrets

from fedsparse.federation.folder import ServerFolder
from fedsparse.files import (
    PRIVATE_FILE,
    is_open_to_others,
    ready_private_folder,
    write_atomically,
)

_SECRET = re.compile(rb"[0-9a-f]{64}")


def make_secret(folder: ServerFolder) -> str:
    """What programs of the server's owner show: what is there, or new if anybody may have read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = ServerFolder(Path(tempfile.mkdtemp()))
    >>> make_secret(folder) == make_secret(folder) == secret_of(folder)
    True
    """
    ready_private_folder(folder.root)
    known = secret_of(folder)
    if known is not None and not is_open_to_others(folder.control_secret):
        return known
    write_atomically(folder.control_secret, secrets.token_hex(32).encode(), PRIVATE_FILE)
    return folder.control_secret.read_text()


def secret_of(folder: ServerFolder) -> str | None:
    """The secret in the server's folder; None if there is none, or only a part of one."""
    try:
        found = folder.control_secret.read_bytes()
    except FileNotFoundError:
        return None
    return found.decode() if _SECRET.fullmatch(found) else None
