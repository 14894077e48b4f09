"""Checks on what a user hands over as data. Errors name the client, row and column."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError

_ROWS_AT_A_TIME = 4096  # bounds the memory of the search for NaN
_WIDEST = 2**31 - 1  # clients' column lists are 32-bit


def as_features(features: Any, name: str) -> AnyArray | sparse.csr_array:
    """A 2-D float array or canonical CSR matrix; integers and half floats are converted."""
    if sparse.issparse(features):
        return _canonical(features, name)
    _refuse_masked(features, name)
    try:
        array = np.asarray(features)
    except ValueError:
        raise DataError(f"the features of {name} have rows of different length") from None
    _check_dimensions(array.ndim, name)
    if array.shape[0] == 0:
        raise DataError(f"{name} has no rows; leave it out or give it data")
    return np.ascontiguousarray(_as_float(array, name))


def _refuse_masked(values: Any, name: str) -> None:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(f"{name} has masked values; remove or fill them first")


def _check_dimensions(count: int, name: str) -> None:
    if count != 2:
        raise DataError(
            f"the features of {name} have {count} dimension(s); "
            "give a table with one row per sample"
        )


def _as_float(array: AnyArray, name: str) -> AnyArray:
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind in "mM":
        raise DataError(f"the features of {name} are dates, not numbers; convert them first")
    if array.dtype.kind == "c":
        raise DataError(f"the features of {name} are complex; give real numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"the features of {name} contain values that are not numbers; "
            "encode text columns as numbers first"
        ) from None


def _canonical(features: Any, name: str) -> sparse.csr_array:
    """CSR with sorted indices and no duplicates, leaving the caller's matrix as it was."""
    _check_dimensions(features.ndim, name)
    if features.shape[0] == 0:
        raise DataError(f"{name} has no rows; leave it out or give it data")
    if features.shape[1] > _WIDEST:
        raise DataError(f"{name} has {features.shape[1]} columns, more than {_WIDEST}")
    matrix = sparse.csr_array(features)
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"the sparse features of {name} are malformed: {error}") from None
    matrix = sparse.csr_array(
        (_as_float(matrix.data, name), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def as_targets(targets: ArrayLike, rows: int, name: str, what: str = "targets") -> AnyArray:
    """A 1-D array with one entry per row and none missing."""
    _refuse_masked(targets, name)
    array = np.asarray(targets)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.shape[0] != rows:
        raise DataError(
            f"{name} has {rows} rows of features and {what} of shape {array.shape}; "
            "give one entry per row"
        )
    if array.dtype.kind != "O":
        return array
    _refuse_missing([value is None or value != value for value in array], name, what)
    return np.array(array.tolist())


def as_site_labels(sites: ArrayLike, rows: int) -> AnyArray:
    """One label per row of a table, none missing."""
    labels = as_targets(sites, rows, "the table", "site labels")
    if labels.dtype.kind == "f":
        _refuse_missing(np.isnan(labels), "the table", "site labels")
    return labels


def as_row_weights(weights: ArrayLike, rows: int) -> FloatArray:
    """One number ≥ 0 per row of a table, not all of them 0."""
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("row weights must be numbers ≥ 0") from None
    if numbers.shape != (rows,):
        raise DataError(
            f"there are {rows} rows and row weights of shape {numbers.shape}; give one per row"
        )
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if wrong.size:
        raise DataError(
            f"the table, row {wrong[0]}: the row's weight is {numbers[wrong[0]]}; give a number ≥ 0"
        )
    if not numbers.any():
        raise DataError("all rows have weight 0; give at least one a weight > 0")
    return numbers


def _refuse_missing(is_missing: ArrayLike, name: str, what: str) -> None:
    rows = np.flatnonzero(is_missing)
    if rows.size:
        raise DataError(
            f"{name}, row {rows[0]}: one of the {what} is missing; remove or fill the row"
        )


def check_label_kinds(names: Sequence[str], targets: Sequence[AnyArray]) -> None:
    """Numbers at one client and text at another would count as different labels."""
    first_is_text = targets[0].dtype.kind in "US"
    for name, own in zip(names, targets, strict=True):
        if (own.dtype.kind in "US") != first_is_text:
            raise DataError(
                f"the targets of {name} and {names[0]} are of different kinds, text and numbers; "
                "use one kind"
            )


def check_widths(names: Sequence[str], widths: Sequence[int]) -> None:
    """All clients must have the same number of columns."""
    usual = max(set(widths), key=widths.count)
    for name, width in zip(names, widths, strict=True):
        if width != usual:
            raise DataError(
                f"{name} has {width} columns, the others have {usual}; "
                "check its table for a missing or extra feature"
            )
    if usual == 0:
        raise DataError("the clients have no columns; give at least one feature")


def check_finite(
    features: AnyArray | sparse.csr_array,
    targets: AnyArray,
    owner_of: Callable[[int], tuple[str, int]],
    *,
    has_holes: bool = False,
) -> None:
    """No NaN or infinity in features or targets; ``owner_of`` tells whose a row is.

    With holes, NaN stands for a missing feature.
    """
    found = None if has_holes else _first_not_finite(features)
    if found is not None:
        row, column, value = found
        name, own_row = owner_of(row)
        raise DataError(
            f"{name}, row {own_row}, column {column} is {value}; remove or fill such values first"
        )
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        name, own_row = owner_of(row)
        raise DataError(
            f"{name}, row {own_row}: the target is {targets[row]}; remove or fill it first"
        )


def _first_not_finite(
    features: AnyArray | sparse.csr_array,
) -> tuple[int, int, float] | None:
    if isinstance(features, sparse.csr_array):
        bad = np.flatnonzero(~np.isfinite(features.data))
        if bad.size == 0:
            return None
        row = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1
        return row, int(features.indices[bad[0]]), float(features.data[bad[0]])
    for begin in range(0, features.shape[0], _ROWS_AT_A_TIME):
        part = features[begin : begin + _ROWS_AT_A_TIME]
        finite = np.isfinite(part)
        if not finite.all():
            row, column = (int(index) for index in np.argwhere(~finite)[0])
            return begin + row, column, float(part[row, column])
    return None
