"""Columns with the same values: harmless for a fit, but which of them it chooses is arbitrary."""

from collections.abc import Sequence

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.sentences import Finding, counted, listed, warning
from fedsparse.tables.survey import Table
from fedsparse.tables.values import labels, number_matrix

_SHOWN = 3


def duplicate_findings(tables: Sequence[Table], columns: Sequence[MergedColumn]) -> list[Finding]:
    """A warning if columns have the same value in every row.

    Only columns whose descriptions agree are compared, which is cheap.

    Parameters
    ----------
    tables
        All files.
    columns
        The sites' columns put together.
    """
    suspects: dict[object, list[MergedColumn]] = {}
    for column in columns:
        if column.left_out is None:
            suspects.setdefault(_traits(column), []).append(column)
    groups = [group for alike in suspects.values() for group in _equal_groups(tables, alike)]
    if not groups:
        return []
    shown = [listed(group) for group in groups[:_SHOWN]]
    others = len(groups) - len(shown)
    more = f"; and {counted(others, 'more group')}" if others else ""
    return [warning(f"columns with the same values: {'; '.join(shown)}{more}; keep one of each")]


def _traits(column: MergedColumn) -> object:
    own = column.numbers
    arrays: list[AnyArray] = [column.missing_at]
    arrays += [] if own is None else [own.totals, own.constants, own.numbering, own.gapless]
    levels = tuple(tuple(levels.items()) for levels in column.levels_at)
    return column.kind, levels, tuple(array.tobytes() for array in arrays)


def _equal_groups(tables: Sequence[Table], alike: list[MergedColumn]) -> list[list[str]]:
    """Names of columns that are equal row by row, in groups of two or more."""
    groups: list[list[str]] = []
    for column in alike:
        for group in groups:
            if all(_are_equal(table, group[0], column.name, column.kind) for table in tables):
                group.append(column.name)
                break
        else:
            groups.append([column.name])
    return [group for group in groups if len(group) > 1]


def _are_equal(table: Table, first: str, second: str, kind: str) -> bool:
    if kind == "number":
        pair = number_matrix(table.frame, [first, second])
        return np.array_equal(pair[:, 0], pair[:, 1], equal_nan=True)
    one, other = (labels(table.frame.get_column(name)) for name in (first, second))
    return one.equals(other)
