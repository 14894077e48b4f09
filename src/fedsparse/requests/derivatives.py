"""Values and derivatives of f_i: the objective, gradients, diagonals and Hessians on a support."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.class_curvature import class_curvature, joint_curvature, shared_curvature
from fedsparse.compute.curvature import hessians, triangle_size
from fedsparse.compute.stacks import Stack
from fedsparse.requests.request import Fields, Request, Shapes


@dataclass(frozen=True)
class Evaluate(Request):
    """Ask for f_i(x).

    Parameters
    ----------
    x
        Where.
    is_penalized
        Whether the ℓ2 term is part of it.
    """

    is_round: ClassVar[bool] = False

    x: FloatArray
    is_penalized: bool = True

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number."""
        return {"objective": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective`` of each client."""
        values = clients.objectives if self.is_penalized else clients.mean_losses
        return {"objective": values(self.x, which)}


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

    Parameters
    ----------
    x
        Where.
    support
        Entries of x on which all of ∇²f_i(x) is told beside, as by `Curvature`; none by default.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    support: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, and the support as a vector of ones."""
        return (self.x, _members(self.support, self.x.size))[: 1 + bool(self.support.size)]

    def telling_objective(self) -> "Slopes":
        """They do."""
        return self

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, two vectors like x and the upper triangle of a matrix on the support."""
        told: dict[str, tuple[int, ...] | None]
        told = {"objective": None, "gradient": shape, "diagonal": shape}
        if self.support.size:
            told["hessian"] = (triangle_size(self.support.size),)
        return told

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``diagonal`` of each client, as sparse as its columns.

        And its ``hessian`` if there is a support.
        """
        objectives, gradients, diagonals = clients.slopes(self.x, which)
        told: dict[str, Stack | FloatArray]
        told = {"objective": objectives, "gradient": gradients, "diagonal": diagonals}
        if self.support.size:
            told["hessian"] = _exact(clients, self.x, self.support, which)[2]
        return told


@dataclass(frozen=True)
class Curvature(Request):
    """Ask for f_i(x), and for ∇f_i(x) and ∇²f_i(x) restricted to a support, without the ℓ2 term.

    Parameters
    ----------
    x
        Where.
    support
        Entries of x in increasing order, those of a matrix numbered class · d + feature.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    support: Int64Array

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, and the support as a vector of ones."""
        return (self.x, _members(self.support, self.x.size))

    def telling_objective(self) -> "Curvature":
        """It does."""
        return self

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector and the upper triangle of a matrix on the support."""
        size = self.support.size
        return {"objective": None, "gradient": (size,), "hessian": (triangle_size(size),)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` (its upper triangle) of each client."""
        objectives, gradients, triangles = _exact(clients, self.x, self.support, which)
        return {"objective": objectives, "gradient": gradients, "hessian": triangles}


@dataclass(frozen=True)
class ClassCurvature(Curvature):
    """Ask for f_i(x), ∇f_i(x) on entries of a matrix x, and a matrix that bends f by each class.

    See `fedsparse.compute.class_curvature`. Parameters are those of `Curvature`.
    """

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector and an upper triangle for each class, one by one."""
        width, classes = self.x.shape
        counts = np.bincount(self.support // width, minlength=classes)
        total = sum(triangle_size(int(count)) for count in counts)
        return {"objective": None, "gradient": (self.support.size,), "hessian": (total,)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` of each client."""
        told = class_curvature(clients, self.x, self.support, which)
        return dict(zip(("objective", "gradient", "hessian"), told, strict=True))


@dataclass(frozen=True)
class SharedCurvature(Curvature):
    """Ask for f_i(x), ∇f_i(x) on features of a matrix x, and one matrix that bends f by them.

    See `fedsparse.compute.class_curvature`; the support lists features, in increasing order.
    """

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector over all classes and the upper triangle of a matrix of features."""
        size, classes = self.support.size, self.x.shape[1]
        return {"objective": None, "gradient": (size * classes,), "hessian": (triangle_size(size),)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` of each client."""
        told = shared_curvature(clients, self.x, self.support, which)
        return dict(zip(("objective", "gradient", "hessian"), told, strict=True))


def _exact(
    clients: Clients, x: FloatArray, support: Int64Array, which: Int64Array
) -> tuple[FloatArray, Stack, Stack]:
    work = hessians if x.ndim == 1 else joint_curvature
    return work(clients, x, support, which)


def _members(support: Int64Array, size: int) -> FloatArray:
    members = np.zeros(size)
    members[support] = 1.0
    return members
