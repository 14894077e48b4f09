"""An ℓ1 problem that one client solves for all."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.lasso import shifted_lasso
from fedsparse.compute.stacks import DenseStack
from fedsparse.errors import OptionError
from fedsparse.requests.request import Fields, Request, Shapes, Weights


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
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray
    gradient: FloatArray
    sparsity: int
    solver: int

    def asked(self, taking_part: Int64Array) -> Int64Array:
        """The client that solves the problem."""
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
        own = clients.mean_gradients(self.x, which).total(np.ones(1))
        shift = self.gradient - own
        solution = shifted_lasso(clients, int(which[0]), self.x, shift, self.sparsity)
        return {"x": DenseStack(solution[None, :], self.x.shape)}
