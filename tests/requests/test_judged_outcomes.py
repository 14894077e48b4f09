"""Sums that judge counts and survival against plain formulas."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.kernels.concordance import concordant_pairs
from fedsparse.modelling.outcome_metrics import JudgedCounts, JudgedSurvival
from fedsparse.problem.losses import Cox
from fedsparse.requests.judged_outcomes import judged_counts, judged_survival
from fedsparse.requests.wire.request_bytes import decode_request, encode_request


def pairs_by_hand(signed, scores):
    """Harrell's pairs, one by one."""
    times, events = np.abs(signed), signed > 0
    above = pairs = 0.0
    for one in range(signed.size):
        for other in range(signed.size):
            is_later = times[other] > times[one] or (
                times[other] == times[one] and not events[other]
            )
            if events[one] and one != other and is_later:
                pairs += 1
                above += 0.5 * (np.sign(scores[one] - scores[other]) + 1)
    return above, pairs


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_those_counted_one_by_one_with_ties_in_times_and_scores(seed):
    random = np.random.default_rng(seed)
    signed = random.integers(1, 8, 40) * random.choice([-1.0, 1.0], 40)
    scores = random.integers(0, 6, 40).astype(float)
    assert concordant_pairs(signed, scores) == pairs_by_hand(signed, scores)


def test_the_deviance_is_that_of_poisson():
    random = np.random.default_rng(0)
    exposures, scores = random.uniform(1, 9, 50), random.standard_normal(50)
    counts = random.poisson(exposures * np.exp(scores)).astype(float)
    own = JudgedCounts(**judged_counts(counts / exposures, exposures, scores))
    means = exposures * np.exp(scores)
    logs = np.where(counts > 0, np.log(np.maximum(counts, 1) / means), 0.0)
    deviance = 2 * np.sum(counts * logs - counts + means)
    assert own.deviances[0] == pytest.approx(deviance)
    assert own.metrics()["mean rate"] == pytest.approx(counts.sum() / exposures.sum())


def test_sites_add_up():
    random = np.random.default_rng(0)
    rates, scores = random.poisson(2.0, 40).astype(float), random.standard_normal(40)
    whole = JudgedCounts(**judged_counts(rates, None, scores))
    parts = [
        JudgedCounts(**judged_counts(rates[own], None, scores[own]))
        for own in (slice(0, 15), slice(15, 40))
    ]
    assert (parts[0] + parts[1]).metrics() == pytest.approx(whole.metrics())


def test_equal_scores_gain_nothing_and_order_half_of_the_pairs():
    signed = np.array([1.0, -2.0, 3.0, 4.0])
    found = JudgedSurvival(**judged_survival(signed, np.ones(4), Cox())).metrics()
    assert found == pytest.approx({"C-index": 0.5, "log-likelihood gained": 0.0, "events": 3.0})


def test_without_an_event_nothing_can_be_said():
    found = JudgedSurvival(**judged_survival(np.array([-1.0, -2.0]), np.ones(2), Cox())).metrics()
    assert found == {"C-index": None, "log-likelihood gained": None, "events": 0.0}


@pytest.mark.parametrize("kind", [fs.JudgeCounts, fs.JudgeSurvival, fs.SurvivalMoments])
def test_the_requests_survive_the_wire(kind):
    again = decode_request(encode_request(kind(np.array([0.5, -1.0]))), (2,))
    assert type(again) is kind
    assert again.x.tolist() == [0.5, -1.0]
