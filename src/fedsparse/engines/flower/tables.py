"""A site's table: read where it lies, described without a row, encoded as all sites agreed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy import sparse

from fedsparse.arrays import AnyArray
from fedsparse.codec import WireError
from fedsparse.data.federated import Features, FederatedData
from fedsparse.errors import DataError, FederationError
from fedsparse.wire import MAX_LENGTH

MOST_LABELS = 1000
"""A target with more distinct values is no class label; sending them all would be too telling."""

Width = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
"""Number of features; what the other side claims decides how much memory is taken."""

_TABLES = (".csv", ".parquet")
_SHOWN = 5


@dataclass(frozen=True)
class Table:
    """A site's rows.

    Attributes
    ----------
    features, targets
        As `FederatedData` has them.
    columns
        Names of the features; None for a LIBSVM file, which numbers them.
    """

    features: Features
    targets: AnyArray
    columns: tuple[str, ...] | None


class Labels(BaseModel):
    """Distinct values of a target; kind is that of a NumPy type."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["i", "f", "U"]
    values: Annotated[list[int] | list[float] | list[str], Field(max_length=MOST_LABELS)]

    @classmethod
    def of(cls, labels: AnyArray) -> "Labels":
        """Those of an array."""
        kind: Any = "i" if labels.dtype.kind in "iub" else labels.dtype.kind
        return cls(kind=kind, values=labels.tolist())

    def as_array(self) -> AnyArray:
        """As they were."""
        return np.array(self.values, dtype=_LABEL_TYPES[self.kind])


class Description(BaseModel):
    """All that leaves a site before training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    site: Annotated[str, Field(min_length=1, max_length=100)]
    rows: Annotated[int, Field(ge=1)]
    width: Width
    columns: tuple[str, ...] | None = None
    """Names of the features; None if they are numbered."""
    labels: Labels | None = None
    """The target's, if it stands for classes."""


@dataclass(frozen=True)
class Agreed:
    """What the sites agreed on.

    Attributes
    ----------
    columns
        Names of the features in the order of the coefficients; None if they are numbered.
    width
        Number of features d.
    classes
        The federation's labels, None for regression.
    """

    columns: tuple[str, ...] | None
    width: int
    classes: AnyArray | None

    def to_json(self) -> dict[str, Any]:
        """What travels to the sites."""
        labels = None if self.classes is None else Labels.of(self.classes)
        return _Agreed(columns=self.columns, width=self.width, labels=labels).model_dump(
            mode="json"
        )

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "Agreed":
        """Read what `to_json` wrote; a WireError if it is malformed."""
        try:
            values = _Agreed.model_validate(written)
            labels = None if values.labels is None else values.labels.as_array()
        except (ValueError, OverflowError):
            raise WireError("What was agreed on is malformed.") from None
        return cls(values.columns, values.width, labels)


class _Agreed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    columns: tuple[str, ...] | None
    width: Width
    labels: Labels | None


def read_table(path: Path, target: str | None) -> Table:
    r"""Read a site's file: a CSV or Parquet table of numbers with a target column, or LIBSVM.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age,dose,relapse\n61,0.5,1\n47,0.25,0\n")
    >>> read_table(path, "relapse").columns
    ('age', 'dose')
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}; check its name and folder")
    table = _numbers(path, target) if path.suffix.lower() in _TABLES else _numbered(path)
    checked = FederatedData.from_clients({str(path): (table.features, table.targets)})
    return Table(checked.features, checked.targets, table.columns)


def describe(table: Table, site: str, with_labels: bool) -> Description:
    """Counts, names of columns, and labels if need be.

    Examples
    --------
    >>> table = Table(np.ones((2, 1)), np.array([0, 1]), ("age",))
    >>> describe(table, "bari", with_labels=True).labels.values
    [0, 1]
    """
    labels = np.unique(table.targets) if with_labels else None
    if labels is not None and labels.size > MOST_LABELS:
        raise DataError(
            f"the target has {labels.size} distinct values, too many for labels; "
            "train with the squared loss"
        )
    return Description(
        site=site,
        rows=table.features.shape[0],
        width=table.features.shape[1],
        columns=table.columns,
        labels=None if labels is None else Labels.of(labels),
    )


def agree(descriptions: Sequence[Description], minimum_rows: int) -> Agreed:
    """One encoding for all sites, or an error that lists what does not match.

    Parameters
    ----------
    descriptions
        In the order of the federation; the first decides the order of columns.
    minimum_rows
        A site with fewer is refused.

    Examples
    --------
    >>> bari = Description(site="bari", rows=9, width=2, columns=("age", "dose"))
    >>> cork = Description(site="cork", rows=9, width=2, columns=("dose", "age"))
    >>> agree([bari, cork], minimum_rows=5).columns
    ('age', 'dose')
    >>> york = Description(site="york", rows=9, width=1, columns=("age",))
    >>> agree([bari, york], minimum_rows=5)
    Traceback (most recent call last):
        ...
    fedsparse.errors.FederationError: the sites' tables do not match: york lacks "dose"; make them \
the same at all sites
    """
    problems = [
        f"{own.site} has {own.rows} rows, fewer than {minimum_rows}"
        for own in descriptions
        if own.rows < minimum_rows
    ]
    columns = descriptions[0].columns
    for own in descriptions:
        problems += _column_problems(own, columns)
    labels, odd = _common_labels(descriptions)
    problems += odd
    if problems:
        raise FederationError(
            f"the sites' tables do not match: {'; '.join(problems)}; make them the same at all "
            "sites"
        )
    widest = max(own.width for own in descriptions)
    return Agreed(columns, widest if columns is None else len(columns), labels)


def encode(table: Table, agreed: Agreed) -> tuple[Features, AnyArray]:
    """A site's rows, columns in the agreed order."""
    features = table.features
    if agreed.columns is not None:
        if table.columns is None or sorted(table.columns) != sorted(agreed.columns):
            raise WireError("The agreed columns are not those of this site.")
        if table.columns != agreed.columns:
            places = {name: place for place, name in enumerate(table.columns)}
            order = [places[name] for name in agreed.columns]
            features = np.ascontiguousarray(np.asarray(features)[:, order])
    elif features.shape[1] < agreed.width and isinstance(features, sparse.csr_array):
        parts = (features.data, features.indices, features.indptr)
        features = sparse.csr_array(parts, shape=(features.shape[0], agreed.width))
    if features.shape[1] != agreed.width:
        raise WireError("The agreed columns are not those of this site.")
    return features, table.targets


def _numbers(path: Path, target: str | None) -> Table:
    import polars as pl

    try:
        read = pl.read_csv if path.suffix.lower() == ".csv" else pl.read_parquet
        frame = read(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        problem = str(error).partition("\n")[0]
        raise DataError(f"{path} cannot be read as a table ({problem}); mend the file") from None
    if target is None or target not in frame.columns:
        raise DataError(f"{path} has no column {target!r}; name its target column with --target")
    features = frame.drop(target)
    for name, kind in features.schema.items():
        if not kind.is_numeric():
            raise DataError(f'{path}: column "{name}" is not of numbers; encode or remove it')
    if features.null_count().sum_horizontal()[0]:
        raise DataError(f"{path} has missing values; fill or remove them")
    return Table(
        features.cast(pl.Float64).to_numpy(),
        frame.get_column(target).to_numpy(),
        tuple(features.columns),
    )


def _numbered(path: Path) -> Table:
    from fedsparse.data.libsvm import load_svmlight

    dataset = load_svmlight(path)
    return Table(dataset.features, dataset.targets, None)


def _column_problems(own: Description, usual: tuple[str, ...] | None) -> list[str]:
    if own.columns is None or usual is None:
        if own.columns is None and usual is None:
            return []
        return [f"{own.site} {'numbers' if own.columns is None else 'names'} its columns"]
    present, expected = set(own.columns), set(usual)
    lacking = [name for name in usual if name not in present]
    extra = [name for name in own.columns if name not in expected]
    found = [f"{own.site} lacks {_listed(lacking)}"] if lacking else []
    return found + ([f"{own.site} also has {_listed(extra)}"] if extra else [])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _common_labels(descriptions: Sequence[Description]) -> tuple[AnyArray | None, list[str]]:
    by_site = {own.site: own.labels for own in descriptions if own.labels is not None}
    if not by_site:
        return None, []
    is_text = next(iter(by_site.values())).kind == "U"
    odd = [
        f"the labels of {site} are {'numbers' if is_text else 'text'}"
        for site, own in by_site.items()
        if (own.kind == "U") != is_text
    ]
    if odd:
        return None, odd
    return np.unique(np.concatenate([own.as_array() for own in by_site.values()])), []


_LABEL_TYPES: dict[str, Any] = {"i": np.int64, "f": np.float64, "U": np.str_}
