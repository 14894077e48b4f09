"""Nothing but sums: what a server gets from one site does not depend on that site's rows.

Two worlds are compared that differ in nothing but who has which rows: two sites have swapped
theirs, so that all sums are the same. Three statistics are tried on all bytes that came from one of
the two: how often each byte occurs (χ² on two rows of 256), how the words correlate with what the
site really added, and a nearest-centre classifier of bits, trained on half of the exchanges. The
same statistics tell the worlds apart at once if masks are left out. What sites describe of their
tables before a run is not looked at here.
"""

import numpy as np
import pytest
from scipy import stats

import fedsparse as fs
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Asks
from fedsparse.federation.secure import masks
from fedsparse.federation.sites.policy import Policy
from fedsparse.requests.fixed_point import NARROW, WIDE
from fedsparse.requests.wire.request_bytes import encode_request
from tests.attacks.lying_server import LyingServer, five_sites, gradient_at, sites_of
from tests.attacks.needles import hits
from tests.federation.federated_tables import WIDTH, clients_of

EXCHANGES = 40
WATCHED = "aachen"
X = np.linspace(-1.0, 1.0, WIDTH)


def worlds():
    """The same rows, the first two sites' swapped in the second world."""
    clients = clients_of("numbers")
    return [clients, [clients[1], clients[0], *clients[2:]]]


def received(clients):
    """All bytes that came from one site after it described its table, exchange by exchange."""
    server = LyingServer(sites_of(clients))
    found = []
    for _ in range(EXCHANGES):
        before = len(server.received[WATCHED])
        total = server.sum_of(gradient_at(X)).total("gradient")
        found.append(b"".join(server.received[WATCHED][before:]))
    return np.array([np.frombuffer(own, dtype=np.uint8) for own in found]), total


@pytest.fixture(scope="module")
def heard():
    return [received(clients) for clients in worlds()]


@pytest.fixture(scope="module")
def heard_without_masks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "add_mask", lambda *arguments, **options: None)
        return [received(clients) for clients in worlds()]


def chi_square(worlds):
    """p of the same frequencies of bytes in both worlds, where bytes vary at all."""
    counts = np.array([np.bincount(world.ravel(), minlength=256) for world in worlds])
    return stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue


def accuracy(worlds):
    """Of a nearest-centre classifier of bits on exchanges that it has not seen."""
    bits = [np.unpackbits(world, axis=1).astype(float) - 0.5 for world in worlds]
    half = EXCHANGES // 2
    axis = bits[0][:half].mean(axis=0) - bits[1][:half].mean(axis=0)
    middle = 0.5 * (bits[0][:half].mean(axis=0) + bits[1][:half].mean(axis=0)) @ axis
    first, second = (own[half:] @ axis > middle for own in bits)
    return float(np.mean(np.concatenate([first, ~second])))


def within_chance(share, count):
    """Five standard deviations of a fair coin."""
    return abs(share - 0.5) <= 5 * 0.5 / np.sqrt(count)


def test_sums_are_the_same_in_both_worlds(heard):
    assert heard[0][1].tobytes() == heard[1][1].tobytes()


def test_messages_have_the_same_lengths_in_both_worlds(heard):
    assert heard[0][0].shape == heard[1][0].shape


def test_bytes_are_as_frequent_in_both_worlds(heard):
    assert chi_square([own for own, _ in heard]) > 1e-6


def test_a_classifier_of_bits_does_no_better_than_a_coin(heard):
    assert within_chance(accuracy([own for own, _ in heard]), EXCHANGES)


def test_without_masks_both_statistics_tell_the_worlds_apart(heard_without_masks):
    words = [own for own, _ in heard_without_masks]
    assert chi_square(words) < 1e-6
    assert accuracy(words) == 1.0


def correlation(clients):
    """Of what one site sent, as numbers, with what it added; over all exchanges and numbers."""
    server = LyingServer(sites_of(clients))
    Z, y = clients[0]
    sent, true = [], []
    for _ in range(EXCHANGES):
        x = np.random.default_rng(len(sent)).standard_normal(WIDTH)
        exchange = server.asked(gradient_at(x))
        # Of numbers of this size the word in the middle has all leading digits and the sign.
        sent += [*exchange.masked[WATCHED].wide[1, -WIDTH:].astype(np.int64).astype(float)]
        true += [*(2.0 * Z.T @ (Z @ x - y))]
    return np.corrcoef(sent, true)[0, 1], len(sent)


def test_what_a_site_sends_does_not_correlate_with_what_it_adds():
    found, count = correlation(clients_of("numbers"))
    assert abs(found) < 5.0 / np.sqrt(count)


def test_without_masks_it_does(monkeypatch):
    monkeypatch.setattr(masks, "add_mask", lambda *arguments, **options: None)
    found, _ = correlation(clients_of("numbers"))
    assert found > 0.99


# ---------------------------------------------------------------- a search for the rows


def asked_by(server):
    """Three questions as a run begins with, each under masks."""
    server.sum_of(gradient_at(X))
    server.sum_of(fs.Evaluate(X))
    server.sum_of(fs.ColumnSums())


def test_nothing_of_a_site_is_found_in_what_it_sent_under_masks():
    server = LyingServer(five_sites())
    asked_by(server)
    for name, client in zip(server.names, clients_of("numbers"), strict=True):
        assert hits(b"".join(server.received[name][1:]), client, X) == 0


def test_the_same_search_finds_what_was_planted():
    Z, y = client = clients_of("numbers")[0]
    noise = np.random.default_rng(0).bytes(5000)
    assert hits(noise, client, X) == 0
    for planted in (
        y[3].tobytes(),
        y[4].astype(">f8").tobytes(),
        repr(float(y[5])).encode(),
        Z[4].astype(np.float32).tobytes(),
        WIDE.encode(Z[:, 2]).tobytes(),
        NARROW.encode(Z.sum(axis=0)).tobytes(),
    ):
        assert hits(noise[:777] + planted + noise[777:], client, X) > 0


def test_the_same_search_finds_gradients_and_sums_without_masks(monkeypatch):
    monkeypatch.setattr(masks, "add_mask", lambda *arguments, **options: None)
    server = LyingServer(five_sites())
    asked_by(server)
    client = clients_of("numbers")[0]
    assert hits(b"".join(server.received[WATCHED][1:]), client, X) > 2 * WIDTH / 3


def test_the_same_search_finds_them_under_open_sums():
    client = clients_of("numbers")[0]
    server = LyingServer(five_sites(policy=Policy(open_sums=True)))
    setup = server.setup_for(WATCHED).to_bytes()
    lenses = (payloads.lens_to_bytes(server.lens),)
    requests = ((server.lens.digest, encode_request(fs.ColumnSums())),)
    server.say(WATCHED, Asks(payloads.digest_of(setup), requests, setup, lenses))
    assert hits(server.received[WATCHED][-1], client, X) > 2 * WIDTH / 3
