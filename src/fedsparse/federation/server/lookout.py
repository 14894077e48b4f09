"""What the administrator of a server sees of a federation, gathered anew at each look.

Nothing but what the server knows anyway: who is connected, what runs said, and the sums and
standings in their transcripts. Nobody is asked anything, and nothing is changed.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from fedsparse.errors import CheckpointError, FederationError, OptionError
from fedsparse.federation.flower_internals import Control, KnownNode, KnownRun
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.logs import own_part
from fedsparse.federation.server import runs
from fedsparse.federation.server.enrolment import enrolled
from fedsparse.federation.server.following import Course, Follower
from fedsparse.federation.server.outcome import OUTCOME
from fedsparse.federation.server.transcript import TRANSCRIPT
from fedsparse.report.fit import REPORT

UNKNOWN = "not known to the server; restart it to let the site in"
"""Of a site in the roster, which the server read when it was started."""

_FRESH_SECONDS = 1.0
_MOST_LINES = 200


@dataclass(frozen=True)
class SeenSite:
    """A site, and whether it is here.

    Examples
    --------
    >>> SeenSite("bari", "here").state
    'here'
    """

    name: str
    state: str


@dataclass(frozen=True)
class SeenPart:
    """How a site does in a run.

    Attributes
    ----------
    name
        The site's.
    state
        ``"takes part"``, ``"absent"``, or ``"takes no further part"``.
    reason
        Why it takes none: what it refused, or what was wrong with its answers.
    answers, missed
        Exchanges in which it answered or did not.
    bytes_down, bytes_up
        Messages to it and from it.
    """

    name: str
    state: str
    reason: str | None
    answers: int
    missed: int
    bytes_down: int
    bytes_up: int

    @classmethod
    def of(cls, name: str, told: Mapping[str, Any]) -> "SeenPart":
        """What a transcript tells of a site."""
        state = "absent" if told["is_absent"] else "takes part"
        if told["excluded"] is not None:
            state = "takes no further part"
        counts = {key: told[key] for key in ("answers", "missed", "bytes_down", "bytes_up")}
        return cls(name, state, told["excluded"], **counts)


@dataclass(frozen=True)
class SeenRun:
    """A run since the server was started.

    Attributes
    ----------
    number
        By which the server knows it; as text, because a browser's numbers have fewer digits.
    since
        When it began, by the server's clock.
    folder
        Where it writes; None if it does not.
    state
        ``"under way"``, ``"finished"``, ``"failed"``, ``"stopped"``, or ``"ended"`` if its folder
        does not tell how.
    reason
        Why it failed, or why it cannot be followed.
    has_report
        Whether it left a page.
    is_followed
        Whether the rest is told: of runs under way, and of the last one.
    said
        The last lines it said.
    exchanges, objective
        How far it came; see `Course`.
    sites
        How each did.
    """

    number: str
    since: str
    folder: str | None
    state: str
    reason: str | None = None
    has_report: bool = False
    is_followed: bool = False
    said: Sequence[str] = ()
    exchanges: int = 0
    objective: Sequence[tuple[int, float]] = ()
    sites: Sequence[SeenPart] = ()


@dataclass(frozen=True)
class Sight:
    """What is seen at once.

    Attributes
    ----------
    server
        Where the server is.
    trouble
        Why it does not answer, if so; then the rest is what was seen last.
    sites
        Who may connect, in the order of their names.
    runs
        The last first.
    """

    server: str
    trouble: str | None = None
    sites: Sequence[SeenSite] = ()
    runs: Sequence[SeenRun] = ()


class Lookout:
    """Looks at a federation as often as it is asked, but once a second.

    Parameters
    ----------
    folder
        The server's.
    address
        Where it is on this machine.
    """

    def __init__(self, folder: ServerFolder, address: runs.Address) -> None:
        self._folder = folder
        self._address = address
        self._lock = Lock()
        self._seen = Sight(str(address))
        self._until = 0.0
        self._reports: dict[str, Path] = {}
        self._followers: dict[str, Follower] = {}
        self._last_words: dict[str, tuple[str, ...]] = {}

    def look(self) -> Sight:
        """What is to be seen now."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._seen = self._looked()
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._seen

    def report_of(self, number: str) -> Path | None:
        """The page of a run that finished, as the last look saw it."""
        with self._lock:
            return self._reports.get(number)

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            for follower in self._followers.values():
                follower.close()

    def _looked(self) -> Sight:
        try:
            with runs.reached(self._folder, self._address) as control:
                nodes, known = control.nodes(), control.runs()
                said = {str(run.number): self._said(control, run) for run in _followed(known)}
                names = [] if self._address.is_insecure else enrolled(self._folder).names
        except (FederationError, OptionError) as error:
            before = self._seen
            return Sight(before.server, str(error), before.sites, before.runs)
        seen = self._seen_runs(known, said)
        return Sight(str(self._address), None, seen_sites(nodes, names), seen)

    def _said(self, control: Control, run: KnownRun) -> tuple[str, ...]:
        """The last of our lines; those of a run that has ended are asked for once."""
        number = str(run.number)
        if number in self._last_words:
            return self._last_words[number]
        lines = [own_part(line) for line in control.log_so_far(run.number)]
        ours = tuple(line for line in lines if line is not None)[-_MOST_LINES:]
        if run.is_finished:
            self._last_words[number] = ours
        return ours

    def _seen_runs(
        self, known: Sequence[KnownRun], said: Mapping[str, Sequence[str]]
    ) -> list[SeenRun]:
        for number in self._followers.keys() - said.keys():
            self._followers.pop(number).close()
        self._reports = {}
        newest = _newest_by_folder(known)
        return [
            self._seen_run(run, runs.folder_of(run), newest, said.get(str(run.number)))
            for run in known
        ]

    def _seen_run(
        self,
        run: KnownRun,
        folder: Path | None,
        newest: Mapping[Path, int],
        said: Sequence[str] | None,
    ) -> SeenRun:
        number = str(run.number)
        own = folder if folder is not None and newest[folder] == run.number else None
        state, reason = _state_of(run, own)
        if state == "finished" and own is not None and _wrote(run, own / REPORT):
            self._reports[number] = own / REPORT
        course = Course()
        if said is not None:
            course, lost = self._course_of(run, own)
            reason = reason or lost
        return SeenRun(
            number,
            run.since.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            None if folder is None else str(folder),
            state,
            reason,
            number in self._reports,
            said is not None,
            said or (),
            course.exchanges,
            course.objective,
            [SeenPart.of(*site) for site in course.sites.items()],
        )

    def _course_of(self, run: KnownRun, folder: Path | None) -> tuple[Course, str | None]:
        """How far a run has come, and why that is not known, if so."""
        if folder is None or not _wrote(run, folder / TRANSCRIPT):
            return Course(), None
        follower = self._followers.setdefault(str(run.number), Follower(folder / TRANSCRIPT))
        try:
            return follower.look(), None
        except (CheckpointError, OSError) as error:
            return Course(), str(error)


def seen_sites(nodes: Iterable[KnownNode], names: Iterable[str]) -> list[SeenSite]:
    """Who may connect, and those of the roster of whom the server has not heard.

    Parameters
    ----------
    nodes
        Those the server knows.
    names
        Of the roster.

    Examples
    --------
    >>> [site.state for site in seen_sites([KnownNode(7, "bari", True)], ["bari", "cork"])]
    ['here', 'not known to the server; restart it to let the site in']
    """
    told = {
        node.name or f"node {node.number}": "here" if node.is_online else "away" for node in nodes
    }
    told |= dict.fromkeys(sorted(set(names) - told.keys()), UNKNOWN)
    return [SeenSite(name, state) for name, state in told.items()]


def _followed(known: Sequence[KnownRun]) -> list[KnownRun]:
    """Those under way, and the last one even if it has ended."""
    return [run for place, run in enumerate(known) if place == 0 or not run.is_finished]


def _newest_by_folder(known: Sequence[KnownRun]) -> dict[Path, int]:
    """The last run that began to write to each folder; what is there now is not of earlier ones."""
    newest: dict[Path, int] = {}
    for run in known:
        folder = runs.folder_of(run)
        if folder is not None:
            newest.setdefault(folder, run.number)
    return newest


def _state_of(run: KnownRun, folder: Path | None) -> tuple[str, str | None]:
    """How a run is or ended, and why it failed."""
    if not run.is_finished:
        return "under way", None
    if run.is_stopped:
        return "stopped", None
    try:
        told: dict[str, Any] = {} if folder is None else json.loads((folder / OUTCOME).read_bytes())
    except (OSError, ValueError):
        return "ended", None
    if "message" in told:
        return "failed", str(told["message"])
    return ("finished", None) if told else ("ended", None)


def _wrote(run: KnownRun, path: Path) -> bool:
    """Whether a run has written to a file, and not only an earlier one."""
    try:
        return path.stat().st_mtime >= run.since.timestamp()
    except OSError:
        return False
