"""What a site says about its table: counts, sums and levels, never rows.

The description is all that leaves a site before training. From descriptions alone the sites'
tables get one encoding; see `fedsparse.tables.agreeing`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.requests.wire.vectors import MAX_LENGTH
from fedsparse.tables.cells import Task, cell_findings, check_task
from fedsparse.tables.delimited import typed
from fedsparse.tables.inputs import Roles, check_roles
from fedsparse.tables.outcomes import CENSORED, EVENT, has_event
from fedsparse.tables.sentences import raise_errors
from fedsparse.tables.values import (
    Kind,
    Sheet,
    is_number,
    label_counts,
    number_matrix,
    number_names,
    text_kind,
)

if TYPE_CHECKING:
    import polars as pl

MOST_NUMBER_LABELS = 10
"""A target of more whole numbers than this is not taken for classes unless one says so."""


RowCount = Annotated[int, Field(ge=0, le=2**53)]


class DescriptionPart(BaseModel):
    """Something that is told of a table."""

    # Descriptions come over networks: what is not a number must not become a mean.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NumberSummary(DescriptionPart):
    """The values of a column of numbers that are not missing."""

    count: RowCount
    total: float
    constant: float | None = None
    """What all of them are, if they are the same. Extremes would be those of single rows."""
    whole: bool
    """All are integers."""
    numbering: bool
    """All are integers and no two are the same."""
    gapless: bool
    """A numbering from 0 or 1 that leaves out no integer; elsewhere it would tell the first."""


@dataclass(frozen=True)
class ColumnDescription:
    """What a description says of one column."""

    name: str
    kind: Kind
    missing: int
    numbers: NumberSummary | None = None
    """Of a number."""
    levels: dict[str, int] | None = None
    """Of a category: how many rows have each level."""


class NumberColumns(DescriptionPart):
    """What a description says of all columns of numbers; see `NumberSummary`."""

    totals: tuple[float, ...] = ()
    """One for each column, in their order."""
    constants: dict[str, float] = {}
    """By name, of those that are constant."""
    whole: tuple[str, ...] = ()
    """Names of those that are, as in ``numbering`` and ``gapless``."""
    numbering: tuple[str, ...] = ()
    gapless: tuple[str, ...] = ()

    @property
    def named(self) -> frozenset[str]:
        """The columns of which more than the total is said."""
        return frozenset((*self.constants, *self.whole, *self.numbering, *self.gapless))


class TargetDescription(DescriptionPart):
    """The target of one site."""

    kind: Literal["number", "label", "time"]
    numbers: NumberSummary | None = None
    """Of a number or a time."""
    labels: dict[str, RowCount] | None = None
    """How many rows have each label; of a number only if it may stand for classes. Of a time how
    many end with an event and how many are censored."""


class NumberedFeatures(DescriptionPart):
    """Features of a site's file that have numbers instead of names."""

    end: Annotated[int, Field(ge=0, le=MAX_LENGTH)]
    """One more than the largest number."""
    has_zero: bool
    """Whether a row has a feature 0."""


class SiteDescription(DescriptionPart):
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
    rows: RowCount
    names: tuple[str, ...] = ()
    """Candidate features in the order of the table, those withheld left out."""
    kinds: tuple[Kind, ...] = ()
    """One for each name, as is ``missing``."""
    missing: tuple[RowCount, ...] = ()
    numbers: NumberColumns = NumberColumns()
    """Of the columns that are numbers."""
    levels: dict[str, dict[str, RowCount]] = {}
    """Of each category: how many rows have each level."""
    withheld: tuple[str, ...] = ()
    """Columns of which the site may tell nothing but the name."""
    dropped: tuple[str, ...] = ()
    """Columns that the roles drop and the table has."""
    target: TargetDescription | None = None
    numbered: NumberedFeatures | None = None
    """In place of columns, if they have no names."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """Descriptions come over networks."""
        if not len(self.names) == len(self.kinds) == len(self.missing):
            raise ValueError("what is told is not of the same columns")
        numbers = self.number_names
        if len(numbers) != len(self.numbers.totals) or not self.numbers.named.issubset(numbers):
            raise ValueError("columns of numbers are described in contradictions")
        if len({*self.names, *self.withheld}) < len(self.names) + len(self.withheld):
            raise ValueError("a column is described twice")
        categories = {
            name: self.rows - missing
            for name, kind, missing in zip(self.names, self.kinds, self.missing, strict=True)
            if kind == "category"
        }
        if categories.keys() != self.levels.keys():
            raise ValueError("categories are described in contradictions")
        for name, kind, missing in zip(self.names, self.kinds, self.missing, strict=True):
            if missing > self.rows or (missing == self.rows) != (kind == "empty"):
                raise ValueError(f"{name} is described in contradictions")
        for name, known in categories.items():
            if sum(self.levels[name].values()) != known:
                raise ValueError(f"{name} has levels that do not add up to its rows")
        return self

    @property
    def number_names(self) -> list[str]:
        """Names of the columns of numbers."""
        told = zip(self.names, self.kinds, strict=True)
        return [name for name, kind in told if kind == "number"]

    @property
    def columns(self) -> tuple[ColumnDescription, ...]:
        """What is said of each column: convenient where there is one site and not hundreds."""
        totals = dict(zip(self.number_names, self.numbers.totals, strict=True))
        told = self.numbers
        whole, numbering, gapless = map(frozenset, (told.whole, told.numbering, told.gapless))
        return tuple(
            ColumnDescription(
                name,
                kind,
                missing,
                NumberSummary(
                    count=self.rows - missing,
                    total=totals[name],
                    constant=told.constants.get(name),
                    whole=name in whole,
                    numbering=name in numbering,
                    gapless=name in gapless,
                )
                if kind == "number"
                else None,
                self.levels.get(name),
            )
            for name, kind, missing in zip(self.names, self.kinds, self.missing, strict=True)
        )

    def withholding(self, names: Collection[str]) -> "SiteDescription":
        """The description without what it says of some columns but their names.

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"age": [61, 47], "ward": ["ear", "eye"], "relapse": [1, 0]})
        >>> description = describe(frame, "Bari", Roles(target="relapse")).withholding({"ward"})
        >>> description.names, description.withheld
        (('age',), ('ward',))
        """
        is_told = [name not in names for name in self.names]
        told = self.numbers
        return SiteDescription(
            site=self.site,
            rows=self.rows,
            names=tuple(compress(self.names, is_told)),
            kinds=tuple(compress(self.kinds, is_told)),
            missing=tuple(compress(self.missing, is_told)),
            numbers=NumberColumns(
                totals=tuple(
                    total
                    for name, total in zip(self.number_names, told.totals, strict=True)
                    if name not in names
                ),
                constants={key: own for key, own in told.constants.items() if key not in names},
                whole=tuple(name for name in told.whole if name not in names),
                numbering=tuple(name for name in told.numbering if name not in names),
                gapless=tuple(name for name in told.gapless if name not in names),
            ),
            levels={name: own for name, own in self.levels.items() if name not in names},
            withheld=(*self.withheld, *(name for name in self.names if name in names)),
            dropped=self.dropped,
            target=self.target,
            numbered=self.numbered,
        )


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
        ``"classification"`` describes numbers of the target as labels, ``"regression"`` and
        ``"counts"`` never do; by default only where there are two, or a few whole ones. With
        ``"survival"`` the target is a time that ends with an event or without.

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
    return describe_checked(table, site, roles, task)


def describe_checked(
    frame: "pl.DataFrame | Sheet", site: str, roles: Roles, task: Task
) -> SiteDescription:
    """Describe a table whose cells have been checked.

    Examples
    --------
    >>> import polars as pl
    >>> describe_checked(pl.DataFrame({"age": [61, 47]}), "Bari", Roles(), "auto").rows
    2
    """
    present = frozenset(frame.columns)
    target = None
    if roles.target is not None and roles.target in present.difference(roles.drop):
        times = frame.get_column(roles.target)
        if task != "survival":
            target = describe_target(times, task)
        elif roles.event in present:
            target = _describe_survival(times, frame.get_column(str(roles.event)))
    return SiteDescription(
        site=site,
        rows=frame.height,
        **_columns_told(frame, roles),
        dropped=tuple(name for name in roles.drop if name in present),
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
    is_truth = target.dtype == pl.Boolean and task not in ("regression", "counts")
    if is_truth or not is_number(target.dtype):
        return TargetDescription(kind="label", labels=counts)
    numbers = _number_facts(number_matrix(target.to_frame(), [target.name])).summary(0)
    as_labels = task == "classification" or (task == "auto" and _are_few(counts, numbers.whole))
    return TargetDescription(kind="number", numbers=numbers, labels=counts if as_labels else None)


def _describe_survival(times: "pl.Series", events: "pl.Series") -> TargetDescription | None:
    """How many times there are that end with an event, and how many without."""
    if not is_number(times.dtype) or times.null_count() == times.len():
        return None
    happened = has_event(events)
    counts = {CENSORED: int((happened == 0.0).sum()), EVENT: int((happened == 1.0).sum())}
    return TargetDescription(
        kind="time",
        numbers=_number_facts(number_matrix(times.to_frame(), [times.name])).summary(0),
        labels={label: count for label, count in counts.items() if count},
    )


def may_be_classes(target: "pl.Series") -> bool:
    """Whether a target holds text or truth, two numbers, or a few whole ones.

    Examples
    --------
    >>> import polars as pl
    >>> may_be_classes(pl.Series([3, 1, 2])), may_be_classes(pl.Series([0.5, 1.5, 2.0]))
    (True, False)
    """
    import polars as pl

    counts = label_counts(target)
    if not counts or target.dtype == pl.Boolean or not is_number(target.dtype):
        return True
    numbers = _number_facts(number_matrix(target.to_frame(), [target.name])).summary(0)
    return _are_few(counts, numbers.whole)


def _are_few(counts: Mapping[str, int], are_whole: bool) -> bool:
    return len(counts) <= 2 or (are_whole and len(counts) <= MOST_NUMBER_LABELS)


def _columns_told(frame: "pl.DataFrame | Sheet", roles: Roles) -> dict[str, Any]:
    """What a description says of the columns that may become features."""
    names, rows = roles.feature_columns(frame.columns), frame.height
    plain = frozenset(number_names(frame)).difference(("", *roles.categories))
    numeric = [name for name in names if name in plain]
    facts = _number_facts(number_matrix(frame, numeric))
    known = dict(zip(numeric, facts.counts.tolist(), strict=True))
    kinds: dict[str, Kind] = {name: "number" if count else "empty" for name, count in known.items()}
    levels = {}
    for name in names:
        if name not in plain:
            series = frame.get_column(name)
            labels = label_counts(series)
            known[name] = sum(labels.values())
            kinds[name] = text_kind(series, labels, name in roles.categories)
            if kinds[name] == "category":
                levels[name] = labels
    return {
        "names": tuple(names),
        "kinds": tuple(kinds[name] for name in names),
        "missing": tuple(rows - known[name] for name in names),
        "numbers": facts.columns(numeric),
        "levels": levels,
    }


@dataclass(frozen=True, eq=False)
class _NumberFacts:
    """What there is to say of the columns of a matrix, one entry each; see `NumberSummary`."""

    counts: Int64Array
    totals: FloatArray
    lowest: FloatArray
    constant: BoolArray
    whole: BoolArray
    numbering: BoolArray
    gapless: BoolArray

    def summary(self, place: int) -> NumberSummary:
        """What is known of the values of one column."""
        return NumberSummary(
            count=int(self.counts[place]),
            total=float(self.totals[place]),
            constant=float(self.lowest[place]) if self.constant[place] else None,
            whole=bool(self.whole[place]),
            numbering=bool(self.numbering[place]),
            gapless=bool(self.gapless[place]),
        )

    def columns(self, names: list[str]) -> NumberColumns:
        """The same of all columns that have values."""
        known = self.counts > 0
        lowest = self.lowest[self.constant].tolist()
        return NumberColumns(
            totals=tuple(self.totals[known].tolist()),
            constants=dict(zip(compress(names, self.constant), lowest, strict=True)),
            whole=tuple(compress(names, self.whole & known)),
            numbering=tuple(compress(names, self.numbering & known)),
            gapless=tuple(compress(names, self.gapless & known)),
        )


def _number_facts(matrix: FloatArray) -> _NumberFacts:
    """Look at all columns of a matrix, NaN being missing; no loop touches a cell."""
    present = ~np.isnan(matrix)
    filled = np.where(present, matrix, 0.0)
    whole = (filled == np.rint(filled)).all(axis=0)
    numbering = np.zeros(matrix.shape[1], dtype=np.bool_)
    numbering[whole] = _are_distinct(matrix[:, whole])
    counts = present.sum(axis=0)
    low, high = np.where(counts > 0, [np.fmin.reduce(matrix), np.fmax.reduce(matrix)], 0.0)
    gapless = numbering & (high - low + 1 == counts) & ((low == 0) | (low == 1))
    constant = (low == high) & (counts > 0)
    return _NumberFacts(counts, filled.sum(axis=0), low, constant, whole, numbering, gapless)


def _are_distinct(matrix: FloatArray) -> BoolArray:
    ordered = np.sort(matrix, axis=0)  # NaN comes last and differs from itself
    repeats: BoolArray = (ordered[1:] == ordered[:-1]).any(axis=0)
    return ~repeats
