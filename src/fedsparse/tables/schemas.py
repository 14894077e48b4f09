"""What a site says about its table where nobody is to know its counts: names and kinds alone."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsparse.tables.describing import DescriptionPart, NumberedFeatures, SiteDescription
from fedsparse.tables.values import Kind, sorted_labels

ALL_SITES = "all sites"
"""Stands for a site where what is told is known of all of them together."""


class TargetSchema(DescriptionPart):
    """What the target of a site is."""

    kind: Literal["number", "label", "time"]
    labels: tuple[str, ...] | None = None
    """Which there are, in order; of a number only if it may stand for classes, of a time how it
    may end."""


class SiteSchema(DescriptionPart):
    """What a site tells of its table under secure sums; how many rows have what is counted later.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> from fedsparse.tables.inputs import Roles
    >>> frame = pl.DataFrame({"age": [61, 47], "ward": ["eye", "ear"], "relapse": [1, 0]})
    >>> schema = SiteSchema.of(describe(frame, "Bari", Roles(target="relapse")))
    >>> schema.names, schema.levels, schema.target.labels
    (('age', 'ward'), {'ward': ('ear', 'eye')}, ('0', '1'))
    """

    site: Annotated[str, Field(min_length=1)]
    names: tuple[str, ...] = ()
    """Candidate features in the order of the table, those withheld left out."""
    kinds: tuple[Kind, ...] = ()
    """One for each name."""
    levels: dict[str, tuple[str, ...]] = Field(default={})
    """Of each category, in order: how often they are would order them, too."""
    withheld: tuple[str, ...] = ()
    """Columns of which the site may tell nothing but the name."""
    dropped: tuple[str, ...] = ()
    """Columns that the roles drop and the table has."""
    target: TargetSchema | None = None
    numbered: NumberedFeatures | None = None
    """In place of columns, if they have no names."""

    @model_validator(mode="after")
    def _matches(self) -> Self:
        """Schemas come over networks."""
        if len(self.names) != len(self.kinds):
            raise ValueError("what is told is not of the same columns")
        if len({*self.names, *self.withheld}) < len(self.names) + len(self.withheld):
            raise ValueError("a column is described twice")
        told = zip(self.names, self.kinds, strict=True)
        if {name for name, kind in told if kind == "category"} != self.levels.keys():
            raise ValueError("categories are described in contradictions")
        return self

    @classmethod
    def of(cls, description: SiteDescription) -> "SiteSchema":
        """A description without its numbers."""
        own = description.target
        target = None
        if own is not None:
            labels = None if own.labels is None else sorted_labels(list(own.labels))
            target = TargetSchema(kind=own.kind, labels=labels)
        return cls(
            site=description.site,
            names=description.names,
            kinds=description.kinds,
            levels={
                name: sorted_labels(list(levels)) for name, levels in description.levels.items()
            },
            withheld=description.withheld,
            dropped=description.dropped,
            target=target,
            numbered=description.numbered,
        )


Outline = SiteDescription | SiteSchema
"""Names and kinds, with counts or without."""
