"""What the server does for secure sums: it hands on keys, and takes the masks off a sum."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from fedsparse.errors import FederationError
from fedsparse.federation.secure import masks, shamir
from fedsparse.federation.secure.site_masking import pair_key, private_mask_key
from fedsparse.federation.secure.statements import (
    Epoch,
    Package,
    Signers,
    answered,
    commitment_to,
    question_digest,
    survived,
)
from fedsparse.requests.fixed_sums import Integers, SumLayout
from fedsparse.requests.wire.vectors import WireError

_MOST_TRIES = 500
"""Sets of shares that are tried when some are wrong."""


@dataclass(eq=False)
class SecureExchange:
    """One exchange of an epoch, as the server sees it.

    Attributes
    ----------
    roster
        Knows the keys of all sites.
    epoch, number
        Which exchange.
    packages
        Of those who take part, by name in the order of the epoch.
    asks
        What is asked, the same for all.
    layout
        Where the answers lie.
    started_anew
        Names of those who have forgotten their keys meanwhile.
    """

    roster: Signers
    epoch: Epoch
    number: int
    packages: Mapping[str, Package]
    asks: bytes
    layout: SumLayout
    masked: dict[str, Integers] = field(default_factory=dict)
    signatures: dict[str, bytes] = field(default_factory=dict)
    next_packages: dict[str, Package] = field(default_factory=dict)
    started_anew: set[str] = field(default_factory=set)

    @property
    def participants(self) -> tuple[str, ...]:
        """Names of those who are asked."""
        return tuple(self.packages)

    @property
    def survivors(self) -> tuple[str, ...]:
        """Names of those who answered."""
        return tuple(name for name in self.packages if name in self.masked)

    @property
    def question(self) -> bytes:
        """Stands for the exchange."""
        own = list(self.packages.values())
        return question_digest(self.epoch.digest, self.number, self.participants, own, self.asks)

    @property
    def is_whole(self) -> bool:
        """Whether all who were asked answered."""
        return self.survivors == self.participants

    def packages_for(self, name: str) -> list[bytes]:
        """What a site needs of the others, in their order."""
        place = self.epoch.place(name)
        return [own.for_member(place) for own in self.packages.values()]

    def take(self, name: str, integers: bytes, signature: bytes, package: bytes) -> None:
        """Take in a masked answer; a WireError if it cannot be one."""
        if len(integers) != self.layout.bytes:
            raise WireError(
                f"The masked answer has {len(integers)} bytes instead of {self.layout.bytes}."
            )
        if not self.roster.verify(name, signature, answered(self.question)):
            raise WireError("The masked answer is not signed for this question.")
        following = Package.from_bytes(package, len(self.epoch.members))
        try:
            following.check(self.roster, self.epoch.digest, self.number + 1, name)
        except FederationError as error:
            raise WireError(str(error)) from None
        self.masked[name] = Integers.from_bytes(integers, self.layout.counts)
        self.signatures[name] = signature
        self.next_packages[name] = following

    def take_signature(self, name: str, signature: bytes, into: dict[str, bytes]) -> None:
        """Take in that a site agrees on the survivors."""
        if not self.roster.verify(name, signature, survived(self.question, self.survivors)):
            raise WireError("The survivors are not signed.")
        into[name] = signature

    def opened(self, shares: Mapping[str, Mapping[str, bytes]]) -> Integers:
        """The sum of the survivors' contributions.

        Parameters
        ----------
        shares
            What each site told, by its name, of each participant, by name.
        """
        total = Integers.zeros(*self.layout.counts)
        question = self.question
        for name in self.survivors:
            total.add(self.masked[name])
        for name in self.survivors:
            seed = self._recovered(name, shares)
            key = private_mask_key(seed, question)
            masks.add_mask(total, key, is_taken_away=True)
        for gone in (name for name in self.participants if name not in self.masked):
            private = self._recovered(gone, shares)
            for name in self.survivors:
                # The survivor added this mask if it stands before the one that is gone.
                is_added = self.participants.index(name) < self.participants.index(gone)
                key = pair_key(private, self.packages[name].public, question)
                masks.add_mask(total, key, is_taken_away=is_added)
        return total

    def _recovered(self, name: str, shares: Mapping[str, Mapping[str, bytes]]) -> bytes:
        """A site's secret from shares that others hold; wrong ones are found out."""
        found = {
            self.epoch.place(holder): own[name] for holder, own in shares.items() if name in own
        }
        threshold = self.epoch.threshold
        for chosen in _choices(list(found), threshold):
            secret = shamir.join({place: found[place] for place in chosen})
            if secret is not None and self._is_secret_of(name, secret):
                return secret
        raise FederationError(
            f"the masks of {name} could not be taken off the sum: {len(found)} sites told a share, "
            f"and {threshold} right ones are needed"
        )

    def _is_secret_of(self, name: str, secret: bytes) -> bool:
        package = self.packages[name]
        if name in self.masked:
            return commitment_to(secret) == package.commitment
        return masks.public_of(secret) == package.public


def _choices(places: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """Sets of shares to try, in turn if there are few.

    Else at random: in turn, one wrong share in the first place would be in all of them.
    """
    if math.comb(len(places), count) <= _MOST_TRIES:
        yield from combinations(places, count)
        return
    yield places[:count]
    for _ in range(_MOST_TRIES):
        yield random.sample(places, count)


def default_threshold(sites: int) -> int:
    """Fewest shares that open a sum: more than half of the sites.

    Examples
    --------
    >>> [default_threshold(sites) for sites in (3, 4, 5, 20)]
    [2, 3, 3, 11]
    """
    return sites // 2 + 1


def shares_from_bytes(parts: Sequence[bytes], names: Sequence[str]) -> dict[str, bytes]:
    """Shares by name; an empty part is one that did not open at the site."""
    if len(parts) != len(names) or any(len(own) not in (0, shamir.SHARE_BYTES) for own in parts):
        raise WireError("The shares have the wrong length.")
    return {name: own for name, own in zip(names, parts, strict=True) if own}
