"""Statistical disclosure control: rules of a site about what its answers speak of.

*Dominance.* A sum over many rows is about a few of them if the others weigh next to nothing, and
whoever chooses x can see to that: an x that is extreme for all rows but one leaves slopes to that
row alone. Offices of statistics keep such totals back: an (n, k) rule tells none of which n units
make up more than a share k (Hundepool et al., Statistical Disclosure Control, 2012, section 4.2).
Here the units are rows, and n is one less than the fewest rows that anything told may speak of. A
row weighs by its loss, and by its curvature ∂²loss/∂score² in comparison with the slopes
|∂loss/∂score| of all rows, whatever is asked. A curvature is never larger than the slope, so rows
with enough of it have enough of both. Slopes by themselves would not do: at an x so steep that
every row lies on one side or the other there are slopes of many rows and curvatures of none, and
two such x, a step apart, differ by one row.

The rule bounds each answer by itself. What very many answers tell together is for budgets and
secure sums to bound.

Of survival an event has a loss, and every row that was at risk at an event has a curvature
Σ p (1 − p), p being its chance to be the one; rows without are left out of the averages. Counts may
be predicted exactly, and their losses are then 0: there a row weighs by loss and curvature
together.

For the squared loss there is no such rule. f is a quadratic of x whose coefficients are sums over
all rows; every answer follows from answers at harmless x, whatever the rule would keep back.

*Batches.* The rows of a mini-batch are drawn from randomness that the site keeps, anew for every
request. A server that knew them could solve for every row.
"""

import secrets
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.clients import by_class
from fedsparse.engines.lens import Lens
from fedsparse.requests import (
    CorrectedSteps,
    Curvature,
    Evaluate,
    Gradient,
    Judge,
    JudgeCounts,
    JudgeSurvival,
    LocalSteps,
    NoBetterThanNull,
    Request,
    ScoreCounts,
    ShiftedLasso,
    Slopes,
    SurvivalCounts,
    SurvivalMoments,
)

_SEED_BITS = 62


def weight_of_others(weights: FloatArray, against: FloatArray, fewest: int) -> float:
    """What a row weighs that is not among the heaviest, on average, over an average of all rows.

    The heaviest are one less than ``fewest``, or all but one where there are no more rows. 1 if
    there is nothing to weigh against, because nothing is told then, or if something is not finite,
    because then what is told is not, either.

    Parameters
    ----------
    weights
        Of each row, not negative.
    against
        Of each row, what the average is taken of.
    fewest
        Fewest rows that an answer may speak of.

    Examples
    --------
    >>> weights = np.array([8.0, 1.0, 1.0, 2.0])
    >>> weight_of_others(weights, weights, 3), weight_of_others(weights, 2.0 * weights, 9)
    (0.3333333333333333, 0.16666666666666666)
    """
    average = float(against.mean()) if against.size else 0.0
    if average == 0.0 or not np.isfinite(average):
        return 1.0
    others = max(weights.size - fewest + 1, 1)
    return float(np.partition(weights, others - 1)[:others].mean()) / average


def is_dominated(
    request: Request, clients: Clients, client: int, fewest: int, smallest: float
) -> bool:
    """Whether few rows make up something that an answer tells.

    Parameters
    ----------
    request
        What is asked.
    clients, client
        Of whom.
    fewest
        Fewest rows that an answer may speak of; 1: nothing is dominated.
    smallest
        Least `weight_of_others`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.compute import open_clients
    >>> from fedsparse.compute.workers import Workers
    >>> data = fs.FederatedData.from_clients([([[5.0, 1.0], [-1.0, 1.0], [-2.0, 1.0]], [0, 0, 0])])
    >>> clients = open_clients(data, fs.Logistic(), Workers(1))
    >>> [is_dominated(Gradient(np.array(x)), clients, 0, 2, 0.01) for x in ([0.0, 0.0], [9.0, 0.0])]
    [False, True]
    """
    return fewest > 1 and any(
        weight_of_others(own[:, 0], own[:, 1], fewest) < smallest
        for told in weights_told(request, clients, client)
        for own in _with_part(told, clients, client)
    )


def _with_part(told: FloatArray, clients: Clients, client: int) -> Iterator[FloatArray]:
    """Losses and curvatures of the rows that have any; what is of scores alone is of all rows."""
    parts = clients.loss.rows_with_part(clients.targets_of(client))
    for place, own in enumerate(told):
        yield own if parts is None or len(told) == 1 else own[parts[min(place, 1)]]


def weights_told(request: Request, clients: Clients, client: int) -> Iterator[FloatArray]:
    """What rows weigh in what an answer tells, and against what, for `weight_of_others`.

    Arrays of shape (1 + classes, rows, 2). Nothing for requests that look at no x, and for the
    squared loss.
    """
    if clients.loss.is_quadratic:
        return
    match request:
        case LocalSteps():
            yield from _told_by_steps(request, clients, client)
        case (
            Evaluate(x)
            | Judge(x)
            | JudgeCounts(x)
            | JudgeSurvival(x)
            | SurvivalMoments(x)
            | SurvivalCounts(x)
            | NoBetterThanNull(x)
            | ScoreCounts(x)
            | Gradient(x)
            | ShiftedLasso(x)
            | Slopes(x)
            | Curvature(x)
        ):
            yield _weights_at(clients, client, x)
    if isinstance(request, SurvivalMoments | SurvivalCounts):
        scores = clients.scores(request.x, client)
        own = scores**2 if isinstance(request, SurvivalMoments) else np.exp(scores - scores.max())
        yield np.stack([own, own], axis=-1)[None]
        if isinstance(request, SurvivalCounts):
            # Who leaves in a stretch is told from others by how much less the next one is.
            bins = request.bins_of(clients.targets_of(client)[:, 0])
            ends = request.stretches(bins)
            places = np.searchsorted(ends, bins, side="right")
            for place in range(ends.size):
                yield np.stack([own[places == place]] * 2, axis=-1)[None]


def _told_by_steps(request: LocalSteps, clients: Clients, client: int) -> Iterator[FloatArray]:
    if isinstance(request, CorrectedSteps):  # gradients of all rows, in the steps or beside them
        for place in (request.x, request.snapshot):
            yield _weights_at(clients, client, place)
    if not has_batches(request, clients.data.samples):
        # At every x on the way: who asks for one step less knows where the last one begins.
        for x, rows in request.walk(clients, client):
            if rows is not None:
                yield _weights_at(clients, client, x)
        return
    if request.with_objective:
        yield _weights_at(clients, client, request.x)
    anchors = () if request.snapshot is None else (request.snapshot,)
    for anchor in anchors:
        yield _weights_at(clients, client, anchor)
    # All steps together: batches are never the same again, so nobody can subtract other steps.
    total = np.zeros((1 + by_class(request.x).shape[0], clients.data.samples, 2))
    is_seen = np.zeros(clients.data.samples, dtype=np.bool_)
    for x, rows in request.walk(clients, client):
        if rows is not None:
            is_seen[rows] = True
            for place in (x, *anchors):
                total[:, rows] += _weights_at(clients, client, place, rows)
    yield total[:, is_seen]


def _weights_at(
    clients: Clients, client: int, x: FloatArray, rows: Int64Array | None = None
) -> FloatArray:
    """Of some or all rows at x: losses against losses, curvatures of each class against slopes."""
    targets = clients.targets_of(client)
    if rows is None:
        scores = np.column_stack([clients.scores(own, client) for own in by_class(x)])
    else:
        own = clients.data.features[clients.data.pointer[client] + rows]
        scores, targets = np.asarray(own @ x).reshape(rows.size, -1), targets[rows]
    with np.errstate(all="ignore"):  # runs may diverge; who asked looks for that
        scores = scores if x.ndim > 1 else scores[:, 0]
        found = clients.loss.at_scores(scores, targets)
        curvatures = clients.loss.own_curvatures(scores, targets)
    losses = found.losses
    if clients.loss.has_exact_fit:  # to predict many rows well is no reason to keep anything back
        losses = losses + curvatures
    weights = np.column_stack([losses, curvatures])
    against = np.column_stack([losses, np.abs(found.slopes)])
    return np.stack([weights.T, against.T], axis=-1)


def has_batches(request: LocalSteps, rows: int) -> bool:
    """Whether steps see some of so many rows at a time."""
    return 0 < (request.batch_size or 0) < rows


def with_own_batches(request: Request, rows: int, fewest: int) -> Request:
    """The request with a seed that nobody else knows, where it draws mini-batches.

    Batches of all rows but a few are batches of all rows: the difference would tell of the few.

    Parameters
    ----------
    request
        What is asked.
    rows
        That it is asked of.
    fewest
        Fewest rows that an answer may speak of.

    Examples
    --------
    >>> steps = LocalSteps(np.zeros(1), steps=1, step_size=0.1, batch_size=5, seed=7)
    >>> with_own_batches(steps, 20, 5).seed == with_own_batches(steps, 20, 5).seed
    False
    >>> with_own_batches(steps, 8, 5).batch_size
    """
    if not isinstance(request, LocalSteps) or not request.batch_size:
        return request
    if request.batch_size > rows - fewest:
        return replace(request, batch_size=None, seed=0, round=0)
    return replace(request, seed=secrets.randbits(_SEED_BITS))


def with_own_bins(request: Request, fewest: int) -> Request:
    """The request with bins of so many rows or more, where it counts rows in bins.

    Parameters
    ----------
    request
        What is asked, openly: under masks nobody sees a site's bins.
    fewest
        Fewest rows that an answer may speak of.

    Examples
    --------
    >>> with_own_bins(ScoreCounts(np.zeros(1)), 5).fewest
    5
    """
    if isinstance(request, ScoreCounts) and request.fewest < fewest:
        return replace(request, fewest=fewest)
    return request


def objection_to_scaling(lens: Lens) -> str | None:
    """Why features are not scaled like that, whatever they are, or None.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.problem.scaling import Scaling
    >>> none = Scaling(np.zeros(1), np.array([-1.0]), 0.0)
    >>> objection_to_scaling(Lens(fs.Logistic(), scaling=none))
    'the server scales columns by numbers that are none; train again'
    """
    own = lens.scaling
    if own is None:
        return None
    vectors = (own.mean, *(() if own.fill is None else (own.fill,)))
    is_finite = all(np.isfinite(vector).all() for vector in vectors)
    if is_finite and (own.scale > 0).all() and np.isfinite([own.intercept, own.offset]).all():
        return None
    return "the server scales columns by numbers that are none; train again"
