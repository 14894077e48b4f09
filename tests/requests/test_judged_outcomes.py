"""Sums that judge counts and survival against plain formulas."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.kernels.concordance import concordant_pairs
from fedsparse.modelling.outcome_metrics import JudgedCounts, JudgedSurvival
from fedsparse.problem.losses import Cox
from fedsparse.requests.judged_outcomes import judged_counts, judged_survival, partners_by_row
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


def partners_by_hand(signed):
    """Of each row, pairs in which it comes first less those in which it comes second."""
    times, events = np.abs(signed), signed > 0
    found = np.zeros(signed.size)
    for one in range(signed.size):
        for other in range(signed.size):
            is_later = times[other] > times[one] or (
                times[other] == times[one] and not events[other]
            )
            if events[one] and one != other and is_later:
                found[one] += 1
                found[other] -= 1
    return found


@pytest.mark.parametrize("seed", range(5))
def test_partners_are_those_counted_one_by_one(seed):
    random = np.random.default_rng(seed)
    signed = random.integers(1, 8, 40) * random.choice([-1.0, 1.0], 40)
    assert partners_by_row(signed).tolist() == partners_by_hand(signed).tolist()


def test_the_error_of_a_c_index_of_random_scores_is_that_of_kendall():
    signed = np.arange(1.0, 61.0)
    found = JudgedSurvival(**judged_survival(signed, np.zeros(60), Cox()))
    low, high = found.intervals()["C-index"]
    kendall = np.sqrt((2 * 60 + 5) / (18 * 60 * 59))
    assert (high - low) / 2 == pytest.approx(1.96 * kendall, rel=0.03)


def test_the_interval_of_a_c_index_covers_it():
    random = np.random.default_rng(0)
    covered = sure = 0
    for _ in range(200):
        sites = []
        for _ in range(2):
            scores = random.standard_normal(30)
            times, ends = random.exponential(np.exp(-scores)), random.exponential(1.5, 30)
            signed = np.where(times < ends, times, -ends)
            sites.append(JudgedSurvival(**judged_survival(signed, scores, Cox())))
        low, high = (sites[0] + sites[1]).intervals()["C-index"]
        covered += low <= 0.736 <= high  # of 20,000 rows
        sure += low > 0.5
    assert covered >= 180
    assert sure >= 190


def test_a_c_index_of_random_scores_reaches_one_half():
    random = np.random.default_rng(0)
    signed = random.exponential(size=60) * random.choice([-1.0, 1.0], 60)
    found = [
        JudgedSurvival(**judged_survival(signed, random.standard_normal(60), Cox()))
        for _ in range(200)
    ]
    guessing = found[0].guessing()["C-index"]
    assert sum(own.intervals()["C-index"][0] > guessing for own in found) <= 10


def judged_rates(random, rows, effect, guess=2.5):
    scores = 0.5 + effect * random.standard_normal(rows)
    exposures = random.uniform(0.5, 3.0, rows)
    counts = random.poisson(exposures * np.exp(scores)) / exposures
    return JudgedCounts(**judged_counts(counts, exposures, scores, guess))


def test_the_interval_of_the_deviance_explained_covers_it():
    random = np.random.default_rng(0)
    true = judged_rates(random, 200_000, 0.5).metrics()["deviance explained"]
    found = [judged_rates(random, 60, 0.5) + judged_rates(random, 40, 0.5) for _ in range(200)]
    limits = [own.intervals()["deviance explained"] for own in found]
    assert sum(low <= true <= high for low, high in limits) >= 180
    assert sum(low > found[0].guessing()["deviance explained"] for low, _ in limits) >= 180


def test_a_model_of_counts_that_guesses_explains_nothing():
    random = np.random.default_rng(0)
    for _ in range(100):
        counts, scores = random.poisson(2.0, 60), 0.7 + 0.2 * random.standard_normal(60)
        own = JudgedCounts(**judged_counts(counts.astype(float), None, scores, guess=2.0))
        assert own.intervals()["deviance explained"][0] <= 0.0


def test_sites_of_few_rows_tell_no_squares_and_widen_the_interval_of_others():
    random = np.random.default_rng(0)
    many, few = judged_rates(random, 30, 0.5), judged_rates(random, 4, 0.5)
    assert few.sums[3:].tolist() == [0.0] * 4
    assert few.intervals()["deviance explained"] is None
    assert (many + few).intervals()["deviance explained"] is not None


def test_a_guess_is_a_rate():
    with pytest.raises(fs.OptionError, match="a rate to compare with must be above 0"):
        fs.JudgeCounts(np.zeros(1), guess=0.0)
