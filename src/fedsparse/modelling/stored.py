"""Files of facts: JSON with a format, a version and a checksum, read without executing anything."""

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fedsparse.errors import DataError
from fedsparse.files import PathLike, check_ends, write_atomically


class StoredPart(BaseModel):
    """Part of a file, in which an unknown key is an error and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stored(StoredPart):
    """What is saved as a file of its own.

    Examples
    --------
    >>> import tempfile
    >>> class Note(Stored):
    ...     format: str = "note"
    ...     text: str
    >>> path = Path(tempfile.mkdtemp()) / "note.json"
    >>> Note(text="done").save(path)
    >>> Note.read(path, "a note").text
    'done'
    """

    version: ClassVar[int] = 1
    format: str
    format_version: int = 1

    def save(self, path: PathLike) -> None:
        """Write the file, whole or not at all; numbers are written to their last bit."""
        content = self.model_dump(mode="json")
        content["checksum"] = _checksum(content)
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(Path(path), (text + "\n").encode())

    @classmethod
    def read(cls, path: PathLike, what: str) -> Self:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path
            The file.
        what
            What it should be, for messages, such as ``a model``.
        """
        content = _content(Path(path), what)
        if content.get("format") != cls.model_fields["format"].default:
            raise DataError(f"{path} is not {what}")
        version = content.get("format_version")
        if not isinstance(version, int) or version > cls.version:
            raise DataError(
                f"{path} has format version {version}, newer than the {cls.version} that this "
                "fedsparse reads; update fedsparse"
            )
        if content.pop("checksum", None) != _checksum(content):
            raise DataError(
                f"{path} was changed after it was saved (its checksum does not fit); use the "
                "original file"
            )
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            key = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise DataError(f"{path} has a wrong or missing {key!r}; write it again") from None


def _content(path: Path, what: str) -> dict[str, Any]:
    check_ends(path)
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; it should be {what}") from None
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise DataError(f"{path} is not {what}: it is no whole JSON file") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} is not {what}")
    return content


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
