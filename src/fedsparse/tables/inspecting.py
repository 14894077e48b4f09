"""What is in tables and what would go wrong with them, all at once."""

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedsparse.arrays import AnyArray
from fedsparse.errors import DataError
from fedsparse.tables.agreeing import MINIMUM_ROWS, check_agreement_options
from fedsparse.tables.cells import Task
from fedsparse.tables.counting import Counts
from fedsparse.tables.describing import SiteDescription, TargetDescription
from fedsparse.tables.encoding import Impute
from fedsparse.tables.inputs import Paths, Roles, are_libsvm, as_files, check_roles, source_text
from fedsparse.tables.loading import LoadedTable, Survey, survey
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.numbered import SparseTables, read_libsvm
from fedsparse.tables.schemas import ALL_SITES, Outline, TargetSchema
from fedsparse.tables.sentences import Finding, counted, error, listed, warning
from fedsparse.tables.values import labels, number_matrix

_EXAMPLES = 5

_SHOWN = 3


class _InspectionPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InspectedSite(_InspectionPart):
    """Rows and targets of one site."""

    name: str
    rows: int | None
    """None: it does not tell."""
    target: TargetDescription | TargetSchema | None
    """None if it is not known or cannot be described."""


class ColumnGroup(_InspectionPart):
    """How many columns there are of a kind, and some of their names."""

    count: int
    examples: tuple[str, ...]


class Inspection(_InspectionPart):
    """What is in tables, and everything there is to say about them."""

    source: str
    sites: tuple[InspectedSite, ...]
    together: InspectedSite | None = None
    """All sites, where single ones do not tell how many rows have what."""
    columns: dict[str, ColumnGroup]
    """By kind: number, category, constant, uniform, unnamed, identifier, date, empty, withheld,
    unusable, dropped."""
    missing: dict[str, int]
    """Missing values of each candidate feature that has any, the worst first."""
    features: int | None
    """How many features there would be; None if that cannot be told."""
    task: str | None
    """None if it cannot be told."""
    classes: tuple[str, ...] | None
    findings: tuple[Finding, ...]
    """Errors first, then warnings, then notes."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What would stop a fit."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


def inspect_tables(
    paths: Paths,
    roles: Roles,
    *,
    task: Task = "auto",
    impute: Impute = None,
    minimum_rows: int = MINIMUM_ROWS,
) -> Inspection:
    r"""Look at tables as `load_tables` does, but collect every problem.

    Parameters
    ----------
    paths, roles, task, impute, minimum_rows
        As for `load_tables`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "all.csv"
    >>> _ = path.write_text("age,dose,relapse\n61,5,1\n47,6 mg,0\n50,,1\n44,7,0\n51,9,1\n")
    >>> inspection = inspect_tables(path, Roles(target="relapse"))
    >>> for finding in inspection.findings:
    ...     print(f"{finding.severity}: {finding.sentence}")
    error: all.csv: column "dose", row 2 (the header not counted) is "6 mg", which is not a number;
    mend it, or make the column a category with --category dose
    """
    check_roles(roles)
    check_agreement_options(task, impute, minimum_rows)
    files = as_files(paths, roles)
    source = source_text(files)
    try:
        if not are_libsvm(files):
            return _of_survey(survey(files, roles, task, impute, minimum_rows), source)
        return _of_libsvm(read_libsvm(files, roles, task, minimum_rows), source)
    except DataError as problem:  # nothing can be told of files like these
        return _unreadable(source, str(problem))


def _of_survey(found: Survey, source: str) -> Inspection:
    columns, encoding = found.agreement.columns, found.agreement.encoding
    worst = sorted(columns, key=lambda column: -column.missing)
    is_sound = encoding is not None and not any(f.severity == "error" for f in found.findings)
    known = encoding if is_sound else None
    return Inspection(
        source=source,
        sites=inspected_sites(found.descriptions),
        columns=grouped(_names_by_kind(found)),
        missing={column.name: column.missing for column in worst if column.missing},
        features=len(known.feature_names) if known is not None else None,
        task=known.task if known is not None else None,
        classes=known.classes if known is not None else None,
        findings=ordered([*found.findings, *duplicate_findings(found.tables, columns)]),
    )


def _of_libsvm(tables: SparseTables, source: str) -> Inspection:
    return Inspection(
        source=source,
        sites=inspected_sites(tables.descriptions),
        columns={"number": _group(tables.encoding.feature_names)},
        missing={},
        features=tables.encoding.width,
        task=tables.encoding.task,
        classes=tables.encoding.classes,
        findings=ordered(tables.findings),
    )


def _unreadable(source: str, sentence: str) -> Inspection:
    return Inspection(
        source=source,
        sites=(),
        columns={},
        missing={},
        features=None,
        task=None,
        classes=None,
        findings=(error(sentence),),
    )


def inspected_sites(descriptions: Sequence[Outline]) -> tuple[InspectedSite, ...]:
    """What an inspection tells of each site.

    Examples
    --------
    >>> inspected_sites([SiteDescription(site="Bari", rows=9)])[0].rows
    9
    """
    return tuple(
        InspectedSite(
            name=own.site,
            rows=own.rows if isinstance(own, SiteDescription) else None,
            target=own.target,
        )
        for own in descriptions
    )


def inspected_together(counts: Counts) -> InspectedSite:
    """What an inspection tells of all sites, where only sums over them are known.

    Examples
    --------
    >>> from fedsparse.tables.counting import Countable
    >>> counts = Counts(Countable(), {"rows": np.array(90.0), "target": np.array(3.0)})
    >>> inspected_together(counts).rows
    90
    """
    target: TargetDescription | TargetSchema | None = counts.counted.target
    if target is not None and target.labels is not None:
        target = TargetDescription(kind=target.kind, labels=counts.labels)
    return InspectedSite(name=ALL_SITES, rows=counts.rows, target=target)


def _names_by_kind(found: Survey) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for column in found.agreement.columns:
        names.setdefault(column.left_out or column.kind, []).append(column.name)
    dropped = {name: None for site in found.descriptions for name in site.dropped}
    names["unusable"] = list(found.unusable)
    names["dropped"] = [name for name in dropped if name not in found.unusable]
    return names


def grouped(names: Mapping[str, Sequence[str]]) -> dict[str, ColumnGroup]:
    """Names of columns by kind, in short.

    Examples
    --------
    >>> grouped({"number": ["age", "dose"], "empty": []})
    {'number': ColumnGroup(count=2, examples=('age', 'dose'))}
    """
    return {kind: _group(members) for kind, members in names.items() if members}


def _group(names: Sequence[str]) -> ColumnGroup:
    return ColumnGroup(count=len(names), examples=tuple(names[:_EXAMPLES]))


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors first, then warnings, then notes.

    Examples
    --------
    >>> [finding.severity for finding in ordered([warning("odd"), error("wrong")])]
    ['error', 'warning']
    """
    order = ("error", "warning", "note")
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def duplicate_findings(
    tables: Sequence[LoadedTable], columns: Sequence[MergedColumn]
) -> list[Finding]:
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


def _equal_groups(tables: Sequence[LoadedTable], alike: list[MergedColumn]) -> list[list[str]]:
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


def _are_equal(table: LoadedTable, first: str, second: str, kind: str) -> bool:
    if kind == "number":
        pair = number_matrix(table.frame, [first, second])
        return np.array_equal(pair[:, 0], pair[:, 1], equal_nan=True)
    one, other = (labels(table.frame.get_column(name)) for name in (first, second))
    return one.equals(other)
