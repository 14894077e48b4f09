"""The transcript of a run: every ask and every sum, each record hashed with the one before.

A conversation depends on nothing but the sums it was told. So what is written here is enough to go
on with a run, to read what was asked of whom, and to work the model out again to the last bit.

A record is a frame (`fedsparse.requests.wire.frame`) behind its length and before its hash: the
first one says what the run is about, every other one is an exchange. The length has a check of its
own, so that a damaged one is not taken for the end of a file that was being written.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.engines.engine import Ask, Engine
from fedsparse.errors import CheckpointError
from fedsparse.federation.payloads import lens_to_bytes
from fedsparse.requests import Answers
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.request_bytes import encode_request
from fedsparse.requests.wire.vectors import WireError
from fedsparse.version import __version__

TRANSCRIPT = "transcript.bin"
"""Its name in the folder of the results."""

_MAGIC = b"fedsparse transcript 1\n"
_SIZE_BYTES = 8
_CHECK_BYTES = 8
_HASH_BYTES = 32


@dataclass(frozen=True, eq=False)
class Exchange:
    """What was asked and told at once.

    Attributes
    ----------
    asked
        The asks as bytes: lenses that had not been used before, requests, weights, who was asked.
    answers
        The sums.
    sites
        How the sites stood afterwards, as JSON holds it.
    """

    asked: bytes
    answers: tuple[Answers, ...]
    sites: Any


class Transcript:
    """A transcript on disk that is read from its beginning and then written on.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "transcript.bin"
    >>> with Transcript.begin(path, {"sites": ["bari"]}) as written:
    ...     written.append(Exchange(b"?", (Answers({"sum": np.ones(2)}, 1.0, 1, 1),), {}))
    >>> with Transcript.open(path) as read:
    ...     read.about["sites"], read.next().answers[0].sums["sum"], read.next()
    (['bari'], array([1., 1.]), None)
    """

    def __init__(self, path: Path, file: BinaryIO, about: dict[str, Any], last: bytes) -> None:
        self.path = path
        self.about = about
        self._file = file
        self._writing: BinaryIO | None = None
        self._last = last
        self._count = 0

    @classmethod
    def begin(cls, path: Path, about: Mapping[str, Any]) -> "Transcript":
        """A new transcript; one that was there is replaced."""
        written = {**about, "release": __version__}
        unfinished = path.with_suffix(".new")
        with open(unfinished, "wb") as file:
            file.write(_MAGIC)
            last = _write(file, packed(written, []), b"")
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        transcript = cls.open(path)
        assert transcript._last == last
        return transcript

    @classmethod
    def open(cls, path: Path) -> "Transcript":
        """A transcript that is there; a CheckpointError says why it cannot be used."""
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed with the transcript
        except OSError:
            raise CheckpointError(
                f"there is no {path} to go on from; name the run's folder, or begin anew"
            ) from None
        try:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise CheckpointError(
                    f"{path} is no transcript, or one of another release of fedsparse; begin anew "
                    "with --overwrite"
                )
            record = _read(file, b"", path, 0)
            if record is None:
                raise CheckpointError(f"{path} is cut off; begin anew with --overwrite")
            about, _ = unpacked(record[0])
            if about.get("release") != __version__:
                raise CheckpointError(
                    f"{path} was written by fedsparse {about.get('release')}, this is "
                    f"{__version__}; use that release, or begin anew with --overwrite"
                )
        except BaseException:
            file.close()
            raise
        return cls(path, file, about, record[1])

    def __enter__(self) -> "Transcript":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._writing is not None:
            self._writing.close()

    def next(self) -> Exchange | None:
        """The next exchange; None at the end, where writing goes on and others may be writing."""
        if self._writing is not None:
            return None
        begin = self._file.tell()
        record = _read(self._file, self._last, self.path, self._count + 1)
        if record is None:
            self._file.seek(begin)
            return None
        content, self._last = record
        self._count += 1
        return _exchange_from(content, self.path, self._count)

    def append(self, exchange: Exchange) -> None:
        """Write an exchange, safe from the end of this process and of the machine."""
        if self._writing is None:
            while self.next() is not None:
                pass
            self._writing = open(self.path, "r+b")  # noqa: SIM115 - closed with the transcript
            self._writing.seek(self._file.tell())
            # What was being written when the run was killed does not count. It stays until there is
            # something to put in its place: whoever only reads changes nothing.
            self._writing.truncate()
        self._last = _write(self._writing, _exchange_to_bytes(exchange), self._last)
        self._writing.flush()
        os.fsync(self._writing.fileno())
        self._count += 1

    @property
    def count(self) -> int:
        """Exchanges read or written so far."""
        return self._count


class TranscribedEngine(Engine):
    """An engine whose exchanges are written down, those that were before are not asked again.

    Parameters
    ----------
    engine
        That reaches the sites.
    transcript
        Of the run.
    """

    def __init__(self, engine: "SitesEngine", transcript: Transcript) -> None:
        self._engine = engine
        self._transcript = transcript
        self._known_lenses: set[str] = set()
        self._is_replaying = True
        self.lens = engine.lens
        self.names = engine.names
        self.width = engine.width
        self.is_sparse = engine.is_sparse
        self.has_holes = engine.has_holes
        self.can_single_out = engine.can_single_out

    @property
    def classes(self) -> AnyArray | None:
        """Those of the engine."""
        return self._engine.classes

    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """What the transcript says was told, or what the sites tell now."""
        asked = self._written(asks)
        known = self._transcript.next()
        if known is None:
            if self._is_replaying:
                self._engine.go_on()
                self._is_replaying = False
            answers = self._engine.exchange(asks)
            self._transcript.append(Exchange(asked, tuple(answers), self._engine.standing()))
            return answers
        if known.asked != asked:
            raise CheckpointError(
                f"exchange {self._transcript.count} of {self._transcript.path} asked something "
                "else than this run would: options, release or algorithm differ; begin anew with "
                "--overwrite"
            )
        self._engine.recall(known.sites)
        return list(known.answers)

    def fingerprint(self) -> str:
        """That of the engine."""
        return self._engine.fingerprint()

    def close(self) -> None:
        """Let go of the engine."""
        self._engine.close()

    def _written(self, asks: Sequence[Ask]) -> bytes:
        """Asks as bytes, lenses only where they are new."""
        lenses = {ask.lens.digest: ask.lens for ask in asks}
        new = [digest for digest in lenses if digest not in self._known_lenses]
        self._known_lenses |= set(new)
        header = {
            "lenses": new,
            "asks": [
                {
                    "lens": ask.lens.digest,
                    "weights": _weights(ask),
                    "which": None if ask.which is None else ask.which.tolist(),
                }
                for ask in asks
            ],
        }
        parts = [encode_request(ask.request) for ask in asks]
        return packed(header, [*(lens_to_bytes(lenses[digest]) for digest in new), *parts])


class SitesEngine(Engine):
    """An engine that also knows how the sites stand, so that a report can tell."""

    def standing(self) -> Any:
        """How the sites stand, as JSON holds it."""
        raise NotImplementedError

    def recall(self, sites: Any) -> None:
        """Take up what `standing` gave."""
        raise NotImplementedError

    def go_on(self) -> None:
        """The transcript has ended: from now on sites are asked again."""


def _weights(ask: Ask) -> str | list[float]:
    return ask.weights if isinstance(ask.weights, str) else np.asarray(ask.weights).tolist()


def _exchange_to_bytes(exchange: Exchange) -> bytes:
    header = {
        "sites": exchange.sites,
        "answers": [
            {
                "weight": own.weight.hex(),
                "counts": [own.count, own.asked, own.bytes_up],
                "seconds": own.seconds,
                "sums": {name: list(total.shape) for name, total in own.sums.items()},
            }
            for own in exchange.answers
        ],
    }
    sums = [_bytes_of(total) for own in exchange.answers for total in own.sums.values()]
    return packed(header, [exchange.asked, *sums])


def _exchange_from(content: bytes, path: Path, number: int) -> Exchange:
    try:
        header, (asked, *parts) = unpacked(content)
        left = iter(parts)
        answers = tuple(_answers_from(own, left) for own in header["answers"])
        return Exchange(asked, answers, header["sites"])
    except (WireError, KeyError, TypeError, ValueError, StopIteration):
        raise _changed(path, number) from None


def _answers_from(written: dict[str, Any], parts: Iterator[bytes]) -> Answers:
    count, asked, bytes_up = written["counts"]
    return Answers(
        {name: _array_from(next(parts), shape) for name, shape in written["sums"].items()},
        float.fromhex(written["weight"]),
        count,
        asked,
        bytes_up,
        written["seconds"],
    )


def _bytes_of(total: FloatArray) -> bytes:
    return np.asarray(total, dtype="<f8").tobytes(order="F")


def _array_from(part: bytes, shape: Sequence[int]) -> FloatArray:
    flat = np.frombuffer(part, dtype="<f8").astype(np.float64)
    return flat.reshape(shape, order="F")


def _write(file: BinaryIO, content: bytes, last: bytes) -> bytes:
    """Write a record, and give its hash."""
    own = hashlib.blake2b(last + content, digest_size=_HASH_BYTES).digest()
    size = len(content).to_bytes(_SIZE_BYTES, "little")
    file.write(size + _check(size) + content + own)
    return own


def _check(size: bytes) -> bytes:
    return hashlib.blake2b(size, digest_size=_CHECK_BYTES).digest()


def _read(file: BinaryIO, last: bytes, path: Path, number: int) -> tuple[bytes, bytes] | None:
    """A record and its hash; None if the file ends before the record does."""
    size, check = file.read(_SIZE_BYTES), file.read(_CHECK_BYTES)
    if len(size) + len(check) < _SIZE_BYTES + _CHECK_BYTES:
        return None
    if check != _check(size):
        raise _changed(path, number)
    left = path.stat().st_size - file.tell()
    length = int.from_bytes(size, "little")
    if length + _HASH_BYTES > left:
        return None
    content, own = file.read(length), file.read(_HASH_BYTES)
    if hashlib.blake2b(last + content, digest_size=_HASH_BYTES).digest() != own:
        raise _changed(path, number)
    return content, own


def _changed(path: Path, number: int) -> CheckpointError:
    where = f"at exchange {number}" if number else "at its beginning"
    return CheckpointError(
        f"{path} was changed or damaged {where}; restore it, or begin anew with --overwrite"
    )


def differences(transcript: Transcript, about: Mapping[str, Any]) -> list[str]:
    """Names of what a transcript says otherwise than a run that is to go on.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "transcript.bin"
    >>> with Transcript.begin(path, {"sites": ["bari"], "seed": 1}) as transcript:
    ...     differences(transcript, {"sites": ["bari"], "seed": 2})
    ['seed']
    """
    now = json.loads(json.dumps(about))
    return [name for name, value in now.items() if transcript.about.get(name) != value]
