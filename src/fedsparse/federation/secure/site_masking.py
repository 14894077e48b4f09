"""What a site does for secure sums: it masks its answers and helps to open their sum, once.

A server gets a site's integers under two kinds of masks: one for each other site, which cancel in
the sum, and a private one. Of every site that answered it needs the private mask, of every site
that did not the key of the pairwise ones; each comes from shares that the others hold. A site tells
of another one either share, never both, and only for one set of survivors an exchange. With a
threshold above half of the sites no set can be opened after another one was.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsparse.engines.engine import FEWEST_IN_A_SUM
from fedsparse.errors import FederationError
from fedsparse.federation.secure import masks, shamir
from fedsparse.federation.secure.statements import (
    Epoch,
    Introduction,
    Package,
    Signers,
    answered,
    commitment_to,
    question_digest,
    sealing_context,
    survived,
)
from fedsparse.requests.fixed_sums import Integers

_MOST_RUNS = 16
_NONCE = bytes(12)
"""Every sealing key is used once."""


@dataclass(frozen=True)
class Secrets:
    """What a site keeps to itself of a package."""

    mask_key: bytes
    seed: bytes


@dataclass(frozen=True)
class MaskedAnswer:
    """What leaves a site in an exchange.

    Attributes
    ----------
    integers
        Its contribution under masks.
    signature
        That it answered this very question.
    package
        Its keys for the next exchange.
    """

    integers: bytes
    signature: bytes
    package: bytes


@dataclass(eq=False)
class _Current:
    """The exchange that a site answered last."""

    number: int
    question: bytes
    participants: tuple[str, ...]
    packages: Mapping[str, Package]
    reply: MaskedAnswer
    signed: tuple[str, ...] | None = None
    opened: tuple[str, ...] | None = None


@dataclass(eq=False)
class _Membership:
    """A site's part in an epoch."""

    epoch: Epoch
    own: dict[int, Secrets] = field(default_factory=dict)
    current: _Current | None = None


class SiteMasking:
    """Masks a site's answers, run by run.

    Parameters
    ----------
    name
        Of the site.
    key
        Its long-term signing key.
    roster
        Knows the keys of all sites.
    """

    def __init__(self, name: str, key: Ed25519PrivateKey, roster: Signers) -> None:
        self.name = name
        self._key = key
        self._roster = roster
        self._private = masks.new_key()  # of this process: a site that starts anew has another
        self._public = masks.public_of(self._private)
        self._memberships: dict[int, _Membership] = {}
        # Never forgotten: first keys made twice would be sealed twice under the same key.
        self._known_epochs: dict[bytes, bytes] = {}

    def introduction(self, run: int) -> Introduction:
        """The key under which others write to this site."""
        signature = self._key.sign(Introduction.to_sign(run, self.name, self._public))
        return Introduction(run, self.name, self._public, signature)

    def prepare(self, epoch: Epoch) -> bytes | None:
        """Join an epoch; gives the package of its first exchange, None if it names another key.

        What is asked again is answered again with the same package.
        """
        names = epoch.names
        if len(set(names)) < len(names) or self.name not in names:
            raise FederationError("the server names a site twice, or this one not at all")
        if len(names) < FEWEST_IN_A_SUM or not len(names) < 2 * epoch.threshold <= 2 * len(names):
            raise FederationError(
                f"{len(names)} sites with a threshold of {epoch.threshold} do not hide each "
                "other; three sites are needed, and a threshold above half of them"
            )
        for member in epoch.members:
            member.check(self._roster)
            if member.run != epoch.run:
                raise FederationError(f"the key of {member.name} is of another run")
        if epoch.members[epoch.place(self.name)].public != self._public:
            return None
        if epoch.digest not in self._known_epochs:
            self._memberships.pop(epoch.run, None)
            if len(self._memberships) >= _MOST_RUNS:
                self._memberships.pop(next(iter(self._memberships)))
            membership = self._memberships[epoch.run] = _Membership(epoch)
            self._known_epochs[epoch.digest] = self._new_package(membership, 0).to_bytes()
        return self._known_epochs[epoch.digest]

    def has_keys(self, run: int) -> bool:
        """Whether it joined others in a run; one that was started anew has yet to."""
        return run in self._memberships

    def mask(
        self,
        run: int,
        number: int,
        packages: Mapping[str, bytes],
        asks: bytes,
    ) -> "_Masker | MaskedAnswer":
        """Get ready to mask the answer to an exchange, or the masked answer if it was given.

        Parameters
        ----------
        run, number
            Which exchange.
        packages
            What those who take part handed out for it, by name in the order of the epoch.
        asks
            All that is asked, the same at all sites.
        """
        membership = self._membership(run)
        epoch = membership.epoch
        participants = tuple(packages)
        if [name for name in epoch.names if name in packages] != list(participants):
            raise FederationError("the server names sites that are not in the epoch")
        if self.name not in packages or len(participants) < FEWEST_IN_A_SUM:
            raise FederationError(
                f"a sum over {len(participants)} sites would not hide this one; "
                f"{FEWEST_IN_A_SUM} are needed, this one among them"
            )
        opened = {name: Package.from_bytes(own, members=1) for name, own in packages.items()}
        for name, package in opened.items():
            package.check(self._roster, epoch.digest, number, name)
        question = question_digest(epoch.digest, number, participants, list(opened.values()), asks)
        current = membership.current
        if current is not None and current.number == number:
            if current.question == question:
                return current.reply
            raise FederationError(
                f"the server asks something else in exchange {number}, which was answered"
            )
        if number not in membership.own:
            raise FederationError(f"the keys of exchange {number} were used or never made")
        own = membership.own[number]
        if masks.public_of(own.mask_key) != opened[self.name].public:
            raise FederationError("the server does not use the key that this site handed out")
        return _Masker(self, membership, number, question, participants, opened)

    def sign_survivors(self, run: int, number: int, survivors: Sequence[str]) -> bytes:
        """Agree that these sites answered, before any share is told."""
        current = self._checked(run, number, survivors)
        if current.opened is not None and current.opened != tuple(survivors):
            raise FederationError("the sum was opened for other survivors already")
        if current.signed is not None and current.signed != tuple(survivors):
            raise FederationError("the server names other survivors than before")
        current.signed = tuple(survivors)
        return self._key.sign(survived(current.question, survivors))

    def open(
        self, run: int, number: int, survivors: Sequence[str], signatures: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Shares that take the masks off the sum of the survivors' answers, by whose they are.

        The private mask's of those who survived, the pairwise ones' of those who did not; nothing
        of a site whose shares do not open.
        """
        current = self._checked(run, number, survivors)
        told = tuple(survivors)
        if current.opened is not None and current.opened != told:
            raise FederationError("the sum was opened for other survivors already")
        if current.signed is not None and current.signed != told:
            raise FederationError("this site signed that others survived")
        self._check_signatures(run, current, told, signatures)
        current.opened = told
        found = {}
        for name, package in current.packages.items():
            shares = self._unsealed(run, number, name, package.sealed[0])
            found[name] = b"" if shares is None else shares[0 if name in told else 1]
        return found

    def _checked(self, run: int, number: int, survivors: Sequence[str]) -> _Current:
        membership = self._membership(run)
        current = membership.current
        if current is None or current.number != number:
            raise FederationError(f"exchange {number} is not the one that was answered last")
        kept = [name for name in current.participants if name in set(survivors)]
        fewest = max(FEWEST_IN_A_SUM, membership.epoch.threshold)
        if kept != list(survivors) or len(kept) < fewest:
            raise FederationError(
                f"a sum over {len(survivors)} of {len(current.participants)} sites is not opened; "
                f"at least {fewest} that take part must have answered"
            )
        if self.name not in kept:
            # It would not remember with whom those who are in the sum have answered.
            raise FederationError("this site answered, and does not open a sum without itself")
        return current

    def _check_signatures(
        self, run: int, current: _Current, told: tuple[str, ...], signatures: Mapping[str, bytes]
    ) -> None:
        """Refuse what fewer than the threshold of the survivors agreed to."""
        is_everyone = told == current.participants
        message = answered(current.question) if is_everyone else survived(current.question, told)
        agreeing = [
            name
            for name, signature in signatures.items()
            if name in told and self._roster.verify(name, signature, message)
        ]
        threshold = self._membership(run).epoch.threshold
        if len(agreeing) < threshold:
            raise FederationError(
                f"{len(agreeing)} sites signed that these survived, and {threshold} are needed"
            )

    def _membership(self, run: int) -> _Membership:
        membership = self._memberships.get(run)
        if membership is None:
            raise FederationError("no keys were exchanged for this run; it may have begun anew")
        return membership

    def _new_package(self, membership: _Membership, number: int) -> Package:
        """Keys for an exchange, and the shares of them that others hold."""
        epoch = membership.epoch
        own = Secrets(masks.new_key(), secrets.token_bytes(shamir.SECRET_BYTES))
        membership.own[number] = own
        seeds = shamir.split(own.seed, epoch.threshold, len(epoch.members))
        keys = shamir.split(own.mask_key, epoch.threshold, len(epoch.members))
        sealed = tuple(
            self._cipher(membership, number, self.name, member).encrypt(_NONCE, seed + key, None)
            for member, seed, key in zip(epoch.members, seeds, keys, strict=True)
        )
        public, commitment = masks.public_of(own.mask_key), commitment_to(own.seed)
        statement = Package.to_sign(epoch.digest, number, self.name, public, commitment)
        return Package(public, commitment, self._key.sign(statement), sealed)

    def _unsealed(
        self, run: int, number: int, sender: str, sealed: bytes
    ) -> tuple[bytes, bytes] | None:
        """Shares of another site's secrets; None if they do not open."""
        membership = self._membership(run)
        member = membership.epoch.members[membership.epoch.place(sender)]
        cipher = self._cipher(membership, number, sender, member, is_received=True)
        try:
            both = cipher.decrypt(_NONCE, sealed, None)
        except InvalidTag:
            return None
        return both[: shamir.SHARE_BYTES], both[shamir.SHARE_BYTES :]

    def _cipher(
        self,
        membership: _Membership,
        number: int,
        sender: str,
        other: Introduction,
        *,
        is_received: bool = False,
    ) -> AESGCM:
        receiver = self.name if is_received else other.name
        context = sealing_context(membership.epoch.digest, number, sender, receiver)
        return AESGCM(masks.agreed_key(self._private, other.public, context))


class _Masker:
    """Everything that was checked, waiting for the numbers."""

    def __init__(
        self,
        masking: SiteMasking,
        membership: _Membership,
        number: int,
        question: bytes,
        participants: tuple[str, ...],
        packages: Mapping[str, Package],
    ) -> None:
        self._masking = masking
        self._membership = membership
        self._number = number
        self._question = question
        self._participants = participants
        self._packages = packages

    def masked(self, contribution: Integers) -> MaskedAnswer:
        """The contribution under masks; the keys of this exchange are forgotten."""
        masking, own = self._masking, self._membership.own.pop(self._number)
        masks.add_mask(contribution, private_mask_key(own.seed, self._question))
        own_place = self._participants.index(masking.name)
        for place, name in enumerate(self._participants):
            if name != masking.name:
                key = pair_key(own.mask_key, self._packages[name].public, self._question)
                masks.add_mask(contribution, key, is_taken_away=place < own_place)
        reply = MaskedAnswer(
            contribution.to_bytes(),
            masking._key.sign(answered(self._question)),
            masking._new_package(self._membership, self._number + 1).to_bytes(),
        )
        self._membership.current = _Current(
            self._number, self._question, self._participants, self._packages, reply
        )
        return reply


def private_mask_key(seed: bytes, question: bytes) -> bytes:
    """The key of a site's private mask in an exchange."""
    return masks.derived_key(seed, b"private" + question)


def pair_key(private: bytes, public: bytes, question: bytes) -> bytes:
    """The key of the mask that two sites share in an exchange."""
    return masks.agreed_key(private, public, b"pair" + question)
