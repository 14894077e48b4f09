"""The local loop of the paper: K gradient steps on a client, with or without H_τ after each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.kernels.plan import Plan
from fedsparse.compute.kernels.random import sample_without_replacement
from fedsparse.compute.stacks import DenseStack, Stack, flatten
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity
from fedsparse.requests.request import Fields, Request, Shapes

RowGradient = Callable[[FloatArray, Int64Array], FloatArray]
"""The mean loss gradient of one client, at x and over rows."""


@dataclass(frozen=True)
class LocalSteps(Request):
    """Ask for K local gradient steps from x.

    Parameters
    ----------
    x
        x_t, where every client starts.
    steps
        K.
    step_size
        γ.
    batch_size
        Rows of each mini-batch b; None, or more than a client has, means all its rows.
    sparsity
        The constraint to project onto after each step; None for plain steps.
    proximal
        μ of the term (μ/2)‖x − x_t‖² in the local problem.
    snapshot
        Where the client takes the full gradient that corrects its mini-batch gradients (SVRG).
    seed, round
        With the client and the step they say which rows a mini-batch has.
    with_objective
        Have clients send f_i(x_t), too.
    with_distance
        Have clients send ‖x_i − x_t‖², too: how far they went.
    """

    x: FloatArray
    steps: int
    step_size: float
    batch_size: int | None = None
    sparsity: Sparsity | None = None
    proximal: float = 0.0
    snapshot: FloatArray | None = None
    seed: int = 0
    round: int = 0
    with_objective: bool = False
    with_distance: bool = False

    def telling_objective(self) -> "LocalSteps | None":
        """The same steps, f_i(x_t) coming with the first of them."""
        return self if self.with_objective else replace(self, with_objective=True)

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, and the snapshot where it is another vector."""
        if self.snapshot is None or self.snapshot is self.x:
            return (self.x,)
        return (self.x, self.snapshot)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x, and the numbers asked for."""
        numbers = {"objective": self.with_objective, "squared_distance": self.with_distance}
        return {"x": shape} | {name: None for name, is_asked in numbers.items() if is_asked}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``x`` of each client after its steps; ``objective`` before, ``squared_distance``."""
        moved, objectives = self._steps(clients, which)
        fields: dict[str, Stack | FloatArray] = {"x": moved}
        if objectives is not None:
            fields["objective"] = objectives
        if self.with_distance:
            fields["squared_distance"] = moved.squared_distances(self.x)
        return fields

    def _steps(self, clients: Clients, which: Int64Array) -> tuple[Stack, FloatArray | None]:
        threshold = None
        if self.sparsity is not None:
            threshold = self.sparsity.column_threshold(self.x.shape)
        if not clients.loss.is_compiled or (self.sparsity is not None and threshold is None):
            return self._walked(clients, which)
        kept = 0 if threshold is None else threshold.kept
        plan = self.plan(clients.loss, kept)
        return clients.local_steps(
            self.x, self.snapshot, plan, threshold, which, with_objective=self.with_objective
        )

    def plan(self, loss: Loss, kept: int) -> Plan:
        """The numbers of the steps, with H_τ to ``kept`` entries after each; 0: without."""
        l2 = loss.l2
        shrink = 1.0 - self.step_size * (l2 + self.proximal)
        pull = self.step_size * self.proximal
        decay = 1.0
        for _ in range(self.steps):
            decay = shrink * decay + pull
        return Plan(
            loss=loss.code,
            steps=self.steps,
            step_size=float(self.step_size),
            shrink=float(shrink),
            pull=float(pull),
            decay=float(decay),
            batch=self.batch_size or 0,
            kept=kept,
            seed=self.seed,
            round=self.round,
        )

    def _walked(self, clients: Clients, which: Int64Array) -> tuple[Stack, FloatArray | None]:
        """The local loop for projections and losses that the compiled loops do not know."""
        answers = np.empty((which.size, self.x.size))
        for place, client in enumerate(which):
            for x, _ in self.walk(clients, int(client)):
                answers[place] = flatten(x)
        objectives = clients.objectives(self.x, which) if self.with_objective else None
        return DenseStack(answers, clients.shape), objectives

    def walk(self, clients: Clients, client: int) -> Iterator[tuple[FloatArray, Int64Array | None]]:
        """Every x that a client passes, with the rows of its next step; None where it ends.

        The plain form of the compiled loops: the same to rounding errors.
        """
        gradient = clients.gradient_on_rows(client)
        every_row = np.arange(clients.data.counts[client])
        is_full = not self.batch_size or self.batch_size >= every_row.size
        correction = self._correction(gradient, every_row, is_full)
        x = self.x
        for step in range(self.steps):
            batch = every_row if is_full else self._batch(clients, client, step)
            yield x, batch
            estimate = gradient(x, batch) + clients.loss.l2 * x + self.proximal * (x - self.x)
            moved = x - self.step_size * (estimate + correction(batch))
            x = moved if self.sparsity is None else self.sparsity.project(moved)
        yield x, None

    def _correction(
        self, gradient: RowGradient, every_row: Int64Array, is_full: bool
    ) -> Callable[[Int64Array], FloatArray | float]:
        """What is added to the gradient on a step's rows: of all rows it needs no correction."""
        snapshot = None if is_full else self.snapshot
        if snapshot is None:
            return lambda rows: 0.0
        at_snapshot = gradient(snapshot, every_row)
        return lambda rows: at_snapshot - gradient(snapshot, rows)

    def _batch(self, clients: Clients, client: int, step: int) -> Int64Array:
        assert self.batch_size is not None
        return sample_without_replacement(
            self.seed,
            int(clients.data.identities[client]),
            self.round,
            step,
            int(clients.data.counts[client]),
            self.batch_size,
        )
