"""Requests as bytes.

The header names the request and holds its numbers; the parts are its vectors. A new request
travels once it is listed in `REQUESTS`, as long as its fields are of the kinds known here.
"""

import math
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.compute.stacks import flatten, unflatten
from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import Sparsity
from fedsparse.requests import (
    ClassCurvature,
    ColumnSquares,
    ColumnSums,
    CorrectedSteps,
    Curvature,
    Evaluate,
    Gradient,
    Judge,
    JudgeCounts,
    JudgeSurvival,
    LocalSteps,
    NoBetterThanNull,
    Request,
    ScoreCounts,
    SharedCurvature,
    ShiftedLasso,
    Slopes,
    Smoothness,
    SmoothnessAbove,
    SurvivalCounts,
    SurvivalMoments,
)
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.constraint_json import constraint_from_json, constraint_to_json
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.vectors import WireError

REQUESTS: dict[str, type[Request]] = {
    request.__name__: request
    for request in (
        ColumnSums,
        ColumnSquares,
        Smoothness,
        SmoothnessAbove,
        Evaluate,
        Judge,
        ScoreCounts,
        JudgeCounts,
        JudgeSurvival,
        SurvivalMoments,
        SurvivalCounts,
        NoBetterThanNull,
        Gradient,
        Slopes,
        Curvature,
        ClassCurvature,
        SharedCurvature,
        ShiftedLasso,
        LocalSteps,
        CorrectedSteps,
    )
}

_Kind = TypeVar("_Kind", bound=type[Request])


def travels(request: _Kind) -> _Kind:
    """Have a request travel to sites; a decorator for those of the layers above."""
    REQUESTS[request.__name__] = request
    return request


_VECTORS = (FloatArray, FloatArray | None, Int64Array)
_LARGEST = 2**63


def encode_request(request: Request) -> bytes:
    """Write a request.

    Examples
    --------
    >>> request = Evaluate(np.array([0.0, 2.5]))
    >>> decode_request(encode_request(request), shape=(2,))
    Evaluate(x=array([0. , 2.5]), is_penalized=True)
    """
    name = type(request).__name__
    if REQUESTS.get(name) is not type(request):
        raise OptionError(
            f"{name} cannot be sent to sites; use an algorithm whose requests are among "
            f"{', '.join(REQUESTS)}"
        )
    numbers: dict[str, Any] = {}
    vectors: dict[str, AnyArray] = {}
    same: dict[str, str] = {}
    for field in fields(request):
        value = getattr(request, field.name)
        twin = next((other for other, vector in vectors.items() if vector is value), None)
        if twin is not None:
            same[field.name] = twin
        elif isinstance(value, np.ndarray):
            vectors[field.name] = value
        else:
            numbers[field.name] = _number_to_json(value, _kinds(type(request))[field.name])
    header: dict[str, Any] = {"request": name, "numbers": numbers, "vectors": list(vectors)}
    if same:
        header["same"] = same
    width = max((vector.size for vector in vectors.values()), default=0)
    return packed(header, [_vector_to_bytes(vector, width) for vector in vectors.values()])


def decode_request(message: bytes, shape: tuple[int, ...]) -> Request:
    """Read a request.

    Parameters
    ----------
    message
        Anything that came over the wire.
    shape
        Shape of the coefficients the receiver expects, (d,) or (d, c).

    Raises
    ------
    WireError
        If the message is malformed or its vectors have another shape.
    """
    header, parts = unpacked(message)
    name = header.get("request")
    if not isinstance(name, str) or name not in REQUESTS:
        raise WireError("The request is of an unknown kind.")
    kinds = _kinds(REQUESTS[name])
    vectors, numbers = header.get("vectors"), header.get("numbers")
    same = header.get("same", {})
    if not (_is_list_of_names(vectors) and isinstance(numbers, dict) and isinstance(same, dict)):
        raise WireError("The header does not say which fields there are.")
    assert isinstance(vectors, list)
    if len(vectors) != len(parts):
        raise WireError("There are not as many vectors as the header says.")
    if sorted([*vectors, *numbers, *same]) != sorted(kinds):
        raise WireError(f"The fields are not those of {name}.")
    rows = REQUESTS[name].like_a_row
    values: dict[str, Any] = {
        field: _vector_from_bytes(part, kinds[field], shape[:1] if field in rows else shape)
        for field, part in zip(vectors, parts, strict=True)
    }
    for field, twin in same.items():
        if not isinstance(twin, str) or twin not in vectors or kinds[field] not in _VECTORS:
            raise WireError(f"The field {field} is said to be another that is not there.")
        values[field] = values[twin]
    for field, number in numbers.items():
        values[field] = _number_from_json(number, kinds[field], field)
    return REQUESTS[name](**values)


@cache
def _kinds(request: type[Request]) -> dict[str, Any]:
    hints = get_type_hints(request)
    return {field.name: hints[field.name] for field in fields(request)}


def _number_to_json(value: Any, kind: Any) -> Any:
    if isinstance(value, Sparsity):
        return constraint_to_json(value)
    if value is None or isinstance(value, (bool, np.bool_)):
        return None if value is None else bool(value)
    return float(value) if kind in (float, float | None) else int(value)


def _number_from_json(value: Any, kind: Any, field: str) -> Any:
    if value is None and kind in (int | None, float | None, Sparsity | None, FloatArray | None):
        return None
    if kind == Sparsity | None:
        return constraint_from_json(value)
    if kind is bool and isinstance(value, bool):
        return value
    if kind in (float, float | None) and type(value) in (int, float) and _is_finite(value):
        return float(value)
    if kind in (int, int | None) and type(value) is int and 0 <= value < _LARGEST:
        return value
    raise WireError(f"The field {field} does not hold what it should.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _vector_to_bytes(vector: AnyArray, width: int) -> bytes:
    if vector.dtype.kind == "f":
        return wire.encode(flatten(vector))
    return wire.encode_sparse(vector, np.ones(vector.size), width)  # a set of features


def _vector_from_bytes(part: bytes, kind: Any, shape: tuple[int, ...]) -> FloatArray | Int64Array:
    if kind == Int64Array:
        return wire.decode_sparse(part, math.prod(shape)).indices
    if kind not in _VECTORS:
        raise WireError("A number was sent as a vector.")
    return unflatten(wire.decode(part, math.prod(shape)), shape)


def _is_list_of_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
