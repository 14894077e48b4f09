"""Answers as bytes: one client's at a time, put together again where they arrive.

Numbers are written in hexadecimal, so that every float64 arrives bit for bit; vectors are parts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compute.asked_entries import EntriesShape
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack, flatten
from fedsparse.requests import Fields, Request
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.matrix_bytes import matrices_from_bytes, matrices_to_bytes
from fedsparse.requests.wire.vectors import WireError

_DENSE, _SPARSE, _CHANGE, _ROUNDED = "dense", "sparse", "change", "rounded"


def encode_answer(answer: Fields) -> bytes:
    """Write the answer of one client.

    Examples
    --------
    >>> message = encode_answer({"objective": np.array([0.1])})
    >>> from fedsparse.requests import Evaluate
    >>> decode_answer(message, Evaluate(np.zeros(3)), shape=(3,))
    {'objective': array([0.1])}
    """
    numbers: dict[str, str] = {}
    vectors: dict[str, dict[str, str]] = {}
    parts: list[bytes] = []
    for name, field in answer.items():
        if isinstance(field, Stack):
            form, part = _stack_to_bytes(field)
            vectors[name] = form
            parts.append(part)
        else:
            (number,) = field
            numbers[name] = float(number).hex()
    return packed({"numbers": numbers, "vectors": vectors}, parts)


def decode_answer(message: bytes, request: Request, shape: tuple[int, ...]) -> Fields:
    """Read the answer of one client.

    Parameters
    ----------
    message
        Anything that came over the wire.
    request
        What was asked.
    shape
        Shape of the coefficients, (d,) or (d, c).

    Raises
    ------
    WireError
        If the message is malformed or is no answer to the request.
    """
    header, parts = unpacked(message)
    numbers, vectors = header.get("numbers"), header.get("vectors")
    if not isinstance(numbers, dict) or not isinstance(vectors, dict):
        raise WireError("The header does not say which fields there are.")
    expected = request.answer_shapes(shape)
    given = {name: name in vectors for name in (*numbers, *vectors)}
    if given != {name: own is not None for name, own in expected.items()}:
        raise WireError(
            f"The answer has the fields {', '.join(sorted(given)) or 'none'} instead of "
            f"{', '.join(sorted(expected))}."
        )
    if len(vectors) != len(parts):
        raise WireError("There are not as many vectors as the header says.")
    base = getattr(request, "x", None)
    answer: dict[str, Stack | FloatArray] = {
        name: _number(text, name) for name, text in numbers.items()
    }
    for (name, form), part in zip(vectors.items(), parts, strict=True):
        own = expected[name]
        assert own is not None
        answer[name] = _stack_from_bytes(form, part, own, base)
    return {name: answer[name] for name in expected}


def stack_answers(answers: Sequence[Fields]) -> Fields:
    """Put the answers of several clients together, in their order.

    Examples
    --------
    >>> stack_answers([{"objective": np.array([1.0])}, {"objective": np.array([2.0])}])
    {'objective': array([1., 2.])}
    """
    joined: dict[str, Stack | FloatArray] = {}
    for name in answers[0]:
        own = [answer[name] for answer in answers]
        stacks = [field for field in own if isinstance(field, Stack)]
        joined[name] = (
            _stacked(stacks) if stacks else np.concatenate([np.asarray(field) for field in own])
        )
    return joined


def _stack_to_bytes(stack: Stack) -> tuple[dict[str, str], bytes]:
    if isinstance(stack, RoundedStack):
        (matrices,) = stack.written
        return {"form": _ROUNDED}, matrices_to_bytes(matrices, stack.shape.blocks)
    if isinstance(stack, DenseStack):
        (row,) = stack.rows
        return {"form": _DENSE}, wire.encode(row)
    assert isinstance(stack, SparseStack)
    assert stack.pointer.size == 2, "the answer is that of one client"
    part = wire.encode_sparse(stack.indices, stack.values, math.prod(stack.shape))
    if stack.base is None:
        return {"form": _SPARSE}, part
    return {"form": _CHANGE, "factor": float(stack.factor).hex()}, part


def _stack_from_bytes(
    form: Any, part: bytes, shape: tuple[int, ...], base: FloatArray | None
) -> Stack:
    length = math.prod(shape)
    if isinstance(shape, EntriesShape):
        if form != {"form": _ROUNDED}:
            raise WireError("A matrix is not rounded.")
        return RoundedStack(shape, [matrices_from_bytes(part, shape.blocks)])
    if form == {"form": _DENSE}:
        return DenseStack(wire.decode(part, length)[None, :], shape)
    entries = wire.decode_sparse(part, length)
    own = (np.array([0, entries.indices.size]), entries.indices, entries.values, shape)
    if form == {"form": _SPARSE}:
        return SparseStack(*own)
    is_change = isinstance(form, Mapping) and form.keys() == {"form", "factor"}
    if not is_change or form["form"] != _CHANGE or base is None or base.shape != shape:
        raise WireError("A vector is of an unknown form.")
    return SparseStack(*own, base=base, factor=float(_number(form["factor"], "factor")[0]))


def _number(text: Any, name: str) -> FloatArray:
    try:
        return np.array([float.fromhex(text)])
    except (TypeError, ValueError, OverflowError):
        raise WireError(f"The field {name} is not a number.") from None


def _stacked(stacks: list[Stack]) -> Stack:
    """One stack: sparse if all are and share their base, else dense."""
    short = [stack for stack in stacks if isinstance(stack, RoundedStack)]
    if short:
        return RoundedStack(short[0].shape, [client for own in short for client in own.clients])
    sparse = [stack for stack in stacks if isinstance(stack, SparseStack)]
    if len(sparse) < len(stacks) or len({(id(own.base), own.factor) for own in sparse}) > 1:
        rows = [flatten(vector) for stack in stacks for vector in stack.each()]
        return DenseStack(np.stack(rows), stacks[0].shape)
    pointer = np.concatenate([[0], np.cumsum([own.values.size for own in sparse])])
    return SparseStack(
        pointer.astype(np.int64),
        np.concatenate([own.indices for own in sparse]),
        np.concatenate([own.values for own in sparse]),
        sparse[0].shape,
        sparse[0].base,
        sparse[0].factor,
    )
