"""What server and sites say to each other, as bytes.

A server first says hello, and a site describes its table. Then the server asks: each message holds
a request and the digest of the *setup* that says how to answer it; the setup itself goes along
when the site may not know it yet.
"""

import hashlib
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from fedsparse import wire
from fedsparse.arrays import FloatArray
from fedsparse.codec import WireError
from fedsparse.codec.frame import packed, unpacked
from fedsparse.errors import OptionError
from fedsparse.fitting import Scaling
from fedsparse.losses import LOSSES, Loss

_DIGEST_SIZE = 16
_LONGEST_REASON = 500
_MOST_BYTES = 2**50


@dataclass(frozen=True, eq=False)
class Setup:
    """What a site must know to answer requests.

    Attributes
    ----------
    loss
        What is minimized.
    agreed
        What all sites agreed on: an `Encoding` or a `NumberedEncoding`, as JSON holds it.
    identity
        The site's place in the federation, by which mini-batches are drawn.
    scaling
        How features are scaled; None: not at all.

    Examples
    --------
    >>> from fedsparse.losses import Logistic
    >>> scaling = Scaling(np.array([0.5]), np.array([np.inf]), intercept=3.0)
    >>> setup = Setup(Logistic(l2=0.5), {"width": 3}, 1, scaling)
    >>> read = Setup.from_bytes(setup.to_bytes())
    >>> read.loss, read.scaling.scale
    (Logistic(l2=0.5), array([inf]))
    """

    loss: Loss
    agreed: dict[str, Any]
    identity: int
    scaling: Scaling | None = None

    def to_bytes(self) -> bytes:
        """A frame; the vectors of the scaling are its parts."""
        name = self.loss.name
        if LOSSES.get(name) is not type(self.loss):
            raise OptionError(f"{self.loss!r} cannot be sent to sites; use one of {list(LOSSES)}")
        header: dict[str, Any] = {
            "loss": name,
            "l2": float(self.loss.l2),
            "agreed": self.agreed,
            "identity": self.identity,
        }
        parts = []
        if self.scaling is not None:
            own = self.scaling
            header["scaling"] = {
                "width": own.mean.size, "intercept": own.intercept, "offset": own.offset,
            }  # fmt: skip
            parts = [wire.encode(own.mean), wire.encode(_finite(own.scale))]
        return packed(header, parts)

    @classmethod
    def from_bytes(cls, written: bytes) -> "Setup":
        """Read what `to_bytes` wrote; a WireError if it is malformed."""
        header, parts = unpacked(written)
        try:
            loss = LOSSES[header["loss"]](l2=header["l2"])
            agreed, identity = header["agreed"], header["identity"]
            scaling = _scaling(header["scaling"], parts) if "scaling" in header else None
        except (ValueError, KeyError, TypeError):
            raise WireError("The setup is malformed.") from None
        if not isinstance(agreed, dict) or type(identity) is not int or not 0 <= identity < 2**62:
            raise WireError("The setup is malformed.")
        return cls(loss, agreed, identity, scaling)


def _finite(scale: FloatArray) -> FloatArray:
    """0 stands for infinity, the scale of a column that does not vary; nothing else is 0."""
    return np.where(np.isinf(scale), 0.0, scale)


def _scaling(written: dict[str, Any], parts: list[bytes]) -> Scaling:
    width = written["width"]
    if type(width) is not int or not 1 <= width <= wire.MAX_LENGTH:
        raise WireError("The setup is malformed.")
    mean, scale = (wire.decode(part, width) for part in parts)
    numbers = [float(written[name]) for name in ("intercept", "offset")]
    return Scaling(mean, np.where(scale == 0.0, np.inf, scale), *numbers)


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
class Ask:
    """Ask a site to answer a request under a setup."""

    request: bytes
    session: str
    setup: bytes | None = None


@dataclass(frozen=True)
class Described:
    """What a site tells of its table: `Told` in JSON."""

    told: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A site's answer.

    Attributes
    ----------
    answer
        As `encode_answer` wrote it.
    crossed
        Bytes that came down and went up over the site's sockets since it last answered, as far as
        it knows.
    """

    answer: bytes
    crossed: tuple[int, int] | None = None


@dataclass(frozen=True)
class Refused:
    """A site will not answer, and says why."""

    reason: str


@dataclass(frozen=True)
class SetupNeeded:
    """A site does not know the setup; it has been started anew, say."""


Payload = Hello | Ask | Described | Answered | Refused | SetupNeeded


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
        case Ask(request, session, setup):
            parts = [request] if setup is None else [request, setup]
            return packed({"say": "ask", "session": session}, parts)
        case Described(told):
            return packed({"say": "described", "told": told}, [])
        case Answered(answer, crossed):
            counts = {} if crossed is None else {"crossed": list(crossed)}
            return packed({"say": "answered", **counts}, [answer])
        case Refused(reason):
            return packed({"say": "refused", "reason": reason}, [])
        case SetupNeeded():
            return packed({"say": "setup needed"}, [])


def from_bytes(message: bytes) -> Payload:
    """Read what was said; a WireError if it is malformed."""
    header, parts = unpacked(message)
    match header, parts:
        case {"say": "hello", "wishes": dict(wishes)}, []:
            return Hello(wishes)
        case {"say": "ask", "session": str(session)}, [request]:
            return Ask(request, session)
        case {"say": "ask", "session": str(session)}, [request, setup]:
            return Ask(request, session, setup)
        case {"say": "described", "told": dict(told)}, []:
            return Described(told)
        case {"say": "answered", "crossed": [int(down), int(up)]}, [answer]:
            is_likely = 0 <= down < _MOST_BYTES and 0 <= up < _MOST_BYTES
            return Answered(answer, (down, up) if is_likely else None)
        case {"say": "answered"}, [answer]:
            return Answered(answer)
        case {"say": "refused", "reason": str(reason)}, []:
            return Refused(shorten(reason, _LONGEST_REASON, placeholder=" …"))
        case {"say": "setup needed"}, []:
            return SetupNeeded()
    raise WireError("The message says nothing that is known.")
