"""Asks that are alike, answered together on a device; needs torch."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.on_device.device_rows import DeviceRows
from fedsparse.compute.on_device.device_slopes import SlopesAsked, slopes
from fedsparse.compute.on_device.device_steps import StepsAsked, local_steps
from fedsparse.compute.on_device.eigenvalues import largest_eigenvalues
from fedsparse.compute.on_device.lanes import Totals
from fedsparse.compute.stacks import squared_norm, unflatten
from fedsparse.compute.workers import Workers
from fedsparse.engines.engine import Ask
from fedsparse.engines.local import PreparedRows
from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import ColumnThreshold
from fedsparse.requests import (
    Answers,
    Evaluate,
    Gradient,
    LocalSteps,
    Request,
    Slopes,
    Smoothness,
    SmoothnessAbove,
)
from fedsparse.requests.answers import counting

_Asked = TypeVar("_Asked", bound=Request)

_NUMBER_BYTES = 8


def likeness(ask: Ask, prepared: PreparedRows) -> Hashable | None:
    """The same for asks that are answered together; None: not on a device."""
    clients, request = prepared.clients, ask.request
    own = prepared.asked(ask)
    if clients is None or own.size == 0 or not clients.loss.is_compiled:
        return None
    kind = type(request)
    if kind not in _ANSWERING:
        return None
    told: Hashable = ()
    if isinstance(request, LocalSteps):
        if request.batch_size and request.batch_size < clients.data.counts[own].max():
            return None
        threshold = _threshold(request)
        if threshold is None and request.sparsity is not None:
            return None
        told = None if threshold is None else (threshold.kept, threshold.always.tobytes())
    elif isinstance(request, Slopes):
        if request.support.size:
            return None
        told = (request.with_diagonal, request.units is not None)
    return (kind, own.tobytes(), told)


def answer_alike(
    asks: Sequence[Ask], prepared: PreparedRows, rows: DeviceRows, workers: Workers
) -> list[Answers]:
    """Answer asks of one likeness; where memory does not do, fewer at a time."""
    began = time.perf_counter()
    own = prepared.asked(asks[0])
    weights = np.stack([counting(prepared.weights(ask, own)) for ask in asks])
    batch = _Batch(asks, weights, own, prepared, rows, workers)
    answers = _in_memory(batch)
    seconds = (time.perf_counter() - began) / len(asks)
    return [replace(own, seconds=seconds) for own in answers]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Asks of one likeness.

    Attributes
    ----------
    asks
        In the order of their answers.
    weights
        w_i of each: (asks, clients asked).
    which
        Places of these clients.
    """

    asks: Sequence[Ask]
    weights: FloatArray
    which: Int64Array
    prepared: PreparedRows
    rows: DeviceRows
    workers: Workers

    def of(self, places: Sequence[int]) -> "_Batch":
        """Some of the asks."""
        asks = [self.asks[place] for place in places]
        return replace(self, asks=asks, weights=self.weights[list(places)])

    def vectors(self, totals: Totals, name: str) -> list[FloatArray]:
        """Sums of vectors, ask by ask."""
        sums = totals[name].double().cpu().numpy().reshape(len(self.asks), -1)
        return [np.asarray(unflatten(own, self.rows.shape)) for own in sums]

    def numbers(self, totals: Totals, name: str) -> FloatArray:
        """Sums of numbers, ask by ask."""
        return np.asarray(totals[name].double().cpu().numpy())

    def answers(self, sums: Sequence[dict[str, FloatArray]], totals: Totals) -> list[Answers]:
        """From sums, ask by ask."""
        lengths, count = totals["bytes"].cpu().numpy(), self.which.size
        return [
            Answers(
                own,
                float(weights.sum()),
                count,
                count,
                int(length) + _NUMBER_BYTES * count * sum(not sum_.ndim for sum_ in own.values()),
            )
            for own, weights, length in zip(sums, self.weights, lengths, strict=True)
        ]

    def penalties(self, points: Sequence[FloatArray]) -> FloatArray:
        """Σ w_i times the ℓ2 term of f_i."""
        l2 = self.rows.loss.l2
        terms = [0.5 * l2 * squared_norm(x) if l2 else 0.0 for x in points]
        return np.asarray(np.array(terms) * self.weights.sum(1))


def _in_memory(batch: _Batch) -> list[Answers]:
    """Answers, with fewer clients at a time and then fewer asks where memory does not do."""
    rows = batch.rows
    while True:
        try:
            return _ANSWERING[type(batch.asks[0].request)](batch)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
        if rows.room > rows.needed:
            rows.room = max(rows.needed, rows.room // 4)
        elif len(batch.asks) > 1:
            half = len(batch.asks) // 2
            places = range(len(batch.asks))
            return _in_memory(batch.of(places[:half])) + _in_memory(batch.of(places[half:]))
        else:
            raise OptionError(
                f"one client and one model take {rows.needed / 1e9:.1f} GB beside the rows on "
                f"{str(rows.device)!r}, which has not as much left; use device='cpu', or more "
                "clients of fewer rows"
            )


def _local_steps(batch: _Batch) -> list[Answers]:
    order = sorted(
        range(len(batch.asks)), key=lambda place: -_request(batch, place, LocalSteps).steps
    )
    batch = batch.of(order)
    requests = [_request(batch, place, LocalSteps) for place in range(len(order))]
    threshold = _threshold(requests[0])
    kept = 0 if threshold is None else threshold.kept
    starts = [own.x for own in requests]
    plans = [own.plan(batch.rows.loss, kept) for own in requests]
    with_distance = any(own.with_distance for own in requests)
    asked = StepsAsked(starts, plans, batch.weights, threshold, with_distance)
    totals = local_steps(batch.rows, asked, batch.which, batch.workers)
    objectives = batch.numbers(totals, "objective") + batch.penalties(starts)
    distances = batch.numbers(totals, "squared_distance")
    sums = []
    for place, x in enumerate(batch.vectors(totals, "x")):
        own = {"x": x}
        if requests[place].with_objective:
            own["objective"] = objectives[place]
        if requests[place].with_distance:
            own["squared_distance"] = distances[place]
        sums.append(own)
    found = dict(zip(order, batch.answers(sums, totals), strict=True))
    return [found[place] for place in range(len(order))]


def _evaluate(batch: _Batch) -> list[Answers]:
    requests = [_request(batch, place, Evaluate) for place in range(len(batch.asks))]
    points = [own.x for own in requests]
    totals = _slopes_of(batch, SlopesAsked(points, batch.weights))
    is_penalized = np.array([own.is_penalized for own in requests])
    values = batch.numbers(totals, "objective") + is_penalized * batch.penalties(points)
    return batch.answers([{"objective": value} for value in values], totals)


def _gradient(batch: _Batch) -> list[Answers]:
    points = [_request(batch, place, Gradient).x for place in range(len(batch.asks))]
    totals = _slopes_of(batch, SlopesAsked(points, batch.weights, with_gradient=True))
    return batch.answers([{"gradient": own} for own in batch.vectors(totals, "gradient")], totals)


def _slopes(batch: _Batch) -> list[Answers]:
    requests = [_request(batch, place, Slopes) for place in range(len(batch.asks))]
    points = [own.x for own in requests]
    asked = SlopesAsked(
        points,
        batch.weights,
        with_gradient=True,
        with_diagonal=requests[0].with_diagonal,
        is_short=requests[0].units is not None,
    )
    totals = _slopes_of(batch, asked)
    objectives = batch.numbers(totals, "objective") + batch.penalties(points)
    told = [batch.vectors(totals, name) for name in ("gradient", "diagonal") if name in totals]
    names = ("objective", "gradient", "diagonal")
    sums = [dict(zip(names, own, strict=False)) for own in zip(objectives, *told, strict=True)]
    return batch.answers(sums, totals)


def _slopes_of(batch: _Batch, asked: SlopesAsked) -> Totals:
    return slopes(batch.rows, asked, batch.which, batch.workers)


def _smoothness(batch: _Batch) -> list[Answers]:
    """Eigenvalues from the device; what is told of them is worked out here."""
    clients = batch.prepared.clients
    assert clients is not None
    missing = clients.without_eigenvalues(batch.which)
    if missing.size:
        clients.keep_eigenvalues(missing, largest_eigenvalues(batch.rows, missing))
    told = [batch.prepared.told(ask) for ask in batch.asks]
    return [Answers.of(*own) for own in told if own is not None]


_ANSWERING: dict[type[Request], Callable[[_Batch], list[Answers]]] = {
    LocalSteps: _local_steps,
    Evaluate: _evaluate,
    Gradient: _gradient,
    Slopes: _slopes,
    Smoothness: _smoothness,
    SmoothnessAbove: _smoothness,
}


def _request(batch: _Batch, place: int, kind: type[_Asked]) -> _Asked:
    request = batch.asks[place].request
    assert isinstance(request, kind)
    return request


def _threshold(request: LocalSteps) -> ColumnThreshold | None:
    """H_τ after each step, if compiled loops know it."""
    if request.sparsity is None:
        return None
    return request.sparsity.column_threshold(request.x.shape)
