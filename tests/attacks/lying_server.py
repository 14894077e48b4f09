"""A server that keeps to the form of the protocol and lies wherever sites cannot tell."""

import secrets

import numpy as np

from fedsparse.engines.lens import Lens
from fedsparse.errors import FederationError
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Asks, Hello, MaskedAsks, Prepare, Setup, Survivors
from fedsparse.federation.secure.statements import Epoch, Package
from fedsparse.federation.secure.unmasking import (
    SecureExchange,
    default_threshold,
    shares_from_bytes,
)
from fedsparse.federation.server.agreement import Terms, agree
from fedsparse.federation.server.member import introduction_of
from fedsparse.federation.sites.site_tables import Told
from fedsparse.modelling.fitting import loss_for
from fedsparse.requests import Gradient
from fedsparse.requests.fixed_sums import layout_of
from fedsparse.requests.wire.request_bytes import encode_request
from tests.federation.federated_tables import NAMES, clients_of
from tests.federation.grids import table_of
from tests.federation.secure_sites import ROSTER, secure_site


def sites_of(clients, names=NAMES, *, policy=None, questions=lambda name: None):
    """Sites with numbers to predict, by name; ``questions`` makes what each remembers."""
    return {
        name: secure_site(name, table_of(*client), policy, questions(name))
        for name, client in zip(names, clients, strict=True)
    }


def five_sites(**options):
    return sites_of(clients_of("numbers"), **options)


class LyingServer:
    """Asks real sites one thing at a time, in any words and together with whomever it likes.

    Parameters
    ----------
    sites
        By name.
    run
        The number that it gives its run.
    agreed
        What it says that all agreed on; None: what they would agree on.
    """

    def __init__(self, sites, run=1, agreed=None):
        self.sites = sites
        self.run = run
        self.received = {name: [] for name in sites}
        terms = Terms(task="regression" if agreed is None else "auto", minimum_rows=2)
        wishes = terms.wishes.model_dump(mode="json")
        told = [Told.model_validate(self.say(name, Hello(wishes)).told) for name in sites]
        self.introductions = {own.description.site: introduction_of(own, ROSTER) for own in told}
        self.agreed = _agreed(sites, terms) if agreed is None else agreed
        self.names = tuple(sites)
        self.lens = Lens(loss_for(None, 1.0))
        self.width = len(self.agreed["columns"])

    def say(self, name, payload):
        """What a site replies; a FederationError if it refuses."""
        reply = self.sites[name].reply(payloads.to_bytes(payload), run=self.run)
        self.received[name].append(reply)
        said = payloads.from_bytes(reply)
        if isinstance(said, payloads.Refused):
            raise FederationError(f"{name}: {said.reason}")
        return said

    def prepare(self, names=None, threshold=None):
        """Keys of some sites for one exchange."""
        members = tuple(self.introductions[name] for name in names or self.names)
        epoch = Epoch(
            secrets.token_bytes(16), members, threshold or default_threshold(len(members))
        )
        written = {name: self.say(name, Prepare(epoch)).package for name in epoch.names}
        return epoch, {name: Package.from_bytes(own, len(members)) for name, own in written.items()}

    def setup_for(self, name):
        """What a site is told of the federation; here the truth."""
        return Setup(self.agreed, self.names.index(name), self.names)

    def sum_of(self, request, *, which=None, weights="samples", **options):
        """What a new exchange over some sites adds up to."""
        (only,) = self.sums_of(request, [(weights, which)], **options)
        return only

    def sums_of(self, request, ways, *, survivors=None, openers=None, **options):
        """The same question several times in one exchange, with weights and places of each."""
        return self.opened(self.asked(request, ways, **options), survivors, openers)

    def asked(self, request, ways=(("samples", None),), *, names=None, lens=None):
        """An exchange that sites answered and that nobody has opened yet."""
        lens = self.lens if lens is None else lens
        epoch, packages = self.prepare(names)
        weights, which = zip(*ways, strict=True)
        terms = MaskedAsks(0, (), weights, which)
        requests = ((lens.digest, encode_request(request)),) * len(ways)
        layout = layout_of([(request, (self.width,), lens.scaling is not None)] * len(ways))
        common = self.setup_for(epoch.names[0]).common
        exchange = SecureExchange(ROSTER, epoch, 0, packages, terms.asks(requests, common), layout)
        for name in epoch.names:
            setup = self.setup_for(name).to_bytes()
            own = tuple(zip(epoch.names, exchange.packages_for(name), strict=True))
            masked = MaskedAsks(0, own, terms.weights, terms.which)
            session = payloads.digest_of(setup)
            lenses = (payloads.lens_to_bytes(lens),)
            answer = self.say(name, Asks(session, requests, setup, lenses, masked)).answer
            exchange.take(name, answer.integers, answer.signature, answer.package)
        return exchange

    def opened(self, exchange, survivors=None, openers=None):
        """Sums over survivors, by default all who answered; some of them are asked for shares."""
        return exchange.layout.decode(self.integers(exchange, survivors, openers))

    def integers(self, exchange, survivors=None, openers=None):
        """The same as it lies under the masks, all of which an honest server does not look at."""
        if survivors is not None:
            for name in set(exchange.masked) - set(survivors):
                del exchange.masked[name]
        names = exchange.survivors
        signatures = tuple(exchange.signatures.items())
        if not exchange.is_whole:
            told = Survivors(exchange.number, names)
            signatures = tuple((name, self.say(name, told).signature) for name in names)
        told = Survivors(exchange.number, names, signatures)
        shares = {
            name: shares_from_bytes(self.say(name, told).shares, exchange.participants)
            for name in openers or names
        }
        return exchange.opened(shares)


def _agreed(sites, terms):
    known = [site._table.describe(name, terms.wishes) for name, site in sites.items()]
    return agree(known, terms).model_dump(mode="json", exclude={"left_out", "notes", "kept"})


def gradient_at(x):
    """A question that every run asks: most begin at x = 0."""
    return Gradient(np.asarray(x, dtype=np.float64))


def own_gradient(client, x):
    """What a site contributes to it under the squared error."""
    Z, y = client
    return 2.0 * Z.T @ (Z @ x - y)
