"""Tables of one or many sites as arrays that can be learnt from.

Loading raises the first problem that a survey finds; inspecting shows all of them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError
from fedsparse.tables.agreeing import MINIMUM_ROWS, Agreement, check_agreement_options, negotiate
from fedsparse.tables.cells import LearntTask, Task, cell_findings, missing_findings
from fedsparse.tables.describing import SiteDescription, describe_checked
from fedsparse.tables.encoding import Encoding, Impute
from fedsparse.tables.inputs import (
    Paths,
    Roles,
    are_libsvm,
    as_files,
    check_roles,
    read_sheet,
    site_names,
    source_text,
)
from fedsparse.tables.numbered import NumberedEncoding, SparseTables, read_libsvm
from fedsparse.tables.oddities import forgotten_site_findings, odd_findings
from fedsparse.tables.sentences import Finding, error, raise_errors
from fedsparse.tables.values import Sheet, labels

if TYPE_CHECKING:
    import polars as pl

_READERS = 2  # files at a time: one is converted while another is copied from the disk


@dataclass(frozen=True)
class LoadedTable:
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

    tables: list[LoadedTable]
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
        has_classes = task in ("auto", "classification")
        findings += odd_findings(table.frame, table.where, roles, has_classes=has_classes)
    faulty = {
        name for finding in findings if finding.severity == "error" for name in finding.columns
    }
    unusable = tuple(name for name in _names(tables) if name in faulty)
    descriptions = tuple(
        _describe(frame, site, roles, task, unusable)
        for table in tables
        for site, frame in _by_site(table)
    )
    agreement = negotiate(descriptions, roles, task, impute, minimum_rows)
    if len(descriptions) == 1 and roles.site is None:
        findings += forgotten_site_findings(agreement.columns)
    if tables:
        findings += agreement.findings
    return Survey(tables, descriptions, agreement, unusable, tuple(findings))


def site_array(table: LoadedTable) -> AnyArray:
    """The site of each row as an array of text.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.values import as_sheet
    >>> sheet = as_sheet(pl.DataFrame({"age": [61]}), apart=())
    >>> site_array(LoadedTable("all.csv", sheet, pl.Series(["Bari"]))).tolist()
    ['Bari']
    """
    return np.array(table.sites.to_list(), dtype=np.str_)


def _read(files: Sequence[Path], roles: Roles) -> tuple[list[LoadedTable], list[Finding]]:
    tables: list[LoadedTable] = []
    findings: list[Finding] = []
    named = (roles.target, roles.event, roles.site, *roles.categories)
    apart = [name for name in named if name is not None]
    with ThreadPoolExecutor(_READERS) as readers:
        sheets = readers.map(lambda file: _sheet_or_problem(file, apart), files)
        for file, site, sheet in zip(files, site_names(files), sheets, strict=True):
            if isinstance(sheet, DataError):
                findings.append(error(str(sheet)))
                continue
            sites = _sites(sheet, roles, site)
            findings += missing_findings(sites, f'{file.name}: the site "{roles.site}"')
            tables.append(LoadedTable(file.name, sheet, sites))
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


def _names(tables: Sequence[LoadedTable]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table.frame.columns))


def _by_site(table: LoadedTable) -> Iterator[tuple[str, Sheet]]:
    for site in table.sites.drop_nulls().unique().sort():
        yield site, table.frame.of_rows((table.sites == site).fill_null(False).to_numpy())


def _describe(
    frame: Sheet, site: str, roles: Roles, task: Task, unusable: tuple[str, ...]
) -> SiteDescription:
    """Describe what can be described; columns named by an error would only cause more of them."""
    usable = roles.model_copy(update={"drop": (*roles.drop, *unusable)})
    description = describe_checked(frame, site, usable, task)
    if any(name in unusable for name in roles.outcome.values()):
        return description.model_copy(update={"target": None})
    return description


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of all sites, encoded alike.

    Attributes
    ----------
    features
        One row per row of the files, in their order: a C-ordered float64 array, or a CSR matrix
        if the files are LIBSVM text.
    targets
        Numbers (float64), or each row's place in ``classes``; see `Encoding.targets`.
    sites
        The site of each row.
    encoding
        How tables become arrays: these, and those to predict for.
    notes
        What a reader should know, in sentences.
    descriptions
        What each site tells of its table.
    source
        The files, as they were named.
    fingerprint
        SHA-256 of names, features, targets, weights and sites.
    row_weights
        How much each row counts, because of its exposure; None: all the same.
    """

    features: FloatArray | sparse.csr_array
    targets: AnyArray
    sites: AnyArray
    encoding: Encoding | NumberedEncoding
    notes: tuple[str, ...]
    descriptions: tuple[SiteDescription, ...]
    source: str
    fingerprint: str
    row_weights: FloatArray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.encoding.feature_names

    @property
    def task(self) -> LearntTask:
        """What the target is."""
        return self.encoding.task

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Labels in order; None where there are none."""
        return self.encoding.classes


def load_tables(
    paths: Paths,
    roles: Roles,
    *,
    task: Task = "auto",
    impute: Impute = None,
    minimum_rows: int = MINIMUM_ROWS,
) -> Loaded:
    r"""Read the tables of all sites and encode them alike.

    What happens here on one machine is what sites do over a network: each describes its table,
    the descriptions decide on one encoding, each encodes its own rows.

    Parameters
    ----------
    paths
        One file whose rows name their site in a column; or one file per site, named after it; or
        one file without sites. CSV, TSV, Parquet, Arrow, or LIBSVM text.
    roles
        What the columns are for.
    task
        ``"classification"``, ``"regression"``, ``"counts"`` or ``"survival"``; by default labels,
        truth values and numbers of which there are exactly two are classes, all else is regression.
    impute
        ``"mean"`` fills missing values with means and shares of all sites; by default they are
        refused.
    minimum_rows
        A site with fewer rows is refused.

    Raises
    ------
    DataError
        The first thing that must be mended; `inspect_tables` shows all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "all.csv"
    >>> _ = path.write_text("site,age,relapse\nBari,61,yes\nCork,47,no\nCork,50,yes\n")
    >>> loaded = load_tables(path, Roles(target="relapse", site="site"), minimum_rows=1)
    >>> loaded.names, loaded.features.tolist()
    (('age',), [[61.0], [47.0], [50.0]])
    >>> loaded.targets.tolist(), loaded.classes, loaded.sites.tolist()
    ([1, 0, 1], ('no', 'yes'), ['Bari', 'Cork', 'Cork'])
    """
    check_roles(roles)
    check_agreement_options(task, impute, minimum_rows)
    files = as_files(paths, roles)
    if are_libsvm(files):
        sparse_tables = read_libsvm(files, roles, task, minimum_rows)
        raise_errors(sparse_tables.findings)
        return _sparse(sparse_tables, source_text(files))
    found = survey(files, roles, task, impute, minimum_rows)
    raise_errors(found.findings)
    return _dense(found, source_text(files))


def _dense(found: Survey, source: str) -> Loaded:
    encoding = found.agreement.encoding
    assert encoding is not None  # or an error would have been found
    sites = np.concatenate([site_array(table) for table in found.tables])
    targets = np.concatenate([encoding.targets(own.frame, own.where) for own in found.tables])
    weights = [encoding.row_weights(own.frame, own.where) for own in found.tables]
    exposures = [own for own in weights if own is not None]
    row_weights = np.concatenate(exposures) if exposures else None
    features = _features(found.tables, encoding)
    return Loaded(
        features=features,
        targets=targets,
        sites=sites,
        encoding=encoding,
        notes=tuple(finding.sentence for finding in found.findings),
        descriptions=found.descriptions,
        source=source,
        fingerprint=_fingerprint(
            encoding.feature_names,
            [features, targets, *([] if row_weights is None else [row_weights])],
            sites,
        ),
        row_weights=row_weights,
    )


def _features(tables: list[LoadedTable], encoding: Encoding) -> FloatArray:
    """The features of all tables, each of which is let go once it is encoded."""
    if len(tables) == 1:
        table = tables.pop()
        return encoding.features(table.frame, table.where)
    rows = sum(table.frame.height for table in tables)
    features = np.empty((rows, len(encoding.feature_names)))
    while tables:
        table = tables.pop()
        first = rows - table.frame.height
        features[first:rows] = encoding.features(table.frame, table.where)
        rows = first
    return features


def _sparse(tables: SparseTables, source: str) -> Loaded:
    features, encoding = tables.features, tables.encoding
    targets = encoding.targets(tables.targets)
    arrays = [features.data, features.indices, features.indptr, targets]
    return Loaded(
        features=features,
        targets=targets,
        sites=tables.sites,
        encoding=encoding,
        notes=encoding.notes,
        descriptions=tables.descriptions,
        source=source,
        fingerprint=_fingerprint(encoding.feature_names, arrays, tables.sites),
    )


def _fingerprint(names: Sequence[str], arrays: Sequence[AnyArray], sites: AnyArray) -> str:
    digest = hashlib.sha256("\0".join(names).encode())
    for array in arrays:
        digest.update(f"\0{array.dtype.str}{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    digest.update("\0".join(sites.tolist()).encode())
    return digest.hexdigest()
