"""One encoding for the tables of all sites: which columns, which levels, which fills.

Rows become arrays strictly: what cannot be encoded is refused by column and row.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int64Array
from fedsparse.errors import DataError
from fedsparse.tables.cells import LARGEST, LearntTask, number_fault
from fedsparse.tables.inputs import Roles
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.outcomes import has_event, outcome_faults, signed
from fedsparse.tables.sentences import (
    ROW_COUNT,
    Finding,
    counted,
    error,
    joined,
    listed,
    nearest,
    note,
    shown,
)
from fedsparse.tables.values import Sheet, labels, number_matrix, number_names

if TYPE_CHECKING:
    import polars as pl

Impute = Literal["mean"] | None

_WORST_SHOWN = 10
_WITHHELD_SHOWN = 2
REASONS = {
    "unnamed": "without a name, as row names are",
    "identifier": "text in which nearly all values differ",
    "date": "dates",
    "constant": "the same in every row",
    "uniform": "the same in all rows of each site",
    "empty": "no values",
    "withheld": "a site may not tell some of its values",
}
"""Why columns are left out, in words."""
_ADVICE = {
    "identifier": "; --category COLUMN uses one all the same",
    "date": "; to use one, turn it into a number, such as days since a day",
}

_FEATURE_ADVICE = "fill it, or learn the model with --impute mean"
_TARGET_ADVICE = "fill it or remove the row"


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
    """Of survival the time."""
    event: str | None = None
    """Of survival: whether something happened at that time."""
    exposure: str | None = None
    """Of counts: for how long, or of how many; None: of all rows the same."""
    task: LearntTask
    classes: tuple[str, ...] | None = None
    """Labels in order; None where there are none."""
    kept: tuple[int, ...] = ()
    """Features that are always part of the model."""
    impute: Impute = None
    """``"mean"``: missing values become NaN, which a fit fills with means of its training rows."""
    left_out: dict[str, tuple[str, ...]] = {}
    """Columns that are not used, by reason; see `REASONS`."""
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
            C-ordered, one row per row and one column per feature; NaN where a value is missing and
            nothing stands for it, if the encoding leaves that to the fit.

        Raises
        ------
        DataError
            If a column is missing, or a value is missing, not finite, or an unknown level.
        """
        return encode_features(frame, self.columns, where, leaves_holes=self.impute is not None)

    def targets(self, frame: "pl.DataFrame | Sheet", where: str) -> AnyArray:
        """Encode the target column of a table.

        Returns
        -------
        array
            For classification each row's place in ``classes``, else float64: numbers, counts over
            exposures, or times that are below 0 if they are censored.

        Raises
        ------
        DataError
            If a column or one of its values is missing or cannot be used, or a label is unknown.
        """
        if self.classes is not None:
            return encode_labels(frame, self.target, self.classes, where)
        return encode_outcome(frame, self.outcome, self.task, where)

    def row_weights(self, frame: "pl.DataFrame | Sheet", where: str) -> FloatArray | None:
        """How much each row of a table counts: its exposure; None if they all count the same.

        Examples
        --------
        >>> import polars as pl
        >>> encoding = Encoding(columns=(), target="falls", exposure="days", task="counts")
        >>> frame = pl.DataFrame({"falls": [1, 3], "days": [10, 60]})
        >>> encoding.targets(frame, "bari.csv").tolist(), encoding.row_weights(frame, "bari.csv")
        ([0.1, 0.05], array([10., 60.]))
        """
        return None if self.exposure is None else encode_numbers(frame, self.exposure, where)

    @property
    def outcome(self) -> Roles:
        """The columns of the outcome."""
        return Roles(target=self.target, event=self.event, exposure=self.exposure)


def column_findings(columns: Sequence[MergedColumn], roles: Roles, impute: Impute) -> list[Finding]:
    """Columns to keep that cannot be used, missing values, and columns that are left out.

    Examples
    --------
    >>> import numpy as np
    >>> columns = [MergedColumn("admitted", "date", ("Bari",), 9, np.array([0]))]
    >>> print(column_findings(columns, Roles(target="relapse"), None)[0].sentence)
    left out (dates): "admitted"; to use one, turn it into a number, such as days since a day
    """
    used = [column for column in columns if column.left_out is None]
    return [
        *_keep_findings(columns, roles),
        *_missing_findings(used, impute),
        *_left_out_findings(columns),
    ]


def left_out(columns: Sequence[MergedColumn]) -> dict[str, tuple[str, ...]]:
    """Names of the columns that are no features, by reason.

    Examples
    --------
    >>> left_out([])
    {}
    """
    by_reason = {
        reason: tuple(column.name for column in columns if column.left_out == reason)
        for reason in REASONS
    }
    return {reason: names for reason, names in by_reason.items() if names}


def name_findings(used: Sequence[MergedColumn]) -> list[Finding]:
    """An error if there is no feature, or two of the same name.

    Examples
    --------
    >>> name_findings([])[0].severity
    'error'
    """
    if not used:
        return [error("no column is left to learn from; give the tables at least one feature")]
    seen: set[str] = set()
    for column in used:
        for name in encoded(column).feature_names:
            if name in seen:
                return [error(f'two features would be called "{name}"; rename a column', name)]
            seen.add(name)
    return []


def encoded(column: MergedColumn) -> EncodedColumn:
    """The column as all sites encode it.

    Examples
    --------
    >>> import numpy as np
    >>> encoded(MergedColumn("age", "number", ("Bari",), 9, np.array([0])))
    EncodedColumn(name='age', kind='number', levels=(), fill=None)
    """
    kind: Literal["number", "category"] = "number" if column.kind == "number" else "category"
    return EncodedColumn(name=column.name, kind=kind, levels=column.levels)


def _keep_findings(columns: Sequence[MergedColumn], roles: Roles) -> list[Finding]:
    return [
        error(
            f'column "{column.name}" cannot be kept (--keep) because it is left out '
            f"({REASONS[column.left_out]}); do not ask for it",
            column.name,
        )
        for column in columns
        if column.name in roles.keep and column.left_out is not None
    ]


def _missing_findings(used: Sequence[MergedColumn], impute: Impute) -> list[Finding]:
    lacking = sorted((column for column in used if column.missing), key=lambda c: -c.missing)
    if not lacking:
        return []
    total = counted(sum(column.missing for column in lacking), "value")
    is_or_are = "is" if total == "1 value" else "are"
    if impute == "mean":
        filled = f"{total} of {counted(len(lacking), 'column')} {is_or_are} missing"
        return [note(f"{filled} and filled with means and shares of training rows")]
    worst = [_missing_text(column) for column in lacking[:_WORST_SHOWN]]
    others = len(lacking) - len(worst)
    worst += [counted(others, "more column")] if others else []
    return [
        error(
            f"{total} {is_or_are} missing: {joined(worst)}; fill or remove them, "
            "drop the columns with --drop, or fill means with --impute mean"
        )
    ]


def _missing_text(column: MergedColumn) -> str:
    if len(column.sites) == 1:
        return f'"{column.name}" {column.missing:,}'
    sites = [f"{site} {count:,}" for site, count in column.missing_by_site[:3]]
    others = len(column.missing_by_site) - len(sites)
    sites += [counted(others, "more site")] if others else []
    return f'"{column.name}" {column.missing:,} ({joined(sites)})'


def _left_out_findings(columns: Sequence[MergedColumn]) -> list[Finding]:
    return [
        note(f"left out ({REASONS[reason]}): {_left_out_text(reason, names)}")
        for reason, names in left_out(columns).items()
    ]


def _left_out_text(reason: str, names: Sequence[str]) -> str:
    if reason == "unnamed":
        return "1 column; give it a name to use it"
    if reason != "withheld":
        return listed(names) + _ADVICE.get(reason, "")
    among = "among them " if len(names) > _WITHHELD_SHOWN else ""  # there may be thousands
    return f"{counted(len(names), 'column')}, {among}{listed(names[:_WITHHELD_SHOWN])}"


def encode_features(
    frame: "pl.DataFrame | Sheet",
    columns: Sequence[EncodedColumn],
    where: str,
    *,
    leaves_holes: bool = False,
) -> FloatArray:
    """Numbers as they are, each level of a category as an indicator; see `Encoding.features`."""
    _check_present(frame, [column.name for column in columns], where)
    widths = [1 if column.kind == "number" else len(column.levels) for column in columns]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    numeric = [place for place, column in enumerate(columns) if column.kind == "number"]
    numbers = _filled_numbers(
        frame, [columns[place] for place in numeric], where, leaves_holes=leaves_holes
    )
    if len(numeric) == len(columns):
        return numbers
    features = np.zeros((frame.height, int(starts[-1])))
    features[:, starts[numeric]] = numbers
    for place, column in enumerate(columns):
        if column.kind == "category":
            block = features[:, starts[place] : starts[place + 1]]
            series = frame.get_column(column.name)
            _write_indicators(block, series, column, where, leaves_holes=leaves_holes)
    return features


def encode_outcome(
    frame: "pl.DataFrame | Sheet", outcome: Roles, task: str, where: str
) -> FloatArray:
    """Numbers, rates or signed times of rows without classes; see `Encoding.targets`.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"months": [7, 9], "died": ["yes", "no"]})
    >>> roles = Roles(target="months", event="died")
    >>> encode_outcome(frame, roles, "survival", "bari.csv").tolist()
    [7.0, -9.0]
    """
    assert outcome.target is not None
    numbers = encode_numbers(frame, outcome.target, where)
    _check_present(frame, list(outcome.outcome.values()), where)
    for _, fault in outcome_faults(frame, outcome, task):
        raise DataError(f"{where}: {fault}")
    if outcome.exposure is not None:
        return numbers / encode_numbers(frame, outcome.exposure, where)
    if outcome.event is None:
        return numbers
    events = has_event(frame.get_column(outcome.event))
    _refuse_missing(np.isnan(events), outcome.event, where, _TARGET_ADVICE)
    return signed(numbers, events)


def encode_numbers(frame: "pl.DataFrame | Sheet", name: str, where: str) -> FloatArray:
    """A column of numbers none of which may be missing; see `Encoding.targets`."""
    _check_present(frame, [name], where)
    numbers = _numbers(frame, [name], where)[:, 0]
    _refuse_missing(np.isnan(numbers), name, where, _TARGET_ADVICE)
    return numbers


def encode_labels(
    frame: "pl.DataFrame | Sheet", name: str, classes: tuple[str, ...], where: str
) -> Int64Array:
    """The place of each label among the classes; see `Encoding.targets`."""
    _check_present(frame, [name], where)
    codes, is_missing = _codes(frame.get_column(name), classes, where)
    _refuse_missing(is_missing, name, where, _TARGET_ADVICE)
    return codes


def _check_present(frame: "pl.DataFrame | Sheet", names: list[str], where: str) -> None:
    present = set(frame.columns)
    absent = [name for name in names if name not in present]
    if not absent:
        return
    near = nearest(absent[0], present)
    hint = f' ("{near}" is there)' if near is not None else ""
    raise DataError(f"{where} has no column {listed(absent)}{hint}; add what is missing or rename")


def _filled_numbers(
    frame: "pl.DataFrame | Sheet",
    columns: list[EncodedColumn],
    where: str,
    *,
    leaves_holes: bool,
) -> FloatArray:
    numbers = _numbers(frame, [column.name for column in columns], where)
    is_missing = np.isnan(numbers)
    if leaves_holes or not is_missing.any():
        return numbers
    numbers = numbers.copy()
    for place in np.flatnonzero(is_missing.any(axis=0)):
        column = columns[place]
        if column.fill is None:
            _refuse_missing(is_missing[:, place], column.name, where, _FEATURE_ADVICE)
        else:
            numbers[is_missing[:, place], place] = column.fill[0]
    return numbers


def _numbers(frame: "pl.DataFrame | Sheet", names: list[str], where: str) -> FloatArray:
    numeric = frozenset(number_names(frame))
    for name in names:
        fault = None if name in numeric else number_fault(frame.get_column(name))
        if fault is not None:
            raise DataError(f"{where}: {fault}; mend it")
    numbers = number_matrix(frame, names)
    is_large = np.abs(numbers) > LARGEST
    if is_large.any():
        row, place = (int(index) for index in np.argwhere(is_large)[0])
        raise DataError(
            f'{where}: column "{names[place]}", row {row + 1} ({ROW_COUNT}) is '
            f"{numbers[row, place]:g}; mend it"
        )
    return numbers


def _write_indicators(
    block: FloatArray,
    series: "pl.Series",
    column: EncodedColumn,
    where: str,
    *,
    leaves_holes: bool,
) -> None:
    codes, is_missing = _codes(series, column.levels, where)
    present = np.flatnonzero(~is_missing)
    block[present, codes[present]] = 1.0
    if leaves_holes:
        block[is_missing] = np.nan
    elif column.fill is None:
        _refuse_missing(is_missing, column.name, where, _FEATURE_ADVICE)
    else:
        block[is_missing] = column.fill


def _codes(
    series: "pl.Series", levels: tuple[str, ...], where: str
) -> tuple[Int64Array, BoolArray]:
    """The place of each label among the levels, and which labels are missing."""
    import polars as pl

    # Tables of text are clean when read: the detour over labels is for others.
    text = series if series.dtype == pl.String else labels(series)
    codes = text.cast(pl.Enum(levels), strict=False)
    if codes.null_count() > text.null_count():
        text = labels(text)
        codes = text.cast(pl.Enum(levels), strict=False)
    places = codes.to_physical().to_numpy().astype(np.float64)  # NaN where there is no level
    has_none = np.isnan(places)
    if codes.null_count() > text.null_count():
        row = int(np.argmax(has_none & text.is_not_null().to_numpy()))
        raise DataError(
            f'{where}: column "{series.name}", row {row + 1} ({ROW_COUNT}) is {shown(text[row])}; '
            f"known are {listed(levels)}"
        )
    return np.where(has_none, 0.0, places).astype(np.int64), has_none


def _refuse_missing(is_missing: BoolArray, name: str, where: str, advice: str) -> None:
    rows = np.flatnonzero(is_missing)
    if rows.size:
        raise DataError(
            f'{where}: column "{name}", row {rows[0] + 1} ({ROW_COUNT}) is missing; {advice}'
        )
