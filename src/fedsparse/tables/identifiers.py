"""Columns that tell rows or sites apart instead of describing them; kept, but warned about."""

import re
from collections.abc import Sequence

import numpy as np

from fedsparse.tables.kinds import FEWEST_IDENTIFIERS
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.sentences import Finding, listed, warning

_WORD = r"(id|ids|identifier|index|key|mrn|nr|no|number|row|rownames|uid|uuid)"
_NAME = re.compile(rf"(?i:^(.*[^a-z])?{_WORD}$)|[a-z]I[dD]$|(?i:^(patient|case|subject|sample)id$)")


def telltale_findings(used: Sequence[MergedColumn]) -> list[Finding]:
    """Warnings about features that are probably not meant to be any.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> from fedsparse.tables.merging import merge
    >>> from fedsparse.tables.roles import Roles
    >>> frame = pl.DataFrame({"case": range(30), "relapse": [0, 1] * 15})
    >>> columns, _ = merge([describe(frame, "Bari", Roles(target="relapse"))])
    >>> print(telltale_findings(columns)[0].sentence)
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
    if numbers is None or not numbers.numbering.all():
        return False
    total = column.known
    if total < FEWEST_IDENTIFIERS:
        return False
    # Rows numbered from 0 or 1 whose sites take turns have gaps at each site, but add up.
    adds_up = 2 * sum(numbers.totals.tolist()) in (total * (total - 1), total * (total + 1))
    return adds_up or bool(numbers.gapless.all()) or _NAME.search(column.name) is not None


def _marks_sites(column: MergedColumn) -> bool:
    if len(column.sites) == 1:
        return False
    if column.numbers is not None:
        return not np.isnan(column.numbers.constants).any()
    return all(len(levels) <= 1 for levels in column.levels_at)
