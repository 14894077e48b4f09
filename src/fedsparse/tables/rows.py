"""Rows of a table as arrays, strictly: what cannot be encoded is refused by column and row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.errors import DataError
from fedsparse.tables.cells import LARGEST, number_fault
from fedsparse.tables.columns import EncodedColumn
from fedsparse.tables.sentences import ROW_COUNT, listed, nearest, shown
from fedsparse.tables.values import Sheet, labels, number_matrix, number_names

if TYPE_CHECKING:
    import polars as pl

_FEATURE_ADVICE = "fill it, or learn the model with --impute mean"
_TARGET_ADVICE = "fill it or remove the row"


def encode_features(
    frame: "pl.DataFrame | Sheet", columns: Sequence[EncodedColumn], where: str
) -> FloatArray:
    """Numbers as they are, each level of a category as an indicator; see `Encoding.features`."""
    _check_present(frame, [column.name for column in columns], where)
    widths = [1 if column.kind == "number" else len(column.levels) for column in columns]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    numeric = [place for place, column in enumerate(columns) if column.kind == "number"]
    numbers = _filled_numbers(frame, [columns[place] for place in numeric], where)
    if len(numeric) == len(columns):
        return numbers
    features = np.zeros((frame.height, int(starts[-1])))
    features[:, starts[numeric]] = numbers
    for place, column in enumerate(columns):
        if column.kind == "category":
            block = features[:, starts[place] : starts[place + 1]]
            _write_indicators(block, frame.get_column(column.name), column, where)
    return features


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
    frame: "pl.DataFrame | Sheet", columns: list[EncodedColumn], where: str
) -> FloatArray:
    numbers = _numbers(frame, [column.name for column in columns], where)
    is_missing = np.isnan(numbers)
    if not is_missing.any():
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
    block: FloatArray, series: "pl.Series", column: EncodedColumn, where: str
) -> None:
    codes, is_missing = _codes(series, column.levels, where)
    present = np.flatnonzero(~is_missing)
    block[present, codes[present]] = 1.0
    if column.fill is None:
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
