"""What a site says about its table: counts, sums and levels, never rows.

The description is all that leaves a site before training. From descriptions alone the sites'
tables get one encoding; see `fedsparse.tables.agreement`.
"""

from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.tables.cells import Task, cell_findings, check_task
from fedsparse.tables.findings import raise_errors
from fedsparse.tables.kinds import Kind, text_kind
from fedsparse.tables.roles import Roles, check_roles
from fedsparse.tables.text import typed
from fedsparse.tables.values import is_number, label_counts, number_matrix
from fedsparse.wire import MAX_LENGTH

if TYPE_CHECKING:
    import polars as pl

MOST_NUMBER_LABELS = 10
"""A target of more whole numbers than this is not taken for classes unless one says so."""


Count = Annotated[int, Field(ge=0, le=2**53)]


class _Part(BaseModel):
    # Descriptions come over networks: what is not a number must not become a mean.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NumberSummary(_Part):
    """The values of a column of numbers that are not missing."""

    count: Count
    total: float
    constant: float | None = None
    """What all of them are, if they are the same. Extremes would be those of single rows."""
    whole: bool
    """All are integers."""
    numbering: bool
    """All are integers and no two are the same."""
    gapless: bool
    """A numbering from 0 or 1 that leaves out no integer; elsewhere it would tell the first."""


class ColumnDescription(_Part):
    """One column of one site."""

    name: str
    kind: Kind
    missing: Count
    numbers: NumberSummary | None = None
    """Of a number."""
    levels: dict[str, Count] | None = None
    """Of a category: how many rows have each level."""


class TargetDescription(_Part):
    """The target of one site."""

    kind: Literal["number", "label"]
    numbers: NumberSummary | None = None
    """Of a number."""
    labels: dict[str, Count] | None = None
    """How many rows have each label; of a number only if it may stand for classes."""


class NumberedFeatures(_Part):
    """Features of a site's file that have numbers instead of names."""

    end: Annotated[int, Field(ge=0, le=MAX_LENGTH)]
    """One more than the largest number."""
    has_zero: bool
    """Whether a row has a feature 0."""


class SiteDescription(_Part):
    """All that a site tells of its table before training.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [61, 47], "relapse": ["yes", "no"]})
    >>> description = describe(frame, "Bari", Roles(target="relapse"))
    >>> SiteDescription.model_validate_json(description.model_dump_json()) == description
    True
    """

    site: Annotated[str, Field(min_length=1)]
    rows: Count
    columns: tuple[ColumnDescription, ...]
    """Candidate features in the order of the table."""
    dropped: tuple[str, ...] = ()
    """Columns that the roles drop and the table has."""
    target: TargetDescription | None = None
    numbered: NumberedFeatures | None = None
    """In place of columns, if they have no names."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """Descriptions come over networks."""
        for column in self.columns:
            known = self.rows - column.missing
            numbers, levels = column.numbers, column.levels
            if known < 0 or (column.kind == "number" and numbers is None):
                raise ValueError(f"{column.name} is described in contradictions")
            if numbers is not None and numbers.count != known:
                raise ValueError(f"{column.name} has other rows than the table")
            if column.kind == "category" and sum((levels or {}).values()) != known:
                raise ValueError(f"{column.name} has levels that do not add up to its rows")
        return self


def describe(
    frame: "pl.DataFrame", site: str, roles: Roles, *, task: Task = "auto"
) -> SiteDescription:
    """Describe a site's table, after checking its cells.

    Parameters
    ----------
    frame
        The table, as `read_table` gives it.
    site
        Name of the site, for messages.
    roles
        What the columns are for.
    task
        ``"classification"`` describes numbers of the target as labels, ``"regression"`` never does;
        by default only where there are two, or a few whole ones.

    Raises
    ------
    DataError
        If a named column is missing, or a value cannot be used.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [61, 47], "ward": ["ear", "eye"], "relapse": [1, 0]})
    >>> description = describe(frame, "Bari", Roles(target="relapse"))
    >>> [(column.name, column.kind) for column in description.columns]
    [('age', 'number'), ('ward', 'category')]
    >>> description.columns[0].numbers.total, description.target.labels
    (108.0, {'0': 1, '1': 1})
    """
    check_roles(roles)
    check_task(task)
    table = typed(frame)
    raise_errors(cell_findings(table, site, roles, task))
    return summarize(table, site, roles, task)


def summarize(frame: "pl.DataFrame", site: str, roles: Roles, task: Task) -> SiteDescription:
    """Describe a table whose cells have been checked.

    Examples
    --------
    >>> import polars as pl
    >>> summarize(pl.DataFrame({"age": [61, 47]}), "Bari", Roles(), "auto").rows
    2
    """
    names = roles.feature_columns(frame.columns)
    target = None
    if roles.target is not None and roles.target in frame.columns:
        target = describe_target(frame.get_column(roles.target), task)
    return SiteDescription(
        site=site,
        rows=frame.height,
        columns=_columns(frame, names, frozenset(roles.categories)),
        dropped=tuple(name for name in roles.drop if name in frame.columns),
        target=target,
    )


def describe_target(target: "pl.Series", task: Task) -> TargetDescription | None:
    """Describe the values of a target that are not missing; None if there are none.

    Examples
    --------
    >>> import polars as pl
    >>> describe_target(pl.Series([0.5, 1.5, 2.0]), "auto").labels is None
    True
    """
    import polars as pl

    counts = label_counts(target)
    if not counts:
        return None
    is_truth = target.dtype == pl.Boolean and task != "regression"
    if is_truth or not is_number(target.dtype):
        return TargetDescription(kind="label", labels=counts)
    (numbers,) = _number_summaries(number_matrix(target.to_frame(), [target.name]))
    may_be_classes = len(counts) <= 2 or (numbers.whole and len(counts) <= MOST_NUMBER_LABELS)
    as_labels = task == "classification" or (task == "auto" and may_be_classes)
    return TargetDescription(kind="number", numbers=numbers, labels=counts if as_labels else None)


def _columns(
    frame: "pl.DataFrame", names: list[str], forced: frozenset[str]
) -> tuple[ColumnDescription, ...]:
    numeric = [name for name in names if _is_plain_number(frame.get_column(name), forced)]
    summaries = _number_summaries(number_matrix(frame, numeric))
    described = {
        name: _number_column(name, frame.height, summary)
        for name, summary in zip(numeric, summaries, strict=True)
    }
    for name in names:
        if name not in described:
            described[name] = _other_column(frame.get_column(name), name in forced)
    return tuple(described[name] for name in names)


def _is_plain_number(series: "pl.Series", forced: frozenset[str]) -> bool:
    return series.name not in ("", *forced) and is_number(series.dtype)


def _number_column(name: str, rows: int, summary: NumberSummary) -> ColumnDescription:
    if summary.count == 0:
        return ColumnDescription(name=name, kind="empty", missing=rows)
    return ColumnDescription(
        name=name, kind="number", missing=rows - summary.count, numbers=summary
    )


def _other_column(series: "pl.Series", forced: bool) -> ColumnDescription:
    counts = label_counts(series)
    kind = text_kind(series, counts, forced)
    return ColumnDescription(
        name=series.name,
        kind=kind,
        missing=len(series) - sum(counts.values()),
        levels=counts if kind == "category" else None,
    )


def _number_summaries(matrix: FloatArray) -> list[NumberSummary]:
    """Summaries of all columns of a matrix, NaN being missing; no loop touches a cell."""
    present = ~np.isnan(matrix)
    filled = np.where(present, matrix, 0.0)
    whole = (filled == np.rint(filled)).all(axis=0)
    numbering = np.zeros(matrix.shape[1], dtype=np.bool_)
    numbering[whole] = _are_distinct(matrix[:, whole])
    counts = present.sum(axis=0)
    low, high = np.where(counts > 0, [np.fmin.reduce(matrix), np.fmax.reduce(matrix)], 0.0)
    gapless = numbering & (high - low + 1 == counts) & ((low == 0) | (low == 1))
    return [
        NumberSummary(
            count=count,
            total=total,
            constant=lowest if is_constant and count else None,
            whole=is_whole,
            numbering=is_numbering,
            gapless=is_gapless,
        )
        for count, total, lowest, is_constant, is_whole, is_numbering, is_gapless in zip(
            counts.tolist(),
            filled.sum(axis=0).tolist(),
            low.tolist(),
            (low == high).tolist(),
            whole.tolist(),
            numbering.tolist(),
            gapless.tolist(),
            strict=True,
        )
    ]


def _are_distinct(matrix: FloatArray) -> BoolArray:
    ordered = np.sort(matrix, axis=0)  # NaN comes last and differs from itself
    repeats: BoolArray = (ordered[1:] == ordered[:-1]).any(axis=0)
    return ~repeats
