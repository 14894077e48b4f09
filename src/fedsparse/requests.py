"""What a server may ask of a client, and how the client works out its answer.

A request is a small frozen dataclass: its fields are what travels down. Its ``answer`` runs where
the data are and returns what travels up, one entry per client asked. One request answered by the
clients is one communication round.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse import wire
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.clients import Clients
from fedsparse.clients.curvature import hessians, triangle_size
from fedsparse.clients.lasso import shifted_lasso
from fedsparse.data.moments import Moments, moments_of
from fedsparse.errors import OptionError
from fedsparse.kernels.plan import Plan
from fedsparse.kernels.random import sample_without_replacement
from fedsparse.sparsity import Sparsity
from fedsparse.stacks import DenseStack, Stack, flatten

Fields = Mapping[str, Stack | FloatArray]
"""Parts of an answer by name: a vector per client (a stack) or a number per client."""

Shapes = Mapping[str, tuple[int, ...] | None]
"""Parts of an answer by name: the shape of a client's vector, or None for a number."""


@dataclass(frozen=True)
class Request(ABC):
    """Something to ask of clients."""

    of_everyone: ClassVar[bool] = False
    """Whether all clients are asked even when only some take part in a round."""

    is_round: ClassVar[bool] = True
    """Whether a model comes of the answers; questions before or beside the rounds are none."""

    def asked(self, taking_part: Int64Array) -> Int64Array:
        """Places of the clients to ask, of those that take part."""
        return taking_part

    @abstractmethod
    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Work out the answer of the clients at places ``which``."""

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """What an answer holds, for coefficients of a shape; asked of requests that travel."""
        raise NotImplementedError

    def vectors(self) -> tuple[FloatArray, ...]:
        """The vectors among the fields, as they travel down."""
        return ()

    def encoded_bytes(self) -> int:
        """Length of those vectors in the encoding of `fedsparse.wire`, for one client."""
        return sum(len(wire.encode(flatten(vector))) for vector in self.vectors())


@dataclass(frozen=True)
class Describe(Request):
    """Ask for the number of rows B_i and the smoothness constant l_i of f_i."""

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """Two numbers."""
        return {"samples": None, "smoothness": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``samples`` and ``smoothness`` of each client."""
        eigenvalues = clients.largest_eigenvalues(which)
        smoothness = np.array([clients.loss.smoothness(value) for value in eigenvalues])
        return {"samples": clients.data.counts[which].astype(float), "smoothness": smoothness}


@dataclass(frozen=True)
class ColumnMoments(Request):
    """Ask for mean and variance of every feature, by which all sites scale alike.

    Parameters
    ----------
    with_target
        Ask for the mean of the target, too.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False

    with_target: bool

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """Two numbers, and two vectors as long as a row."""
        return {"mass": None, "target": None, "mean": shape[:1], "variance": shape[:1]}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``mass``, ``target``, ``mean`` and ``variance`` of each client."""
        found = [
            moments_of(clients.data.client(int(place)), with_target=self.with_target)
            for place in which
        ]
        shape = clients.shape[:1]
        return {
            "mass": np.array([own.mass for own in found]),
            "target": np.array([own.target for own in found]),
            "mean": DenseStack(np.array([own.mean for own in found]), shape),
            "variance": DenseStack(np.array([own.variance for own in found]), shape),
        }

    @staticmethod
    def each(answer: Fields) -> list[Moments]:
        """Moments of each client that answered."""
        parts = [
            field.each() if isinstance(field, Stack) else field.tolist()
            for field in (answer[name] for name in ("mass", "mean", "variance", "target"))
        ]
        return [Moments(*client) for client in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Evaluate(Request):
    """Ask for f_i(x)."""

    is_round: ClassVar[bool] = False

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number."""
        return {"objective": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective`` of each client."""
        return {"objective": clients.objectives(self.x, which)}


@dataclass(frozen=True)
class Gradient(Request):
    """Ask for ∇f_i(x), the ℓ2 term left out: the server can add λx by itself."""

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x."""
        return {"gradient": shape}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``gradient`` of each client, as sparse as its columns."""
        return {"gradient": clients.mean_gradients(self.x, which)}


@dataclass(frozen=True)
class Slopes(Request):
    """Ask for f_i(x), ∇f_i(x) and the diagonal of ∇²f_i(x), the ℓ2 term left out of the latter two.

    Of everyone: what a server decides by sums of derivatives needs all of them.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number and two vectors like x."""
        return {"objective": None, "gradient": shape, "diagonal": shape}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``diagonal`` of each client, as sparse as its columns."""
        objectives, gradients, diagonals = clients.slopes(self.x, which)
        return {"objective": objectives, "gradient": gradients, "diagonal": diagonals}


@dataclass(frozen=True)
class Curvature(Request):
    """Ask for f_i(x), and for ∇f_i(x) and ∇²f_i(x) restricted to a support, without the ℓ2 term.

    Parameters
    ----------
    x
        Where.
    support
        Features, in increasing order.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    support: Int64Array

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, and the support as a vector of ones."""
        members = np.zeros(self.x.size)
        members[self.support] = 1.0
        return (self.x, members)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector and the upper triangle of a matrix on the support."""
        size = self.support.size
        return {"objective": None, "gradient": (size,), "hessian": (triangle_size(size),)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` (its upper triangle) of each client."""
        objectives, gradients, triangles = hessians(clients, self.x, self.support, which)
        return {"objective": objectives, "gradient": gradients, "hessian": triangles}


@dataclass(frozen=True)
class ShiftedLasso(Request):
    """Ask one client to minimize f_i(x) + (g − ∇f_i(x_t))·x + λ‖x‖₁ on its own rows.

    Parameters
    ----------
    x
        x_t.
    gradient
        g = ∇f(x_t), the ℓ2 term left out.
    sparsity
        τ: λ is the smallest that gives at most τ non-zeros.
    solver
        Place of the client.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    gradient: FloatArray
    sparsity: int
    solver: int

    def asked(self, taking_part: Int64Array) -> Int64Array:
        """The one that solves."""
        if self.solver >= taking_part.size:
            raise OptionError(
                f"solver is {self.solver}, but there are only {taking_part.size} clients; "
                "they are counted from 0"
            )
        return taking_part[[self.solver]]

    def vectors(self) -> tuple[FloatArray, ...]:
        """x and the gradient."""
        return (self.x, self.gradient)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x."""
        return {"x": shape}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``x``, the solution."""
        own = clients.mean_gradients(self.x, which).mean(np.ones(1))
        shift = self.gradient - own
        solution = shifted_lasso(clients, int(which[0]), self.x, shift, self.sparsity)
        return {"x": DenseStack(solution[None, :], self.x.shape)}


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

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, and the snapshot where it is another vector."""
        if self.snapshot is None or self.snapshot is self.x:
            return (self.x,)
        return (self.x, self.snapshot)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x, and a number if asked for."""
        return {"x": shape, "objective": None} if self.with_objective else {"x": shape}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``x`` of each client after its steps, and ``objective`` before them if asked for."""
        moved, objectives = self._steps(clients, which)
        return {"x": moved} if objectives is None else {"x": moved, "objective": objectives}

    def _steps(self, clients: Clients, which: Int64Array) -> tuple[Stack, FloatArray | None]:
        threshold = None
        if self.sparsity is not None:
            threshold = self.sparsity.column_threshold(self.x.shape)
            if threshold is None:
                moved = self._steps_with_any_projection(clients, which)
                return moved, clients.objectives(self.x, which) if self.with_objective else None
        kept = 0 if threshold is None else threshold.kept
        plan = self._plan(clients, kept)
        return clients.local_steps(
            self.x, self.snapshot, plan, threshold, which, with_objective=self.with_objective
        )

    def _plan(self, clients: Clients, kept: int) -> Plan:
        l2 = clients.loss.l2
        shrink = 1.0 - self.step_size * (l2 + self.proximal)
        pull = self.step_size * self.proximal
        decay = 1.0
        for _ in range(self.steps):
            decay = shrink * decay + pull
        return Plan(
            loss=clients.loss.code,
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

    def _steps_with_any_projection(self, clients: Clients, which: Int64Array) -> DenseStack:
        """The local loop for projections that the compiled loops do not know."""
        answers = np.empty((which.size, self.x.size))
        for place, client in enumerate(which):
            answers[place] = flatten(self._steps_on_one(clients, int(client)))
        return DenseStack(answers, clients.shape)

    def _steps_on_one(self, clients: Clients, client: int) -> FloatArray:
        assert self.sparsity is not None
        gradient = clients.gradient_on_rows(client)
        every_row = np.arange(clients.data.counts[client])
        is_full = self.batch_size is None or self.batch_size >= every_row.size
        snapshot = None if is_full else self.snapshot
        at_snapshot = 0.0 if snapshot is None else gradient(snapshot, every_row)
        x = self.x
        for step in range(self.steps):
            batch = every_row if is_full else self._batch(clients, client, step)
            estimate = gradient(x, batch) + clients.loss.l2 * x + self.proximal * (x - self.x)
            if snapshot is not None:
                estimate = estimate - gradient(snapshot, batch) + at_snapshot
            x = self.sparsity.project(x - self.step_size * estimate)
        return x

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
