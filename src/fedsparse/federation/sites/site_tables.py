"""A site's table: read where it lies, described without a row, encoded as all sites agreed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.problem.federated import Features
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables import Encoding, NumberedEncoding, Roles, SiteDescription, describe
from fedsparse.tables.cells import Task, cell_findings
from fedsparse.tables.delimited import typed
from fedsparse.tables.describing import describe_checked, describe_target
from fedsparse.tables.inputs import are_libsvm, check_roles, read_table, role_findings
from fedsparse.tables.numbered import numbered_features, read_numbered
from fedsparse.tables.sentences import Finding, listed
from fedsparse.tables.values import number_matrix

if TYPE_CHECKING:
    import polars as pl

_Kind = TypeVar("_Kind", bound=BaseModel)


class Wishes(BaseModel):
    """What the server asks sites to describe.

    Examples
    --------
    >>> Wishes(drop=("name",)).task
    'auto'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task = "auto"
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    dry_run: bool = False
    """Describe what can be described and say what cannot, where a site would refuse."""


class Told(BaseModel):
    """All that leaves a site before training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: SiteDescription
    target: Annotated[str, Field(max_length=1000)]
    """Name of the column to predict; empty if it has none."""
    problems: tuple[str, ...] = ()
    """Why the site would refuse to train, in sentences without rows; told in a dry run alone."""
    unusable: tuple[str, ...] = ()
    """Columns, maybe the target, that have cells which cannot be used; told in a dry run alone."""
    limits: tuple[str, ...] = ()
    """What its policy does not answer, in sentences; told in a dry run alone."""


class SiteTable(ABC):
    """The rows of a site."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many there are."""

    @abstractmethod
    def lacking(self, wishes: Wishes) -> list[str]:
        """What the server asks for and is not there, in sentences without rows."""

    @abstractmethod
    def faults(self, where: str, wishes: Wishes) -> list[Finding]:
        """Everything wrong with cells; the sentences quote rows and must stay at the site."""

    @abstractmethod
    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Say what is in the table, without a row and but for columns that cannot be used."""

    @abstractmethod
    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """Say what answers under an agreement would speak of.

        A FederationError if that is something the site does not offer.
        """

    @abstractmethod
    def standing_out(self, names: Sequence[str], fewest: int) -> list[str]:
        """Columns of numbers whose rows are all the same but for fewer than ``fewest``."""

    @abstractmethod
    def encode(self, agreed: dict[str, Any]) -> tuple[Features, AnyArray, int | None]:
        """Features, targets and the number of classes, as all sites agreed."""


@dataclass(frozen=True, eq=False)
class NamedTable(SiteTable):
    """A table whose columns have names.

    Attributes
    ----------
    frame
        Its rows.
    target
        Name of the column to predict.

    Examples
    --------
    >>> import polars as pl
    >>> table = NamedTable(pl.DataFrame({"age": [61, 47], "relapse": [1, 0]}), "relapse")
    >>> table.describe("Bari", Wishes()).description.columns[0].numbers.total
    108.0
    """

    frame: "pl.DataFrame"
    target: str

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.frame.height

    def lacking(self, wishes: Wishes) -> list[str]:
        """Categories that there are not."""
        found = role_findings(self.frame.columns, "its table", self._roles(wishes))
        return [finding.sentence for finding in found]

    def faults(self, where: str, wishes: Wishes) -> list[Finding]:
        """Of the target and of columns that may become features."""
        present = tuple(name for name in wishes.categories if name in self.frame.columns)
        roles = self._roles(wishes.model_copy(update={"categories": present}))
        return cell_findings(typed(self.frame), where, roles, wishes.task)

    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Counts, sums and levels."""
        roles = self._roles(wishes)
        usable = roles.model_copy(update={"drop": (*roles.drop, *unusable)})
        description = describe_checked(typed(self.frame), site, usable, wishes.task)
        hidden = [name for name in unusable if name != self.target]
        plain: dict[str, Any] = {
            "dropped": tuple(name for name in description.dropped if name not in unusable),
            "withheld": tuple(hidden),  # matches whatever other sites have
        }
        if self.target in unusable:
            plain["target"] = None
        return Told(
            description=description.model_copy(update=plain),
            target=self.target,
            unusable=tuple(unusable),
        )

    def _roles(self, wishes: Wishes) -> Roles:
        return Roles(target=self.target, drop=wishes.drop, categories=wishes.categories)

    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """As if the agreed columns were all there are."""
        encoding = _parsed(Encoding, agreed)
        columns = {column.name: column for column in encoding.columns}
        offered = set(self.frame.columns) - {self.target}
        if not columns.keys() <= offered or len(columns) < len(encoding.columns):
            raise FederationError("the server uses columns that it does not offer")
        if any(column.fill is not None for column in encoding.columns):
            # Lenses fill holes, and what with is looked at; here it would not be.
            raise FederationError("the server fills holes before it says what with")
        roles = Roles(
            target=self.target,
            categories=tuple(name for name, own in columns.items() if own.kind == "category"),
        )
        used = self.frame.select([*columns, self.target])
        description = describe(used, site, roles, task=encoding.task)
        for own in description.columns:
            if own.kind not in (columns[own.name].kind, "empty"):
                raise FederationError(f'it has no {columns[own.name].kind} in column "{own.name}"')
        return description

    def standing_out(self, names: Sequence[str], fewest: int) -> list[str]:
        """Those of which one value is in most rows, and others in fewer than allowed."""
        rows = self.rows
        if not names:
            return []
        values = number_matrix(typed(self.frame.select(names)), list(names))
        ordered = np.sort(np.where(np.isnan(values), np.inf, values), axis=0)
        most = max(rows - fewest, rows // 2)  # a value that more rows have leaves too few others
        has_common = (ordered[most:] == ordered[: rows - most]).any(axis=0)
        varies = ordered[0] != ordered[-1]
        return [name for name, rare in zip(names, has_common & varies, strict=True) if rare]

    def encode(self, agreed: dict[str, Any]) -> tuple[Features, AnyArray, int | None]:
        """Columns of numbers as they are, each level of a category as a column."""
        encoding = _parsed(Encoding, agreed)
        if encoding.target != self.target:
            raise WireError("The agreed target is not that of this site.")
        where = "this site's table"
        return (
            encoding.features(self.frame, where),
            encoding.targets(self.frame, where),
            None if encoding.classes is None else len(encoding.classes),
        )


@dataclass(frozen=True, eq=False)
class NumberedTable(SiteTable):
    """Rows whose features have numbers: column j holds the feature of number j.

    Attributes
    ----------
    features, targets
        As `read_numbered` gives them.
    """

    features: sparse.csr_array
    targets: FloatArray

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.targets.size)

    def lacking(self, wishes: Wishes) -> list[str]:
        """Names."""
        if wishes.drop or wishes.categories:
            return ["its features have numbers, no names; leave --drop and --category out"]
        return []

    def faults(self, where: str, wishes: Wishes) -> list[Finding]:
        """None: the file would not have been read."""
        return []

    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Counts, the range of numbers, and labels if the target stands for classes."""
        import polars as pl

        description = SiteDescription(
            site=site,
            rows=self.rows,
            target=describe_target(pl.Series("target", self.targets), wishes.task),
            numbered=numbered_features(self.features),
        )
        return Told(description=description, target="")

    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """All of it."""
        return self.describe(site, Wishes(task=_parsed(NumberedEncoding, agreed).task)).description

    def standing_out(self, names: Sequence[str], fewest: int) -> list[str]:
        """None: such files hold what few rows have, and nothing else."""
        return []

    def encode(self, agreed: dict[str, Any]) -> tuple[Features, AnyArray, int | None]:
        """All features of the federation."""
        encoding = _parsed(NumberedEncoding, agreed)
        return (
            encoding.features(self.features),
            encoding.targets(self.targets),
            None if encoding.classes is None else len(encoding.classes),
        )


def open_table(path: Path, target: str | None, drop: tuple[str, ...] = ()) -> SiteTable:
    r"""Read a site's file: a table with names, or LIBSVM text.

    Parameters
    ----------
    path
        The file.
    target
        Column to predict; None for LIBSVM text.
    drop
        Columns that the site does not offer.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age,dose,relapse\n61,0.5,1\n47,0.25,0\n")
    >>> open_table(path, "relapse").rows
    2
    """
    if are_libsvm([path]):
        if target is not None or drop:
            raise OptionError(
                f"{path} is LIBSVM text, which has its target in front of each row and numbers for "
                "names; leave --target and --drop out"
            )
        return NumberedTable(*read_numbered(path))
    roles = Roles(target=target, drop=drop)
    check_roles(roles)
    frame = read_table(path)
    problems = [finding.sentence for finding in role_findings(frame.columns, str(path), roles)]
    unknown = [name for name in drop if name not in frame.columns]
    if unknown:
        problems.append(f"{path} has no column {listed(unknown)} (--drop); leave it out")
    if problems:
        raise DataError("\n".join(problems))
    assert target is not None
    return NamedTable(frame.drop(drop), target)


def _parsed(kind: type[_Kind], agreed: dict[str, Any]) -> _Kind:
    try:
        return kind.model_validate(agreed)
    except ValidationError:
        raise WireError("What was agreed on is malformed.") from None
