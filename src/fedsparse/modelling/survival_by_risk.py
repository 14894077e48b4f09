"""Survival by risk and the baseline hazard, from sums over coarse bins of time."""

import math
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.engines.conversation import Conversation
from fedsparse.modelling.fitting import Fitted, Prepared
from fedsparse.modelling.model import Baseline
from fedsparse.modelling.summary import RiskGroup
from fedsparse.requests import SurvivalCounts, SurvivalMoments
from fedsparse.requests.survival_curves import GROUPS, readable_width

_BINS = 12
_BINS_A_MEAN = 4.0
"""Bins up to the mean time: twelve reach three times as far."""
_FEWEST = 5
"""Rows that a count speaks of; sites may ask for more."""
ENOUGH_AT_RISK = 10
"""Rows that a curve goes on with; events of fewer, which are told late, throw it about."""
_TERCILE = 0.43
"""Standard deviations from the mean to a third of normal scores."""


@dataclass(frozen=True)
class SurvivalTold:
    """What is known of survival.

    Attributes
    ----------
    baseline
        Of a row of average features.
    groups
        Of rows by risk, the lowest first.
    """

    baseline: Baseline
    groups: tuple[RiskGroup, ...]


def survival_by_risk(prepared: Prepared, fitted: Fitted) -> Conversation[SurvivalTold | None]:
    """Kaplan and Meier's curves of low, middle and high risks, and the baseline hazard.

    Rows are cut at 0.43 standard deviations below and above the mean score, which are thirds of
    normal scores. Within a stretch of time the baseline hazard is constant: events over the sum of
    exp(score) times the time spent there. A stretch ends with a bin in which events are told: in
    one without, fewer may have happened than sites tell of, which are counted with another. None if
    nobody tells, or a model has no features.

    Parameters
    ----------
    prepared
        The rows.
    fitted
        The model.
    """
    if not fitted.coefficients.any():
        return None
    engine, x = prepared.engine, fitted.result.coef
    (moments,) = yield (engine.ask(SurvivalMoments(x)),)
    if moments.count == 0:
        return None
    rows, scores, squares, times = (float(value) for value in moments.total("sums"))
    mean = scores / rows
    reach = _TERCILE * math.sqrt(max(squares / rows - mean**2, 0.0))
    width = readable_width(times / rows / _BINS_A_MEAN)
    asked = SurvivalCounts(x, mean - reach, mean + reach, width, _BINS, _FEWEST)
    (told,) = yield (engine.ask(asked),)
    if told.count == 0:
        return None
    events, censored = (
        np.rint(told.total(name)).reshape(GROUPS, _BINS) for name in ("events", "censored")
    )
    ends = np.linspace(width, _BINS * width, _BINS)
    return SurvivalTold(
        _baseline(ends, events.sum(axis=0), told.total("hazards")),
        tuple(_group(ends, *own) for own in zip(events, censored, strict=True)),
    )


def _baseline(ends: FloatArray, events: FloatArray, hazards: FloatArray) -> Baseline:
    """Up to the last bin with events that somebody tells of and that has an end."""
    known = int(np.argmax(np.append(hazards[:-1] <= 0, True)))
    knots = np.flatnonzero(events[:known])
    spent = np.diff(np.cumsum(hazards[:known])[knots], prepend=0.0)
    rates = events[knots] / spent
    widths = np.diff(ends[knots], prepend=0.0)
    return Baseline(
        times=tuple(ends[knots].tolist()),
        cumulative_hazard=tuple(np.cumsum(rates * widths).tolist()),
    )


def _group(ends: FloatArray, events: FloatArray, censored: FloatArray) -> RiskGroup:
    rows = float((events + censored).sum())
    gone = np.concatenate([[0.0], np.cumsum(events + censored)[:-1]])
    at_risk = rows - gone
    # Who left in a bin was there for half of it.
    exposed = at_risk - censored / 2
    shares = np.where(exposed > 0, 1.0 - events / np.where(exposed > 0, exposed, 1.0), 1.0)
    known = np.flatnonzero((at_risk[:-1] >= ENOUGH_AT_RISK) & (events[:-1] > 0))
    return RiskGroup(
        rows=round(rows),
        events=round(float(events.sum())),
        times=tuple(ends[known].tolist()),
        survival=tuple(np.cumprod(np.clip(shares, 0.0, 1.0))[known].tolist()),
        at_risk=tuple(int(count) for count in at_risk[known]),
    )
