"""Survival by time and risk: sums that speak of many rows, and what curves come of them."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.errors import OptionError
from fedsparse.modelling.fitting import FitOptions, fit_model, prepare
from fedsparse.modelling.survival_by_risk import survival_by_risk
from fedsparse.problem.losses import Cox
from fedsparse.requests import SurvivalCounts
from fedsparse.requests.survival_curves import in_company
from fedsparse.requests.wire.request_bytes import decode_request, encode_request

HAZARD = 0.05


def clients_of(sites=4, rows=150, seed=0):
    """Two of four columns decide over the hazard, which is 0.05 for an average row."""
    random = np.random.default_rng(seed)
    clients = []
    for _ in range(sites):
        Z = random.standard_normal((rows, 4))
        times = random.exponential(1 / (HAZARD * np.exp(0.9 * Z[:, 1] - 0.8 * Z[:, 2])))
        ends = random.uniform(5, 60, rows)
        clients.append((Z, np.where(times <= ends, times, -ends)))
    return fs.FederatedData.from_clients(clients)


@pytest.fixture(scope="module")
def told():
    engine = fs.LocalEngine(clients_of(), "cox")

    def asking():
        options = FitOptions(Cox(), intercept=False, auto_rows=1.0)
        prepared = yield from prepare(engine, options)
        fitted = yield from fit_model(prepared, 2, options)
        return (yield from survival_by_risk(prepared, fitted))

    found = fs.converse(engine, asking())
    engine.close()
    return found


def test_the_baseline_hazard_is_that_of_an_average_row(told):
    assert told.baseline.at(20.0) == pytest.approx(20 * HAZARD, rel=0.25)


def test_those_of_higher_risk_live_shorter(told):
    at_ten = [dict(zip(own.times, own.survival, strict=True))[10.0] for own in told.groups]
    assert at_ten == sorted(at_ten, reverse=True)
    assert at_ten[0] - at_ten[2] > 0.4


def test_curves_fall_and_stay_between_1_and_0(told):
    for group in told.groups:
        curve = np.array([1.0, *group.survival])
        assert (np.diff(curve) <= 0).all()
        assert (curve >= 0).all()
        assert (np.diff(group.at_risk) <= 0).all()


def survival_of_two_halves(signed_times):
    """Every other row has one of two scores, which hardly differ."""
    rows = len(signed_times)
    Z = np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None]
    data = fs.FederatedData.from_clients([(Z, np.array(signed_times))])
    engine = fs.LocalEngine(data, "cox")

    def asking():
        options = FitOptions(Cox(l2=1.0), intercept=False, auto_rows=1.0)
        prepared = yield from prepare(engine, options)
        fitted = yield from fit_model(prepared, 1, options)
        return (yield from survival_by_risk(prepared, fitted))

    found = fs.converse(engine, asking())
    engine.close()
    return found


def test_a_bin_whose_few_events_are_counted_with_another_is_no_point_of_a_curve():
    # Bins of five. Of each half of the rows three have an event in the second, which is told with
    # the third, and three in the fourth, after which none follow.
    times = [1.0, 2.0] * 10 + [7.0] * 6 + [12.0] * 20 + [17.0] * 6 + [-30.0] * 60
    found = survival_of_two_halves(times)
    low, middle, high = found.groups
    assert (low.times, middle.times, high.times) == ((5.0, 15.0), (), (5.0, 15.0))
    assert found.baseline.times == (5.0, 15.0)
    first, second, third = 5 * (112 - 10), 5 * (92 - 3), 5 * (86 - 10)  # time at risk in bins
    hazard = 20 / first * 5 + (6 + 20 + 6) / (second + third) * 10
    assert found.baseline.at(15.0) == pytest.approx(hazard, rel=0.02)


def test_few_rows_are_never_counted_alone():
    random = np.random.default_rng(1)
    for _ in range(200):
        counts = random.integers(0, 6, 12)
        told_of = in_company(counts, fewest=5)
        assert not ((told_of > 0) & (told_of < 5)).any()
        assert told_of.sum() in (0, counts.sum())


def test_a_site_of_few_events_tells_of_none():
    data = fs.FederatedData.from_clients([(np.zeros((9, 1)), [1.0, 2.0, 3.0, *[-9.0] * 6])])
    engine = fs.LocalEngine(data, "cox")
    asked = SurvivalCounts(np.zeros(1), -1.0, 1.0, width=2.0, bins=5, fewest=5)
    (answers,) = engine.exchange([engine.ask(asked)])
    assert not answers.total("events").any()
    assert answers.total("censored").sum() == 6


def test_time_that_few_rows_reach_is_not_told():
    data = fs.FederatedData.from_clients([(np.zeros((9, 1)), [*[-1.0] * 6, 50.0, 60.0, 70.0])])
    engine = fs.LocalEngine(data, "cox")
    asked = SurvivalCounts(np.zeros(1), -1.0, 1.0, width=2.0, bins=5, fewest=5)
    (answers,) = engine.exchange([engine.ask(asked)])
    assert answers.total("hazards").tolist() == [12.0, 0.0, 0.0, 0.0, 0.0]


def test_the_request_survives_the_wire():
    asked = SurvivalCounts(np.array([0.5, -1.0]), -0.25, 0.75, width=5.0, bins=12, fewest=7)
    again = decode_request(encode_request(asked), (2,))
    assert again.x.tolist() == asked.x.tolist()
    assert (again.low, again.high, again.width, again.bins, again.fewest) == (
        -0.25, 0.75, 5.0, 12, 7,
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong", [{"width": 0.0}, {"width": 3.0}, {"bins": 0}, {"bins": 13}, {"fewest": 0}]
)
def test_bins_that_make_no_sense_are_refused(wrong):
    usual = {"low": 0.0, "high": 1.0, "width": 1.0, "bins": 3, "fewest": 5}
    with pytest.raises(OptionError, match="bins"):
        SurvivalCounts(np.zeros(1), **usual | wrong)
