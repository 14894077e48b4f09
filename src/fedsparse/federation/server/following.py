"""A run as its transcript tells it, read while the run writes it."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsparse.federation.server.transcript import Exchange, Transcript
from fedsparse.requests.wire.frame import unpacked

_SECONDS = 0.5
"""Longest to read at a time: there may be gigabytes before anybody looks."""

_OBJECTIVE = "objective"


@dataclass(frozen=True)
class Course:
    """How far a run has come.

    Attributes
    ----------
    exchanges
        How many there were.
    objective
        Numbers of exchanges, each with f(x) on all rows: the lowest of the models asked about.
    sites
        What was counted of every site by then; see `FlowerEngine.standing`.
    """

    exchanges: int = 0
    objective: tuple[tuple[int, float], ...] = ()
    sites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Follower:
    """Reads what has come to a transcript since the last look.

    Parameters
    ----------
    path
        The file; it need not be there yet, and may be begun anew.

    Examples
    --------
    >>> Follower(Path("nowhere.bin")).look()
    Course(exchanges=0, objective=(), sites={})
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading: _Reading | None = None

    def look(self) -> Course:
        """How far the run has come; a CheckpointError says why that cannot be told."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            self.close()
            return Course()
        if self._reading is None or self._reading.inode != inode:
            self.close()
            self._reading = _Reading(Transcript.open(self._path), inode)
        return self._reading.go_on()

    def close(self) -> None:
        """Let go of the file."""
        if self._reading is not None:
            self._reading.transcript.__exit__()
        self._reading = None


class _Reading:
    """A transcript, and what its exchanges so far have told."""

    def __init__(self, transcript: Transcript, inode: int) -> None:
        self.transcript = transcript
        self.inode = inode
        self._sites: Mapping[str, Mapping[str, Any]] = {}
        self._is_whole: dict[str, bool] = {}
        self._points: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)

    def go_on(self) -> Course:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            exchange = self.transcript.next()
            if exchange is None:
                break
            self._take(exchange)
        # Lenses differ in ℓ2 weight and scaling, and so does f; most is asked through one of them.
        points = max(self._points.values(), key=len, default=[])
        return Course(self.transcript.count, tuple(points), self._sites)

    def _take(self, exchange: Exchange) -> None:
        self._sites = exchange.sites
        lowest: dict[str, float] = {}
        for lens, value in self._objectives(exchange):
            lowest[lens] = min(value, lowest.get(lens, math.inf))
        for lens, value in lowest.items():
            self._points[lens].append((self.transcript.count, value))

    def _objectives(self, exchange: Exchange) -> Iterator[tuple[str, float]]:
        """Each finite f that was told of all rows, and through which lens."""
        header, parts = unpacked(exchange.asked)
        lenses, requests = parts[: len(header["lenses"])], parts[len(header["lenses"]) :]
        for digest, lens in zip(header["lenses"], lenses, strict=True):
            self._is_whole[digest] = not unpacked(lens)[0]["rows"]
        for ask, request, told in zip(header["asks"], requests, exchange.answers, strict=True):
            is_of_all = self._is_whole[ask["lens"]] and ask["which"] is None
            if not is_of_all or _OBJECTIVE not in told.sums or not told.weight:
                continue
            value = told.average(_OBJECTIVE)
            is_penalized = unpacked(request)[0]["numbers"].get("is_penalized", True)
            if is_penalized and math.isfinite(value):
                yield ask["lens"], value
