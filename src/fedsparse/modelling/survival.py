"""Times and events as sums over spans of time, and the baseline hazard that follows from them."""

from typing import Any

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError


def signed_times(outcome: Any) -> FloatArray:
    """Times of events as they are, of rows without one below 0; a DataError if there are others.

    Parameters
    ----------
    outcome
        Whether the event was seen, and when, or when observation ended: a structured array of two
        fields as scikit-survival has it, or two columns.

    Examples
    --------
    >>> signed_times([[1, 7.0], [0, 9.0]]).tolist()
    [7.0, -9.0]
    """
    events, times = _events_and_times(outcome)
    odd = np.flatnonzero(~np.isin(events, (0, 1)))
    if odd.size:
        raise DataError(
            f"row {odd[0]}: the event is {events[odd[0]]}, and an event is 1 or True if it was "
            "seen, else 0 or False; recode it"
        )
    wrong = np.flatnonzero(~(np.isfinite(times) & (times > 0)))
    if wrong.size:
        raise DataError(
            f"row {wrong[0]}: the time is {times[wrong[0]]:g}, and a time is above 0; correct it "
            "or leave the row out"
        )
    return np.where(events.astype(bool), times, -times)


def _events_and_times(outcome: Any) -> tuple[AnyArray, FloatArray]:
    array = np.asarray(outcome)
    names = array.dtype.names
    if names is not None and len(names) == 2:
        first, second = (array[name] for name in names)
        if second.dtype == bool and first.dtype != bool:
            first, second = second, first
        return first, second.astype(np.float64)
    if array.ndim == 2 and array.shape[1] == 2:
        numbers = array.astype(np.float64)
        return numbers[:, 0], numbers[:, 1]
    raise DataError(
        "y must be a structured array of an event and a time, or two columns: whether the event "
        f"was seen, and the time; it has shape {array.shape}"
    )


def events_and_risks(
    signed: FloatArray, risks: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Events in each span of time, and Σ risk · time under observation there.

    Parameters
    ----------
    signed
        Times, below 0 where there was no event.
    risks
        exp(score) of every row.
    ends
        Of the spans, in increasing order; the first begins at 0, and the last holds what is later.

    Examples
    --------
    >>> [own.tolist() for own in events_and_risks(
    ...     np.array([3.0, -4.0]), np.array([1.0, 2.0]), np.array([2.0, 4.0])
    ... )]
    [[0.0, 1.0], [6.0, 5.0]]
    """
    times = np.abs(signed)
    places = np.minimum(np.searchsorted(ends, times), ends.size - 1)
    events = np.bincount(places[signed > 0], minlength=ends.size).astype(np.float64)
    begins = np.concatenate([[0.0], ends[:-1]])
    inside = np.clip(times[:, None], begins, ends) - begins
    return events, risks @ inside


def cumulative_hazard(events: FloatArray, risks: FloatArray, ends: FloatArray) -> FloatArray:
    """Cumulative baseline hazard at the ends of spans, in each of which the hazard is constant.

    Examples
    --------
    >>> cumulative_hazard(np.array([1.0, 2.0]), np.array([4.0, 0.0]), np.array([2.0, 4.0])).tolist()
    [0.5, 0.5]
    """
    rates = np.divide(events, risks, out=np.zeros_like(events), where=risks > 0)
    return np.cumsum(rates * np.diff(ends, prepend=0.0))
