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
from fedsparse.tables.cells import Task
from fedsparse.tables.describing import SiteDescription, describe_target
from fedsparse.tables.inputs import check_exists
from fedsparse.tables.numbered import (
    NumberedEncoding,
    negotiate_numbered,
    numbered_features,
)
from fedsparse.tables.roles import Roles
from fedsparse.tables.sentences import Finding
from fedsparse.tables.sources import site_names

_QUERY = b"qid:"


@dataclass(frozen=True)
class SparseTables:
    """The rows of all LIBSVM files.

    Attributes
    ----------
    features
        All rows, encoded.
    targets
        One number per row.
    sites
        The site of each row.
    descriptions
        One per site, of its rows and targets.
    encoding
        How files become arrays.
    findings
        What there is to say.
    """

    features: sparse.csr_array
    targets: FloatArray
    sites: AnyArray
    descriptions: tuple[SiteDescription, ...]
    encoding: NumberedEncoding
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
    rows, own_targets = zip(*(read_numbered(file) for file in files), strict=True)
    targets = np.concatenate(own_targets)
    sites = _sites(files, [own.size for own in own_targets], roles)
    descriptions = _descriptions(targets, sites, task)
    features = [numbered_features(own) for own in rows]
    encoding, findings = negotiate_numbered(descriptions, features, roles, task, minimum_rows)
    stacked = sparse.vstack([encoding.features(own) for own in rows], format="csr")
    return SparseTables(
        sparse.csr_array(stacked), targets, sites, descriptions, encoding, tuple(findings)
    )


def read_numbered(file: Path) -> tuple[sparse.csr_array, FloatArray]:
    r"""Rows of a LIBSVM file, column j holding the feature of number j, and targets.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.libsvm"
    >>> _ = path.write_text("1 2:0.5\n0 1:3\n")
    >>> read_numbered(path)[0].toarray().tolist()
    [[0.0, 0.0, 0.5], [0.0, 3.0, 0.0]]
    """
    check_exists(file)
    read = load_svmlight(file, zero_based=True)
    return sparse.csr_array(read.features), read.targets


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
            target=describe_target(pl.Series("target", own), task),
        )
        for name, own in zip(names, np.split(ordered, np.cumsum(counts)[:-1]), strict=True)
    )
