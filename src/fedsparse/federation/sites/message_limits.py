"""How much a message may ask of a site: a few bytes must not take all memory, or days."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedsparse.compute.triangles import triangle_size
from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine
from fedsparse.requests import ColumnSums, Curvature, LocalSteps, Request
from fedsparse.requests.wire.vectors import WireError

MOST_NUMBERS = 2**26
"""Coefficients that the requests of a message may hold, or its lenses, 512 MiB of them."""
MOST_ANSWERED = 2**25
"""Numbers in the answers to a message; one that asks for more is cut by an honest server."""
MOST_CELLS = 2**28
"""Of encoded rows, 2 GiB, unless the table itself is that large."""
_MOST_LENSES = 4096
_MOST_VECTORS = 4
"""Of coefficients, in the answer to a request that is asked alone, however long they are."""
_MOST_WALKS = 50
"""So many times the local steps of a request may be asked for in one message."""


def check_cells(agreed: Mapping[str, Any], rows: int) -> None:
    """Refuse an encoding with so many levels that rows would take all memory.

    Examples
    --------
    >>> check_cells({"columns": [{"name": "ward", "levels": ["a"] * 99}]}, rows=10**7)
    Traceback (most recent call last):
        ...
    fedsparse.requests.wire.vectors.WireError: The encoding has 99 columns, most of them levels; \
use fewer.
    """
    columns = agreed.get("columns") or ()
    width = sum(max(len(column.get("levels") or ()), 1) for column in columns)
    if rows * width > MOST_CELLS and width > 2 * len(columns):
        raise WireError(f"The encoding has {width} columns, most of them levels; use fewer.")


def most_lenses(width: int) -> int:
    """How many lenses on so many features are kept.

    Examples
    --------
    >>> most_lenses(100), most_lenses(2**25)
    (4096, 2)
    """
    return max(min(_MOST_LENSES, MOST_NUMBERS // max(width, 1)), 1)


def check_room(engine: LocalEngine, lenses: Sequence[Lens]) -> None:
    """Refuse a message whose vectors, a few bytes each, would take all memory.

    Parameters
    ----------
    engine
        On the site's rows.
    lenses
        Of the requests, one each.
    """
    numbers = sum(math.prod(engine.through(lens).shape) for lens in lenses)
    if len(lenses) > 1 and numbers > MOST_NUMBERS:
        raise WireError(
            f"{len(lenses)} requests at a time hold more than {MOST_NUMBERS} numbers; ask fewer."
        )


def check_size(
    engine: LocalEngine, requests: Sequence[tuple[Lens, Request]], most_steps: int
) -> None:
    """Refuse requests whose answers would take all memory, or days.

    Parameters
    ----------
    engine
        On the site's rows.
    requests
        What is asked, and through which lens.
    most_steps
        Local steps that one request may ask for.
    """
    classes = 0 if engine.classes is None else engine.classes.size
    if engine.lens.loss.outcome == "survival":
        classes = 2  # rows without an event and with one
    numbers = steps = 0
    for lens, request in requests:
        if isinstance(request, ColumnSums) and request.classes not in (0, classes):
            raise WireError(f"There are {classes} classes, and others are counted.")
        shapes = request.answer_shapes(engine.through(lens).shape).values()
        numbers += sum(1 if shape is None else math.prod(shape) for shape in shapes)
        numbers += _worked_out(request)
        steps += request.steps if isinstance(request, LocalSteps) else 0
    alone = _MOST_VECTORS * math.prod(engine.through(requests[0][0]).shape) if requests else 0
    if numbers > MOST_ANSWERED and (len(requests) > 1 or numbers > alone):
        raise WireError(f"The answers would hold more than {MOST_ANSWERED} numbers; ask less.")
    if steps > _MOST_WALKS * most_steps:
        raise WireError(f"{steps} local steps in one message are too many; ask for fewer.")


def _worked_out(request: Request) -> int:
    """Numbers that a site works out and does not tell, because they are known."""
    return triangle_size(request.known.size) if isinstance(request, Curvature) else 0
