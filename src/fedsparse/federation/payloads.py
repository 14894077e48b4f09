"""What server and sites say to each other, as bytes.

A server first says hello, and a site describes its table. Then the server asks: a message holds all
requests of an exchange, each with the digest of the lens through which it is to be answered, and
the digest of the *setup* that says how the table becomes features. Setups and lenses themselves go
along when the site may not know them yet.
"""

import hashlib
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.engines.lens import Lens
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.losses import LOSSES
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.vectors import WireError

_DIGEST_SIZE = 16
_LONGEST_REASON = 500
_MOST_BYTES = 2**50


@dataclass(frozen=True, eq=False)
class Setup:
    """How a site's table becomes features.

    Attributes
    ----------
    agreed
        What all sites agreed on: an `Encoding` or a `NumberedEncoding`, as JSON holds it.
    identity
        The site's place in the federation, by which folds and mini-batches are drawn.

    Examples
    --------
    >>> Setup.from_bytes(Setup({"width": 3}, 1).to_bytes()).agreed
    {'width': 3}
    """

    agreed: dict[str, Any]
    identity: int

    def to_bytes(self) -> bytes:
        """A frame."""
        return packed({"agreed": self.agreed, "identity": self.identity}, [])

    @classmethod
    def from_bytes(cls, written: bytes) -> "Setup":
        """Read what `to_bytes` wrote; a WireError if it is malformed."""
        match unpacked(written):
            case {"agreed": dict(agreed), "identity": int(identity), **rest}, [] if not rest:
                if 0 <= identity < 2**62:
                    return cls(agreed, identity)
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


def lens_from_bytes(written: bytes) -> Lens:
    """Read what `lens_to_bytes` wrote; a WireError if it is malformed."""
    header, parts = unpacked(written)
    try:
        loss = LOSSES[header["loss"]](l2=header["l2"])
        scaling = _scaling(header["scaling"], parts) if "scaling" in header else None
        return Lens(loss, Rows.from_json(header["rows"]), scaling)
    except (ValueError, KeyError, TypeError, DataError, OptionError):
        raise WireError("The lens is malformed.") from None


def _finite(scale: FloatArray) -> FloatArray:
    """0 stands for infinity, the scale of a column that does not vary; nothing else is 0."""
    return np.where(np.isinf(scale), 0.0, scale)


def _scaling(written: dict[str, Any], parts: list[bytes]) -> Scaling:
    width = written["width"]
    if type(width) is not int or not 1 <= width <= wire.MAX_LENGTH or len(parts) not in (2, 3):
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
    """Ask a site to describe its table, as `Wishes` in JSON say."""

    wishes: dict[str, Any]


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
    """

    session: str
    requests: tuple[tuple[str, bytes], ...]
    setup: bytes | None = None
    lenses: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Described:
    """What a site tells of its table: `Told` in JSON."""

    told: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A site's answers.

    Attributes
    ----------
    answers
        One per request: as `encode_answer` wrote it, with what the rows weigh that it speaks of;
        None if the lens shows none of the site's rows.
    crossed
        Bytes that came down and went up over the site's sockets since it last answered, as far as
        it knows.
    """

    answers: tuple[tuple[bytes, float] | None, ...]
    crossed: tuple[int, int] | None = None


@dataclass(frozen=True)
class Refused:
    """A site will not answer, and says why."""

    reason: str


@dataclass(frozen=True)
class TellMe:
    """A site does not know the setup or some lenses; it has been started anew, say."""

    lenses: tuple[str, ...] = ()


Payload = Hello | Asks | Described | Answered | Refused | TellMe


def to_bytes(payload: Payload) -> bytes:
    """Write what is said.

    Examples
    --------
    >>> from_bytes(to_bytes(Refused("too few rows")))
    Refused(reason='too few rows')
    """
    match payload:
        case Hello(wishes):
            return packed({"say": "hello", "wishes": wishes}, [])
        case Asks(session, requests, setup, lenses):
            digests = [digest for digest, _ in requests]
            known = {"lenses": len(lenses), "setup": setup is not None}
            parts = [request for _, request in requests]
            parts += [*lenses, *([] if setup is None else [setup])]
            return packed({"say": "ask", "session": session, "of": digests, **known}, parts)
        case Described(told):
            return packed({"say": "described", "told": told}, [])
        case Answered(answers, crossed):
            counts = {} if crossed is None else {"crossed": list(crossed)}
            masses = [None if own is None else own[1].hex() for own in answers]
            parts = [own[0] for own in answers if own is not None]
            return packed({"say": "answered", "masses": masses, **counts}, parts)
        case Refused(reason):
            return packed({"say": "refused", "reason": reason}, [])
        case TellMe(lenses):
            return packed({"say": "tell me", "lenses": list(lenses)}, [])


def from_bytes(message: bytes) -> Payload:
    """Read what was said; a WireError if it is malformed."""
    header, parts = unpacked(message)
    match header, parts:
        case {"say": "hello", "wishes": dict(wishes)}, []:
            return Hello(wishes)
        case {"say": "ask"}, _:
            return _asks(header, parts)
        case {"say": "described", "told": dict(told)}, []:
            return Described(told)
        case {"say": "answered", "masses": list(masses)}, _:
            return _answered(header, masses, parts)
        case {"say": "refused", "reason": str(reason)}, []:
            return Refused(shorten(reason, _LONGEST_REASON, placeholder=" …"))
        case {"say": "tell me", "lenses": list(lenses)}, []:
            return TellMe(tuple(str(digest) for digest in lenses))
    raise WireError("The message says nothing that is known.")


def _asks(header: dict[str, Any], parts: list[bytes]) -> Asks:
    match header:
        case {"session": str(session), "of": list(digests), "lenses": int(count), "setup": setup}:
            has_setup = setup is True
            if len(parts) == len(digests) + count + has_setup and 0 <= count:
                requests = zip(map(str, digests), parts, strict=False)
                begin = len(digests)
                lenses = tuple(parts[begin : begin + count])
                return Asks(session, tuple(requests), parts[-1] if has_setup else None, lenses)
    raise WireError("The message does not say what is asked.")


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
    match header.get("crossed"):
        case [int(down), int(up)] if 0 <= down < _MOST_BYTES and 0 <= up < _MOST_BYTES:
            return Answered(answers, (down, up))
    return Answered(answers)
