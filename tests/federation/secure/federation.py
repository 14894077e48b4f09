"""Sites and a server that add up under masks, without tables and without a network."""

import secrets

import numpy as np

from fedsparse.errors import FederationError
from fedsparse.federation.secure.statements import Epoch, Package
from fedsparse.federation.secure.unmasking import SecureExchange, default_threshold
from fedsparse.requests.fixed_sums import Integers, SumLayout
from tests.federation.secure_sites import ROSTER, masking_of

NAMES = ("aachen", "bari", "cork", "delft", "espoo")
RUN = 7
LAYOUT = SumLayout([({"gradient": (2,)}, True)])
ASKS = b"the gradient at 0"


def contribution(name):
    """What a site adds; no two sums of some of them are the same."""
    value = 10.0 ** (ord(name[0]) - ord("a")) if name in NAMES else 0.5
    return LAYOUT.encode([({"gradient": np.array([value, -2.0 * value])}, 1.0)])


def plain_sum(names):
    total = Integers.zeros(*LAYOUT.counts)
    for name in names:
        total.add(contribution(name))
    return total.to_bytes()


class Federation:
    """Sites by name, and what a server does with them step by step.

    Parameters
    ----------
    names
        Of the sites.
    threshold
        Shares that open a secret; by default more than half.
    """

    def __init__(self, names=NAMES, threshold=None):
        self.names = names
        self.threshold = default_threshold(len(names)) if threshold is None else threshold
        self.sites = {name: masking_of(name) for name in names}

    def epoch(self, **changes):
        members = tuple(site.introduction(RUN) for site in self.sites.values())
        own = {"nonce": secrets.token_bytes(16), "members": members, "threshold": self.threshold}
        return Epoch(**own | changes)

    def prepared(self, epoch, names=None):
        """Packages that some sites hand out for the first exchange."""
        return {
            name: Package.from_bytes(self.sites[name].prepare(epoch), len(epoch.members))
            for name in (self.names if names is None else names)
        }

    def exchange(self, epoch, packages, number=0, asks=ASKS):
        return SecureExchange(ROSTER, epoch, number, packages, asks, LAYOUT)

    def masker(self, exchange, name, asks=None):
        packages = dict(zip(exchange.participants, exchange.packages_for(name), strict=True))
        return self.sites[name].mask(RUN, exchange.number, packages, asks or exchange.asks)

    def answer(self, exchange, names=None):
        """Some of the participants answer."""
        for name in exchange.participants if names is None else names:
            reply = self.masker(exchange, name).masked(contribution(name))
            exchange.take(name, reply.integers, reply.signature, reply.package)

    def sign(self, exchange, names=None):
        """Signatures of some sites that the survivors survived."""
        survivors = exchange.survivors
        found = {}
        for name in survivors if names is None else names:
            own = self.sites[name].sign_survivors(RUN, exchange.number, survivors)
            exchange.take_signature(name, own, found)
        return found

    def shares(self, exchange, signatures, names=None):
        """What some of the survivors tell to open the sum."""
        survivors = exchange.survivors
        return {
            name: {
                of: own
                for of, own in self.sites[name]
                .open(RUN, exchange.number, survivors, signatures)
                .items()
                if own
            }
            for name in (survivors if names is None else names)
        }

    def opened(self, exchange, signing=None, opening=None):
        """The sum as bytes; a FederationError where too few are left."""
        signatures = exchange.signatures
        if not exchange.is_whole:
            signatures = self.sign(exchange, signing)
        return exchange.opened(self.shares(exchange, signatures, opening)).to_bytes()

    def started(self):
        """An exchange that all have answered."""
        epoch = self.epoch()
        exchange = self.exchange(epoch, self.prepared(epoch))
        self.answer(exchange)
        return exchange

    def restart(self, name):
        """A site's process ends and begins anew."""
        self.sites[name] = masking_of(name)


def refusal(call, *arguments):
    """What a refusal says; None if there is none."""
    try:
        call(*arguments)
    except FederationError as error:
        return str(error)
    return None
