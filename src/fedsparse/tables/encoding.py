"""One encoding for the tables of all sites: which columns, which levels, which fills."""

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.tables.columns import EncodedColumn
from fedsparse.tables.rows import encode_features, encode_labels, encode_numbers
from fedsparse.tables.values import Sheet

if TYPE_CHECKING:
    import polars as pl


class Encoding(BaseModel):
    """How tables become arrays; agreed once, used by every site and for prediction.

    Examples
    --------
    >>> import polars as pl
    >>> age = EncodedColumn(name="age", kind="number")
    >>> ward = EncodedColumn(name="ward", kind="category", levels=("ear", "eye"))
    >>> encoding = Encoding(
    ...     columns=(age, ward), target="relapse", task="classification", classes=("no", "yes")
    ... )
    >>> frame = pl.DataFrame({"ward": ["eye", "ear"], "age": [61, 47], "relapse": ["no", "yes"]})
    >>> encoding.feature_names
    ('age', 'ward=ear', 'ward=eye')
    >>> encoding.features(frame, "bari.csv")
    array([[61.,  0.,  1.],
           [47.,  1.,  0.]])
    >>> encoding.targets(frame, "bari.csv")
    array([0, 1])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: tuple[EncodedColumn, ...]
    target: str
    task: Literal["classification", "regression"]
    classes: tuple[str, ...] | None = None
    """Labels in order; None for regression."""
    kept: tuple[int, ...] = ()
    """Features that are always part of the model."""
    left_out: dict[str, tuple[str, ...]] = {}
    """Columns that are not used, by reason: identifier, date, constant, empty, withheld."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, one per column of the array."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def column_counts(self) -> dict[str, int]:
        """How many columns there are of each kind, those left out among them."""
        counts: dict[str, int] = {}
        for column in self.columns:
            counts[column.kind] = counts.get(column.kind, 0) + 1
        return counts | {reason: len(names) for reason, names in self.left_out.items()}

    def features(self, frame: "pl.DataFrame | Sheet", where: str) -> FloatArray:
        """Encode the rows of a table; columns that the encoding does not use do not matter.

        Parameters
        ----------
        frame
            A table with at least the columns of the encoding, in any order.
        where
            The file or site, for messages.

        Returns
        -------
        array of float64
            C-ordered, one row per row and one column per feature.

        Raises
        ------
        DataError
            If a column is missing, or a value is missing, not finite, or an unknown level.
        """
        return encode_features(frame, self.columns, where)

    def targets(self, frame: "pl.DataFrame | Sheet", where: str) -> AnyArray:
        """Encode the target column of a table.

        Returns
        -------
        array
            For regression float64, for classification each row's place in ``classes``.

        Raises
        ------
        DataError
            If the column or one of its values is missing, or a label is unknown.
        """
        if self.classes is None:
            return encode_numbers(frame, self.target, where)
        return encode_labels(frame, self.target, self.classes, where)
