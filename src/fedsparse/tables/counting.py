"""What is counted over all sites where none tells its own counts, and what columns come to by it.

Every site contributes numbers of its own table, and only what they add up to is known.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.requests.fixed_sums import SumLayout
from fedsparse.tables.describing import DescriptionPart, SiteDescription
from fedsparse.tables.merging import Matching, MergedColumn, MergedNumbers
from fedsparse.tables.schemas import ALL_SITES, SiteSchema, TargetSchema
from fedsparse.tables.values import is_identifier, sorted_labels

OF_NUMBERS = ("missing", "differing", "varying", "repeating", "gapped")
"""What is added up of a column of numbers: rows without a value, rows that differ from the value
in the middle (the most common one if more than half have one, a missing value being one, too), and
sites where values differ, where they are no numbering and where a numbering would have gaps."""


class Countable(DescriptionPart):
    """What all sites count.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> from fedsparse.tables.inputs import Roles
    >>> frame = pl.DataFrame({"age": [61, 47], "ward": ["eye", "eye"], "relapse": [1, 0]})
    >>> bari = describe(frame, "Bari", Roles(target="relapse"))
    >>> wards = {"ward": ("ear", "eye")}
    >>> own = Countable(numbers=("age",), levels=wards).contribution(bari, {"age": 1})
    >>> own["rows"].tolist(), own["levels"].tolist(), own["differing"].tolist()
    ([2.0], [0.0, 2.0], [1.0])
    """

    numbers: tuple[str, ...] = ()
    """Columns of numbers."""
    levels: dict[str, tuple[str, ...]] = Field(default={})
    """Levels of categories."""
    target: TargetSchema | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Shapes of all that is added up."""
        sizes = {
            **dict.fromkeys(OF_NUMBERS, len(self.numbers)),
            "levels": sum(map(len, self.levels.values())),
            "labels": len(self.labels),
        }
        parts: dict[str, tuple[int, ...] | None] = {"rows": None, "target": None}
        return parts | {name: (size,) for name, size in sizes.items() if size}

    @property
    def layout(self) -> SumLayout:
        """Where all of it lies in what sites add up: counts are of a size that is known."""
        return SumLayout([(self.shapes, True)])

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the target."""
        return () if self.target is None else self.target.labels or ()

    def contribution(
        self, description: SiteDescription, differing: Mapping[str, int]
    ) -> dict[str, FloatArray]:
        """A site's numbers, by what they are of.

        Parameters
        ----------
        description
            Of its table; a column may be empty where others have values.
        differing
            Rows of its columns of numbers that differ from the value in the middle.
        """
        rows, told = description.rows, description.numbers
        missing = dict(zip(description.names, description.missing, strict=True))
        has_values = frozenset(description.number_names)
        constants, numbering, gapless = map(
            frozenset, (told.constants, told.numbering, told.gapless)
        )
        target = description.target
        by_label = (None if target is None else target.labels) or {}
        numbers = None if target is None else target.numbers
        of_numbers = {
            "missing": [missing[name] for name in self.numbers],
            "differing": [differing.get(name, 0) for name in self.numbers],
            "varying": [name in has_values - constants for name in self.numbers],
            "repeating": [name in has_values - numbering for name in self.numbers],
            "gapped": [name in has_values - gapless for name in self.numbers],
        }
        found = {
            "rows": [rows],
            "target": [numbers is not None and numbers.constant is None],
            **of_numbers,
            "levels": [
                description.levels.get(name, {}).get(level, 0)
                for name, levels in self.levels.items()
                for level in levels
            ],
            "labels": [by_label.get(label, 0) for label in self.labels],
        }
        return {name: np.array(found[name], dtype=np.float64) for name in self.shapes}

    def is_within(self, schema: SiteSchema) -> bool:
        """Whether all of it is something that a site has described.

        Examples
        --------
        >>> bari = SiteSchema(site="Bari", names=("age",), kinds=("number",))
        >>> Countable(numbers=("age",)).is_within(bari)
        True
        >>> Countable(levels={"age": ("61",)}).is_within(bari)
        False
        """
        kinds = dict(zip(schema.names, schema.kinds, strict=True))
        labels = None if schema.target is None else schema.target.labels
        return (
            all(kinds.get(name) in ("number", "empty") for name in self.numbers)
            and all(kinds.get(name) in ("category", "empty") for name in self.levels)
            and (labels is not None or not self.labels)
        )


@dataclass(frozen=True, eq=False)
class Counts:
    """What sites' numbers add up to.

    Attributes
    ----------
    counted
        What was counted.
    sums
        By what they are of, as in `Countable.shapes`.
    """

    counted: Countable
    sums: Mapping[str, FloatArray]

    @property
    def rows(self) -> int:
        """How many rows all sites have."""
        return round(float(self.sums["rows"]))

    @property
    def labels(self) -> dict[str, int]:
        """Rows of each label."""
        return dict(zip(self.counted.labels, self._whole("labels"), strict=True))

    @property
    def has_one_target(self) -> bool:
        """Whether no site's numbers to predict differ."""
        return float(self.sums["target"]) == 0.0

    @property
    def levels(self) -> dict[str, dict[str, int]]:
        """Rows of each level of every category."""
        left = iter(self._whole("levels"))
        return {
            name: {level: next(left) for level in levels}
            for name, levels in self.counted.levels.items()
        }

    def of_numbers(self) -> dict[str, dict[str, int]]:
        """What is known of each column of numbers."""
        every = zip(*(self._whole(own) for own in OF_NUMBERS), strict=True)
        return {
            name: dict(zip(OF_NUMBERS, own, strict=True))
            for name, own in zip(self.counted.numbers, every, strict=True)
        }

    def parts(self) -> Iterator[tuple[str, FloatArray]]:
        """Each thing that is counted, with the numbers that belong to it.

        Examples
        --------
        >>> counted = Countable(levels={"ward": ("ear", "eye")})
        >>> sums = {"rows": np.array([2.0]), "target": np.zeros(1), "levels": np.array([0.0, 2.0])}
        >>> [what for what, _ in Counts(counted, sums).parts()]
        ['rows', 'target', 'level ward=ear', 'level ward=eye']
        """
        yield "rows", self.sums["rows"]
        yield "target", self.sums["target"]
        for place, name in enumerate(self.counted.numbers):
            yield f"column {name}", np.array([self.sums[own][place] for own in OF_NUMBERS])
        levels = self.counted.levels.items()
        named = [f"level {name}={level}" for name, own in levels for level in own]
        named += [f"label {label}" for label in self.counted.labels]
        every = [self.sums[own] for own in ("levels", "labels") if own in self.sums]
        numbers = (number for own in every for number in own)
        for what, number in zip(named, numbers, strict=True):
            yield what, np.array([number])

    def to_json(self) -> str:
        """All of it, to tell tables apart by."""
        sums = {name: np.atleast_1d(own).tolist() for name, own in self.sums.items()}
        return json.dumps([self.counted.model_dump(mode="json"), sums])

    def _whole(self, name: str) -> list[int]:
        own = self.sums.get(name)
        return [] if own is None else np.rint(own).astype(np.int64).tolist()


def countable(schemas: Sequence[SiteSchema], matching: Matching) -> Countable:
    """What can be counted of columns that match, and of the target.

    Examples
    --------
    >>> from fedsparse.tables.merging import match
    >>> bari = SiteSchema(site="Bari", names=("age",), kinds=("number",))
    >>> countable([bari], match([bari])).numbers
    ('age',)
    """
    kinds = list(zip(matching.names, matching.kinds, strict=True))
    return Countable(
        numbers=tuple(name for name, kind in kinds if kind == "number"),
        levels={
            name: _union([schema.levels.get(name, ()) for schema in schemas])
            for name, kind in kinds
            if kind == "category"
        },
        target=_target([own.target for own in schemas if own.target is not None]),
    )


def _target(targets: Sequence[TargetSchema]) -> TargetSchema | None:
    """The target of all sites; without labels if one has none, or if they contradict each other."""
    if not targets:
        return None
    named = [own.labels for own in targets if own.labels is not None]
    has_labels = len(named) == len(targets) and len({own.kind for own in targets}) == 1
    return TargetSchema(kind=targets[0].kind, labels=_union(named) if has_labels else None)


def _union(every: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return sorted_labels(list(dict.fromkeys(label for own in every for label in own)))


def counted_columns(
    schemas: Sequence[SiteSchema], matching: Matching, counts: Counts, fewest: int
) -> tuple[MergedColumn, ...]:
    """Columns as `fedsparse.tables.merging.merge` gives them, from sums over all sites.

    Parameters
    ----------
    schemas, matching
        What sites told, and which columns they have in common.
    counts
        What was counted.
    fewest
        A column of numbers is left out if fewer rows of all sites have a value, or differ from
        those of their site that are all the same.

    Examples
    --------
    >>> from fedsparse.tables.merging import match
    >>> bari = SiteSchema(site="Bari", names=("age",), kinds=("number",))
    >>> matching = match([bari])
    >>> five = {"missing": 0, "differing": 4, "varying": 1, "repeating": 1, "gapped": 1}
    >>> sums = {name: np.array([number]) for name, number in five.items()}
    >>> counts = Counts(countable([bari], matching), {"rows": np.array(9), **sums})
    >>> counted_columns([bari], matching, counts, fewest=5)[0].left_out
    'withheld'
    """
    numbers, levels = counts.of_numbers(), counts.levels
    columns = []
    for name, kind in zip(matching.names, matching.kinds, strict=True):
        if kind == "number":
            columns.append(_number(name, counts.rows, numbers[name], fewest))
        elif kind == "category":
            at_sites = [schema.levels.get(name, ()) for schema in schemas]
            columns.append(_category(name, counts.rows, levels[name], at_sites))
        else:
            columns.append(MergedColumn(name, kind, (ALL_SITES,), counts.rows, _one(0)))
    columns += [
        MergedColumn(name, "withheld", (ALL_SITES,), counts.rows, _one(0))
        for name in matching.withheld
    ]
    return tuple(sorted(columns, key=lambda column: column.kind == "withheld"))


def _number(name: str, rows: int, own: Mapping[str, int], fewest: int) -> MergedColumn:
    missing = _one(own["missing"])
    if 0 < rows - own["missing"] < fewest or 0 < own["differing"] < fewest:
        return MergedColumn(name, "withheld", (ALL_SITES,), rows, _one(0))
    if own["varying"] == 0:
        # Whether sites have the same value could only be known by telling it.
        return MergedColumn(name, "uniform", (ALL_SITES,), rows, missing)
    unknown = np.array([np.nan])
    numbers = MergedNumbers(
        unknown, unknown, np.array([own["repeating"] == 0]), np.array([own["gapped"] == 0])
    )
    return MergedColumn(name, "number", (ALL_SITES,), rows, missing, numbers)


def _category(
    name: str, rows: int, levels: dict[str, int], at_sites: Sequence[tuple[str, ...]]
) -> MergedColumn:
    missing = _one(rows - sum(levels.values()))
    if is_identifier(levels):
        return MergedColumn(name, "identifier", (ALL_SITES,), rows, missing)
    return MergedColumn(
        name,
        "category",
        (ALL_SITES,),
        rows,
        missing,
        levels_at=(levels,),
        is_site_mark=all(len(own) <= 1 for own in at_sites),
    )


def _one(count: int) -> Int64Array:
    return np.array([count], dtype=np.int64)
