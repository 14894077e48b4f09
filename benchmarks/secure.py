"""What masks cost: one exchange of 80,200 numbers, open, secure, and with Flower's SecAgg+.

All sites live in one process and answer one after the other, each way in a process of its own, so
that seconds are those of work and not of a network. A site's are the mean over sites; the server's
are all else. Sites hold one vector each; what they would do to compute it is left out.

Flower's SecAgg+ (`SecAggPlusWorkflow` and `secaggplus_mod`) belongs to Flower's earlier interface:
it needs a `LegacyContext` with a strategy and a client manager, the least of which stands here for
a server. It sends four messages where two are sent here, and numbers of 22 bits where these are
exact.
"""

import secrets
import sys
import time
from contextlib import contextmanager

import numpy as np

from benchmarks.measured import in_own_process, peak_bytes
from benchmarks.tables import show

NUMBERS = 80_200
SITES = (3, 5, 20, 50)
EXCHANGES = 3
"""The first is not counted: it makes keys, which later ride with answers."""
LONGEST = 300.0
"""Seconds that the exchanges of one way may take."""
_NONZEROS = 200
_RUN = 1


class Clock:
    """Seconds that sites took, all together, and bytes that crossed to and from each."""

    def __init__(self):
        self.seconds = 0.0
        self.down = self.up = 0

    @contextmanager
    def at_site(self):
        """Count what is done meanwhile as a site's work."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began


def vectors(sites):
    return np.random.default_rng(0).standard_normal((sites, NUMBERS))


def question():
    from fedsparse.requests import Gradient

    x = np.zeros(NUMBERS)
    x[:_NONZEROS] = 1.0
    return Gradient(x)


def open_exchanges(sites):
    """Yields a clock after every exchange, and the sum."""
    from fedsparse.compute.stacks import DenseStack
    from fedsparse.federation import payloads
    from fedsparse.requests import Answers
    from fedsparse.requests.wire.answer_bytes import decode_answer, encode_answer, stack_answers
    from fedsparse.requests.wire.request_bytes import encode_request

    own, request = vectors(sites), question()
    while True:
        clock = Clock()
        asked = payloads.to_bytes(payloads.Asks("0" * 32, (("0" * 32, encode_request(request)),)))
        answers = []
        for place in range(sites):
            with clock.at_site():
                stack = DenseStack(own[place : place + 1], (NUMBERS,))
                written = encode_answer({"gradient": stack})
                reply = payloads.to_bytes(payloads.Answered(((written, 1.0),)))
            clock.down += len(asked)
            clock.up += len(reply)
            ((written, _),) = payloads.from_bytes(reply).answers
            answers.append(decode_answer(written, request, (NUMBERS,)))
        sums = Answers.of(stack_answers(answers), np.ones(sites))
        yield clock, sums.total("gradient")


class _Roster:
    """Keys of sites that were made for this."""

    def __init__(self, names):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.keys = {name: Ed25519PrivateKey.generate() for name in names}

    def verify(self, name, signature, message):
        self.keys[name].public_key().verify(signature, message)
        return True


def secure_exchanges(sites):
    """The same under masks."""
    from fedsparse.federation import payloads
    from fedsparse.federation.secure.site_masking import SiteMasking
    from fedsparse.federation.secure.statements import Epoch, Package
    from fedsparse.federation.secure.unmasking import (
        SecureExchange,
        default_threshold,
        shares_from_bytes,
    )
    from fedsparse.requests.fixed_sums import layout_of
    from fedsparse.requests.wire.request_bytes import encode_request

    own, request = vectors(sites), question()
    names = [f"site {place:02}" for place in range(sites)]
    roster = _Roster(names)
    maskings = {name: SiteMasking(name, roster.keys[name], roster) for name in names}
    members = tuple(masking.introduction(_RUN) for masking in maskings.values())
    epoch = Epoch(secrets.token_bytes(16), members, default_threshold(sites))
    packages = {
        name: Package.from_bytes(masking.prepare(epoch), sites)
        for name, masking in maskings.items()
    }
    layout = layout_of([(request, (NUMBERS,), True)])
    written = encode_request(request)
    number = 0
    while True:
        clock = Clock()
        exchange = SecureExchange(roster, epoch, number, packages, written, layout)
        for name, vector in zip(names, own, strict=True):
            parts = tuple(zip(names, exchange.packages_for(name), strict=True))
            masked = payloads.MaskedAsks(number, parts, ("uniform",), (None,))
            asks = payloads.Asks("0" * 32, (("0" * 32, written),), None, (), masked)
            clock.down += len(payloads.to_bytes(asks))
            with clock.at_site():
                masker = maskings[name].mask(_RUN, number, dict(parts), written)
                answer = masker.masked(layout.encode([({"gradient": vector}, 1.0)]))
                reply = payloads.to_bytes(payloads.Masked(answer))
            clock.up += len(reply)
            answer = payloads.from_bytes(reply).answer
            exchange.take(name, answer.integers, answer.signature, answer.package)
        signatures = tuple(exchange.signatures.items())[: epoch.threshold]
        told = payloads.to_bytes(payloads.Survivors(number, exchange.survivors, signatures))
        shares = {}
        for name in names:
            clock.down += len(told)
            with clock.at_site():
                found = maskings[name].open(_RUN, number, exchange.survivors, dict(signatures))
                reply = payloads.to_bytes(payloads.Opened(tuple(found.values())))
            clock.up += len(reply)
            shares[name] = shares_from_bytes(payloads.from_bytes(reply).shares, names)
        (answers,) = layout.decode(exchange.opened(shares))
        yield clock, answers.total("gradient")
        number += 1
        packages = {name: exchange.next_packages[name] for name in names}


def flower_exchanges(sites):
    """The same with Flower's SecAgg+: weighted means of what was clipped and rounded."""
    from benchmarks.flower_secagg import exchanges

    yield from exchanges(vectors(sites), Clock)


WAYS = {"open": open_exchanges, "secure": secure_exchanges, "SecAgg+": flower_exchanges}


def measure(way, sites):
    """Means over exchanges, after the first."""
    rows, truth = [], vectors(sites).sum(axis=0)
    exchanges = WAYS[way](sites)
    for count in range(EXCHANGES):
        began = time.perf_counter()
        clock, total = next(exchanges)
        seconds = time.perf_counter() - began
        if count or EXCHANGES == 1:
            rows.append((clock.seconds, seconds - clock.seconds, clock.down, clock.up))
    at_sites, at_server, down, up = np.mean(rows, axis=0)
    return {
        "site": at_sites / sites,
        "server": at_server,
        "down": down / sites,
        "up": up / sites,
        "error": float(np.abs(total - truth).max()),
        "peak": peak_bytes(),
    }


def main():
    rows = []
    for sites in SITES:
        found = {
            way: in_own_process("benchmarks.secure", way, sites, seconds=LONGEST) for way in WAYS
        }
        rows += [_row(sites, way, own, found["open"]) for way, own in found.items()]
    show(
        f"An exchange of {NUMBERS:,} numbers, all sites in one process one after the other",
        [
            "", "ms of a site", "ms of the server", "work", "bytes down a site", "bytes up a site",
            "bytes up", "largest error", "peak MB of all",
        ],
        rows,
    )  # fmt: skip


def _row(sites, way, own, plain):
    name = f"{sites} sites, {way}"
    if own is None:
        return [f"{name}: not {EXCHANGES} exchanges in {LONGEST:.0f} s", *[""] * 8]
    work, least = (each["site"] * sites + each["server"] for each in (own, plain))
    return [
        name,
        f"{1e3 * own['site']:.1f}",
        f"{1e3 * own['server']:.0f}",
        f"{work / least:.1f}×",
        f"{own['down']:,.0f}",
        f"{own['up']:,.0f}",
        f"{own['up'] / plain['up']:.2f}×",
        f"{own['error']:.0e}",
        f"{own['peak'] / 1e6:.0f}",
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        import json

        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
