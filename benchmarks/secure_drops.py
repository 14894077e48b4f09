"""Random deaths of random sites at random stages of secure sums: how many sums come out wrong.

The server's engine and the sites are those of real runs and live in one process; what dies says
nothing more: before or after it has done what a message asks, so that its answer is in the sum or
not. Every sum is compared, bit for bit, with what the sites whose answers arrived add up to.
"""

import logging
import time
from collections import Counter

import numpy as np
from flwr.supercore.task_identity import TaskIdentity

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.errors import FederationError
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Asks, Masked
from fedsparse.federation.server import mailbox
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.modelling.fitting import loss_for
from tests.federation.federated_tables import WIDTH, clients_of
from tests.federation.grids import Nodes, table_of
from tests.federation.secure_sites import ROSTER, secure_site

EXCHANGES = 4
KINDS = ("Prepare", "Count", "Asks", "Survivors")
"""Messages at which a site may die; a run that dies at a count has not begun."""
SHARE = 0.35
"""Of the sites that die in a run."""
RETURN = 0.4
"""Of the dead that are started anew, a number of messages later."""


class Mortal:
    """A site that dies at a message, and may come back with another key.

    Parameters
    ----------
    name, client
        Of the site.
    death
        The message's kind, its number among those of its kind, and whether the reply still leaves;
        None: it lives.
    silence
        Messages after which it is back; None: never.
    """

    def __init__(self, name, client, death, silence):
        self._new = lambda: secure_site(name, table_of(*client))
        self._site = self._new()
        self._death, self._silence = death, silence
        self._heard = Counter()
        self._is_dead = False
        self.arrived = False
        self.died_at = None

    def reply(self, message):
        """What is said to a message; None if nobody is there."""
        said = payloads.from_bytes(message)
        if self._is_dead:
            self._rest()
            return None
        kind = type(said).__name__
        self._heard[kind] += 1
        is_last = self._death is not None and self._death[:2] == (kind, self._heard[kind])
        if is_last:
            self._is_dead, self.died_at = True, (kind, self._death[2])
            if self._death[2] == "before":
                return None
        reply = self._site.reply(message, run=1)
        if isinstance(said, Asks):
            self.arrived = isinstance(payloads.from_bytes(reply), Masked)
        return reply

    def _rest(self):
        """Come back once it has been silent for long enough."""
        if self._silence is None:
            return
        self._silence -= 1
        if self._silence <= 0:
            self._site, self._is_dead = self._new(), False


def drawn(random, names, clients):
    """Sites with deaths of their own."""
    found = {}
    for name, client in zip(names, clients, strict=True):
        death = silence = None
        if random.random() < SHARE:
            kind = str(random.choice(KINDS))
            most = 1 if kind in ("Prepare", "Count") else EXCHANGES
            death = (
                kind,
                int(random.integers(1, most + 1)),
                str(random.choice(["before", "after"])),
            )
            silence = int(random.integers(1, 4)) if random.random() < RETURN else None
        found[name] = Mortal(name, client, death, silence)
    return found


def run_of(seed):
    """One run; counts right and wrong sums, and those that were not opened."""
    random = np.random.default_rng(seed)
    count = int(random.integers(5, 9))
    names = [f"site {place}" for place in range(count)]
    clients = clients_of("numbers", sites=count)
    sites = drawn(random, names, clients)
    data = fs.FederatedData.from_clients(dict(zip(names, clients, strict=True)))
    truth = fs.LocalEngine(data, loss_for(None, 1.0), sums="fixed")
    grid = Nodes({place: site.reply for place, site in enumerate(sites.values(), start=1)})
    conduct = Conduct(sites=count, min_sites=3, round_seconds=0.2, longest_wait=0.5)
    found = Counter()
    try:
        engine = FlowerEngine(grid, Terms(task="regression", minimum_rows=2), conduct, ROSTER)
    except FederationError:
        found["not opened"] += 1
        engine = None
    for _ in range(EXCHANGES if engine is not None else 0):
        x = random.standard_normal(WIDTH)
        for site in sites.values():
            site.arrived = False
        try:
            (own,) = engine.exchange([engine.ask(fs.Gradient(x), "samples")])
        except FederationError:
            found["not opened"] += 1
            break
        there = np.array([place for place, site in enumerate(sites.values()) if site.arrived])
        ask = truth.ask(fs.Gradient(x), "samples", there)
        (expected,) = truth.exchange([ask])
        is_right = own.total("gradient").tobytes() == expected.total("gradient").tobytes()
        found["right" if is_right and own.count == len(there) else "WRONG"] += 1
        found["without some site"] += len(there) < count
    if engine is not None:
        engine.close()
    truth.close()
    return found, Counter(site.died_at for site in sites.values() if site.died_at is not None)


def main(runs=50):
    logging.getLogger("fedsparse.federation").setLevel(logging.ERROR)
    mailbox.SHORTEST_PAUSE = 0.001
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    found, deaths, whole = Counter(), Counter(), 0
    began = time.perf_counter()
    for seed in range(int(runs)):
        own, died = run_of(seed)
        found += own
        deaths += died
        whole += "not opened" not in own
    show(
        f"{runs} runs of {EXCHANGES} exchanges at 5 to 8 sites, {sum(deaths.values())} deaths",
        ["", "number"],
        [
            ["runs that came to their end", whole],
            ["sums opened", found["right"] + found["WRONG"]],
            ["of these without some site", found["without some site"]],
            ["sums that were not opened: too few left", found["not opened"]],
            ["wrong sums", found["WRONG"]],
            ["seconds", f"{time.perf_counter() - began:.0f}"],
        ],
    )
    show(
        "Deaths",
        ["message", "before the reply left", "after it left"],
        [[kind, deaths[kind, "before"], deaths[kind, "after"]] for kind in KINDS],
    )
    assert not found["WRONG"]


if __name__ == "__main__":
    main()
