"""Outcomes that take two columns: counts with an exposure, times with an event.

A count becomes a rate, weighted by its exposure. A time becomes a number whose sign says how it
ended: +t if there was an event at t, −t if nothing had happened by then (it is censored).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.tables.inputs import Roles
from fedsparse.tables.sentences import ROW_COUNT, shown
from fedsparse.tables.values import Sheet, is_number, labels, number_matrix

if TYPE_CHECKING:
    import polars as pl

CENSORED, EVENT = "censored", "event"
"""How a time may end; the labels by which rows of survival are counted."""

_EVENTS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_EVENT_ADVICE = "an event is 1, true or yes if it happened, and 0, false or no if not; recode it"


def outcome_faults(
    frame: "pl.DataFrame | Sheet", roles: Roles, task: str
) -> Iterator[tuple[str, str]]:
    """Columns with the first of their values that no count, exposure, time or event can have.

    What is missing is told elsewhere.

    Parameters
    ----------
    frame
        The whole table of a file.
    roles
        What the columns are for.
    task
        What is learnt.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"months": [7.0, 0.0], "died": [1, 2]})
    >>> for _, fault in outcome_faults(frame, Roles(target="months", event="died"), "survival"):
    ...     print(fault)
    column "months", row 2 (the header not counted) is 0, and a time is above 0; mend it or remove
    the row
    column "died", row 2 (the header not counted) is "2", and an event is 1, true or yes if it
    happened, and 0, false or no if not; recode it
    """
    present = set(frame.columns)
    if roles.target is not None and roles.target in present:
        if task == "counts":
            yield from _odd_numbers(
                frame, roles.target, _is_no_count, "a count is a whole number of at least 0"
            )
        elif task == "survival":
            yield from _odd_numbers(frame, roles.target, _is_not_positive, "a time is above 0")
    if roles.exposure is not None and roles.exposure in present:
        yield from _odd_numbers(frame, roles.exposure, _is_not_positive, "an exposure is above 0")
    if roles.event is not None and roles.event in present:
        yield from _odd_events(frame, roles.event)


def has_event(series: "pl.Series") -> FloatArray:
    """1 for an event, 0 for none, NaN for what is missing or neither.

    Examples
    --------
    >>> import polars as pl
    >>> has_event(pl.Series(["yes", "No", None, "2"])).tolist()
    [1.0, 0.0, nan, nan]
    """
    text = labels(series)
    meant = {value: _EVENTS.get(str(value).lower()) for value in text.unique().drop_nulls()}
    known = {value: float(event) for value, event in meant.items() if event is not None}
    return np.array([known.get(value, np.nan) for value in text.to_list()], dtype=np.float64)


def signed(times: FloatArray, events: FloatArray) -> FloatArray:
    """Times of events as they are, those of rows without one below 0.

    Examples
    --------
    >>> signed(np.array([7.0, 9.0]), np.array([1.0, 0.0])).tolist()
    [7.0, -9.0]
    """
    return np.where(events == 1.0, times, -times)


def _is_no_count(values: FloatArray) -> BoolArray:
    return np.asarray((values < 0) | (values != np.rint(values))) & ~np.isnan(values)


def _is_not_positive(values: FloatArray) -> BoolArray:
    return np.asarray(values <= 0)  # not so of what is missing


def _odd_numbers(
    frame: "pl.DataFrame | Sheet",
    name: str,
    is_odd: Callable[[FloatArray], BoolArray],
    rule: str,
) -> Iterator[tuple[str, str]]:
    if not is_number(frame.get_column(name).dtype):
        return  # it is told elsewhere
    values = number_matrix(frame, [name])[:, 0]
    odd = np.flatnonzero(is_odd(values))
    if odd.size:
        row = int(odd[0])
        yield (
            name,
            f'column "{name}", row {row + 1} ({ROW_COUNT}) is {values[row]:g}, and {rule}; mend it '
            f"or remove the row{_and_more(odd.size)}",
        )


def _odd_events(frame: "pl.DataFrame | Sheet", name: str) -> Iterator[tuple[str, str]]:
    text = labels(frame.get_column(name))
    odd = np.flatnonzero(np.isnan(has_event(text)) & text.is_not_null().to_numpy())
    if odd.size:
        row = int(odd[0])
        yield (
            name,
            f'column "{name}", row {row + 1} ({ROW_COUNT}) is {shown(text[row])}, and '
            f"{_EVENT_ADVICE}{_and_more(odd.size)}",
        )


def _and_more(rows: int) -> str:
    """How many rows are as odd as the one that is named."""
    return f", and {rows - 1:,} more like it" if rows > 1 else ""
