"""What is odd about a table without being wrong: a person should look before a model learns it.

The sentences speak of single cells. They are for who has the table, and stay where it lies.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.tables.cells import has_decimal_commas
from fedsparse.tables.inputs import Roles
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.sentences import Finding, counted, joined, listed, warning
from fedsparse.tables.values import (
    WHOLE_BELOW,
    Sheet,
    is_identifier,
    is_text,
    label_counts,
    merged_spellings,
    number_matrix,
    number_names,
)

if TYPE_CHECKING:
    import polars as pl

_REPEATED = [int(digit * count) for digit in "789" for count in range(2, 7)]
_SENTINELS = np.array(sorted({-9, *_REPEATED, *(-number for number in _REPEATED)}), dtype=float)
"""Numbers that people write for "not known"."""

_SHOWN = 3
_MOST_SITES = 50
_SITE_NAME = re.compile(
    r"(?i:^(.*[^a-z])?(site|hospital|cent(er|re)|clinic|institut(e|ion)|facility|laboratory|lab)"
    r"([^a-z]*(id|name|code|no|nr|number))?[^a-z]*$)"
)


def odd_findings(
    frame: "pl.DataFrame | Sheet", where: str, roles: Roles, *, has_classes: bool = True
) -> list[Finding]:
    """Warnings about numbers that stand for none or lose digits, labels read as one, rows twice.

    Parameters
    ----------
    frame
        The whole table of a file.
    where
        The file or site, for messages.
    roles
        What the columns are for.
    has_classes
        Whether the target may stand for classes.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"dose": [5, -999, 6, 7], "relapse": [0, 1, 1, 0]})
    >>> print(odd_findings(frame, "bari.csv", Roles(target="relapse"))[0].sentence)
    bari.csv: -999 is far from all other values of "dose" (1 row); if it stands for a missing value,
    leave those cells empty
    """
    return [
        *_sentinel_findings(frame, where, roles),
        *_long_number_findings(frame, where, roles),
        *_spelling_findings(frame, where, roles, has_classes),
        *_repeated_findings(frame, where, roles),
    ]


def _repeated_findings(frame: "pl.DataFrame | Sheet", where: str, roles: Roles) -> list[Finding]:
    """Identifiers that stand in more than one row, as a patient's who was entered twice."""
    found = []
    for name in roles.feature_columns(frame.columns):
        column = frame.get_column(name)
        if name == "" or name in roles.categories or not is_text(column.dtype):
            continue
        if has_decimal_commas(column):
            continue  # numbers, once they are written as such
        counts = label_counts(column)
        repeated = sum(counts.values()) - len(counts)
        if repeated and is_identifier(counts):
            rows = f"{counted(repeated, 'row')} {'repeats' if repeated == 1 else 'repeat'}"
            found.append(
                warning(
                    f'{where}: nearly all values of "{name}" differ, but {rows} that of another '
                    "row; if the same was entered twice, it counts twice: remove one of the two"
                )
            )
    return found


def forgotten_site_findings(columns: Sequence[MergedColumn]) -> list[Finding]:
    """A warning if a column of one table without sites reads like the name of a site.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> from fedsparse.tables.merging import merge
    >>> frame = pl.DataFrame({"hospital": ["Bari", "Cork"] * 3, "relapse": [0, 1] * 3})
    >>> columns, _ = merge([describe(frame, "all rows", Roles(target="relapse"))])
    >>> print(forgotten_site_findings(columns)[0].sentence)
    column "hospital" with 2 levels reads like the site of each row, and is used as a feature; add
    --site hospital if it is, or --drop hospital
    """
    return [
        warning(
            f'column "{column.name}" with {counted(len(column.levels), "level")} reads like the '
            f"site of each row, and is used as a feature; add --site {column.name} if it is, "
            f"or --drop {column.name}"
        )
        for column in columns
        if column.left_out is None and may_be_sites(column.name, column.levels)
    ]


def may_be_sites(name: str, levels: Sequence[str]) -> bool:
    """Whether a column of few levels is called as one that tells where rows come from is.

    Examples
    --------
    >>> may_be_sites("Centre_ID", ("1", "2")), may_be_sites("hospital_stay", ("short", "long"))
    (True, False)
    """
    return 2 <= len(levels) <= _MOST_SITES and _SITE_NAME.match(name) is not None


def _sentinel_findings(frame: "pl.DataFrame | Sheet", where: str, roles: Roles) -> list[Finding]:
    names = _number_columns(frame, roles)
    matrix = number_matrix(frame, names)
    lowest, highest = np.fmin.reduce(matrix), np.fmax.reduce(matrix)
    is_suspect = np.isin(lowest, _SENTINELS) | np.isin(highest, _SENTINELS)
    owners: dict[float, list[str]] = {}
    for place in np.flatnonzero(is_suspect):
        column = matrix[:, place]
        for value in _far_off(column):
            rows = counted(int((column == value).sum()), "row")
            owners.setdefault(value, []).append(f'"{names[place]}" ({rows})')
    return [_sentinel(where, value, owners[value]) for value in sorted(owners)]


def _far_off(column: FloatArray) -> list[float]:
    """The sentinels that are further from all other values than these are from each other."""
    values = np.unique(column[np.isfinite(column)])
    are_sentinels = np.isin(values, _SENTINELS)
    others = values[~are_sentinels]
    if not others.size:
        return []
    low, high = others[0], others[-1]
    distances = np.maximum(low - values, values - high)
    return [float(value) for value in values[are_sentinels & (distances > high - low)]]


def _sentinel(where: str, value: float, owners: Sequence[str]) -> Finding:
    shown = list(owners[:_SHOWN])
    others = len(owners) - len(shown)
    shown += [counted(others, "more column")] if others else []
    return warning(
        f"{where}: {value:g} is far from all other values of {joined(shown)}; if it stands for a "
        "missing value, leave those cells empty"
    )


def _long_number_findings(frame: "pl.DataFrame | Sheet", where: str, roles: Roles) -> list[Finding]:
    names = _number_columns(frame, roles)
    matrix = number_matrix(frame, [name for name in names if name not in roles.categories])
    is_long = (np.abs(matrix) >= WHOLE_BELOW).any(axis=0)
    if not is_long.any():
        return []
    present = np.nan_to_num(matrix[:, is_long], posinf=0.5, neginf=0.5)
    is_whole = (present == np.rint(present)).all(axis=0)
    found = [names[place] for place in np.flatnonzero(is_long)[is_whole]]
    if not found:
        return []
    return [
        warning(
            f"{where}: {listed(found)} {'has' if len(found) == 1 else 'have'} whole numbers beyond "
            "2^53, of which 16 digits are kept, so that different ones may become equal; if they "
            f"are names, leave them out with --drop {found[0]}"
        )
    ]


def _number_columns(frame: "pl.DataFrame | Sheet", roles: Roles) -> list[str]:
    """Columns of numbers that are quantities, the target among them."""
    wanted = frozenset(roles.feature_columns(frame.columns)) | {roles.target}
    return [name for name in number_names(frame) if name in wanted and name not in roles.categories]


def _spelling_findings(
    frame: "pl.DataFrame | Sheet", where: str, roles: Roles, has_classes: bool
) -> list[Finding]:
    """Labels that the table tells apart and a model does not."""
    numbers = frozenset(number_names(frame))
    read = frame.spellings if isinstance(frame, Sheet) else {}
    labelled = {*roles.categories, roles.site, *([roles.target] if has_classes else [])}
    found = []
    for name in frame.columns:
        groups: Iterable[tuple[str, ...]] = ()
        if name in labelled and name in read:
            groups = read[name]
        elif name not in numbers and name not in roles.drop:
            column = frame.get_column(name)
            groups = merged_spellings(column) if is_text(column.dtype) else ()
        found += [
            warning(
                f'{where}: {listed(group)} in column "{name}" are read as one label; write them in '
                "different words if they are different",
                name,
            )
            for group in groups
        ]
    return found
