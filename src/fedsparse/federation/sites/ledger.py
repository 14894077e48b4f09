"""A site's ledger: who asked what, what left, what was refused, on which table.

It is a folder on the site's disk, and outlives runs and restarts. `chained_file` keeps the records,
``tables`` holds digests of the rows of every table that was opened, under a key that nobody else
has. Nothing is answered that is not on the disk first.
"""

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fedsparse.engines.lens import Lens
from fedsparse.errors import DataError, OptionError
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Count,
    Described,
    Finished,
    Masked,
    Noted,
    Opened,
    Payload,
    Refused,
    Survivors,
)
from fedsparse.federation.sites.chained_file import ChainedFile, Record, read_chain
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site_tables import SiteTable
from fedsparse.federation.sites.spending import Spending
from fedsparse.federation.sites.table_digests import RowDigests
from fedsparse.files import ready_folder, write_atomically
from fedsparse.requests.wire.frame import unpacked
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables.sentences import counted
from fedsparse.version import __version__

LEDGER = "ledger.jsonl"
"""Its name in the folder."""

_KEY = "rows.key"
_KEY_BYTES = 32
_TABLES = "tables"
_DIGEST_BYTES = 16
_SHOWN_DIGITS = 8
_MOST_KIND = 40
"""Characters of what a request calls itself."""
JUDGING = (
    "Judge", "JudgeCounts", "JudgeSurvival", "NoBetterThanNull", "ScoreCounts", "SurvivalCounts",
)  # fmt: skip
"""Requests that compare every row with a model."""
_MOST_WITHHELD = 50
"""Names of withheld columns that a record holds; there may be thousands."""


@dataclass(frozen=True)
class Entry:
    """What is to be entered of a message and the reply to it.

    Attributes
    ----------
    event
        ``described``, ``answered`` or ``refused``.
    told
        What is said of it.
    answers
        How many it counts against the budgets.
    lenses
        Those that requests were answered through, by digest.
    """

    event: str
    told: Mapping[str, Any]
    answers: int = 0
    lenses: Mapping[str, Lens] = field(default_factory=dict)


def entry_of(said: Payload | None, reply: Payload, lenses: Mapping[str, Lens]) -> Entry | None:
    """What to enter of a reply; None if it tells nothing about rows.

    Parameters
    ----------
    said
        What came; None if it could not be read.
    reply
        What is about to leave.
    lenses
        Those the site knows, by digest.

    Examples
    --------
    >>> entry_of(None, Refused("its policy does not allow Gradient; do without"), {}).event
    'refused'
    """
    match reply:
        case Described(told):
            withheld = told["description"].get("withheld", [])
            names = {"withheld": len(withheld), "such as": list(withheld[:_MOST_WITHHELD])}
            return Entry("described", names if withheld else {}, answers=1)
        case Answered(answers) if isinstance(said, Asks):
            told = {
                "asked": kinds_asked(said),
                "setup": said.session,
                "sums": "open",
                "kept back": sum(own is None for own in answers),
            }
            used = {digest: lenses[digest] for digest, _ in said.requests}
            return Entry("answered", told, len(said.requests), used)
        case Masked() if isinstance(said, Asks):
            told = {"asked": kinds_asked(said), "setup": said.session, "sums": "secure"}
            used = {digest: lenses[digest] for digest, _ in said.requests}
            return Entry("answered", told, len(said.requests), used)
        case Masked() if isinstance(said, Count):
            return Entry("answered", {"asked": kinds_asked(said), "sums": "secure"}, answers=1)
        case Opened() if isinstance(said, Survivors):
            return Entry("unmasked", {"exchange": said.number, "sites": list(said.names)})
        case Noted() if isinstance(said, Finished):
            return Entry("informed", {"model": len(said.model)})
        case Refused(reason):
            asked = {"asked": kinds_asked(said)} if isinstance(said, Asks | Count) else {}
            return Entry("refused", {"reason": reason, **asked})
    return None


def kinds_asked(asks: Asks | Count) -> dict[str, int]:
    """How many requests there are of each kind."""
    if isinstance(asks, Count):
        return {"Count": 1}
    return dict(Counter(_kind(request) for _, request in asks.requests))


def judged_in(asked: Mapping[str, int]) -> int:
    """How many of some requests judge a model.

    Examples
    --------
    >>> judged_in({"Judge": 2, "Slopes": 9})
    2
    """
    return sum(asked.get(kind, 0) for kind in JUDGING)


def _kind(request: bytes) -> str:
    try:
        return str(unpacked(request)[0].get("request"))[:_MOST_KIND]
    except WireError:
        return "nothing that can be read"


class Ledger:
    """A site's ledger, open for one table.

    Parameters
    ----------
    folder
        Where it lies; it is made if there is none, for its owner's eyes only.
    site
        The site's name.
    server
        Who asks.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from fedsparse.federation.sites.site_tables import NamedTable
    >>> folder = Path(tempfile.mkdtemp())
    >>> table = NamedTable(pl.DataFrame({"age": [61, 47], "relapse": [1, 0]}), "relapse")
    >>> ledger = Ledger(folder, "bari", "localhost:8443")
    >>> ledger.open_table(table, Policy())
    >>> ledger.close()
    >>> [(record.event, record.told["rows"]) for record in read_ledger(folder)]
    [('opened', 2)]
    """

    def __init__(self, folder: Path, site: str, server: str) -> None:
        is_new = not folder.exists()
        ready_folder(folder)
        if is_new:
            folder.chmod(0o700)
        self.folder = folder
        self.spending = Spending()
        self.table = ""
        self._site = site
        self._server = server
        self._file = ChainedFile(folder / LEDGER)
        self._known_lenses: set[str] = set()
        self._accepted: set[frozenset[str]] = set()
        self._last_answer: dict[str, datetime] = {}
        self._opened: Mapping[str, Any] = {}
        try:
            for record in self._file.found.records:
                self._take_in(record)
            self._key = self._own_key(has_records=bool(self._file.found.records))
        except BaseException:
            self.close()
            raise

    def open_table(self, table: SiteTable, policy: Policy, accepted: str | None = None) -> None:
        """Take up a table; an OptionError if it is too like one that was answered on.

        Two tables that differ in a few rows tell of those rows: one sum less the other.

        Parameters
        ----------
        table
            The site's rows.
        policy
            Says how many rows are few.
        accepted
            First digits of the digest of a table that the administrator wants to use all the same.
        """
        rows = RowDigests.of(table, self._key)
        self.table = rows.digest(self._key)
        objections = {
            other: objection
            for other in self.spending.tables
            if other != self.table and frozenset((other, self.table)) not in self._accepted
            and (objection := self._objection(rows, other, policy.smallest_samples))
        }  # fmt: skip
        shown = self.table[:_SHOWN_DIGITS]
        if objections and accepted != shown:
            raise OptionError(
                f"{min(objections.values())[1]}; go on with the earlier table, wait until more "
                f"rows have changed, or start the site with --accept-table {shown}"
            )
        self._keep(rows)
        if objections:
            self._append("accepted", {"table": self.table, "beside": list(objections)})
        self._open(table, policy)

    def enter(self, entry: Entry, run: int, written: bytes) -> None:
        """Enter a message before the reply to it leaves; an OSError if that cannot be done."""
        told = {
            "run": str(run),
            "server": self._server,
            "table": self.table,
            **entry.told,
            "left": len(written),
            "digest": hashlib.blake2b(written, digest_size=_DIGEST_BYTES).hexdigest(),
            "answers": entry.answers,
        }
        if entry.lenses:
            new = {
                digest: readable(lens)
                for digest, lens in entry.lenses.items()
                if digest not in self._known_lenses
            }
            told |= {"through": list(entry.lenses)} | ({"lenses": new} if new else {})
        self._append(entry.event, told)

    def session_key(self, nonce: bytes) -> bytes:
        """Key of `table_digest` for a run: the site's own secret and what the server drew."""
        return hashlib.blake2b(nonce, key=self._key, digest_size=_KEY_BYTES).digest()

    def close(self) -> None:
        """Let others write."""
        self._file.close()

    def _append(self, event: str, told: Mapping[str, Any]) -> None:
        self._take_in(self._file.append(event, told))

    def _take_in(self, record: Record) -> None:
        """Remember what later answers depend on."""
        told = record.told
        match record.event:
            case "opened":
                self._opened = told
            case "accepted":
                self._accepted |= {frozenset((other, told["table"])) for other in told["beside"]}
            case "answered" | "described":
                _count(record, self.spending)
                self._last_answer[told["table"]] = record.at
                self._known_lenses |= told.get("lenses", {}).keys()

    def _open(self, table: SiteTable, policy: Policy) -> None:
        """Say what is answered on, unless that was said last time."""
        torn = self._file.found.torn
        told = {
            "site": self._site,
            "server": self._server,
            "release": __version__,
            "table": self.table,
            "rows": table.rows,
            "policy": policy.model_dump(mode="json"),
            "key": _digest_of_key(self._key),
        } | ({"torn": torn} if torn else {})
        if told != self._opened:
            self._append("opened", told)

    def _own_key(self, *, has_records: bool) -> bytes:
        path = self.folder / _KEY
        key = path.read_bytes() if path.exists() else b""
        if has_records:
            if _digest_of_key(key) != self._opened.get("key"):
                raise OptionError(
                    f"{path} is not the key that {self.folder / LEDGER} was begun with; restore "
                    "it, or move the folder away, and a new ledger begins, which knows of no "
                    "answer given before"
                )
        elif len(key) != _KEY_BYTES:
            key = secrets.token_bytes(_KEY_BYTES)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
        return key

    def _objection(self, rows: RowDigests, other: str, fewest: int) -> tuple[int, str] | None:
        """Why a table is not used beside one that was answered on, the worst first, or None."""
        given = (
            f"one on which {counted(self.spending.on(other), 'answer')} "
            f"{'was' if self.spending.on(other) == 1 else 'were'} given, last on "
            f"{self._last_answer[other]:%Y-%m-%d}"
        )
        path = self._rows_of(other)
        try:
            before = RowDigests.from_bytes(path.read_bytes())
        except (OSError, DataError):
            before = None
        if before is None or before.digest(self._key) != other:
            return 0, f"{path} is missing or damaged, so it cannot be compared with {given}"
        apart = rows.rows_apart(before)
        if not 0 < apart < fewest:
            return None
        return apart, (
            f"the table differs in {counted(apart, 'row')} from {given}, and the answers together "
            f"would tell of {'that row' if apart == 1 else 'those rows'}"
        )

    def _keep(self, rows: RowDigests) -> None:
        path = self._rows_of(self.table)
        if not path.exists():
            ready_folder(path.parent)
            write_atomically(path, rows.to_bytes())

    def _rows_of(self, table: str) -> Path:
        return self.folder / _TABLES / f"{table}.rows"


def readable(lens: Lens) -> dict[str, Any]:
    """What a lens shows, for people.

    Examples
    --------
    >>> from fedsparse.problem.losses import Logistic
    >>> readable(Lens(Logistic(l2=0.5)))
    {'loss': 'logistic', 'l2': 0.5, 'rows': [], 'scaled': False}
    """
    return {
        "loss": lens.loss.name,
        "l2": float(lens.loss.l2),
        "rows": lens.rows.to_json(),
        "scaled": lens.scaling is not None,
    }


def ledger_file(path: Path) -> Path:
    """The file of a ledger that is named by it or by its folder."""
    file = path / LEDGER if path.is_dir() else path
    if not file.is_file():
        raise OptionError(
            f"there is no {file}; name the folder that the site's log calls its ledger"
        )
    return file


def read_ledger(path: Path) -> tuple[Record, ...]:
    """The records of a ledger, as far as its chain is sound."""
    return read_chain(ledger_file(path).read_bytes()).records


def spending_of(records: Iterable[Record]) -> Spending:
    """What a ledger's records say was spent."""
    spending = Spending()
    for record in records:
        if record.event in ("answered", "described"):
            _count(record, spending)
    return spending


def _count(record: Record, spending: Spending) -> None:
    told = record.told
    spending.add(record.at, told["table"], told["answers"], judged_in(told.get("asked", {})))


def why_unwritable(error: OSError) -> str:
    """What a site says when nothing can be entered.

    Examples
    --------
    >>> import errno
    >>> why_unwritable(OSError(errno.ENOSPC, "No space left on device"))
    'its ledger cannot be written (No space left on device); once it can be, the site answers again'
    """
    return (
        f"its ledger cannot be written ({error.strerror or error}); once it can be, the site "
        "answers again"
    )


def _digest_of_key(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).hexdigest()
