"""Intervals of metrics, from the sums that metrics are made of.

All hold with 95 % where the model is fixed and rows are drawn independently. What is left out is
that folds of a cross-validation share training rows, and that other rows would give another model.
"""

import numpy as np
from scipy.optimize import brentq

from fedsparse.modelling.distributions import chi_squared_quantile, normal_quantile, student_reach

LEVEL = 0.95
"""Of all intervals."""

Interval = tuple[float, float]
"""Lower and upper limit."""

_ENDS = ((1.0 + LEVEL) / 2.0, (1.0 - LEVEL) / 2.0)
NORMAL_KURTOSIS = 3.0
_CLOSE = 1e-12


def of_share(found: float, of: float) -> Interval | None:
    """Wilson's interval of a share (JASA 1927); None of nothing.

    Examples
    --------
    >>> [round(limit, 2) for limit in of_share(6, 6)]
    [0.61, 1.0]
    """
    if of <= 0:
        return None
    z = _normal_quantile()
    share, spread = found / of, z**2 / of
    centre = share + spread / 2.0
    half = np.sqrt(spread * (share * (1.0 - share) + spread / 4.0))
    low, high = (centre - half) / (1.0 + spread), (centre + half) / (1.0 + spread)
    # At the ends the limit is exact, and rounding is not.
    return (0.0 if found <= 0 else float(low)), (1.0 if found >= of else float(high))


def of_auc(in_order: float, pairs: float, partners: float) -> Interval | None:
    """Newcombe's interval of an AUC over strata; None without a pair.

    Those values A are in it that lie within 1.96 standard errors of what was found, and the error
    is the one that Hanley and McNeil (Radiology 1982) give for A itself, not for what was found: so
    it does not vanish where all pairs are in order (Newcombe, Statistics in Medicine 2006, method
    5). Pairs of several strata are independent, and their variances add up.

    A C-index is the same but for rows in the middle: of two pairs that share such a row, one with
    an earlier and one with a later row, one is in order the more often as the other is not. Its
    partners are half of the squares of `partners_by_row` less the pairs, which gives the variance
    of Kendall's τ where scores say nothing, and more than needed where they say nearly all.

    Parameters
    ----------
    in_order, pairs
        Pairs of rows whose scores are in order, and all pairs.
    partners
        Σ over strata of pairs times (n₁ + n₀) / 2 − 1.

    Examples
    --------
    >>> [round(limit, 2) for limit in of_auc(9, 9, 18)]
    [0.5, 1.0]
    """
    if pairs <= 0:
        return None
    found, z = min(in_order / pairs, 1.0), _normal_quantile()

    def beyond(value: float) -> float:
        shared = (1.0 - value) / (2.0 - value) + value / (1.0 + value)
        variance = value * (1.0 - value) * (pairs + partners * shared) / pairs**2
        return float((found - value) ** 2 - z**2 * variance)

    # At 0 and 1 there is no error, so that they solve the equation where they were found.
    low = 0.0 if found == 0.0 else brentq(beyond, 0.0, min(found, 1.0 - _CLOSE))
    high = 1.0 if found == 1.0 else brentq(beyond, max(found, _CLOSE), 1.0)
    return float(low), float(high)


def of_positive_mean(total: float, squares: float, rows: float) -> Interval | None:
    """Student's interval of the logarithm of a mean, by the delta method; None of one row.

    Parameters
    ----------
    total, squares
        Σ v and Σ v² of numbers above 0.
    rows
        How many.

    Examples
    --------
    >>> [round(limit, 2) for limit in of_positive_mean(20.0, 50.0, 10.0)]
    [1.37, 2.92]
    """
    if rows < 2 or total <= 0:
        return None
    mean = total / rows
    variance = max(squares - rows * mean**2, 0.0) / (rows - 1)
    half = _quantile(rows - 1) * np.sqrt(variance / rows) / mean
    with np.errstate(over="ignore"):
        return _finite(mean * np.exp(-half), mean * np.exp(half))


def of_root_mean_square(squares: float, rows: float, kurtosis: float) -> Interval | None:
    """Interval of a root mean square by χ², its degrees of freedom 2n / (kurtosis − 1); or None.

    Examples
    --------
    >>> [round(limit, 2) for limit in of_root_mean_square(6.0, 6, 3.0)]
    [0.64, 2.2]
    """
    if rows < 1 or squares <= 0:
        return None if rows < 1 else (0.0, 0.0)
    freedom = 2.0 * rows / (kurtosis - 1.0)
    low, high = (chi_squared_quantile(share, freedom) for share in _ENDS)
    scaled = squares / rows * freedom
    with np.errstate(divide="ignore", over="ignore"):
        return _finite(*np.sqrt(np.divide(scaled, [low, high])).tolist())


def of_share_explained(
    explained: float, correlation: float, rows: float, kurtosis: float
) -> Interval | None:
    """Interval of R², by the delta method for log(1 − R²); None of less than three rows.

    1 − R² is a ratio of two mean squares, of errors and of deviations. Where rows are drawn from an
    elliptical distribution its logarithm has the variance 4 (1 − ρ²) (kurtosis / 3) / n, with ρ the
    correlation of errors and targets (Muirhead, Aspects of Multivariate Statistical Theory, 1982).

    Examples
    --------
    >>> [round(limit, 2) for limit in of_share_explained(0.5, 0.7, 60, 3.0)]
    [0.28, 0.65]
    """
    if rows < 3:
        return None
    variance = 4.0 * (1.0 - min(correlation**2, 1.0)) * (kurtosis / NORMAL_KURTOSIS) / rows
    half = _quantile(rows - 2) * np.sqrt(variance)
    with np.errstate(over="ignore"):
        return _finite(*(1.0 - (1.0 - explained) * np.exp([half, -half])).tolist())


def of_deviance_explained(
    deviance: float, without: float, squares: float, rows: float
) -> Interval | None:
    """Interval of a share of deviance, by the delta method for its logarithm; or None.

    As that of R², but from what single rows show: counts have tails of many kinds.

    Parameters
    ----------
    deviance, without
        Of the model, and of one rate for all rows.
    squares
        Σ (a − deviance / without · b)², with what a row has of one and of the other.
    rows
        How many.

    Examples
    --------
    >>> [round(limit, 2) for limit in of_deviance_explained(30.0, 60.0, 20.0, 60)]
    [0.32, 0.63]
    """
    if rows < 3 or deviance <= 0 or without <= 0:
        return None
    spread = np.sqrt(max(squares, 0.0) * rows / (rows - 1)) / deviance
    half = _quantile(rows - 2) * spread
    with np.errstate(over="ignore"):
        return _finite(*(1.0 - deviance / without * np.exp([half, -half])).tolist())


def kurtosis_of(rows: float, squares: float, fourths: float) -> float:
    """Kurtosis of errors, and 3 at least: few rows hide long tails, and never show short ones.

    The sample's is (n + 2) / n times too small where errors are normal.

    Parameters
    ----------
    rows, squares, fourths
        How many errors there are, Σ r² and Σ r⁴.

    Examples
    --------
    >>> kurtosis_of(4, 4.0, 4.0), kurtosis_of(100, 100.0, 900.0), kurtosis_of(0, 0.0, 0.0)
    (3.0, 9.18, 3.0)
    """
    if rows <= 0 or squares <= 0:
        return NORMAL_KURTOSIS
    return max(float((rows + 2.0) * fourths / squares**2), NORMAL_KURTOSIS)


def _finite(low: float, high: float) -> Interval | None:
    """None where so little is known that a limit is beyond all numbers."""
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def _normal_quantile() -> float:
    return normal_quantile((1.0 + LEVEL) / 2.0)


def _quantile(freedom: float) -> float:
    return float(student_reach((1.0 - LEVEL) / 2.0, freedom))
