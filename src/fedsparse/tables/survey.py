"""Everything there is to know of tables before they are encoded, problems included.

Loading raises the first problem that a survey finds; inspecting shows all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.errors import DataError
from fedsparse.tables.agreement import Agreement, negotiate
from fedsparse.tables.cells import Task, cell_findings, missing_findings
from fedsparse.tables.description import SiteDescription, summarize
from fedsparse.tables.features import Impute
from fedsparse.tables.findings import Finding, error
from fedsparse.tables.reading import read_table
from fedsparse.tables.roles import Roles
from fedsparse.tables.sources import site_names
from fedsparse.tables.values import labels

if TYPE_CHECKING:
    import polars as pl


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
    frame: "pl.DataFrame"
    sites: "pl.Series"


@dataclass(frozen=True)
class Survey:
    """What was read, and what there is to say about it.

    Attributes
    ----------
    tables
        The files that could be read.
    descriptions
        One per site, without the columns that cannot be described.
    agreement
        What the descriptions come to; None if nothing could be read.
    unusable
        Columns that cannot be described; a finding says why.
    findings
        All there is to say.
    """

    tables: tuple[Table, ...]
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
    return Survey(tuple(tables), descriptions, agreement, unusable, tuple(findings))


def site_array(table: Table) -> AnyArray:
    """The site of each row as an array of text.

    Examples
    --------
    >>> import polars as pl
    >>> site_array(Table("all.csv", pl.DataFrame({"age": [61]}), pl.Series(["Bari"]))).tolist()
    ['Bari']
    """
    return np.array(table.sites.to_list(), dtype=np.str_)


def _read(files: Sequence[Path], roles: Roles) -> tuple[list[Table], list[Finding]]:
    tables: list[Table] = []
    findings: list[Finding] = []
    for file, site in zip(files, site_names(files), strict=True):
        try:
            frame = read_table(file)
        except DataError as problem:
            findings.append(error(str(problem)))
            continue
        sites = _sites(frame, roles, site)
        findings += missing_findings(sites, f'{file.name}: the site "{roles.site}"')
        tables.append(Table(file.name, frame, sites))
    return tables, findings


def _sites(frame: "pl.DataFrame", roles: Roles, site: str) -> "pl.Series":
    import polars as pl

    if roles.site is not None and roles.site in frame.columns:
        return labels(frame.get_column(roles.site))
    return pl.repeat(site, frame.height, dtype=pl.String, eager=True)


def _names(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table.frame.columns))


def _by_site(table: Table) -> Iterator[tuple[str, "pl.DataFrame"]]:
    for site in table.sites.drop_nulls().unique().sort():
        yield site, table.frame.filter(table.sites == site)


def _describe(
    frame: "pl.DataFrame", site: str, roles: Roles, task: Task, unusable: tuple[str, ...]
) -> SiteDescription:
    """Describe what can be described; columns named by an error would only cause more of them."""
    usable = roles.model_copy(update={"drop": (*roles.drop, *unusable)})
    description = summarize(frame, site, usable, task)
    if roles.target in unusable:
        return description.model_copy(update={"target": None})
    return description
