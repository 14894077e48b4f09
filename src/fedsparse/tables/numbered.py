"""LIBSVM files, whose features have numbers instead of names: read, described, encoded.

There is one file per site, or query numbers are the sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError, OptionError
from fedsparse.requests.wire.vectors import MAX_LENGTH
from fedsparse.tables.agreeing import (
    TargetDecision,
    decide_target,
    name_clashes,
    row_findings,
)
from fedsparse.tables.cells import LearntTask, Task
from fedsparse.tables.compression import decompressed
from fedsparse.tables.describing import NumberedFeatures, SiteDescription, describe_target
from fedsparse.tables.encoding import EncodedColumn
from fedsparse.tables.inputs import Roles, check_exists, site_names
from fedsparse.tables.schemas import Outline
from fedsparse.tables.sentences import Finding, error
from fedsparse.tables.svmlight import load_svmlight
from fedsparse.tables.values import labels

_QUERY = b"qid:"


def numbered_features(rows: sparse.csr_array) -> NumberedFeatures:
    """What a site says of its features' numbers; column j holds the feature of number j.

    Examples
    --------
    >>> numbered_features(sparse.csr_array([[0.0, 0.0, 2.5]]))
    NumberedFeatures(end=3, has_zero=False)
    """
    return NumberedFeatures(end=rows.shape[1], has_zero=bool((rows.indices == 0).any()))


class NumberedEncoding(BaseModel):
    """How rows of numbered features become arrays; see `Encoding`, whose twin it is.

    Examples
    --------
    >>> encoding = NumberedEncoding(first=1, width=3, task="regression")
    >>> encoding.feature_names
    ('1', '2', '3')
    >>> encoding.features(sparse.csr_array([[0.0, 5.0, 6.0]])).toarray().tolist()
    [[5.0, 6.0, 0.0]]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Literal[0, 1]
    """Number of the first feature."""
    width: Annotated[int, Field(ge=1, le=MAX_LENGTH)]
    """d."""
    task: LearntTask
    classes: tuple[str, ...] | None = None
    kept: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """These files do not name it."""
        return "target"

    @property
    def event(self) -> None:
        """Such files have no second column of an outcome."""
        return None

    @property
    def exposure(self) -> None:
        """Such files have no column of an exposure."""
        return None

    @property
    def impute(self) -> None:
        """What is not stored is 0, and nothing is missing."""
        return None

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """None: a model of numbered features is for files of them."""
        return ()

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The features' numbers."""
        return tuple(str(number) for number in range(self.first, self.first + self.width))

    @property
    def column_counts(self) -> dict[str, int]:
        """How many columns there are of each kind: all are numbers."""
        return {"number": self.width}

    def features(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Rows with all features of the federation; a file is as wide as its last non-zero."""
        if rows.shape[1] > self.first + self.width:
            raise DataError(
                f"there is a feature {rows.shape[1] - 1}, and only {self.feature_names[0]} to "
                f"{self.feature_names[-1]} were agreed on; describe the file anew"
            )
        columns = rows.indices - self.first
        if columns.size and columns.min() < 0:
            raise DataError("there is a feature 0, and numbers were to begin with 1; mend the file")
        encoded = sparse.csr_array(
            (rows.data, columns, rows.indptr), shape=(rows.shape[0], self.width)
        )
        encoded.has_canonical_format = True
        return encoded

    def targets(self, values: FloatArray) -> AnyArray:
        """Numbers as they are, or each row's place in ``classes``."""
        if self.classes is None:
            return values
        import polars as pl

        try:
            codes = labels(pl.Series(values)).cast(pl.Enum(self.classes)).to_physical()
        except pl.exceptions.PolarsError:
            raise DataError(
                f"a label is none of the classes {', '.join(self.classes[:5])}; mend the file"
            ) from None
        return codes.cast(pl.Int64).to_numpy()


def negotiate_numbered(
    descriptions: Sequence[SiteDescription],
    features: Sequence[NumberedFeatures],
    roles: Roles,
    task: Task,
    minimum_rows: int,
) -> tuple[NumberedEncoding, list[Finding]]:
    """One encoding for all sites, and what there is to say; errors forbid its use.

    Numbers begin with 1 unless some site has a 0: a file without one does not tell.

    Parameters
    ----------
    descriptions
        One per site, of rows and targets.
    features
        What the files say of their features.
    roles, task, minimum_rows
        As for `negotiate`.

    Examples
    --------
    >>> from fedsparse.tables.describing import describe_target
    >>> import polars as pl
    >>> target = describe_target(pl.Series([0.5, 1.5, 2.0]), "auto")
    >>> bari = SiteDescription(site="Bari", rows=9, target=target)
    >>> ends = [NumberedFeatures(end=3, has_zero=False), NumberedFeatures(end=9, has_zero=False)]
    >>> negotiate_numbered([bari], ends, Roles(), "auto", 5)[0].width
    8
    """
    few = row_findings(descriptions, minimum_rows)
    return settle_numbered(descriptions, features, roles, decide_target(descriptions, task), few)


def settle_numbered(
    descriptions: Sequence[Outline],
    features: Sequence[NumberedFeatures],
    roles: Roles,
    decision: TargetDecision,
    few: Sequence[Finding] = (),
) -> tuple[NumberedEncoding, list[Finding]]:
    """The same where it is decided what is learnt, and who has too few rows."""
    first: Literal[0, 1] = 0 if any(own.has_zero for own in features) else 1
    width = max(own.end for own in features) - first
    findings = [
        *name_clashes(descriptions),
        *few,
        *decision.findings,
        *_keep_findings(first, width, roles),
    ]
    if width < 1:
        findings.append(error("no row has a feature; give the files at least one"))
    encoding = NumberedEncoding(
        first=first,
        width=max(width, 1),
        task=decision.task,
        classes=decision.classes,
        kept=tuple(sorted(_places(first, width, roles).values())),
        notes=tuple(finding.sentence for finding in findings),
    )
    return encoding, findings


def _places(first: int, width: int, roles: Roles) -> dict[str, int]:
    """Features to keep that there are, by number."""
    numbers = {name: int(name) for name in roles.keep if name.isdecimal()}
    return {
        name: number - first
        for name, number in numbers.items()
        if first <= number < first + width and name == str(number)
    }


def _keep_findings(first: int, width: int, roles: Roles) -> list[Finding]:
    known = _places(first, width, roles)
    return [
        error(
            f"there is no feature {name} (--keep); the numbers are {first} to {first + width - 1}"
        )
        for name in roles.keep
        if name not in known
    ]


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
    check_libsvm_task(task)
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
    features = sparse.csr_array(read.features)
    _check_width(features, file)
    return features, read.targets


def _check_width(features: sparse.csr_array, file: Path) -> None:
    """Models as wide as a large number would fill the memory, whatever few features a file has."""
    if features.shape[1] <= MAX_LENGTH:
        return
    place = int(np.argmax(features.indices))
    row = int(np.searchsorted(features.indptr, place, side="right"))
    raise DataError(
        f"{file}, row {row}: the feature number {features.indices[place]} is too large, numbers go "
        f"up to {MAX_LENGTH - 1:,}; number the features anew"
    )


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
    for option, name in roles.outcome.items():
        raise OptionError(
            f'a LIBSVM file has its target in front of each row; leave {option} "{name}" out'
        )
    if roles.site not in (None, "qid"):
        raise OptionError(
            f'a LIBSVM file has no column "{roles.site}"; '
            "use --site qid for its query numbers, or give one file per site"
        )
    for option, names in (("--drop", roles.drop), ("--category", roles.categories)):
        if names:
            raise OptionError(f"{option} needs a table with names, not a LIBSVM file; leave it out")


def check_libsvm_task(task: Task) -> None:
    """Refuse outcomes that take columns with names.

    Examples
    --------
    >>> check_libsvm_task("survival")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --task survival needs a table with names, not a LIBSVM file; give
    one
    """
    if task in ("counts", "survival"):
        raise OptionError(f"--task {task} needs a table with names, not a LIBSVM file; give one")


def _sites(files: Sequence[Path], counts: Sequence[int], roles: Roles) -> AnyArray:
    if roles.site is None:
        return np.repeat(np.array(site_names(files), dtype=np.str_), counts)
    return np.concatenate([query_numbers(file) for file in files])


def query_numbers(file: Path) -> AnyArray:
    r"""The query number of every row; the rows themselves have been parsed before.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.libsvm"
    >>> _ = path.write_text("+1 qid:7 1:0.5\n-1 qid:8 2:1\n")
    >>> query_numbers(path).tolist()
    ['7', '8']
    """
    found = []
    with decompressed(file) as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition(b"#")[0].split(None, 2)
            if not words:
                continue
            if len(words) < 2 or not words[1].startswith(_QUERY):
                raise DataError(
                    f"{file}, line {number} has no query number such as qid:3; "
                    "give every row one, or do not ask for sites by them (--site qid)"
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
