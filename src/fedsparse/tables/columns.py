"""A column as all sites encode it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class EncodedColumn(BaseModel):
    """A column of a table, and the features it becomes.

    Examples
    --------
    >>> EncodedColumn(name="ward", kind="category", levels=("ear", "eye")).feature_names
    ('ward=ear', 'ward=eye')
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    kind: Literal["number", "category"]
    levels: tuple[str, ...] = ()
    """Of a category, in order; each is a feature that is 1 in its rows and 0 in others."""
    fill: tuple[float, ...] | None = None
    """One per feature: what stands for a missing value. None: a missing value is refused."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Such as ``age``, or ``ward=ear`` for a level."""
        if self.kind == "number":
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in self.levels)
