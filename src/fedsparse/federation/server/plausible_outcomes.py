"""Whether sums that judge a model of counts or of survival can be those of any rows."""

from collections.abc import Mapping

import numpy as np

from fedsparse.arrays import FloatArray


def objection_to_judged_counts(counts: FloatArray, sums: FloatArray, rounding: float) -> str | None:
    """Why sums of `judged_counts` cannot be those of rows; None if they can.

    Parameters
    ----------
    counts, sums
        What was told.
    rounding
        Share by which bounds may be passed.

    Examples
    --------
    >>> objection_to_judged_counts(np.array([2.5, 1.0]), np.zeros(7), 1e-6)
    'rows are counted that are not whole'
    """
    rows, counted = (float(number) for number in counts)
    if _is_not_whole(rows, rounding):
        return "rows are counted that are not whole"
    if counted < -rounding or float(sums[0]) < 0 or (rows > 0 and float(sums[0]) == 0):
        return "a count or an exposure is below 0"
    told, own, products, against = (float(number) for number in sums[3:])
    if _is_not_whole(told, rounding) or told > rows * (1.0 + rounding):
        return f"{told:g} of {rows:g} rows are squared"
    slack = 1.0 + rounding
    if min(own, products, against) < -rounding or products**2 > own * against * slack + rounding:
        return "squares of deviances are those of no rows"
    return None


def objection_to_judged_survival(
    counts: FloatArray, sums: FloatArray, rows: float | None, rounding: float
) -> str | None:
    """Why sums of `judged_survival` cannot be those of rows; None if they can.

    Parameters
    ----------
    counts, sums, rounding
        As above.
    rows
        Of the site; None if that is not known.

    Examples
    --------
    >>> told = np.array([9.0, 2.0]), np.array([3.0, 4.0, 40.0, 50.0, 90.0])
    >>> objection_to_judged_survival(*told, rows=9.0, rounding=1e-6)
    '50 pairs of rows are compared of 16'
    """
    judged, events = (float(number) for number in counts)
    if _is_not_whole(judged, rounding) or _is_not_whole(events, rounding):
        return "rows are counted that are not whole"
    slack = 1.0 + rounding
    if events > judged * slack or (rows is not None and judged > rows * slack):
        return f"{events:g} events and {judged:g} rows are judged"
    if bool((sums < -rounding).any()):
        return "a likelihood is above 1, or a count of pairs below 0"
    in_order, pairs = float(sums[2]), float(sums[3])
    most = events * max(judged - 1.0, 0.0)
    if in_order > pairs * slack or pairs > most * slack:
        return f"{pairs:g} pairs of rows are compared of {most:g}"
    # No row has more partners than there are others, and all together have two of each pair.
    if _is_not_whole(float(sums[4]), rounding) or sums[4] > 2.0 * pairs * judged * slack:
        return "a row is compared with more rows than there are"
    return None


def _is_not_whole(number: float, rounding: float) -> bool:
    return number < -rounding or abs(number - np.rint(number)) > rounding * max(number, 1.0)


def objection_to_survival_counts(told: Mapping[str, FloatArray], rounding: float) -> str | None:
    """Why counts of survival by time cannot be those of rows; None if they can.

    Examples
    --------
    >>> objection_to_survival_counts({"events": np.array([5.0, 0.5])}, 1e-6)
    'rows are counted that are not whole'
    """
    for name, numbers in told.items():
        if bool((numbers < -rounding).any()):
            return f"{name} are below 0"
        if name != "hazards" and any(_is_not_whole(float(own), rounding) for own in numbers):
            return "rows are counted that are not whole"
    return None
