"""Everything there is to know of tables before they are encoded, problems included.

Loading raises the first problem that a survey finds; inspecting shows all of them.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.errors import DataError
from fedsparse.tables.agreeing import Agreement, negotiate
from fedsparse.tables.cells import Task, cell_findings, missing_findings
from fedsparse.tables.describing import SiteDescription, summarize
from fedsparse.tables.features import Impute
from fedsparse.tables.inputs import read_sheet
from fedsparse.tables.roles import Roles
from fedsparse.tables.sentences import Finding, error
from fedsparse.tables.sources import site_names
from fedsparse.tables.values import Sheet, labels

if TYPE_CHECKING:
    import polars as pl

_READERS = 2  # files at a time: one is converted while another is copied from the disk


@dataclass(frozen=True)
class Table:
    """The rows of one file.

    Attributes
    ----------
    where
        The file's name, for messages.
    frame
        Its table.
    sites
        The site of each row; null where it is not known.
    """

    where: str
    frame: Sheet
    sites: "pl.Series"


@dataclass(frozen=True)
class Survey:
    """What was read, and what there is to say about it.

    Attributes
    ----------
    tables
        The files that could be read. Who needs them no more may take them out one by one: all of
        them encoded beside all of them read would be twice the memory.
    descriptions
        One per site, without the columns that cannot be described.
    agreement
        What the descriptions come to; None if nothing could be read.
    unusable
        Columns that cannot be described; a finding says why.
    findings
        All there is to say.
    """

    tables: list[Table]
    descriptions: tuple[SiteDescription, ...]
    agreement: Agreement
    unusable: tuple[str, ...]
    findings: tuple[Finding, ...]


def survey(
    files: Sequence[Path], roles: Roles, task: Task, impute: Impute, minimum_rows: int
) -> Survey:
    """Read tables and look for everything that would stop a fit or surprise a person.

    Parameters
    ----------
    files
        One file, or one per site.
    roles, task, impute, minimum_rows
        As for `load_tables`; they have been checked.
    """
    tables, findings = _read(files, roles)
    for table in tables:
        by = table.sites if roles.site is not None else None
        findings += cell_findings(table.frame, table.where, roles, task, by)
    faulty = {finding.column for finding in findings if finding.severity == "error"}
    unusable = tuple(name for name in _names(tables) if name in faulty)
    descriptions = tuple(
        _describe(frame, site, roles, task, unusable)
        for table in tables
        for site, frame in _by_site(table)
    )
    agreement = negotiate(descriptions, roles, task, impute, minimum_rows)
    if tables:
        findings += agreement.findings
    return Survey(tables, descriptions, agreement, unusable, tuple(findings))


def site_array(table: Table) -> AnyArray:
    """The site of each row as an array of text.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.values import as_sheet
    >>> sheet = as_sheet(pl.DataFrame({"age": [61]}), apart=())
    >>> site_array(Table("all.csv", sheet, pl.Series(["Bari"]))).tolist()
    ['Bari']
    """
    return np.array(table.sites.to_list(), dtype=np.str_)


def _read(files: Sequence[Path], roles: Roles) -> tuple[list[Table], list[Finding]]:
    tables: list[Table] = []
    findings: list[Finding] = []
    apart = [name for name in (roles.target, roles.site, *roles.categories) if name is not None]
    with ThreadPoolExecutor(_READERS) as readers:
        sheets = readers.map(lambda file: _sheet_or_problem(file, apart), files)
        for file, site, sheet in zip(files, site_names(files), sheets, strict=True):
            if isinstance(sheet, DataError):
                findings.append(error(str(sheet)))
                continue
            sites = _sites(sheet, roles, site)
            findings += missing_findings(sites, f'{file.name}: the site "{roles.site}"')
            tables.append(Table(file.name, sheet, sites))
    return tables, findings


def _sheet_or_problem(file: Path, apart: Sequence[str]) -> Sheet | DataError:
    try:
        return read_sheet(file, apart)
    except DataError as problem:
        return problem


def _sites(frame: Sheet, roles: Roles, site: str) -> "pl.Series":
    import polars as pl

    if roles.site is not None and roles.site in frame.columns:
        return labels(frame.get_column(roles.site))
    return pl.repeat(site, frame.height, dtype=pl.String, eager=True)


def _names(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table.frame.columns))


def _by_site(table: Table) -> Iterator[tuple[str, Sheet]]:
    for site in table.sites.drop_nulls().unique().sort():
        yield site, table.frame.of_rows((table.sites == site).fill_null(False).to_numpy())


def _describe(
    frame: Sheet, site: str, roles: Roles, task: Task, unusable: tuple[str, ...]
) -> SiteDescription:
    """Describe what can be described; columns named by an error would only cause more of them."""
    usable = roles.model_copy(update={"drop": (*roles.drop, *unusable)})
    description = summarize(frame, site, usable, task)
    if roles.target in unusable:
        return description.model_copy(update={"target": None})
    return description
