"""What sites sign and send for a secure sum, and how it is written.

The words: an *epoch* is a set of sites that hold shares of each other's keys, and the threshold of
shares that gives a key back. A *package* is what a site needs of another one for one exchange of an
epoch. Every exchange has a number and uses every package once.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from fedsparse.errors import FederationError
from fedsparse.federation.secure import masks, shamir
from fedsparse.requests.wire.vectors import WireError

SIGNATURE_BYTES = 64
_SEAL_BYTES = 16
SEALED_BYTES = 2 * shamir.SHARE_BYTES + _SEAL_BYTES
_COMMITMENT_BYTES = 32
_HEAD_BYTES = masks.KEY_BYTES + _COMMITMENT_BYTES + SIGNATURE_BYTES


class Signers(Protocol):
    """Knows the long-term keys of sites: a roster."""

    def verify(self, name: str, signature: bytes, message: bytes) -> bool:
        """Whether a site of that name signed a message."""


def statement(purpose: str, *parts: bytes) -> bytes:
    """Bytes that say one thing: each part behind its length.

    Examples
    --------
    >>> statement("a", b"bc") == statement("ab", b"c")
    False
    """
    every = (b"fedsparse 1", purpose.encode(), *parts)
    return b"".join(len(part).to_bytes(8, "little") + part for part in every)


def digest_of(purpose: str, *parts: bytes) -> bytes:
    """32 bytes that stand for a statement."""
    return hashlib.blake2b(statement(purpose, *parts), digest_size=32).digest()


@dataclass(frozen=True)
class Introduction:
    """The key under which others write to a site during a run, signed by the site.

    Attributes
    ----------
    run
        Flower's number of the run.
    name
        Of the site.
    public
        Of its X25519 key.
    signature
        By its long-term key.
    """

    run: int
    name: str
    public: bytes
    signature: bytes

    @staticmethod
    def to_sign(run: int, name: str, public: bytes) -> bytes:
        """What is signed."""
        return statement("introduction", _number(run), name.encode(), public)

    def check(self, roster: Signers) -> None:
        """A FederationError if the site did not sign it, or it is no key."""
        own = self.to_sign(self.run, self.name, self.public)
        if not roster.verify(self.name, self.signature, own):
            raise FederationError(f"the key of {self.name} is not signed by the one in the roster")
        if not masks.is_public(self.public):
            raise FederationError(f"the key of {self.name} is none")


@dataclass(frozen=True)
class Epoch:
    """Sites that hold shares of each other's keys.

    Attributes
    ----------
    nonce
        Tells epochs of the same sites apart.
    members
        In order; the place of a site is its number.
    threshold
        Shares that give a key back: more than half of the members, so that no two sets of
        survivors can both be opened.
    """

    nonce: bytes
    members: tuple[Introduction, ...]
    threshold: int

    @property
    def run(self) -> int:
        """Flower's number of the run."""
        return self.members[0].run

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members."""
        return tuple(own.name for own in self.members)

    @property
    def digest(self) -> bytes:
        """Stands for the epoch."""
        each = (part for own in self.members for part in (own.name.encode(), own.public))
        return digest_of("epoch", _number(self.run), self.nonce, _number(self.threshold), *each)

    def place(self, name: str) -> int:
        """Place of a member among the members."""
        return self.names.index(name)


@dataclass(frozen=True)
class Package:
    """What a site hands out for one exchange.

    Attributes
    ----------
    public
        Of the X25519 key that pairwise masks come from.
    commitment
        Digest of the seed of the private mask, by which a recovered one is known.
    signature
        Of both, the epoch and the exchange's number, by the site's long-term key.
    sealed
        For every member in order, its shares of both secrets, which nobody else can open.
    """

    public: bytes
    commitment: bytes
    signature: bytes
    sealed: tuple[bytes, ...]

    @staticmethod
    def to_sign(epoch: bytes, number: int, name: str, public: bytes, commitment: bytes) -> bytes:
        """What is signed."""
        return statement("package", epoch, _number(number), name.encode(), public, commitment)

    def check(self, roster: Signers, epoch: bytes, number: int, name: str) -> None:
        """A FederationError if the site did not sign it for this exchange, or it is no key."""
        own = self.to_sign(epoch, number, name, self.public, self.commitment)
        if not roster.verify(name, self.signature, own):
            raise FederationError(f"the mask key of {name} is not signed by the key in the roster")
        if not masks.is_public(self.public):
            raise FederationError(f"the mask key of {name} is none")

    def to_bytes(self) -> bytes:
        """All of it, for the server."""
        return b"".join((self.public, self.commitment, self.signature, *self.sealed))

    def for_member(self, place: int) -> bytes:
        """What one member needs of it."""
        return b"".join((self.public, self.commitment, self.signature, self.sealed[place]))

    @classmethod
    def from_bytes(cls, written: bytes, members: int) -> "Package":
        """What `to_bytes` wrote, or `for_member` if there is one member."""
        if len(written) != _HEAD_BYTES + members * SEALED_BYTES:
            raise WireError("A package of keys has the wrong length.")
        cuts = (0, masks.KEY_BYTES, masks.KEY_BYTES + _COMMITMENT_BYTES, _HEAD_BYTES)
        public, commitment, signature = (written[begin:end] for begin, end in pairwise(cuts))
        sealed = tuple(
            written[begin : begin + SEALED_BYTES]
            for begin in range(_HEAD_BYTES, len(written), SEALED_BYTES)
        )
        return cls(public, commitment, signature, sealed)


def commitment_to(seed: bytes) -> bytes:
    """By which the seed of a private mask is known."""
    return digest_of("private mask", seed)


def sealing_context(epoch: bytes, number: int, sender: str, receiver: str) -> bytes:
    """What the key that seals shares is for."""
    return statement("shares", epoch, _number(number), sender.encode(), receiver.encode())


def question_digest(
    epoch: bytes, number: int, participants: Sequence[str], packages: Sequence[Package], asks: bytes
) -> bytes:
    """Stands for an exchange: who takes part with which keys, and what is asked.

    Masks are derived from it. If a server told sites different things, theirs would not cancel.
    """
    names = [name.encode() for name in participants]
    keys = [own.public + own.commitment for own in packages]
    return digest_of("question", epoch, _number(number), asks, *names, *keys)


def answered(question: bytes) -> bytes:
    """What a site signs when it has answered."""
    return statement("answered", question)


def survived(question: bytes, survivors: Sequence[str]) -> bytes:
    """What a site signs when it is told that others did not answer."""
    return statement("survivors", question, *(name.encode() for name in survivors))


def _number(value: int) -> bytes:
    return value.to_bytes(16, "little")
