"""Values and derivatives of f_i: the objective, gradients, diagonals and Hessians on a support."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.curvature import hessians, triangle_size
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
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def telling_objective(self) -> "Slopes":
        """They do."""
        return self

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

    def telling_objective(self) -> "Curvature":
        """It does."""
        return self

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector and the upper triangle of a matrix on the support."""
        size = self.support.size
        return {"objective": None, "gradient": (size,), "hessian": (triangle_size(size),)}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` (its upper triangle) of each client."""
        objectives, gradients, triangles = hessians(clients, self.x, self.support, which)
        return {"objective": objectives, "gradient": gradients, "hessian": triangles}
