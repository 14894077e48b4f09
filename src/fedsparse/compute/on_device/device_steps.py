"""K full-gradient steps of many models on all clients at once, with or without H_τ after each.

A model that has made its steps stays as it is while others go on: models come in the order of
their K, so that those under way are the first ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.on_device.device_losses import mean_losses, to_mean_slopes
from fedsparse.compute.on_device.device_rows import DeviceRows, Part
from fedsparse.compute.on_device.device_select import CompiledSelection, keep_largest
from fedsparse.compute.on_device.device_sizes import encoded_sizes
from fedsparse.compute.on_device.lanes import Totals, add_up
from fedsparse.compute.workers import Workers
from fedsparse.problem.sparsity import ColumnThreshold

_FEWEST_GRAM_STEPS = 3
"""Below this many steps, working out a Gram matrix does not pay."""


@dataclass(frozen=True, eq=False)
class StepsAsked:
    """Local steps that several models ask for.

    Attributes
    ----------
    starts
        x_t of each model.
    plans
        Its K, γ and more; in the order of falling K.
    weights
        w_i of each model: (models, clients).
    threshold
        H_τ after each step; None: plain steps.
    with_distance
        Whether ‖x_i − x_t‖² is asked for.
    """

    starts: Sequence[FloatArray]
    plans: Sequence[Plan]
    weights: FloatArray
    threshold: ColumnThreshold | None
    with_distance: bool

    @cached_property
    def most_steps(self) -> int:
        """The largest K."""
        return self.plans[0].steps

    def under_way(self, step: int) -> int:
        """Models that make a step."""
        return sum(plan.steps > step for plan in self.plans)


def local_steps(rows: DeviceRows, asked: StepsAsked, which: Int64Array, workers: Workers) -> Totals:
    """Sums over clients, model by model.

    ``x`` of shape (models · classes, d), ``objective`` at the start without the ℓ2 term,
    ``squared_distance`` to the start, and ``bytes`` of the vectors that clients would send.
    """
    walk = _Walk(rows, asked, which)
    models = len(asked.plans)

    def zeros() -> Totals:
        numbers = ("objective", "squared_distance")
        return {
            "x": rows.zeros(walk.start.shape[0], rows.width + 1),
            **{name: rows.zeros(models) for name in numbers},
            "bytes": torch.zeros(models, dtype=torch.int64, device=rows.device),
        }

    totals = add_up(rows.parts(which, walk.needed), zeros, walk.add, workers)
    totals["x"] = totals["x"][:, :-1]
    if walk.answers_changes:
        totals["x"] += walk.of_starts(rows.tensor(asked.weights.sum(1)))
    return totals


class _Walk:
    """Steps of all models on one part of the clients after the other."""

    def __init__(self, rows: DeviceRows, asked: StepsAsked, which: Int64Array) -> None:
        self._rows, self._asked = rows, asked
        self._classes = rows.classes
        self.start = torch.cat([rows.vectors(x) for x in asked.starts])
        self._weights = rows.weights(asked.weights, which)
        plans = asked.plans
        self._step_size = self._by_vector([plan.step_size for plan in plans])
        self._shrink = self._by_vector([plan.shrink for plan in plans])
        self._pull = self._by_vector([plan.pull for plan in plans])
        self._decay = self._by_vector([plan.decay for plan in plans])
        self._shrinks = any(plan.shrink != 1.0 for plan in plans)
        self._pulls = any(plan.pull != 0.0 for plan in plans)
        self._beside = self._columns_beside()

    def needed(self, rows: int, columns: int) -> int:
        """Bytes that work on a client takes: vectors, what H_τ compares, and lengths."""
        columns += self._beside.numel()
        return self.start.shape[0] * self._rows.dtype.itemsize * (6 * columns + 3 * rows)

    def add(self, part: Part, totals: Totals) -> None:
        """Add the part's clients to totals."""
        whole = part.beside(self._beside) if self._beside.numel() else part
        start = whole.of(self.start)
        moved, objectives = self._moved(part, whole, start)
        weights = part.own(self._weights)
        totals["objective"] += (objectives * weights).sum(0)
        if self._asked.with_distance:
            distances = self._by_class(self._distances(whole, start, moved)).sum(-1)
            totals["squared_distance"] += (distances * weights).sum(0)
        if self.answers_changes:
            moved -= self._decay * start
        whole.add_to(totals["x"], moved, weights.repeat_interleave(self._classes, 1))
        totals["bytes"] += self._sizes(whole, moved).sum(0)

    @property
    def answers_changes(self) -> bool:
        """Whether clients answer what is left of x on their columns without decay · x_t."""
        return self._rows.is_sparse and self._asked.threshold is None

    def of_starts(self, weights: Tensor) -> Tensor:
        """Σ w_i decay · x_t."""
        return weights.repeat_interleave(self._classes)[:, None] * self._decay * self.start

    def _columns_beside(self) -> Tensor:
        """Columns in which x_t is not 0, or that are always kept: H_τ is on these, too."""
        threshold = self._asked.threshold
        if threshold is None or not self._rows.is_sparse:
            return self._rows.tensor(np.empty(0, dtype=np.int64))
        used = (self.start != 0).any(0)
        used[self._rows.tensor(threshold.always)] = True
        return used.nonzero()[:, 0]

    def _moved(self, part: Part, whole: Part, start: Tensor) -> tuple[Tensor, Tensor]:
        """Where clients come, and their mean loss where they start."""
        columns = part.rows.shape[2]
        scores = start[..., :columns] @ part.rows.mT
        code = self._rows.loss.code
        objectives = mean_losses(code, self._by_class(scores), part.targets, part.weights)
        threshold, steps = self._asked.threshold, self._asked.most_steps
        has_few_rows = 2 * part.rows.shape[1] <= columns
        if threshold is None and has_few_rows and steps >= _FEWEST_GRAM_STEPS:
            return self._moved_by_gram(part, start, scores), objectives
        select = None if threshold is None else _selection(threshold, whole)
        moved = start * (self._shrink + self._pull)
        for step in range(steps):
            active = self._asked.under_way(step) * self._classes
            own = moved[:, :active]
            if step:
                scores = own[..., :columns] @ part.rows.mT
                self._shrink_towards(own, start[:, :active])
            slopes = self._slopes(part, scores).mul_(-self._step_size[:active])
            own[..., :columns].baddbmm_(slopes, part.rows)
            if select is not None:
                select(own)
        return moved, objectives

    def _moved_by_gram(self, part: Part, start: Tensor, first_scores: Tensor) -> Tensor:
        """The same for clients with few rows: x_k = decay · x_t − Zᵀ a_k, and Z x_k by Z Zᵀ."""
        gram, steps = part.gram(), self._asked.most_steps
        scores = first_scores.clone()
        combination = torch.zeros_like(scores)
        for step in range(steps):
            active = self._asked.under_way(step) * self._classes
            own = scores[:, :active]
            slopes = self._slopes(part, own.clone()).mul_(self._step_size[:active])
            combination[:, :active].mul_(self._shrink[:active]).add_(slopes)
            if step < steps - 1:  # nobody asks for the scores after the last step
                self._shrink_towards(own, first_scores[:, :active])
                own.baddbmm_(slopes, gram, alpha=-1.0)
        return (start * self._decay).baddbmm_(combination, part.rows, alpha=-1.0)

    def _shrink_towards(self, own: Tensor, start: Tensor) -> None:
        active = own.shape[1]
        if self._shrinks:
            own.mul_(self._shrink[:active])
        if self._pulls:
            own.add_(self._pull[:active] * start)

    def _slopes(self, part: Part, scores: Tensor) -> Tensor:
        """In place of the scores."""
        by_class = self._by_class(scores)
        slopes = to_mean_slopes(self._rows.loss.code, by_class, part.targets, part.weights)
        return slopes.view(scores.shape)

    def _distances(self, whole: Part, start: Tensor, moved: Tensor) -> Tensor:
        """‖x_i − x_t‖² of every vector."""
        distances = ((moved - start) ** 2).sum(-1)
        if not self.answers_changes:
            return distances
        elsewhere = (self.start**2).sum(-1) - (start**2).sum(-1)
        return distances + (1.0 - self._decay[:, 0]) ** 2 * elsewhere

    def _sizes(self, whole: Part, moved: Tensor) -> Tensor:
        """Bytes of clients' vectors: (clients, models)."""
        if self._beside.numel():
            assert whole.columns is not None
            order = whole.columns.argsort(1)
            whole = replace(whole, columns=whole.columns.gather(1, order))
            moved = moved.gather(2, order[:, None, :].expand_as(moved))
        positions = whole.positions(self._classes)
        values = moved.view(moved.shape[0], -1, positions.shape[2])
        return encoded_sizes(values, positions, self._classes * whole.width)

    def _by_class(self, scores: Tensor) -> Tensor:
        return scores.reshape(scores.shape[0], -1, self._classes, *scores.shape[2:])

    def _by_vector(self, numbers: Sequence[float]) -> Tensor:
        column = self._rows.tensor(np.array(numbers, dtype=np.float64))
        return column.repeat_interleave(self._classes)[:, None]


def _has_compiled_loops(device: torch.device) -> bool:
    return device.type == "cpu"


def _selection(threshold: ColumnThreshold, whole: Part) -> Callable[[Tensor], None]:
    """H_τ of vectors of a part, in place."""
    if whole.columns is None and _has_compiled_loops(whole.rows.device):
        return CompiledSelection(threshold.kept, threshold.always).apply
    always = torch.from_numpy(threshold.always).to(whole.rows.device)
    if whole.columns is None:
        places, order = torch.arange(whole.width, device=always.device)[None], None
    else:
        places, order = whole.columns, whole.columns.argsort(1)
    is_always = torch.isin(places, always)[:, None, :] if always.numel() else None
    return lambda rows: keep_largest(rows, threshold.kept, is_always, order)
