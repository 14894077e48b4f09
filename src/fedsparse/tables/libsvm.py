"""LIBSVM files as the tables of sites: one file per site, or query numbers as sites."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.data.compression import decompressed
from fedsparse.data.libsvm import load_svmlight
from fedsparse.errors import DataError, OptionError
from fedsparse.tables.agreement import row_findings
from fedsparse.tables.cells import Task
from fedsparse.tables.description import SiteDescription, describe_target
from fedsparse.tables.findings import Finding, error
from fedsparse.tables.reading import check_exists
from fedsparse.tables.roles import Roles
from fedsparse.tables.sources import site_names
from fedsparse.tables.target import TargetDecision, decide_target

_QUERY = b"qid:"


@dataclass(frozen=True)
class SparseTables:
    """The rows of all LIBSVM files.

    Attributes
    ----------
    features
        All rows, as wide as the widest file.
    names
        The features' numbers, as the files have them.
    targets
        One number per row.
    sites
        The site of each row.
    descriptions
        One per site, of its rows and targets.
    decision
        Classes or numbers.
    findings
        What there is to say.
    """

    features: sparse.csr_array
    names: tuple[str, ...]
    targets: FloatArray
    sites: AnyArray
    descriptions: tuple[SiteDescription, ...]
    decision: TargetDecision
    findings: tuple[Finding, ...]


def read_libsvm(files: Sequence[Path], roles: Roles, task: Task, minimum_rows: int) -> SparseTables:
    """Read LIBSVM files whose features are numbered alike.

    Parameters
    ----------
    files
        One file, or one per site.
    roles
        Sites may be query numbers (``"qid"``), ``keep`` holds numbers of features; the rest must
        be left out.
    task, minimum_rows
        As for `load_tables`.
    """
    check_libsvm_roles(roles)
    for file in files:
        check_exists(file)
    parts = [load_svmlight(file, zero_based=True) for file in files]  # numbers as they are
    features, names = _numbered(_stacked([sparse.csr_array(part.features) for part in parts]))
    targets = np.concatenate([part.targets for part in parts])
    sites = _sites(files, [part.samples for part in parts], roles)
    descriptions = _descriptions(targets, sites, task)
    decision = decide_target(descriptions, task)
    findings = [
        *row_findings(descriptions, minimum_rows),
        *decision.findings,
        *_keep_findings(names, roles),
    ]
    return SparseTables(features, names, targets, sites, descriptions, decision, tuple(findings))


def check_libsvm_roles(roles: Roles) -> None:
    """Refuse roles that need names of columns.

    Examples
    --------
    >>> check_libsvm_roles(Roles(site="qid"))
    >>> check_libsvm_roles(Roles(target="relapse"))
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: a LIBSVM file has its target in front of each row; leave --target
    "relapse" out
    """
    if roles.target is not None:
        raise OptionError(
            "a LIBSVM file has its target in front of each row; "
            f'leave --target "{roles.target}" out'
        )
    if roles.site not in (None, "qid"):
        raise OptionError(
            f'a LIBSVM file has no column "{roles.site}"; '
            "use --site qid for its query numbers, or give one file per site"
        )
    for option, names in (("--drop", roles.drop), ("--category", roles.categories)):
        if names:
            raise OptionError(f"{option} needs a table with names, not a LIBSVM file; leave it out")


def _stacked(blocks: list[sparse.csr_array]) -> sparse.csr_array:
    """All rows, as wide as the widest block."""
    width = max(block.shape[1] for block in blocks)
    widened = [
        sparse.csr_array((block.data, block.indices, block.indptr), shape=(block.shape[0], width))
        for block in blocks
    ]
    return sparse.csr_array(sparse.vstack(widened, format="csr"))


def _numbered(features: sparse.csr_array) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """Features and their numbers; files that never use number 0 begin with 1.

    All files are looked at together, because one without a 0 does not tell.
    """
    rows, width = features.shape
    first = 0 if (features.indices == 0).any() else 1
    shifted = sparse.csr_array(
        (features.data, features.indices - first, features.indptr), shape=(rows, width - first)
    )
    shifted.has_canonical_format = True
    return shifted, tuple(str(number) for number in range(first, width))


def _sites(files: Sequence[Path], counts: Sequence[int], roles: Roles) -> AnyArray:
    if roles.site is None:
        return np.repeat(np.array(site_names(files), dtype=np.str_), counts)
    return np.concatenate([_query_numbers(file) for file in files])


def _query_numbers(file: Path) -> AnyArray:
    """The query number of every row; the rows themselves have been parsed before."""
    found = []
    with decompressed(file) as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition(b"#")[0].split(None, 2)
            if not words:
                continue
            if len(words) < 2 or not words[1].startswith(_QUERY):
                raise DataError(
                    f"{file}, line {number} has no query number such as qid:3; "
                    "give every row one, or leave --site qid out"
                )
            found.append(words[1][len(_QUERY) :].decode())
    return np.array(found, dtype=np.str_)


def _descriptions(targets: FloatArray, sites: AnyArray, task: Task) -> tuple[SiteDescription, ...]:
    """Descriptions of the sites in the order of their names; there may be thousands."""
    import polars as pl

    names, inverse, counts = np.unique(sites, return_inverse=True, return_counts=True)
    ordered = targets[np.argsort(inverse, kind="stable")]
    return tuple(
        SiteDescription(
            site=str(name),
            rows=own.size,
            columns=(),
            target=describe_target(pl.Series("target", own), task),
        )
        for name, own in zip(names, np.split(ordered, np.cumsum(counts)[:-1]), strict=True)
    )


def _keep_findings(names: tuple[str, ...], roles: Roles) -> list[Finding]:
    known = set(names) if roles.keep else set()
    return [
        error(f"there is no feature {name} (--keep); the numbers are {names[0]} to {names[-1]}")
        for name in roles.keep
        if name not in known
    ]
