"""What there is to say about the columns of all sites, and how they are encoded."""

from collections.abc import Sequence
from typing import Literal

from fedsparse.tables.columns import EncodedColumn
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.roles import Roles
from fedsparse.tables.sentences import Finding, counted, error, joined, listed, note

Impute = Literal["mean"] | None

_WORST_SHOWN = 10
_WITHHELD_SHOWN = 2
_REASONS = {
    "identifier": "text in which nearly all values differ",
    "date": "dates",
    "constant": "the same in every row",
    "empty": "no values",
    "withheld": "a site may not tell some of its values",
}
_ADVICE = {
    "identifier": "; --category COLUMN uses one all the same",
    "date": "; to use one, turn it into a number, such as days since a day",
}


def column_findings(columns: Sequence[MergedColumn], roles: Roles, impute: Impute) -> list[Finding]:
    """Columns to keep that cannot be used, missing values, and columns that are left out.

    Examples
    --------
    >>> import numpy as np
    >>> columns = [MergedColumn("admitted", "date", ("Bari",), 9, np.array([0]))]
    >>> print(column_findings(columns, Roles(target="relapse"), None)[0].sentence)
    left out (dates): "admitted"; to use one, turn it into a number, such as days since a day
    """
    used = [column for column in columns if column.left_out is None]
    return [
        *_keep_findings(columns, roles),
        *_missing_findings(used, impute),
        *_left_out_findings(columns),
    ]


def left_out(columns: Sequence[MergedColumn]) -> dict[str, tuple[str, ...]]:
    """Names of the columns that are no features, by reason.

    Examples
    --------
    >>> left_out([])
    {}
    """
    by_reason = {
        reason: tuple(column.name for column in columns if column.left_out == reason)
        for reason in _REASONS
    }
    return {reason: names for reason, names in by_reason.items() if names}


def name_findings(used: Sequence[MergedColumn]) -> list[Finding]:
    """An error if there is no feature, or two of the same name.

    Examples
    --------
    >>> name_findings([])[0].severity
    'error'
    """
    if not used:
        return [error("no column is left to learn from; give the tables at least one feature")]
    seen: set[str] = set()
    for column in used:
        for name in encoded(column, None).feature_names:
            if name in seen:
                return [error(f'two features would be called "{name}"; rename a column', name)]
            seen.add(name)
    return []


def encoded(column: MergedColumn, impute: Impute) -> EncodedColumn:
    """The column as all sites encode it.

    Examples
    --------
    >>> import numpy as np
    >>> encoded(MergedColumn("age", "number", ("Bari",), 9, np.array([0])), None)
    EncodedColumn(name='age', kind='number', levels=(), fill=None)
    """
    kind: Literal["number", "category"] = "number" if column.kind == "number" else "category"
    return EncodedColumn(
        name=column.name,
        kind=kind,
        levels=column.levels,
        fill=column.fill if impute == "mean" else None,
    )


def _keep_findings(columns: Sequence[MergedColumn], roles: Roles) -> list[Finding]:
    return [
        error(
            f'column "{column.name}" cannot be kept (--keep) because it is left out '
            f"({_REASONS[column.left_out]}); do not ask for it",
            column.name,
        )
        for column in columns
        if column.name in roles.keep and column.left_out is not None
    ]


def _missing_findings(used: Sequence[MergedColumn], impute: Impute) -> list[Finding]:
    lacking = sorted((column for column in used if column.missing), key=lambda c: -c.missing)
    if not lacking:
        return []
    total = counted(sum(column.missing for column in lacking), "value")
    is_or_are = "is" if total == "1 value" else "are"
    if impute == "mean":
        filled = f"{total} of {counted(len(lacking), 'column')} {is_or_are} missing"
        return [note(f"{filled} and filled with means and shares of all sites")]
    worst = [_missing_text(column) for column in lacking[:_WORST_SHOWN]]
    others = len(lacking) - len(worst)
    worst += [counted(others, "more column")] if others else []
    return [
        error(
            f"{total} {is_or_are} missing: {joined(worst)}; fill or remove them, "
            "drop the columns with --drop, or fill means with --impute mean"
        )
    ]


def _missing_text(column: MergedColumn) -> str:
    if len(column.sites) == 1:
        return f'"{column.name}" {column.missing:,}'
    sites = [f"{site} {count:,}" for site, count in column.missing_by_site[:3]]
    others = len(column.missing_by_site) - len(sites)
    sites += [counted(others, "more site")] if others else []
    return f'"{column.name}" {column.missing:,} ({joined(sites)})'


def _left_out_findings(columns: Sequence[MergedColumn]) -> list[Finding]:
    return [
        note(f"left out ({_REASONS[reason]}): {_left_out_text(reason, names)}")
        for reason, names in left_out(columns).items()
    ]


def _left_out_text(reason: str, names: Sequence[str]) -> str:
    if reason != "withheld":
        return listed(names) + _ADVICE.get(reason, "")
    among = "among them " if len(names) > _WITHHELD_SHOWN else ""  # there may be thousands
    return f"{counted(len(names), 'column')}, {among}{listed(names[:_WITHHELD_SHOWN])}"
