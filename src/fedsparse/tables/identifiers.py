"""Columns that tell rows or sites apart instead of describing them; kept, but warned about."""

import re
from collections.abc import Sequence

from fedsparse.tables.findings import Finding, listed, warning
from fedsparse.tables.kinds import FEWEST_IDENTIFIERS
from fedsparse.tables.merging import MergedColumn

_WORD = r"(id|ids|identifier|index|key|mrn|nr|no|number|row|rownames|uid|uuid)"
_NAME = re.compile(rf"(?i:^(.*[^a-z])?{_WORD}$)|[a-z]I[dD]$|(?i:^(patient|case|subject|sample)id$)")


def telltale_findings(used: Sequence[MergedColumn]) -> list[Finding]:
    """Warnings about features that are probably not meant to be any.

    Examples
    --------
    >>> from fedsparse.tables.description import ColumnDescription, NumberSummary
    >>> numbers = NumberSummary(
    ...     count=30, total=465.0, whole=True, numbering=True, gapless=True
    ... )
    >>> part = ColumnDescription(name="case", kind="number", missing=0, numbers=numbers)
    >>> print(telltale_findings([MergedColumn("case", "number", {"Bari": part})])[0].sentence)
    whole numbers that all differ and look like a numbering of rows: "case"; drop them with --drop
    if they are
    """
    numberings = [column.name for column in used if _is_numbering(column)]
    site_marks = [column.name for column in used if _marks_sites(column)]
    found = []
    if numberings:
        found.append(
            warning(
                "whole numbers that all differ and look like a numbering of rows: "
                f"{listed(numberings)}; drop them with --drop if they are"
            )
        )
    if site_marks:
        found.append(
            warning(
                f"the same in all rows of a site but not at all sites: {listed(site_marks)}; "
                "drop them with --drop if they merely tell sites apart"
            )
        )
    return found


def _is_numbering(column: MergedColumn) -> bool:
    numbers = column.numbers
    if column.kind != "number" or not all(summary.numbering for summary in numbers):
        return False
    total = sum(summary.count for summary in numbers)
    if total < FEWEST_IDENTIFIERS:
        return False
    # Rows numbered from 0 or 1 whose sites take turns have gaps at each site, but add up.
    adds_up = 2 * sum(summary.total for summary in numbers) in (
        total * (total - 1), total * (total + 1),
    )  # fmt: skip
    has_no_gaps = all(summary.gapless for summary in numbers)
    return adds_up or has_no_gaps or _NAME.search(column.name) is not None


def _marks_sites(column: MergedColumn) -> bool:
    if len(column.parts) == 1:
        return False
    if column.kind == "category":
        return all(len(part.levels or {}) <= 1 for part in column.parts.values())
    return all(summary.constant is not None for summary in column.numbers)
