"""A site's table: read where it lies, described without a row, encoded as all sites agreed."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.modelling.fitting import loss_of
from fedsparse.problem.federated import Features
from fedsparse.problem.losses import Loss
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables import Encoding, NumberedEncoding, Roles, SiteDescription, describe
from fedsparse.tables.agreeing import MINIMUM_ROWS
from fedsparse.tables.cells import Task, cell_findings
from fedsparse.tables.delimited import typed
from fedsparse.tables.describing import describe_checked, describe_target, may_be_classes
from fedsparse.tables.inputs import are_libsvm, check_roles, read_table, role_findings
from fedsparse.tables.numbered import numbered_features, read_numbered
from fedsparse.tables.oddities import odd_findings
from fedsparse.tables.schemas import SiteSchema
from fedsparse.tables.sentences import Finding, listed
from fedsparse.tables.values import labels, number_matrix, number_names

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
    minimum_rows: Annotated[int, Field(ge=1)] = MINIMUM_ROWS
    """A site with fewer refuses, where nobody else may know how many it has."""
    dry_run: bool = False
    """Describe what can be described and say what cannot, where a site would refuse."""
    open_sums: bool = False
    """Sites are to tell their answers as they are, not under masks."""


class Told(BaseModel):
    """All that leaves a site before training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: SiteDescription | SiteSchema
    """With counts where sums are open, else without."""
    target: Annotated[str, Field(max_length=1000)]
    """Name of the column to predict, of survival the time; empty if it has none."""
    event: Annotated[str, Field(max_length=1000)] = ""
    exposure: Annotated[str, Field(max_length=1000)] = ""
    """Names of the other columns of the outcome; empty if there are none."""
    problems: tuple[str, ...] = ()
    """Why the site would refuse to train, in sentences without rows; told in a dry run alone."""
    unusable: tuple[str, ...] = ()
    """Columns, maybe the target, that have cells which cannot be used; told in a dry run alone."""
    smallest_samples: Annotated[int, Field(ge=1, le=2**53)] = 1
    """Of its policy, where sums are secure: fewest rows of all sites that may stand out."""
    introduction: tuple[str, str, str] | None = None
    """The run, the site's key in it and the signature, where sums are secure."""
    limits: tuple[str, ...] = ()
    """What its policy does not answer, in sentences; told in a dry run alone."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as arrays.

    Attributes
    ----------
    features, targets
        One row, and one number, per row.
    classes
        How many there are; None: targets are none.
    row_weights
        How much each row counts; None: all the same.
    loss
        For such targets.
    """

    features: Features
    targets: AnyArray
    classes: int | None
    row_weights: FloatArray | None
    loss: Loss


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

    def oddities(self, where: str) -> list[Finding]:
        """What its owner should look at; the sentences quote rows and must stay at the site."""
        return []

    @abstractmethod
    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Say what is in the table, without a row and but for columns that cannot be used."""

    @abstractmethod
    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """Say what answers under an agreement would speak of.

        A FederationError if that is something the site does not offer.
        """

    @abstractmethod
    def differing(self, names: Sequence[str]) -> dict[str, int]:
        """Rows of columns of numbers that differ from the value in the middle.

        That is the most common one if more than half of the rows have one; a missing value counts
        as a value.
        """

    def standing_out(self, names: Sequence[str], fewest: int) -> list[str]:
        """Columns of numbers whose rows are all the same but for fewer than ``fewest``."""
        most = min(fewest, self.rows - self.rows // 2)
        return [name for name, count in self.differing(names).items() if 0 < count < most]

    @abstractmethod
    def encode(self, agreed: dict[str, Any]) -> EncodedRows:
        """Rows as all sites agreed."""

    @abstractmethod
    def rows_as_bytes(self) -> Iterator[bytes]:
        """All that is in each row: the same however columns are ordered and the file is written."""


@dataclass(frozen=True, eq=False)
class NamedTable(SiteTable):
    """A table whose columns have names.

    Attributes
    ----------
    frame
        Its rows.
    target
        Name of the column to predict, of survival the time.
    categories
        Columns of numbers, maybe the target, that stand for levels or classes. Only the site can
        say so: told level by level, numbers are a histogram.
    event
        Of survival, the column that says whether something happened at that time.
    exposure
        Of counts, the column that says for how long, or of how many.

    Examples
    --------
    >>> import polars as pl
    >>> table = NamedTable(pl.DataFrame({"age": [61, 47], "relapse": [1, 0]}), "relapse")
    >>> table.describe("Bari", Wishes()).description.columns[0].numbers.total
    108.0
    """

    frame: "pl.DataFrame"
    target: str
    categories: tuple[str, ...] = ()
    event: str | None = None
    exposure: str | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.frame.height

    @property
    def outcome(self) -> tuple[str, ...]:
        """The columns that are no features."""
        named = (self.target, self.event, self.exposure)
        return tuple(name for name in named if name is not None)

    def lacking(self, wishes: Wishes) -> list[str]:
        """Categories that there are not, and columns of numbers that are none."""
        found = role_findings(self.frame.columns, "its table", self._roles(wishes))
        numbers = self._undeclared(wishes.categories)
        return [
            *(finding.sentence for finding in found),
            *(_not_declared(name, f"--category {name}") for name in numbers),
            *self._lacking_classes(wishes.task),
            *self._lacking_outcome(wishes.task),
        ]

    def _lacking_outcome(self, task: Task) -> list[str]:
        """Why the columns of its outcome are not those of the task."""
        if task == "survival" and self.event is None:
            return ["it was started without --event; start it with --time and --event"]
        for option, name, needed in (
            ("--event", self.event, "survival"), ("--exposure", self.exposure, "counts")
        ):  # fmt: skip
            if name is not None and task != needed:
                return [
                    f"it was started with {option}; inspect and train with --task {needed}, "
                    "or start it without"
                ]
        return []

    def _lacking_classes(self, task: Task) -> list[str]:
        """Why the target's numbers are no classes, whatever the server says."""
        target = self.frame.get_column(self.target)
        if task != "classification" or may_be_classes(target) or self.target in self.categories:
            return []
        return [_not_declared(self.target, "--task classification")]

    def _undeclared(self, names: Sequence[str]) -> list[str]:
        """Those of some columns that hold numbers, and are no categories by the site's word."""
        numbers = frozenset(number_names(typed(self.frame)))
        return [name for name in names if name in numbers and name not in self.categories]

    def faults(self, where: str, wishes: Wishes) -> list[Finding]:
        """Of the target and of columns that may become features."""
        present = tuple(name for name in wishes.categories if name in self.frame.columns)
        roles = self._roles(wishes.model_copy(update={"categories": present}))
        return cell_findings(typed(self.frame), where, roles, wishes.task)

    def oddities(self, where: str) -> list[Finding]:
        """Of the target and of columns that may become features."""
        roles = Roles(target=self.target, categories=self.categories)
        return odd_findings(typed(self.frame), where, roles)

    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Counts, sums and levels."""
        wishes = self._without_undeclared(wishes)
        roles = self._roles(wishes)
        usable = roles.model_copy(update={"drop": (*roles.drop, *unusable)})
        description = describe_checked(typed(self.frame), site, usable, wishes.task)
        hidden = [name for name in unusable if name not in self.outcome]
        plain: dict[str, Any] = {
            "dropped": tuple(name for name in description.dropped if name not in unusable),
            "withheld": tuple(hidden),  # matches whatever other sites have
        }
        if not set(self.outcome).isdisjoint(unusable):
            plain["target"] = None
        return Told(
            description=description.model_copy(update=plain),
            target=self.target,
            event=self.event or "",
            exposure=self.exposure or "",
            unusable=tuple(unusable),
        )

    def _without_undeclared(self, wishes: Wishes) -> Wishes:
        """What can be told where a site would refuse: numbers as numbers."""
        numbers = self._undeclared(wishes.categories)
        left = tuple(name for name in wishes.categories if name not in numbers)
        lacking = self._lacking_classes(wishes.task) or self._lacking_outcome(wishes.task)
        task: Task = "auto" if lacking else wishes.task
        return wishes.model_copy(update={"categories": left, "task": task})

    def _roles(self, wishes: Wishes) -> Roles:
        return Roles(
            target=self.target,
            event=self.event,
            exposure=self.exposure,
            drop=wishes.drop,
            categories=wishes.categories,
        )

    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """As if the agreed columns were all there are."""
        encoding = _parsed(Encoding, agreed)
        columns = {column.name: column for column in encoding.columns}
        offered = set(self.frame.columns) - {*self.outcome}
        if not columns.keys() <= offered or len(columns) < len(encoding.columns):
            raise FederationError("the server uses columns that it does not offer")
        if any(column.fill is not None for column in encoding.columns):
            # Lenses fill holes, and what with is looked at; here it would not be.
            raise FederationError("the server fills holes before it says what with")
        roles = Roles(
            target=self.target,
            event=self.event,
            exposure=self.exposure,
            categories=tuple(name for name, own in columns.items() if own.kind == "category"),
        )
        lacking = self._undeclared(roles.categories) or self._lacking_classes(encoding.task)
        if lacking:
            raise FederationError("the server takes numbers for categories that it does not")
        if self._lacking_outcome(encoding.task):
            raise FederationError("the server takes its outcome for another kind of outcome")
        used = self.frame.select([*columns, *self.outcome])
        description = describe(used, site, roles, task=encoding.task)
        for own in description.columns:
            if own.kind not in (columns[own.name].kind, "empty"):
                raise FederationError(f'it has no {columns[own.name].kind} in column "{own.name}"')
        return description

    def differing(self, names: Sequence[str]) -> dict[str, int]:
        """Counted for all columns at once."""
        if not names:
            return {}
        values = number_matrix(typed(self.frame.select(names)), list(names))
        ordered = np.sort(np.where(np.isnan(values), np.inf, values), axis=0)
        counts = (ordered != ordered[self.rows // 2]).sum(axis=0)
        return dict(zip(names, counts.tolist(), strict=True))

    def encode(self, agreed: dict[str, Any]) -> EncodedRows:
        """Columns of numbers as they are, each level of a category as a column."""
        encoding = _parsed(Encoding, agreed)
        own = (self.target, self.event, self.exposure)
        if (encoding.target, encoding.event, encoding.exposure) != own:
            raise WireError("The agreed target is not that of this site.")
        where = "this site's table"
        return EncodedRows(
            encoding.features(self.frame, where),
            encoding.targets(self.frame, where),
            None if encoding.classes is None else len(encoding.classes),
            encoding.row_weights(self.frame, where),
            loss_of(encoding),
        )

    def rows_as_bytes(self) -> Iterator[bytes]:
        """Numbers, then text, each by the names of its columns."""
        frame = typed(self.frame)
        names = sorted(number_names(frame))
        numbers = number_matrix(frame, names) + 0.0  # −0 is 0
        numbers[np.isnan(numbers)] = np.nan  # there are several
        others = [labels(frame.get_column(name)) for name in sorted({*frame.columns} - {*names})]
        texts = zip(*others, strict=True) if others else iter([()] * self.rows)
        for own, text in zip(numbers, texts, strict=True):
            yield own.tobytes() + json.dumps(text).encode()


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
        lacking = []
        if wishes.drop or wishes.categories:
            lacking.append("its features have numbers, no names; leave --drop and --category out")
        if wishes.task in ("counts", "survival"):
            lacking.append(f"its features have numbers, no names; leave --task {wishes.task} out")
        return lacking + self._lacking_classes(wishes.task)

    def _lacking_classes(self, task: Task) -> list[str]:
        import polars as pl

        if task != "classification" or may_be_classes(pl.Series("target", self.targets)):
            return []
        return ["its targets are too many numbers to be classes; leave --task classification out"]

    def faults(self, where: str, wishes: Wishes) -> list[Finding]:
        """None: the file would not have been read."""
        return []

    def describe(self, site: str, wishes: Wishes, unusable: Sequence[str] = ()) -> Told:
        """Counts, the range of numbers, and labels if the target stands for classes."""
        task: Task = "auto" if self._lacking_classes(wishes.task) else wishes.task
        return Told(description=self._described(site, task), target="")

    def _described(self, site: str, task: Task) -> SiteDescription:
        import polars as pl

        return SiteDescription(
            site=site,
            rows=self.rows,
            target=describe_target(pl.Series("target", self.targets), task),
            numbered=numbered_features(self.features),
        )

    def describe_used(self, site: str, agreed: dict[str, Any]) -> SiteDescription:
        """All of it."""
        task = _parsed(NumberedEncoding, agreed).task
        if self._lacking_classes(task):
            raise FederationError("the server takes numbers for categories that it does not")
        return self._described(site, task)

    def differing(self, names: Sequence[str]) -> dict[str, int]:
        """None: such files hold what few rows have, and nothing else."""
        return {}

    def encode(self, agreed: dict[str, Any]) -> EncodedRows:
        """All features of the federation."""
        encoding = _parsed(NumberedEncoding, agreed)
        if encoding.task in ("counts", "survival"):
            raise WireError("Rows of numbered features have no such outcome.")
        return EncodedRows(
            encoding.features(self.features),
            encoding.targets(self.targets),
            None if encoding.classes is None else len(encoding.classes),
            None,
            loss_of(encoding),
        )

    def rows_as_bytes(self) -> Iterator[bytes]:
        """The target, and numbers and values of the features that the row has."""
        features = self.features.sorted_indices()
        places, pointer = features.indices.astype(np.int64), features.indptr
        for target, begin, end in zip(self.targets, pointer[:-1], pointer[1:], strict=True):
            values = features.data[begin:end]
            yield target.tobytes() + places[begin:end].tobytes() + values.tobytes()


def open_table(
    path: Path,
    target: str | None,
    drop: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    *,
    event: str | None = None,
    exposure: str | None = None,
) -> SiteTable:
    r"""Read a site's file: a table with names, or LIBSVM text.

    Parameters
    ----------
    path
        The file.
    target
        Column to predict, of survival the time; None for LIBSVM text.
    drop
        Columns that the site does not offer.
    categories
        Columns of numbers, maybe the target, that stand for levels or classes.
    event, exposure
        Of survival, whether something happened; of counts, for how long or of how many.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "bari.csv"
    >>> _ = path.write_text("age,dose,relapse\n61,0.5,1\n47,0.25,0\n")
    >>> open_table(path, "relapse").rows
    2
    """
    if are_libsvm([path]):
        if any((target, event, exposure)) or drop or categories:
            raise OptionError(
                f"{path} is LIBSVM text, which has its target in front of each row and numbers for "
                "names; leave --target, --drop and --category out"
            )
        return NumberedTable(*read_numbered(path))
    roles = Roles(target=target, event=event, exposure=exposure, drop=drop)
    check_roles(roles)
    frame = read_table(path)
    problems = [finding.sentence for finding in role_findings(frame.columns, str(path), roles)]
    for option, names in (("--drop", drop), ("--category", categories)):
        unknown = [name for name in names if name not in frame.columns]
        if unknown:
            problems.append(f"{path} has no column {listed(unknown)} ({option}); leave it out")
    if problems:
        raise DataError("\n".join(problems))
    assert target is not None
    return NamedTable(frame.drop(drop), target, categories, event, exposure)


def check_site_outcome(
    target: str | None, exposure: str | None, time: str | None, event: str | None
) -> None:
    """Refuse columns of an outcome that do not go together.

    Examples
    --------
    >>> check_site_outcome(None, None, time="months", event=None)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --time and --event go together; name both
    """
    if (time is None) != (event is None):
        raise OptionError("--time and --event go together; name both")
    if time is not None and (target is not None or exposure is not None):
        other = "--exposure" if target is None else "--target"
        raise OptionError(f"{other} has no part in survival; leave it out, or --time and --event")
    if exposure is not None and target is None:
        raise OptionError("--exposure is that of a count; name the count with --target")


def _not_declared(name: str, asked: str) -> str:
    return (
        f'its column "{name}" holds numbers; have it started with --category {name} if they are '
        f"no quantities, or leave {asked} out"
    )


def _parsed(kind: type[_Kind], agreed: dict[str, Any]) -> _Kind:
    try:
        return kind.model_validate(agreed)
    except ValidationError:
        raise WireError("What was agreed on is malformed.") from None
