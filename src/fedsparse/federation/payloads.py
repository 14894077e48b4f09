"""What server and sites say to each other, as bytes.

A server first says hello, and a site describes its table. Then the server asks: a message holds all
requests of an exchange, each with the digest of the lens through which it is to be answered, and
the digest of the *setup* that says how the table becomes features. Setups and lenses themselves go
along when the site may not know them yet.

Where answers are added up under masks, sites describe names and kinds alone. They are asked to
prepare keys, and before anything else to count. After an exchange they are told who answered, and
give the shares that open the sum.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import shorten
from typing import Any

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.engines.lens import Lens
from fedsparse.errors import DataError, OptionError
from fedsparse.federation.secure.site_masking import MaskedAnswer
from fedsparse.federation.secure.statements import Epoch, Introduction
from fedsparse.problem.losses import LOSSES
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.vectors import WireError
from fedsparse.version import __version__

_DIGEST_SIZE = 16
_LONGEST_REASON = 500
_LONGEST_DIGEST = 128
_LONGEST_RELEASE = 40
_MOST_BYTES = 2**50
_MOST_RUNS = 2**64
_WEIGHTS = ("uniform", "samples")


@dataclass(frozen=True, eq=False)
class Setup:
    """How a site's table becomes features.

    Attributes
    ----------
    agreed
        What all sites agreed on: an `Encoding` or a `NumberedEncoding`, as JSON holds it.
    identity
        The site's place in the federation, by which folds and mini-batches are drawn.
    names
        Of all sites of the federation, in order.

    Examples
    --------
    >>> Setup.from_bytes(Setup({"width": 3}, 1, ("bari", "cork")).to_bytes()).agreed
    {'width': 3}
    """

    agreed: dict[str, Any]
    identity: int
    names: tuple[str, ...]

    @property
    def common(self) -> bytes:
        """Stands for what all sites must be told alike."""
        told = packed({"agreed": self.agreed, "names": list(self.names)}, [])
        return hashlib.blake2b(told, digest_size=_DIGEST_SIZE).digest()

    def to_bytes(self) -> bytes:
        """A frame."""
        who = {"identity": self.identity, "names": list(self.names)}
        return packed({"agreed": self.agreed, **who}, [])

    @classmethod
    def from_bytes(cls, written: bytes) -> "Setup":
        """Read what `to_bytes` wrote; a WireError if it is malformed."""
        match unpacked(written):
            case {
                "agreed": dict(agreed), "identity": int(identity), "names": list(names), **rest
            }, []:  # fmt: skip
                is_known = 0 <= identity < len(names) == len(set(map(str, names)))
                if is_known and not rest:
                    return cls(agreed, identity, tuple(map(str, names)))
        raise WireError("The setup is malformed.")


def lens_to_bytes(lens: Lens) -> bytes:
    """A lens as a frame; the vectors of its scaling are the parts.

    Examples
    --------
    >>> from fedsparse.problem.losses import Logistic
    >>> scaling = Scaling(np.array([0.5]), np.array([np.inf]), intercept=3.0)
    >>> lens = Lens(Logistic(l2=0.5), Rows().without(2), scaling)
    >>> lens_from_bytes(lens_to_bytes(lens)).digest == lens.digest
    True
    """
    loss = lens.loss
    if LOSSES.get(loss.name) is not type(loss):
        raise OptionError(f"{loss!r} cannot be sent to sites; use one of {list(LOSSES)}")
    if lens.is_pooled:
        raise OptionError("rows of sites cannot be pooled; compare on tables in one place")
    header: dict[str, Any] = {
        "loss": loss.name,
        "l2": float(loss.l2),
        "options": {option: own for option, own in asdict(loss).items() if option != "l2"},
        "rows": lens.rows.to_json(),
    }
    parts = []
    if lens.scaling is not None:
        own = lens.scaling
        header["scaling"] = {
            "width": own.mean.size, "intercept": own.intercept, "offset": own.offset,
        }  # fmt: skip
        parts = [wire.encode(own.mean), wire.encode(_finite(own.scale))]
        parts += [] if own.fill is None else [wire.encode(own.fill)]
    return packed(header, parts)


def lens_from_bytes(written: bytes, widest: int = wire.MAX_LENGTH) -> Lens:
    """Read what `lens_to_bytes` wrote; a WireError if it is malformed, or of too many features."""
    header, parts = unpacked(written)
    name = header.get("loss")
    if isinstance(name, str) and name.isidentifier() and name not in LOSSES:
        raise WireError(f'The site does not know the loss "{name}"; start it with --loss.')
    try:
        loss = LOSSES[header["loss"]](l2=header["l2"], **header["options"])
        scaling = _scaling(header["scaling"], parts, widest) if "scaling" in header else None
        return Lens(loss, Rows.from_json(header["rows"]), scaling)
    except (ValueError, KeyError, TypeError, DataError, OptionError):
        raise WireError("The lens is malformed.") from None


def _finite(scale: FloatArray) -> FloatArray:
    """0 stands for infinity, the scale of a column that does not vary; nothing else is 0."""
    return np.where(np.isinf(scale), 0.0, scale)


def _scaling(written: dict[str, Any], parts: list[bytes], widest: int) -> Scaling:
    width = written["width"]
    if type(width) is not int or not 1 <= width <= widest or len(parts) not in (2, 3):
        raise WireError("The lens is malformed.")
    mean, scale, *fill = (wire.decode(part, width) for part in parts)
    intercept, offset = float(written["intercept"]), float(written["offset"])
    if not np.isfinite([intercept, offset]).all():
        raise WireError("The lens is malformed.")
    scale = np.where(scale == 0.0, np.inf, scale)
    return Scaling(mean, scale, intercept, offset, fill[0] if fill else None)


def digest_of(setup: bytes) -> str:
    """Stands for a setup in messages.

    Examples
    --------
    >>> len(digest_of(b"{}"))
    32
    """
    return hashlib.blake2b(setup, digest_size=_DIGEST_SIZE).hexdigest()


@dataclass(frozen=True)
class Hello:
    """Ask a site to describe its table, as `Wishes` in JSON say.

    Attributes
    ----------
    wishes
        In JSON.
    release
        Of fedsparse at the server; empty if it did not tell.
    """

    wishes: dict[str, Any]
    release: str = __version__


@dataclass(frozen=True)
class Asks:
    """Ask a site to answer requests.

    Attributes
    ----------
    session
        Digest of the setup.
    requests
        As `encode_request` writes them, each with the digest of its lens.
    setup
        The setup itself, if the site may not know it.
    lenses
        Lenses that the site may not know, as `lens_to_bytes` writes them.
    masked
        How the answers are to be masked; None: they are told as they are.
    """

    session: str
    requests: tuple[tuple[str, bytes], ...]
    setup: bytes | None = None
    lenses: tuple[bytes, ...] = ()
    masked: "MaskedAsks | None" = None


@dataclass(frozen=True)
class MaskedAsks:
    """What a site needs to know to add its answers up with those of others under masks.

    Attributes
    ----------
    number
        Of the exchange in its epoch.
    packages
        Of those who take part, by name in the order of the epoch.
    weights
        For every request ``"uniform"`` or ``"samples"``.
    which
        For every request the places of those it is for; None: all.
    """

    number: int
    packages: tuple[tuple[str, bytes], ...]
    weights: tuple[str, ...]
    which: tuple[tuple[int, ...] | None, ...]

    def asks(self, requests: Sequence[tuple[str, bytes]], common: bytes) -> bytes:
        """All that is asked, as bytes that are the same at all sites.

        Parameters
        ----------
        requests
            As in `Asks`.
        common
            Of the setup: places mean nothing to a site without the names that stand there.
        """
        parts = [common, *(request for _, request in requests)]
        return packed({"of": [digest for digest, _ in requests], **self.terms()}, parts)

    def terms(self) -> dict[str, Any]:
        """How answers count, as JSON holds it."""
        which = [None if own is None else list(own) for own in self.which]
        return {"weights": list(self.weights), "which": which}


@dataclass(frozen=True)
class Count:
    """Ask a site to count rows of its table, under masks and before there is an encoding.

    Attributes
    ----------
    what
        As `written` gives it; the bytes themselves are what sites must be asked alike.
    masked
        How the counts are to be masked.

    Examples
    --------
    >>> Count(Count.written({"task": "auto"}, {"numbers": ["age"]}), None).read()
    ({'task': 'auto'}, {'numbers': ['age']})
    """

    what: bytes
    masked: MaskedAsks

    @staticmethod
    def written(wishes: dict[str, Any], counted: dict[str, Any]) -> bytes:
        """`Wishes` under which tables were described and what is `Countable` in them, in JSON."""
        return packed({"wishes": wishes, "counted": counted}, [])

    def read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `written` was given; a WireError if it is malformed."""
        match unpacked(self.what):
            case {"wishes": dict(wishes), "counted": dict(counted)}, []:
                return wishes, counted
        raise WireError("The message does not say what is counted.")

    def asks(self) -> bytes:
        """All that is asked, as bytes that are the same at all sites."""
        return self.masked.asks([("counts", self.what)], common=b"")


@dataclass(frozen=True)
class Prepare:
    """Ask a site to join those who hold shares of each other's keys."""

    epoch: Epoch


@dataclass(frozen=True)
class Prepared:
    """A site's keys for the first exchange of an epoch."""

    package: bytes


@dataclass(frozen=True)
class Introduced:
    """The key of a site that the server does not know yet, or knows another one of."""

    introduction: Introduction


@dataclass(frozen=True)
class Masked:
    """A site's answers under masks, its signature, and its keys for the next exchange."""

    answer: MaskedAnswer
    note: "Note" = field(default_factory=lambda: Note())


@dataclass(frozen=True)
class Survivors:
    """Tell a site who answered: without signatures to sign it, with them to open the sum."""

    number: int
    names: tuple[str, ...]
    signatures: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Signed:
    """A site agrees on the survivors."""

    signature: bytes


@dataclass(frozen=True)
class Opened:
    """A site's shares of what masks came from, in the order of those who took part."""

    shares: tuple[bytes, ...]


@dataclass(frozen=True)
class Described:
    """What a site tells of its table: `Told` in JSON.

    Attributes
    ----------
    told
        In JSON.
    release
        Of fedsparse at the site; empty if it did not tell.
    """

    told: dict[str, Any]
    release: str = __version__


@dataclass(frozen=True)
class Answered:
    """A site's answers.

    Attributes
    ----------
    answers
        One per request: as `encode_answer` wrote it, with what the rows weigh that it speaks of;
        None if the lens shows none of the site's rows.
    note
        What comes with every answer.
    """

    answers: tuple[tuple[bytes, float] | None, ...]
    note: "Note" = field(default_factory=lambda: Note())


@dataclass(frozen=True)
class Note:
    """What a site says of itself with every answer.

    Attributes
    ----------
    crossed
        Bytes that came down and went up over the site's sockets since it last answered, as far as
        it knows.
    table
        Keyed digest of its rows as they are encoded: another one shows that they changed.
    """

    crossed: tuple[int, int] | None = None
    table: str | None = None


@dataclass(frozen=True)
class Finished:
    """Tell a site that a run has ended, and which model came of it: ``model.json``."""

    model: bytes


@dataclass(frozen=True)
class Noted:
    """A site has heard it."""


@dataclass(frozen=True)
class Refused:
    """A site will not answer, and says why."""

    reason: str


@dataclass(frozen=True)
class TellMe:
    """A site does not know the setup or some lenses; it has been started anew, say."""

    lenses: tuple[str, ...] = ()


Payload = (
    Hello
    | Prepare
    | Asks
    | Count
    | Survivors
    | Finished
    | Described
    | Introduced
    | Prepared
    | Answered
    | Masked
    | Signed
    | Opened
    | Noted
    | Refused
    | TellMe
)


def to_bytes(payload: Payload) -> bytes:
    """Write what is said.

    Examples
    --------
    >>> from_bytes(to_bytes(Refused("too few rows")))
    Refused(reason='too few rows')
    """
    match payload:
        case Hello(wishes, release):
            return packed({"say": "hello", "wishes": wishes, "release": release}, [])
        case Asks():
            return _asks_to_bytes(payload)
        case Count(what, masked):
            packages = [package for _, package in masked.packages]
            return packed({"say": "count", "masked": _how(masked)}, [what, *packages])
        case Prepare(epoch):
            names = list(epoch.names)
            header = {"say": "prepare", "names": names, "threshold": epoch.threshold}
            keys = [part for own in epoch.members for part in (own.public, own.signature)]
            return packed({**header, "run": str(epoch.run)}, [epoch.nonce, *keys])
        case Prepared(package):
            return packed({"say": "prepared"}, [package])
        case Introduced(introduction):
            who = {"name": introduction.name, "run": str(introduction.run)}
            own = (introduction.public, introduction.signature)
            return packed({"say": "introduced", **who}, own)
        case Masked(answer, note):
            parts = [answer.integers, answer.signature, answer.package]
            return packed({"say": "masked", **_noted(note)}, parts)
        case Survivors(number, survivors, signatures):
            told = {"number": number, "names": list(survivors), "by": [by for by, _ in signatures]}
            return packed({"say": "survivors", **told}, [own for _, own in signatures])
        case Finished(model):
            return packed({"say": "finished"}, [model])
        case Noted():
            return packed({"say": "noted"}, [])
        case Signed(signature):
            return packed({"say": "signed"}, [signature])
        case Opened(shares):
            return packed({"say": "opened"}, shares)
        case Described(told, release):
            return packed({"say": "described", "told": told, "release": release}, [])
        case Answered(answers, note):
            masses = [None if own is None else own[1].hex() for own in answers]
            parts = [own[0] for own in answers if own is not None]
            return packed({"say": "answered", "masses": masses, **_noted(note)}, parts)
        case Refused(reason):
            return packed({"say": "refused", "reason": reason}, [])
        case TellMe(lenses):
            return packed({"say": "tell me", "lenses": list(lenses)}, [])


def _release(header: Mapping[str, Any]) -> str:
    """Of fedsparse, where a message was written; before 1.0 nobody told."""
    release = header.get("release", "")
    if not isinstance(release, str) or len(release) > _LONGEST_RELEASE:
        raise WireError("The message does not say of which release it is.")
    return release


def from_bytes(message: bytes) -> Payload:
    """Read what was said; a WireError if it is malformed."""
    header, parts = unpacked(message)
    match header, parts:
        case {"say": "hello", "wishes": dict(wishes)}, []:
            return Hello(wishes, _release(header))
        case {"say": "ask"}, _:
            return _asks(header, parts)
        case {"say": "count"}, [what, *packages]:
            masked = _masked_asks(header.get("masked"), packages, 1)
            if masked is not None and len(masked.packages) == len(packages):
                return Count(what, masked)
        case {"say": "described", "told": dict(told)}, []:
            return Described(told, _release(header))
        case {"say": "answered", "masses": list(masses)}, _:
            return _answered(header, masses, parts)
        case {"say": "refused", "reason": str(reason)}, []:
            return Refused(shorten(reason, _LONGEST_REASON, placeholder=" …"))
        case {"say": "tell me", "lenses": list(lenses)}, []:
            return TellMe(tuple(str(digest) for digest in lenses))
        case {"say": "prepare"}, _:
            return _prepare(header, parts)
        case {"say": "prepared"}, [package]:
            return Prepared(package)
        case {"say": "introduced", "name": str(name), "run": str(run)}, [public, signature]:
            if run.isdecimal() and int(run) < _MOST_RUNS:
                return Introduced(Introduction(int(run), name, public, signature))
        case {"say": "masked"}, [integers, signature, package]:
            return Masked(MaskedAnswer(integers, signature, package), _note(header))
        case {"say": "survivors", "number": int(number), "names": list(names), "by": list(by)}, _:
            if len(by) == len(parts) and number >= 0:
                signatures = tuple(zip(map(str, by), parts, strict=True))
                return Survivors(number, tuple(map(str, names)), signatures)
        case {"say": "finished"}, [model]:
            return Finished(model)
        case {"say": "noted"}, []:
            return Noted()
        case {"say": "signed"}, [signature]:
            return Signed(signature)
        case {"say": "opened"}, _:
            return Opened(tuple(parts))
    raise WireError("The message says nothing that is known.")


def _asks_to_bytes(asks: Asks) -> bytes:
    digests = [digest for digest, _ in asks.requests]
    header: dict[str, Any] = {"lenses": len(asks.lenses), "setup": asks.setup is not None}
    parts = [request for _, request in asks.requests]
    parts += [*asks.lenses, *([] if asks.setup is None else [asks.setup])]
    if asks.masked is not None:
        header["masked"] = _how(asks.masked)
        parts += [package for _, package in asks.masked.packages]
    return packed({"say": "ask", "session": asks.session, "of": digests, **header}, parts)


def _how(masked: MaskedAsks) -> dict[str, Any]:
    names = [name for name, _ in masked.packages]
    return {"number": masked.number, "names": names, **masked.terms()}


def _asks(header: dict[str, Any], parts: list[bytes]) -> Asks:
    match header:
        case {"session": str(session), "of": list(digests), "lenses": int(count), "setup": setup}:
            has_setup = setup is True
            masked = _masked_asks(header.get("masked"), parts, len(digests))
            packages = 0 if masked is None else len(masked.packages)
            if len(parts) == len(digests) + count + has_setup + packages and 0 <= count:
                requests = tuple(zip(map(str, digests), parts, strict=False))
                begin = len(digests)
                lenses = tuple(parts[begin : begin + count])
                written = parts[begin + count] if has_setup else None
                return Asks(session, requests, written, lenses, masked)
    raise WireError("The message does not say what is asked.")


def _masked_asks(header: Any, parts: list[bytes], requests: int) -> MaskedAsks | None:
    match header:
        case None:
            return None
        case {"number": int(number), "names": list(names), "weights": weights, "which": which}:
            are_weights = isinstance(weights, list) and all(own in _WEIGHTS for own in weights)
            if are_weights and isinstance(which, list) and len(weights) == len(which) == requests:
                own = [_places(places) for places in which]
                packages = zip(map(str, names), parts[-len(names) :], strict=False)
                if 0 <= number and 0 < len(names) <= len(parts):
                    return MaskedAsks(number, tuple(packages), tuple(weights), tuple(own))
    raise WireError("The message does not say how answers are masked.")


def _places(written: Any) -> tuple[int, ...] | None:
    if written is None:
        return None
    if isinstance(written, list) and all(type(place) is int and place >= 0 for place in written):
        return tuple(written)
    raise WireError("The message does not say who is asked.")


def _prepare(header: dict[str, Any], parts: list[bytes]) -> Prepare:
    match header, parts:
        case {"names": list(names), "threshold": int(threshold), "run": str(run)}, [nonce, *keys]:
            if len(keys) == 2 * len(names) and 0 < threshold <= len(names) and run.isdecimal():
                every = zip(map(str, names), keys[::2], keys[1::2], strict=True)
                members = tuple(Introduction(int(run), *own) for own in every)
                if int(run) < _MOST_RUNS:
                    return Prepare(Epoch(nonce, members, threshold))
    raise WireError("The message does not say who holds shares.")


def _answered(header: dict[str, Any], masses: list[Any], parts: list[bytes]) -> Answered:
    if len([mass for mass in masses if mass is not None]) != len(parts):
        raise WireError("There are not as many answers as the message says.")
    left = iter(parts)
    try:
        answers = tuple(
            None if mass is None else (next(left), float.fromhex(mass)) for mass in masses
        )
    except (TypeError, ValueError, OverflowError):
        raise WireError("A weight is not a number.") from None
    return Answered(answers, _note(header))


def _noted(note: Note) -> dict[str, Any]:
    crossed = {} if note.crossed is None else {"crossed": list(note.crossed)}
    return crossed if note.table is None else {**crossed, "table": note.table}


def _note(header: dict[str, Any]) -> Note:
    crossed, table = None, None
    match header.get("crossed"):
        case [int(down), int(up)] if 0 <= down < _MOST_BYTES and 0 <= up < _MOST_BYTES:
            crossed = (down, up)
    match header.get("table"):
        case str(told) if len(told) <= _LONGEST_DIGEST:
            table = told
    return Note(crossed, table)
