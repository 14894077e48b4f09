"""Σ p (1 − p) of rows at risk against a plain loop."""

import numpy as np
import pytest

from fedsparse.problem.risk_sets import chances_open


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_summed_one_by_one_with_ties(seed):
    random = np.random.default_rng(seed)
    signed = random.integers(1, 9, 30) * random.choice([-1.0, 1.0], 30)
    scores = 3.0 * random.standard_normal(30)
    expected = np.zeros(30)
    for event in np.flatnonzero(signed > 0):
        at_risk = np.abs(signed) >= signed[event]
        chances = np.where(at_risk, np.exp(scores), 0.0) / np.exp(scores[at_risk]).sum()
        expected += chances * (1.0 - chances)
    assert chances_open(signed, scores) == pytest.approx(expected, abs=1e-12)


def test_nothing_is_open_where_scores_lie_far_apart():
    signed, scores = np.arange(1.0, 31.0), 1e9 * np.random.default_rng(0).standard_normal(30)
    assert (chances_open(signed, scores) < 1e-9).all()
