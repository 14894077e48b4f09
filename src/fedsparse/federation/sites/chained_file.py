"""An append-only file of records, each hashed with the one before, so that changes are found.

A record is a line of JSON that ends in its hash: BLAKE2b of the hash before and of the rest of the
line. The hashes find damage and edits, not forgery: whoever writes the whole file anew can work
them out anew. Nor do they find whole lines that were cut off at the end; for that, keep the last
hash somewhere else.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsparse.errors import OptionError

_BEGINNING = "0" * 64
_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}')


@dataclass(frozen=True)
class Record:
    """A line of the file.

    Attributes
    ----------
    number
        From 1.
    at
        When it was written.
    event
        What happened.
    told
        All else that is said of it, as JSON holds it.
    hash
        Of this line and all before.
    """

    number: int
    at: datetime
    event: str
    told: Mapping[str, Any]
    hash: str


@dataclass(frozen=True)
class Chain:
    """The records of a chained file.

    Attributes
    ----------
    records
        As far as the chain is sound.
    length
        How many bytes they take.
    torn
        Bytes of a last line that was being written when its writer stopped.
    broken
        Number of the first line that does not fit those before; None if all do.
    """

    records: tuple[Record, ...]
    length: int
    torn: int = 0
    broken: int | None = None

    @property
    def last(self) -> str:
        """Hash of the last record."""
        return self.records[-1].hash if self.records else _BEGINNING


def read_chain(content: bytes) -> Chain:
    r"""Read lines and check that each is the one that was written after those before.

    Examples
    --------
    >>> line = sealed(1, datetime(2026, 11, 18, tzinfo=UTC), "opened", {"site": "bari"}, None)[0]
    >>> read_chain(line).records[0].told
    {'site': 'bari'}
    >>> read_chain(line.replace(b"bari", b"cork")).broken
    1
    >>> read_chain(line + b'{"number":2,').torn
    12
    """
    records: list[Record] = []
    length, before = 0, _BEGINNING
    for line in _lines(content):
        record = _record(line.removesuffix(b"\n"), len(records) + 1, before)
        if record is None:
            # What a crash leaves has no end; it has no seal either, or it is another's work.
            is_torn = not line.endswith(b"\n") and _SEAL.search(line) is None
            broken = None if is_torn else len(records) + 1
            return Chain(tuple(records), length, len(line) if is_torn else 0, broken)
        records.append(record)
        length, before = length + len(line), record.hash
    return Chain(tuple(records), length)


def sealed(
    number: int, at: datetime, event: str, told: Mapping[str, Any], before: str | None
) -> tuple[bytes, str]:
    """A record as a line, and its hash."""
    content = {"number": number, "at": at.isoformat(timespec="seconds"), "event": event, **told}
    body = json.dumps(content, separators=(",", ":")).encode()
    own = _hash(before or _BEGINNING, body)
    return body[:-1] + f',"hash":"{own}"}}\n'.encode(), own


def _lines(content: bytes) -> Iterator[bytes]:
    """Lines that end in a line feed and nothing else."""
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin) + 1 or len(content)
        yield content[begin:end]
        begin = end


def _hash(before: str, body: bytes) -> str:
    return hashlib.blake2b(before.encode() + body, digest_size=32).hexdigest()


def _record(line: bytes, number: int, before: str) -> Record | None:
    """What a line says; None if it is not the one that was written there."""
    seal = _SEAL.search(line, max(0, len(line) - 80))
    if seal is None or seal.end() != len(line):
        return None
    body, own = line[: seal.start()] + b"}", seal[1].decode()
    if _hash(before, body) != own:
        return None
    try:
        content = json.loads(body)
        if content.pop("number") != number:
            return None
        at = datetime.fromisoformat(content.pop("at"))
        return Record(number, at, content.pop("event"), content, own)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class ChainedFile:
    """A file that records are added to, by one process at a time.

    Parameters
    ----------
    path
        The file; it is made if there is none, for its owner's eyes only.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ledger.jsonl"
    >>> file = ChainedFile(path)
    >>> file.append("opened", {"site": "bari"}).number
    1
    >>> file.close()
    >>> [record.event for record in read_chain(path.read_bytes()).records]
    ['opened']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self.found = self._locked()
        except BaseException:
            self.close()
            raise
        self._end, self._count = self.found.length, len(self.found.records)
        self._last = self.found.last
        self._is_torn = self.found.torn > 0

    def append(self, event: str, told: Mapping[str, Any]) -> Record:
        """Add a record; it is on the disk when this returns, and not at all after an OSError."""
        self._check_untouched()
        at = datetime.now(UTC)
        line, own = sealed(self._count + 1, at, event, told, self._last)
        start = b"" if self._ends_line() else b"\n"
        if self._is_torn:
            os.ftruncate(self._file, self._end)  # what a crash or a full disk left of a line
        self._is_torn = True
        self._write(start + line)
        self._is_torn = False
        self._end += len(start) + len(line)
        self._count += 1
        self._last = own
        return Record(self._count, at, event, dict(told), own)

    def close(self) -> None:
        """Let others write."""
        os.close(self._file)

    def _locked(self) -> Chain:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(
                f"another process writes to {self.path}; end it, or name another folder with "
                "--ledger"
            ) from None
        chain = read_chain(self.path.read_bytes())
        if chain.broken is not None:
            raise OptionError(
                f"line {chain.broken} of {self.path} is not the one that was written there; keep "
                f"the folder {self.path.parent} for whoever audits this site, move it away, and a "
                "new ledger begins, which knows of no answer given before"
            )
        return chain

    def _check_untouched(self) -> None:
        """Refuse to go on with a file that somebody else removed or wrote to."""
        state = os.fstat(self._file)
        if state.st_nlink == 0:
            raise OSError(f"{self.path.name} was removed")
        if state.st_size != self._end and not self._is_torn:
            raise OSError(f"{self.path.name} was changed by another program")

    def _ends_line(self) -> bool:
        return self._end == 0 or os.pread(self._file, 1, self._end - 1) == b"\n"

    def _write(self, content: bytes) -> None:
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(self._file, content[written:], self._end + written)
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._end)  # nobody should meet half a line
            raise OSError(error.errno, error.strerror, str(self.path)) from error
