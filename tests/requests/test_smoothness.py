"""The largest l_i from counts: close above the maximum, never below."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.requests.smoothness import THRESHOLDS
from tests import oracle
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, answers_of, clients_for, federate


def largest_of(own):
    """What a server makes of l_i, told as mean and counts."""
    mean = float(np.sum(own)) / own.size
    request = fs.SmoothnessAbove(mean, own.size * mean)
    counts = (own[:, None] > request.thresholds()).sum(axis=0).astype(float)
    return request.largest(counts)


NUMBERS = st.floats(1e-100, 1e100) | st.floats(0.9, 1.1)


@given(st.lists(NUMBERS, min_size=2, max_size=100).map(np.array))
@settings(max_examples=300, deadline=None)
def test_it_is_never_below_the_maximum_and_within_two_percent_above(own):
    found = largest_of(own)
    assert found >= own.max()
    assert found <= 1.02 * own.max()


@pytest.mark.parametrize("clients", [2, 10, 100])
def test_equal_clients_have_their_own_number(clients):
    assert largest_of(np.full(clients, 0.3)) == pytest.approx(0.3, rel=2e-9)


@pytest.mark.parametrize("clients", [2, 10, 100])
def test_one_steep_client_among_flat_ones_is_found(clients):
    own = np.append(np.zeros(clients - 1), 7.0)
    assert largest_of(own) == pytest.approx(7.0, rel=2e-9)


def test_a_thousand_clients_are_within_three_percent():
    own = np.random.default_rng(0).lognormal(0.0, 2.0, 1000)
    assert own.max() <= largest_of(own) <= 1.03 * own.max()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
def test_clients_tell_the_mean_and_counts_of_the_oracle(loss, storage):
    clients = clients_for(loss)
    data, own = federate(clients, storage), LOSS_OBJECTS[loss]
    expected = np.array([oracle.smoothness(Z, loss, 0.05) for Z, _ in clients])
    told = answers_of(fs.Smoothness(), data, own)
    assert told.average("smoothness") == pytest.approx(expected.mean(), rel=1e-9)
    request = fs.SmoothnessAbove(float(expected.mean()), 4 * float(expected.mean()))
    counts = answers_of(request, data, own, "samples").total("above")
    thresholds = oracle.smoothness_thresholds(expected)
    np.testing.assert_allclose(request.thresholds(), thresholds, rtol=1e-12)
    assert counts.size == THRESHOLDS == thresholds.size
    assert counts.tolist() == (expected[:, None] > thresholds).sum(axis=0).tolist()
    assert request.largest(counts) == pytest.approx(oracle.largest_smoothness(expected), rel=1e-12)


def test_a_client_tells_zeros_and_ones():
    data = federate(clients_for("squared")[:1])
    above = answers_of(fs.SmoothnessAbove(0.1, 100.0), data, fs.SquaredError()).total("above")
    assert set(above.tolist()) == {0.0, 1.0}
    assert np.all(np.diff(above) <= 0)


def asked_by(clients):
    """What a run asks before its first round."""
    engine, kinds = fs.LocalEngine(federate(clients)), []
    exchange = engine.exchange

    def noted(asks):
        kinds.extend(type(ask.request) for ask in asks)
        return exchange(asks)

    engine.exchange = noted
    fs.run(fs.FedIterHT(3), engine, rounds=1)
    return kinds[: kinds.index(fs.LocalSteps)]


def test_one_client_is_the_largest():
    assert asked_by(clients_for("squared")[:1]) == [fs.Smoothness]
    assert asked_by(clients_for("squared")) == [fs.Smoothness, fs.SmoothnessAbove]


def test_features_that_are_all_zero_have_no_thresholds():
    nothing = [(np.zeros((2, 3)), np.ones(2))] * 2
    assert asked_by(nothing) == [fs.Smoothness]


def test_a_client_above_all_thresholds_has_the_mean_asked_for_again():
    """One that was away when the mean was told may lie above all others together."""
    algorithm = fs.FedHT(2)
    state = algorithm.start((5,), 0, fs.SquaredError())
    state = algorithm.update(state, fs.Answers({"smoothness": np.array(2.0)}, 2.0, 2, 2))
    assert isinstance(algorithm.request(state), fs.SmoothnessAbove)
    above = fs.Answers({"above": np.ones(256)}, 3.0, 3, 3)
    assert isinstance(algorithm.request(algorithm.update(state, above)), fs.Smoothness)
