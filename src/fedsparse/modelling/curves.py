"""Curves and figures at a threshold, read off counts of rows by predicted probability and class."""

import numpy as np
from scipy.special import expit, logit

from fedsparse.arrays import FloatArray
from fedsparse.modelling.distributions import student_reach
from fedsparse.modelling.intervals import LEVEL, of_auc, of_share
from fedsparse.modelling.metrics import Judged
from fedsparse.modelling.summary import Calibration, ClassCurves, CurvePoint, ObservedShare
from fedsparse.requests.score_counts import BINS, edges_with, groups_of

FEWEST_SHOWN = 5
"""Rows between two points of a curve, and of a share, at least."""

_STEPS = 30
_LEAST = 1e-5
"""Probability that stands for the first bin; the last has 1 less that."""


def curves_of(
    judged: Judged, counts: FloatArray, threshold: float, labels: tuple[str, ...]
) -> tuple[ClassCurves, ...]:
    """Curves of each class that is told from others; nothing where no row was counted.

    Parameters
    ----------
    judged
        The same predictions, for the AUC.
    counts
        As `fedsparse.requests.ScoreCounts` asks for them, added up.
    threshold
        That they were asked with.
    labels
        Names of the classes.

    Examples
    --------
    >>> counts = np.zeros((BINS, 2))
    >>> counts[8] = 30, 10
    >>> counts[20] = 10, 30
    >>> judged = Judged.of(np.array([0, 1]), np.array([0.0, 1.0]), is_numbers=False)
    >>> (found,) = curves_of(judged, counts.ravel(), 0.5, ("no", "yes"))
    >>> found.label, found.sensitivity, found.specificity
    ('yes', 0.75, 0.75)
    """
    by_class = counts.reshape(-1, BINS, 2)
    if not by_class.any():
        return ()
    told = labels[1:] if len(by_class) == 1 else labels
    return tuple(
        _of_class(label, own, compared, threshold)
        for label, own, compared in zip(told, by_class, judged.compared, strict=True)
    )


def _of_class(
    label: str, counts: FloatArray, compared: tuple[float, float, float], threshold: float
) -> ClassCurves:
    others, own = counts.sum(axis=0)
    edges = edges_with(threshold)
    # The bins above the last of equal edges: what lies at the threshold counts as above it.
    above = counts[int(np.searchsorted(edges, threshold, side="right")) :].sum(axis=0)
    in_order, pairs, _ = compared
    return ClassCurves(
        label=label,
        rows=round(others + own),
        of_class=round(own),
        auc=in_order / pairs if pairs else None,
        auc_interval=of_auc(*compared),
        threshold=threshold,
        sensitivity=above[1] / own if own else None,
        sensitivity_interval=of_share(above[1], own),
        specificity=1.0 - above[0] / others if others else None,
        specificity_interval=of_share(others - above[0], others),
        calibration=calibration_of_classes(counts, edges),
        points=_points(counts, edges),
        shares=_shares(counts, edges),
    )


def _points(counts: FloatArray, edges: FloatArray) -> tuple[CurvePoint, ...]:
    others, own = counts.sum(axis=0)
    if not own or not others:
        return ()
    points = []
    for group in groups_of(counts.sum(axis=1), FEWEST_SHOWN)[:0:-1]:
        edge = float(edges[group.start - 1])
        wrong, right = counts[group.start :].sum(axis=0)
        odds = edge / (1.0 - edge) if edge < 1.0 else np.inf
        points.append(
            CurvePoint(
                threshold=edge,
                sensitivity=right / own,
                specificity=1.0 - wrong / others,
                net_benefit=(right - wrong * odds) / (own + others),
                of_all=(own - others * odds) / (own + others),
            )
        )
    return tuple(points)


def _shares(counts: FloatArray, edges: FloatArray) -> tuple[ObservedShare, ...]:
    predicted = _predicted(edges)
    shares = []
    for group in groups_of(counts.sum(axis=1), FEWEST_SHOWN):
        rows = counts[group].sum(axis=1)
        if not rows.any():
            continue
        own = float(counts[group, 1].sum())
        shares.append(
            ObservedShare(
                predicted=float(np.average(predicted[group], weights=rows)),
                rows=round(rows.sum()),
                observed=own / rows.sum(),
                interval=of_share(own, rows.sum()),
            )
        )
    return tuple(shares)


def _predicted(edges: FloatArray) -> FloatArray:
    """What stands for the probabilities in each bin: the middle, of log-odds."""
    ends = logit(np.clip(np.concatenate([[_LEAST], edges, [1.0 - _LEAST]]), _LEAST, 1 - _LEAST))
    return np.asarray(expit((ends[1:] + ends[:-1]) / 2.0))


def calibration_of_classes(counts: FloatArray, edges: FloatArray) -> Calibration | None:
    """Cox's recalibration: a logistic regression of the class on the predicted log-odds.

    Of the counts alone, by Newton's method, with Wald's intervals. None where a class is missing or
    separated, or all rows have about the same probability.

    Parameters
    ----------
    counts
        Rows by bin, of the others and of the class.
    edges
        Of the bins.
    """
    rows, own = counts.sum(axis=1), counts[:, 1]
    is_there = rows > 0
    if is_there.sum() < 2 or not 0 < own.sum() < rows.sum():
        return None
    rows, own = rows[is_there], own[is_there]
    columns = np.column_stack([np.ones(rows.size), logit(_predicted(edges)[is_there])])
    line = np.array([0.0, 1.0])
    for _ in range(_STEPS):
        shares = expit(columns @ line)
        information = (columns.T * (rows * shares * (1.0 - shares))) @ columns
        if np.linalg.cond(information) > 1e12:
            return None
        step = np.linalg.solve(information, columns.T @ (own - rows * shares))
        line = line + step
        if np.abs(step).max() < 1e-9:
            return _calibration(line, np.sqrt(np.diag(np.linalg.inv(information))), np.inf)
    return None


def calibration_of_numbers(judged: Judged) -> Calibration | None:
    """The straight line of targets over predictions, by least squares; None without variation.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> truth = random.standard_normal(50)
    >>> found = calibration_of_numbers(Judged.of(2.0 * truth + 1.0, truth, is_numbers=True))
    >>> round(found.slope, 6), round(found.intercept, 6)
    (2.0, 1.0)
    """
    rows = float(judged.rows)
    total, squares, residuals, predicted, products = (float(own) for own in judged.sums[:5])
    # Σ p² follows from Σ (y − p)².
    variation = residuals - squares + 2.0 * products - predicted**2 / rows
    if rows < 3 or variation <= 1e-12 * max(squares, residuals):
        return None
    common, own = products - total * predicted / rows, squares - total**2 / rows
    slope = common / variation
    mean, centre = predicted / rows, judged.centre
    noise = max(own - slope * common, 0.0) / (rows - 2.0)
    error = np.sqrt(noise / variation)
    away = np.sqrt(noise * (1.0 / rows + (mean + centre) ** 2 / variation))
    intercept = total / rows + centre - slope * (mean + centre)
    return _calibration(np.array([intercept, slope]), np.array([away, error]), rows - 2.0)


def _calibration(line: FloatArray, errors: FloatArray, freedom: float) -> Calibration:
    half = float(student_reach((1.0 - LEVEL) / 2.0, freedom)) * errors
    low, high = (line - half).tolist(), (line + half).tolist()
    return Calibration(
        intercept=float(line[0]),
        intercept_interval=(low[0], high[0]),
        slope=float(line[1]),
        slope_interval=(low[1], high[1]),
    )
