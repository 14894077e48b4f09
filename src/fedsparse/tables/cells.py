"""Checks on the cells of a table. They name the row, so they must see the file as it is."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fedsparse.tables.inputs import Roles, role_findings
from fedsparse.tables.outcomes import outcome_faults
from fedsparse.tables.sentences import (
    ROW_COUNT,
    Finding,
    check_choice,
    counted,
    error,
    joined,
    shown,
)
from fedsparse.tables.values import (
    MOST_LEVELS,
    Sheet,
    is_missing,
    is_number,
    is_text,
    label_counts,
    labels,
    number_matrix,
    number_names,
    number_of,
    text_kind,
)

if TYPE_CHECKING:
    import polars as pl

LearntTask = Literal["classification", "regression", "counts", "survival"]
"""What can be learnt."""

Task = Literal["auto", LearntTask]
"""What is asked for."""

LARGEST = 1e100
"""Numbers beyond this, infinity among them, are refused: sums of squares must stay finite."""

_SITES_SHOWN = 5
_FEW_LEVELS = 20
_COMMA = "has a decimal comma instead of a point"


def check_task(task: object) -> None:
    """Refuse a task that there is not.

    Examples
    --------
    >>> check_task("guess")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: task must be one of 'auto', 'classification', 'regression',
    'counts', 'survival', not 'guess'
    """
    check_choice("task", task, get_args(Task))


def cell_findings(
    frame: "pl.DataFrame | Sheet",
    where: str,
    roles: Roles,
    task: Task,
    sites: "pl.Series | None" = None,
) -> list[Finding]:
    """Everything wrong with single columns of one table.

    Parameters
    ----------
    frame
        The whole table of a file.
    where
        The file or site, for messages.
    roles
        What the columns are for.
    task
        Text in the target is in order if classes are asked for.
    sites
        The site of each row, to count missing targets by; None if there is one site.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"dose": ["5", "6", "7 mg"], "relapse": [0, 1, None]})
    >>> for finding in cell_findings(frame, "bari.csv", Roles(target="relapse"), "auto"):
    ...     print(finding.sentence)
    bari.csv: the target "relapse" is missing in 1 row (the first is row 3, the header not
    counted); fill or remove it
    bari.csv: column "dose", row 3 (the header not counted) is "7 mg", which is not a number; mend
    it, or make the column a category with --category dose
    """
    if frame.height == 0:
        return [error(f"{where} has no rows; leave it out or give it data")]
    found = role_findings(frame.columns, where, roles)
    for option, name in roles.outcome.items():
        if name in frame.columns:
            what = option.removeprefix("--")
            series = frame.get_column(name)
            found += missing_findings(series, f'{where}: the {what} "{name}"', sites)
            if option == "--exposure":
                found += _number_findings(series, where)
    if roles.target is not None and roles.target in frame.columns:
        found += _target_findings(frame.get_column(roles.target), where, task)
    found += [
        error(f"{where}: {fault}", name) for name, fault in outcome_faults(frame, roles, task)
    ]
    names, categories = roles.feature_columns(frame.columns), frozenset(roles.categories)
    numeric = frozenset(number_names(frame))
    found += _large_findings(frame, [name for name in names if name in numeric], where)
    with_commas = []
    for name in names:
        if name in categories or name not in numeric:
            series = frame.get_column(name)
            if name not in categories and has_decimal_commas(series):
                with_commas.append(series)
            else:
                found += _text_findings(series, where, name in categories)
    return [*found, *_comma_findings(with_commas, where)]


def missing_findings(
    series: "pl.Series", what: str, sites: "pl.Series | None" = None
) -> list[Finding]:
    """An error if values that every row needs are missing, with counts by site.

    Examples
    --------
    >>> import polars as pl
    >>> missing_findings(pl.Series([1, 2]), 'the target "relapse"')
    []
    """
    places = np.flatnonzero(is_missing(series))
    rows = places.size
    if rows == 0:
        return []
    first = places[0] + 1
    by_site = "" if sites is None else f"{_most_missing(sites.gather(places))}; "
    it = "it" if rows == 1 else "them"
    return [
        error(
            f"{what} is missing in {counted(rows, 'row')} ({by_site}the first is row {first}, "
            f"{ROW_COUNT}); fill or remove {it}"
        )
    ]


def number_fault(series: "pl.Series") -> str | None:
    """Where and why a column cannot be read as numbers; None if it can.

    Examples
    --------
    >>> import polars as pl
    >>> number_fault(pl.Series("dose", ["5", "7 mg"]))
    'column "dose", row 2 (the header not counted) is "7 mg", which is not a number'
    """
    if is_number(series.dtype):
        return None
    faulty = [label for label in label_counts(series) if number_of(label) is None]
    return _fault_among(series, faulty, "is not a number")


def _most_missing(sites: "pl.Series") -> str:
    counts = sites.alias("site").value_counts(sort=True, name="rows")
    parts = [f"{site} {rows:,}" for site, rows in counts.head(_SITES_SHOWN).iter_rows()]
    others = counts.height - len(parts)
    return joined(parts + ([counted(others, "more site")] if others else []))


def _number_findings(series: "pl.Series", where: str) -> Iterator[Finding]:
    """Of a column that must hold numbers."""
    fault = number_fault(series)
    if fault is not None:
        yield error(f"{where}: {fault}; mend it", series.name)
    else:
        yield from _large_findings(series.to_frame(), [series.name], where, "remove the row")


def _target_findings(target: "pl.Series", where: str, task: Task) -> Iterator[Finding]:
    name = target.name
    if task in ("counts", "survival"):
        yield from _number_findings(target, where)
    elif is_number(target.dtype):
        yield from _large_findings(target.to_frame(), [name], where, "remove the row")
        if task == "classification":
            yield from _label_findings(target, where)
    elif not is_text(target.dtype):
        yield error(f'{where}: the target "{name}" is a date; predict a number or label', name)
    elif task != "classification" and (fault := _target_fault(target, task)) is not None:
        yield error(f"{where}: {fault}; mend it, or ask for --task classification", name)
    else:
        yield from _label_findings(target, where)


def _target_fault(target: "pl.Series", task: Task) -> str | None:
    return number_fault(target) if task == "regression" else _junk(target, label_counts(target))


def _label_findings(target: "pl.Series", where: str) -> Iterator[Finding]:
    distinct = len(label_counts(target))
    if distinct > MOST_LEVELS:
        yield error(
            f'{where}: the target "{target.name}" has {distinct:,} different labels, '
            f"more than {MOST_LEVELS}; choose another column or merge labels",
            target.name,
        )


def _large_findings(
    frame: "pl.DataFrame | Sheet",
    names: list[str],
    where: str,
    instead: str = "leave it empty",
) -> Iterator[Finding]:
    matrix = number_matrix(frame, names)
    is_large = np.abs(matrix) > LARGEST
    for column in np.flatnonzero(is_large.any(axis=0)):
        row = int(np.argmax(is_large[:, column]))
        name = names[column]
        yield error(
            f'{where}: column "{name}", row {row + 1} ({ROW_COUNT}) is {matrix[row, column]:g}; '
            f"mend it or {instead}",
            name,
        )


def _text_findings(series: "pl.Series", where: str, forced: bool) -> Iterator[Finding]:
    name = series.name
    counts = label_counts(series)
    fault = None if forced or not is_text(series.dtype) else _junk(series, counts)
    if fault is not None:
        few = len(counts) <= _FEW_LEVELS
        instead = f"make the column a category with --category {name}" if few else "leave it empty"
        yield error(f"{where}: {fault}; mend it, or {instead}", name)
    elif len(counts) > MOST_LEVELS and text_kind(series, counts, forced) == "category":
        yield error(
            f'{where}: column "{name}" has {len(counts):,} levels, more than {MOST_LEVELS}; '
            f"merge rare levels or leave the column out with --drop {name}",
            name,
        )


def has_decimal_commas(series: "pl.Series") -> bool:
    """Whether most of a column are numbers, some or all of them with a comma for a point.

    Examples
    --------
    >>> import polars as pl
    >>> has_decimal_commas(pl.Series(["1,5", "2", "x"])), has_decimal_commas(pl.Series(["a,b"]))
    (True, False)
    """
    if not is_text(series.dtype):
        return False
    counts = label_counts(series)
    commas = sum(count for label, count in counts.items() if _has_decimal_comma(label))
    points = sum(count for label, count in counts.items() if number_of(label) is not None)
    half = sum(counts.values()) / 2
    return bool(commas) and points <= half < points + commas


def _comma_findings(columns: "list[pl.Series]", where: str) -> Iterator[Finding]:
    """One error for all columns, because a whole file is written so as a rule."""
    if not columns:
        return
    first = columns[0]
    fault = _fault_among(first, list(filter(_has_decimal_comma, label_counts(first))), _COMMA)
    others = len(columns) - 1
    also = f", and so {'has' if others == 1 else 'have'} {counted(others, 'other column')}"
    yield error(
        f"{where}: {fault}{also if others else ''}; write numbers with a point",
        *(column.name for column in columns),
    )


def _junk(series: "pl.Series", counts: Mapping[str, int]) -> str | None:
    """The first value at fault in a column of text most of which are numbers."""
    numbers = {label for label in counts if number_of(label) is not None}
    if sum(counts[label] for label in numbers) > sum(counts.values()) / 2:
        return _fault_among(series, counts.keys() - numbers, "is not a number")
    if has_decimal_commas(series):
        return _fault_among(series, list(filter(_has_decimal_comma, counts)), _COMMA)
    return None


def _has_decimal_comma(label: str) -> bool:
    return "," in label and number_of(label.replace(",", ".", 1)) is not None


def _fault_among(series: "pl.Series", faulty: Collection[str], fault: str) -> str | None:
    """A sentence about the first row whose label is at fault."""
    if not faulty:
        return None
    text = labels(series)
    row = int(text.is_in(list(faulty)).arg_true()[0]) + 1
    return (
        f'column "{series.name}", row {row} ({ROW_COUNT}) is {shown(text[row - 1])}, which {fault}'
    )
