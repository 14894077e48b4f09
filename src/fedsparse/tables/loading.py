"""Tables of one or many sites as arrays that can be learnt from."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.tables.agreeing import MINIMUM_ROWS, check_agreement_options
from fedsparse.tables.cells import Task
from fedsparse.tables.encoding import Encoding
from fedsparse.tables.features import Impute
from fedsparse.tables.libsvm import SparseTables, read_libsvm
from fedsparse.tables.numbered import NumberedEncoding
from fedsparse.tables.roles import Roles, check_roles
from fedsparse.tables.sentences import raise_errors
from fedsparse.tables.sources import Paths, are_libsvm, as_files, source_text
from fedsparse.tables.survey import Survey, Table, site_array, survey


@dataclass(frozen=True, eq=False)
class Loaded:
    """The rows of all sites, encoded alike.

    Attributes
    ----------
    features
        One row per row of the files, in their order: a C-ordered float64 array, or a CSR matrix
        if the files are LIBSVM text.
    targets
        Numbers (float64), or each row's place in ``classes``.
    sites
        The site of each row.
    encoding
        How tables become arrays: these, and those to predict for.
    source
        The files, as they were named.
    fingerprint
        SHA-256 of names, features, targets and sites.
    """

    features: FloatArray | sparse.csr_array
    targets: AnyArray
    sites: AnyArray
    encoding: Encoding | NumberedEncoding
    source: str
    fingerprint: str

    @property
    def names(self) -> tuple[str, ...]:
        """One name per feature."""
        return self.encoding.feature_names

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the target is."""
        return self.encoding.task

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Labels in order; None for regression."""
        return self.encoding.classes

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, in sentences."""
        return self.encoding.notes


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
        ``"classification"`` or ``"regression"``; by default labels, truth values and numbers of
        which there are exactly two are classes.
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
    features = _features(found.tables, encoding)
    return Loaded(
        features=features,
        targets=targets,
        sites=sites,
        encoding=encoding,
        source=source,
        fingerprint=_fingerprint(encoding.feature_names, [features, targets], sites),
    )


def _features(tables: list[Table], encoding: Encoding) -> FloatArray:
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
