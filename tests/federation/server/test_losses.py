"""Losses without a compiled form, and steps found by trying, at sites: one process's bits."""

from types import MappingProxyType

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.federation.payloads import lens_from_bytes, lens_to_bytes
from fedsparse.federation.server import mailbox
from fedsparse.problem.losses import LOSSES
from fedsparse.requests.wire.vectors import WireError
from tests.builders import STORAGES, clients_for, federate
from tests.federation.server.test_engine import assert_same, engine_on, grid_of, sites_of
from tests.gamma_loss import Gamma

ALGORITHMS = {
    "FedSplice": fs.FedSplice(3, weights="samples"),
    "DistributedIHT": fs.DistributedIHT(3),
    "FedIterHT": fs.FedIterHT(3, local_steps=3),
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def positive():
    """Clients whose targets are numbers above 0."""
    return [(Z, np.exp(0.3 * y)) for Z, y in clients_for("squared", density=0.8)]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_loss_of_ones_own_gives_the_same_bits(name, storage):
    clients, loss = positive(), Gamma(l2=0.05)
    engine = engine_on(grid_of(sites_of(clients, storage)), terms=MappingProxyType({}))
    engine = engine.through(Lens(loss))
    result = fs.run(ALGORITHMS[name], engine, rounds=6, seed=5)
    expected = fs.run(ALGORITHMS[name], federate(clients, storage), loss=loss, rounds=6, seed=5)
    assert_same(result, expected)


@pytest.mark.parametrize("loss", [fs.Cox(l2=0.1, ties="breslow"), fs.Poisson(), Gamma(l2=2.0)])
def test_what_a_loss_was_made_with_travels(loss):
    lens = Lens(loss)
    assert lens_from_bytes(lens_to_bytes(lens)).digest == lens.digest


def test_a_loss_that_is_not_registered_is_not_sent():
    own = type("Other", (Gamma,), {"name": "other"})
    with pytest.raises(OptionError, match="cannot be sent to sites"):
        lens_to_bytes(Lens(own()))


def test_a_site_that_does_not_know_a_loss_says_so(monkeypatch):
    written = lens_to_bytes(Lens(Gamma()))
    monkeypatch.delitem(LOSSES, "gamma")
    with pytest.raises(WireError, match=r'the loss "gamma".*--loss'):
        lens_from_bytes(written)
