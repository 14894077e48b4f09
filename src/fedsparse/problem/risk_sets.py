"""Risk sets of a stratum: who was under observation when somebody had an event.

Sums over risk sets run from the last time to the first. They are kept relative to the largest
exp(score) met so far, so that neither large nor small scores overflow or vanish.

Events at the same time: Breslow counts each of them with the whole risk set; Efron takes a share
l/d of the d tied rows off the risk set of the l-th (Efron, JASA 1977).
"""

import math

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled


def latest_first(targets: FloatArray) -> Int64Array:
    """Places of rows from the last time to the first; the sign of a target tells events.

    Examples
    --------
    >>> latest_first(np.array([2.0, -5.0, 3.0])).tolist()
    [1, 2, 0]
    """
    return np.argsort(-np.abs(targets), kind="stable")


@compiled
def _end_of_ties(targets: FloatArray, order: Int64Array, begin: int) -> int:
    end = begin + 1
    while end < order.size and abs(targets[order[end]]) == abs(targets[order[begin]]):
        end += 1
    return end


@compiled
def log_risks(
    targets: FloatArray, scores: FloatArray, order: Int64Array, efron: bool
) -> tuple[FloatArray, FloatArray]:
    """Of each event in order: log Σ exp(score) over its risk set, and the share l/d taken off it.

    Ties are told apart by their share only.
    """
    events = 0
    for row in range(targets.size):
        events += targets[row] > 0.0
    risks, shares = np.empty(events), np.empty(events)
    highest, total = -math.inf, 0.0
    begin, found = 0, 0
    while begin < order.size:
        end = _end_of_ties(targets, order, begin)
        before = highest
        for place in range(begin, end):
            highest = max(highest, scores[order[place]])
        total *= math.exp(before - highest) if total > 0.0 else 0.0
        tied, deaths = 0.0, 0
        for place in range(begin, end):
            own = math.exp(scores[order[place]] - highest)
            total += own
            if targets[order[place]] > 0.0:
                tied += own
                deaths += 1
        for number in range(deaths):
            share = number / deaths if efron else 0.0
            shares[found] = share
            risks[found] = highest + math.log(total - share * tied)
            found += 1
        begin = end
    return risks, shares


@compiled
def partial_likelihood(
    targets: FloatArray, scores: FloatArray, order: Int64Array, efron: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minus the log partial likelihood by row, and its first and second derivative by scores.

    A row without an event has no part in the first. The second is that with the chances of being
    the one who has the event as they are: what moves with them is `risk_means`.
    """
    risks, shares = log_risks(targets, scores, order, efron)
    losses = np.zeros(targets.size)
    first, second = np.empty(targets.size), np.empty(targets.size)
    # From the first time to the last: Σ 1 / (sum over risk set), in a logarithm.
    highest, total = -math.inf, 0.0
    end, found = order.size, risks.size
    while end > 0:
        begin = end - 1
        while begin > 0 and abs(targets[order[begin - 1]]) == abs(targets[order[begin]]):
            begin -= 1
        deaths = 0
        for place in range(begin, end):
            deaths += targets[order[place]] > 0.0
        before = highest
        for event in range(found - deaths, found):
            highest = max(highest, -risks[event])
        total *= math.exp(before - highest) if total > 0.0 else 0.0
        off = 0.0  # shares of the tied rows that are not counted
        for event in range(found - deaths, found):
            own = math.exp(-risks[event] - highest)
            total += own
            off += shares[event] * own
        event = found - deaths
        for place in range(begin, end):
            row = order[place]
            is_event = targets[row] > 0.0
            hazard = total - off if is_event else total
            chance = math.exp(scores[row] + highest) * hazard if total > 0.0 else 0.0
            first[row] = chance - 1.0 if is_event else chance
            second[row] = chance
            if is_event:
                losses[row] = risks[event] - scores[row]
                event += 1
        found -= deaths
        end = begin
    return losses, first, second


@compiled
def risk_means(
    targets: FloatArray, scores: FloatArray, order: Int64Array, efron: bool, rows: FloatArray
) -> FloatArray:
    """Mean row of each event's risk set, weighted by exp(score); ties as `log_risks` has them."""
    risks, shares = log_risks(targets, scores, order, efron)
    means = np.empty((risks.size, rows.shape[1]))
    sums, tied = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    highest = -math.inf
    begin, found = 0, 0
    while begin < order.size:
        end = _end_of_ties(targets, order, begin)
        before = highest
        for place in range(begin, end):
            highest = max(highest, scores[order[place]])
        if begin > 0 and before < highest:
            sums *= math.exp(before - highest)
        tied[:] = 0.0
        deaths = 0
        for place in range(begin, end):
            row = order[place]
            own = math.exp(scores[row] - highest)
            for column in range(sums.size):
                sums[column] += own * rows[row, column]
            if targets[row] > 0.0:
                deaths += 1
                for column in range(sums.size):
                    tied[column] += own * rows[row, column]
        for event in range(found, found + deaths):
            scale = math.exp(highest - risks[event])
            for column in range(sums.size):
                means[event, column] = scale * (sums[column] - shares[event] * tied[column])
        found += deaths
        begin = end
    return means


def chances_open(targets: FloatArray, scores: FloatArray) -> FloatArray:
    """Σ p (1 − p) of each row over the events at which it was at risk, p being its chance.

    Events at the same time are counted as Breslow does.

    Examples
    --------
    >>> chances_open(np.array([1.0, -2.0]), np.zeros(2))
    array([0.25, 0.25])
    """
    order = latest_first(targets)
    risks, _ = log_risks(targets, scores, order, False)
    times = np.sort(targets[targets > 0])
    # One more in front: who was at risk at no event.
    once, twice = (
        np.logaddexp.accumulate(np.append(-np.inf, -power * risks[::-1])) for power in (1.0, 2.0)
    )
    events = np.searchsorted(times, np.abs(targets), side="right")
    open_ = np.exp(scores + once[events]) - np.exp(2.0 * scores + twice[events])
    return np.asarray(np.maximum(open_, 0.0))
