"""What server and sites say to each other, as bytes.

A server first says hello, and a site describes its table. Then the server asks: each message holds
a request and the digest of the *setup* that says how to answer it; the setup itself goes along
when the site may not know it yet.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from fedsparse.codec import WireError
from fedsparse.codec.frame import packed, unpacked
from fedsparse.errors import OptionError
from fedsparse.losses import LOSSES, Loss

_DIGEST_SIZE = 16


@dataclass(frozen=True)
class Setup:
    """What a site must know to answer requests.

    Attributes
    ----------
    loss
        What is minimized.
    agreed
        What all sites agreed on: columns and classes.
    identity
        The site's place in the federation, by which mini-batches are drawn.

    Examples
    --------
    >>> from fedsparse.losses import Logistic
    >>> setup = Setup(Logistic(l2=0.5), {"width": 3}, identity=1)
    >>> Setup.from_bytes(setup.to_bytes()) == setup
    True
    """

    loss: Loss
    agreed: dict[str, Any]
    identity: int

    def to_bytes(self) -> bytes:
        """JSON."""
        name = self.loss.name
        if LOSSES.get(name) is not type(self.loss):
            raise OptionError(f"{self.loss!r} cannot be sent to sites; use one of {list(LOSSES)}")
        written = {
            "loss": name,
            "l2": float(self.loss.l2),
            "agreed": self.agreed,
            "identity": self.identity,
        }
        return json.dumps(written, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, written: bytes) -> "Setup":
        """Read what `to_bytes` wrote; a WireError if it is malformed."""
        try:
            values = json.loads(written)
            loss = LOSSES[values["loss"]](l2=values["l2"])
            agreed, identity = values["agreed"], values["identity"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WireError("The setup is malformed.") from None
        if not isinstance(agreed, dict) or type(identity) is not int or not 0 <= identity < 2**62:
            raise WireError("The setup is malformed.")
        return cls(loss, agreed, identity)


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
    """Ask a site to describe its table for a loss, named by ``loss``."""

    loss: str


@dataclass(frozen=True)
class Ask:
    """Ask a site to answer a request under a setup."""

    request: bytes
    session: str
    setup: bytes | None = None


@dataclass(frozen=True)
class Described:
    """A site's description of its table."""

    description: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """A site's answer."""

    answer: bytes


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
        case Hello(loss):
            return packed({"say": "hello", "loss": loss}, [])
        case Ask(request, session, setup):
            parts = [request] if setup is None else [request, setup]
            return packed({"say": "ask", "session": session}, parts)
        case Described(description):
            return packed({"say": "described", "description": description}, [])
        case Answered(answer):
            return packed({"say": "answered"}, [answer])
        case Refused(reason):
            return packed({"say": "refused", "reason": reason}, [])
        case SetupNeeded():
            return packed({"say": "setup needed"}, [])


def from_bytes(message: bytes) -> Payload:
    """Read what was said; a WireError if it is malformed."""
    header, parts = unpacked(message)
    match header, parts:
        case {"say": "hello", "loss": str(loss)}, []:
            return Hello(loss)
        case {"say": "ask", "session": str(session)}, [request]:
            return Ask(request, session)
        case {"say": "ask", "session": str(session)}, [request, setup]:
            return Ask(request, session, setup)
        case {"say": "described", "description": dict(description)}, []:
            return Described(description)
        case {"say": "answered"}, [answer]:
            return Answered(answer)
        case {"say": "refused", "reason": str(reason)}, []:
            return Refused(reason)
        case {"say": "setup needed"}, []:
            return SetupNeeded()
    raise WireError("The message says nothing that is known.")
