"""Secure sums over a grid: the bits of one process, whatever sites do, or one sentence."""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.errors import FederationError, OptionError
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Answered, Asks, Masked, MaskedAsks, Opened, Prepare
from fedsparse.federation.secure.statements import Epoch
from fedsparse.federation.server import mailbox
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.specification import FitSpecification
from tests.federation.federated_tables import (
    KINDS,
    NAMES,
    analysed,
    assert_same_analysis,
    clients_of,
    grid_of,
    judged,
)
from tests.federation.grids import answering, table_of
from tests.federation.secure_sites import ROSTER, masking_of, secure_site

TAU = 3
SPECIFICATION = FitSpecification(sparsity=TAU, stability=0, held_out="none", rounds=10)
GENEROUS = Policy(smallest_samples=1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def secure_sites(clients, names=NAMES):
    return {
        name: secure_site(name, table_of(*own)) for name, own in zip(names, clients, strict=False)
    }


def secure_engine(grid, kind="numbers", **conduct):
    task = "regression" if KINDS[kind] is None else "classification"
    usual = {"sites": len(grid.nodes), "round_seconds": 30.0, "longest_wait": 1.0}
    terms = Terms(task=task, minimum_rows=2)
    return FlowerEngine(grid, terms, Conduct(**usual | conduct), ROSTER)


def local_engine(clients, kind="numbers", sums="fixed"):
    named = {
        name: (Z, y if KINDS[kind] is None else y.astype(int))
        for name, (Z, y) in zip(NAMES, clients, strict=False)
    }
    data = fs.FederatedData.from_clients(named)
    return fs.LocalEngine(data, loss_for(KINDS[kind], 1.0), sums=sums)


def closing(engine, specification=SPECIFICATION):
    try:
        return analysed(engine, specification)
    finally:
        engine.close()


# ---------------------------------------------------------------- exact


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_analysis_of_integers_in_one_process_bit_for_bit(kind, storage):
    clients = clients_of(kind, storage)
    found = closing(secure_engine(grid_of(secure_sites(clients)), kind))
    assert_same_analysis(found, closing(local_engine(clients, kind)))


def test_a_dense_model_is_that_of_one_process_where_it_is_asked_for():
    clients = clients_of("two classes")
    asked = FitSpecification(sparsity=2, stability=0, dense="yes", threshold=0.3)
    found = closing(secure_engine(grid_of(secure_sites(clients)), "two classes"), asked)
    expected = closing(local_engine(clients, "two classes"), asked)
    assert found.evaluation.dense is not None
    assert judged(found.evaluation) == judged(expected.evaluation)
    assert found.evaluation.curves == expected.evaluation.curves


def test_the_whole_default_analysis_is_too():
    clients = clients_of("two classes", sites=3)
    specification = FitSpecification(stability=1, rounds=5, dense="no")
    found = closing(secure_engine(grid_of(secure_sites(clients)), "two classes"), specification)
    expected = closing(local_engine(clients, "two classes"), specification)
    assert_same_analysis(found, expected)
    assert found.evaluation.curves == expected.evaluation.curves
    assert found.evaluation.curves[0].points


def test_five_orders_of_sites_give_the_same_bits():
    """Gradients on all rows, with sites of other names in other places."""
    clients = clients_of("numbers")
    found = set()
    for shift in range(5):
        moved = clients[shift:] + clients[:shift]
        engine = secure_engine(grid_of(secure_sites(moved)))
        ask = engine.ask(fs.Gradient(np.ones(engine.width)), "samples")
        found.add(engine.exchange([ask])[0].total("gradient").tobytes())
        engine.close()
    assert len(found) == 1


def wide_clients(rows=(18, 16, 14, 13, 11), width=2000):
    """Few rows of many columns, and two classes."""
    random = np.random.default_rng(3)
    truth = np.zeros(width)
    truth[[10, 200, 900, 1500]] = 1.5, -1.2, 1.0, -0.8
    clients = []
    for count in rows:
        Z = random.standard_normal((count, width))
        clients.append((Z, (Z @ truth > 0).astype(float)))
    return clients


def simulation_one(sites=5, rows=40, width=60):
    """Simulation I, small: every site has a truth of its own around a common one."""
    random = np.random.default_rng(1)
    clients = []
    for _ in range(sites):
        mean, shift = random.standard_normal(), random.standard_normal()
        Z = mean + random.standard_normal((rows, width)) * np.arange(1, width + 1) ** -0.6
        truth = np.zeros(width)
        truth[:10] = shift + random.standard_normal(10)
        clients.append((Z, Z @ truth + 0.1 * random.standard_normal(rows)))
    return clients


@pytest.mark.parametrize(
    ("clients", "kind"),
    [
        (clients_of("two classes"), "two classes"),
        (wide_clients(), "two classes"),
        (simulation_one(), "numbers"),
    ],
    ids=["logistic", "genes", "Simulation I"],
)
def test_coefficients_are_those_of_float64_sums_but_for_the_last_digits(clients, kind):
    specification = SPECIFICATION.model_copy(update={"rounds": 50})
    found = closing(secure_engine(grid_of(secure_sites(clients)), kind), specification)
    expected = closing(local_engine(clients, kind, sums="float"), specification)
    scale = np.abs(expected.fitted.coefficients).max()
    difference = np.abs(found.fitted.coefficients - expected.fitted.coefficients).max()
    assert difference <= 1e-5 * scale  # matrices are rounded in one of the two alone


# ---------------------------------------------------------------- methods

METHODS = {
    "FedHT": fs.FedHT(TAU, local_steps=2),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=2),
    "DistributedIHT": fs.DistributedIHT(TAU),
    "FedSplice": fs.FedSplice(TAU),
    "FedAvg": fs.FedAvg(local_steps=2),
    "samples": fs.FedHT(TAU, weights="samples"),
    "three a round": fs.FedHT(TAU, local_steps=2, clients_per_round=3),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_whose_answers_add_up_work(method):
    clients = clients_of("numbers")
    engine = secure_engine(grid_of(secure_sites(clients)))
    found = fs.run(method, engine, rounds=4)
    engine.close()
    expected = fs.run(method, local_engine(clients), rounds=4)
    assert found.coef.tobytes() == expected.coef.tobytes()
    assert found.objective == expected.objective


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (fs.EDSL(TAU), "ShiftedLasso is asked of 1 of the clients"),
        (fs.FedHT(TAU, weights=[0.2] * 5), "weights of single clients would single them out"),
        (fs.FedHT(TAU, clients_per_round=2), "asked of 2 of the clients"),
    ],
    ids=["EDSL", "weights", "two a round"],
)
def test_what_would_single_a_site_out_is_refused_by_name(method, sentence):
    engine = secure_engine(grid_of(secure_sites(clients_of("numbers"))))
    with pytest.raises(OptionError, match=sentence):
        fs.run(method, engine, rounds=2)
    engine.close()


# ---------------------------------------------------------------- drops


def silent_in(site, numbers, kind):
    """A site that does not reply to some messages of a kind, counted from 0."""
    reply, seen = answering(site), []

    def node(payload):
        said = payloads.from_bytes(payload)
        if isinstance(said, kind):
            seen.append(said)
            if len(seen) - 1 in numbers:
                return None
        return reply(payload)

    return node


def sums_at(engine, points):
    """What gradients at some points add up to, one exchange each."""
    found = []
    for point in points:
        ask = engine.ask(fs.Gradient(np.full(engine.width, float(point))), "samples")
        found.append(engine.exchange([ask])[0])
    return found


def expected_at(point, clients):
    total = 0.0
    for Z, y in clients:
        total = total + 2.0 * Z.T @ (Z @ np.full(Z.shape[1], float(point)) - y)
    return total


KINDS_OF_MESSAGES = {"keys": Prepare, "question": Asks, "shares": payloads.Survivors}


@pytest.mark.parametrize("kind", KINDS_OF_MESSAGES)
def test_a_site_that_drops_out_comes_back(kind):
    """It misses one message; sums are those of the sites that answered, and it is back at last."""
    clients = clients_of("numbers")
    sites = secure_sites(clients)
    dropping = silent_in(sites["cork"], {0}, KINDS_OF_MESSAGES[kind])
    grid = grid_of(sites, cork=dropping)
    engine = secure_engine(grid, min_sites=3, round_seconds=0.2, longest_wait=5.0)
    found = sums_at(engine, range(1, 7))
    engine.close()
    left = [own for name, own in zip(NAMES, clients, strict=True) if name != "cork"]
    for point, own in zip(range(1, 7), found, strict=True):
        assert own.count in (4, 5)
        there = clients if own.count == 5 else left
        np.testing.assert_allclose(own.total("gradient"), expected_at(point, there), rtol=1e-9)
    assert found[-1].count == 5


@pytest.mark.parametrize("kind", KINDS_OF_MESSAGES)
def test_a_site_that_is_started_anew_goes_on_with_another_key(kind):
    """Before its third message of a kind: no later than two exchanges on, it is in all sums."""
    clients = clients_of("numbers")
    sites = secure_sites(clients)
    processes = [secure_site("cork", table_of(*clients[2])), sites["cork"]]
    seen = []

    def node(payload):
        if isinstance(payloads.from_bytes(payload), KINDS_OF_MESSAGES[kind]):
            seen.append(payload)
            if len(seen) == (1 if kind == "keys" else 3):
                processes.pop()
        return processes[-1].reply(payload, run=1)

    grid = grid_of(sites, cork=node)
    engine = secure_engine(grid, min_sites=3, round_seconds=0.2, longest_wait=5.0)
    found = sums_at(engine, range(1, 7))
    engine.close()
    assert len(processes) == 1
    assert [own.count for own in found[-2:]] == [5, 5]
    left = [own for name, own in zip(NAMES, clients, strict=True) if name != "cork"]
    for point, own in zip(range(1, 7), found, strict=True):
        there = clients if own.count == 5 else left
        np.testing.assert_allclose(own.total("gradient"), expected_at(point, there), rtol=1e-9)


def test_fewer_than_three_sites_are_one_sentence():
    sites = secure_sites(clients_of("numbers"))
    silent = dict.fromkeys(NAMES[:3])
    others = {name: silent_in(sites[name], range(1, 99), Asks) for name in silent}
    engine = secure_engine(grid_of(sites, **others), min_sites=1, round_seconds=0.2)
    sums_at(engine, [1])
    with pytest.raises(FederationError, match=r"^[^\n]*2 of the 3 sites needed answered[^\n]*$"):
        sums_at(engine, [2])
    engine.close()


def test_two_sites_cannot_hide_each_other():
    grid = grid_of(secure_sites(clients_of("numbers", sites=2)))
    with pytest.raises(FederationError, match="sites"):
        secure_engine(grid)


def test_wrong_shares_of_one_site_are_got_round():
    clients = clients_of("numbers")
    sites = secure_sites(clients)
    reply = answering(sites["aachen"])

    def lying(payload):
        said = payloads.from_bytes(reply(payload))
        if isinstance(said, Opened):
            said = Opened(tuple(bytes(len(own)) for own in said.shares))
        return payloads.to_bytes(said)

    engine = secure_engine(grid_of(sites, aachen=lying))
    (found,) = sums_at(engine, [1])
    engine.close()
    np.testing.assert_allclose(found.total("gradient"), expected_at(1, clients), rtol=1e-9)


def test_a_site_that_changes_its_key_for_ever_does_not_keep_the_server():
    sites = secure_sites(clients_of("numbers"))
    table = table_of(*clients_of("numbers")[0])

    def restless(payload):
        return secure_site("aachen", table).reply(payload, run=1)

    with pytest.raises(FederationError, match="a site told another key 10 times"):
        secure_engine(grid_of(sites, aachen=restless))


# ---------------------------------------------------------------- what sites insist on


def recorded(sites):
    """Messages that one site got and what it replied, in a short secure run."""
    said = []
    reply = answering(sites["bari"])

    def keeping(payload):
        answer = reply(payload)
        said.append((payload, answer))
        return answer

    engine = secure_engine(grid_of(sites, bari=keeping))
    sums_at(engine, [1])
    engine.close()
    return [(payloads.from_bytes(one), payloads.from_bytes(other)) for one, other in said]


def test_a_site_that_keeps_its_answers_secret_does_not_answer_openly_later():
    """Though the run began with secure sums, and the question was answered under masks."""
    sites = secure_sites(clients_of("numbers"))
    (asks,) = [
        one for one, other in recorded(sites) if isinstance(one, Asks) and isinstance(other, Masked)
    ]
    reply = sites["bari"].reply(payloads.to_bytes(replace(asks, masked=None)), run=1)
    assert "does not allow open sums" in payloads.from_bytes(reply).reason


def test_nothing_a_site_says_in_a_secure_run_is_an_open_answer():
    said = [other for _, other in recorded(secure_sites(clients_of("numbers")))]
    assert not any(isinstance(own, Answered) for own in said)


def test_a_site_without_a_key_takes_no_part_in_secure_sums():
    clients = clients_of("numbers")
    sites = secure_sites(clients)
    bare = Site("cork", table_of(*clients[2]), GENEROUS, 1)
    with pytest.raises(FederationError, match="cork: it has no key of its own"):
        secure_engine(grid_of(sites, cork=answering(bare)))
    hidden = MaskedAsks(0, (("cork", b""),), (), ())
    reply = bare.reply(payloads.to_bytes(Prepare(_epoch(sites))), run=1)
    assert "no key of its own" in payloads.from_bytes(reply).reason
    reply = bare.reply(payloads.to_bytes(Asks("", (), None, (), hidden)), run=1)
    assert not isinstance(payloads.from_bytes(reply), Masked)


def _epoch(sites):
    members = tuple(masking_of(name).introduction(1) for name in sites)
    return Epoch(bytes(16), members, 3)


def test_a_server_that_wants_open_sums_is_refused_by_default():
    grid = grid_of(secure_sites(clients_of("numbers")))
    with pytest.raises(FederationError, match="does not allow open sums"):
        FlowerEngine(grid, Terms(task="regression"), Conduct(sites=5, longest_wait=1.0))


# ---------------------------------------------------------------- what is counted


def test_all_that_crosses_a_sites_sockets_is_counted_with_its_answers():
    """A masked answer crosses after it was made: the message that asks for shares counts it."""
    sites = secure_sites(clients_of("numbers"))
    messages = 0

    def counting(payload):
        nonlocal messages
        messages += 1
        return sites["bari"].reply(payload, run=1, crossed=(10, 100))

    engine = secure_engine(grid_of(sites, bari=counting))
    sums_at(engine, [1, 2])
    engine.close()
    told = messages - 2  # not the description, and not the last one, which asks for shares
    bari = engine.members[1]
    assert (bari.socket_down, bari.socket_up) == (10 * told, 100 * told)
