"""Quantiles and tails that intervals and p-values rest on.

From `scipy.special`: importing `scipy.stats` takes a third of the time in which a program that
learns nothing yet, such as a site, starts.
"""

import numpy as np
from scipy import special

from fedsparse.arrays import FloatArray


def normal_quantile(share: float) -> float:
    """Below which that share of the normal distribution lies.

    Examples
    --------
    >>> round(normal_quantile(0.975), 3)
    1.96
    """
    return float(special.ndtri(share))


def student_reach(share: FloatArray | float, freedom: FloatArray | float) -> FloatArray:
    """Above which that share of Student's distribution lies.

    Parameters
    ----------
    share
        Between 0 and 1.
    freedom
        Degrees of freedom; infinite for the normal distribution.

    Examples
    --------
    >>> student_reach(0.025, np.array([5.0, np.inf])).round(3).tolist()
    [2.571, 1.96]
    """
    shares, degrees = np.broadcast_arrays(np.asarray(share, float), np.asarray(freedom, float))
    is_normal = np.isinf(degrees)
    with np.errstate(invalid="ignore"):
        student = special.stdtrit(np.where(is_normal, 1.0, degrees), shares)
    return np.asarray(-np.where(is_normal, special.ndtri(shares), student))


def student_tail(size: FloatArray, freedom: FloatArray | float) -> FloatArray:
    """Share of Student's distribution above each size; parameters are those of `student_reach`.

    Examples
    --------
    >>> student_tail(np.array([1.96]), np.inf).round(3).tolist()
    [0.025]
    """
    sizes, degrees = np.broadcast_arrays(np.asarray(size, float), np.asarray(freedom, float))
    is_normal = np.isinf(degrees)
    student = special.stdtr(np.where(is_normal, 1.0, degrees), -sizes)
    return np.asarray(np.where(is_normal, special.ndtr(-sizes), student))


def chi_squared_quantile(share: float, freedom: float) -> float:
    """Below which that share of the χ² distribution lies.

    Examples
    --------
    >>> round(chi_squared_quantile(0.95, 1.0), 3)
    3.841
    """
    return float(2.0 * special.gammaincinv(freedom / 2.0, share))


def chi_squared_tail(size: float, freedom: float) -> float:
    """Share of the χ² distribution above a size.

    Examples
    --------
    >>> round(chi_squared_tail(3.841, 1.0), 3)
    0.05
    """
    return float(special.chdtrc(freedom, size))
