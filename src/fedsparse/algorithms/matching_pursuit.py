"""CoSaMP and GraSP: features that the gradient points to, the best model on them, the τ largest.

Needell & Tropp, CoSaMP, Applied and Computational Harmonic Analysis 26, 2009, for least squares;
Bahmani, Raj & Boufounos, Greedy Sparsity-Constrained Optimization, JMLR 14, 2013, for any f:

    for t = 0, 1, …:
        z = ∇f(x_t)                                     (request `Slopes`)
        T = supp H_2τ(z) ∪ supp x_t
        b = argmin of f on T                            (request `Curvature`)
        x_{t+1} = H_τ(b)                                (update)

For the squared loss one Newton step from x_t is the argmin, and GraSP is CoSaMP. For other losses b
is that one step, the variant of GraSP that its authors call restricted Newton: a federation pays a
round for each step, and the next round may have a better T.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.splicing_models import newton_point
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.stacks import flatten
from fedsparse.compute.triangles import from_triangle
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity, TopK, TopKPerClass, TopKRows, as_sparsity
from fedsparse.requests import Answers, Curvature, Request, Slopes
from fedsparse.threads import one_thread

Counting = TopK | TopKPerClass | TopKRows
"""Constraints of which there is one for 2τ, too."""


@dataclass(frozen=True)
class GraSP(Algorithm):
    """Gradient support pursuit (Bahmani, Raj & Boufounos, JMLR 2013).

    An iteration is two rounds: the gradient, and second derivatives on up to 3τ features, which
    are (3τ)²/2 numbers; of several classes, on as many of each, and joint.

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or `TopK`, `TopKPerClass` or `TopKRows`, which can name features
        that are always kept.
    debias
        Follow H_τ by the best coefficients on what it kept, from the same second derivatives.
    weights
        See `Algorithm`. All clients take part in every round.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.1]], [2.0]), ([[1.0, -0.1]], [2.2])])
    >>> fs.run(fs.GraSP(sparsity=1), data, loss="squared", rounds=4).support
    array([0])
    """

    sparsity: int | Sparsity
    debias: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        as_sparsity(self.sparsity, (1,))  # refuses a τ below 1
        if self.clients_per_round is not None:
            name = type(self).__name__
            raise OptionError(f"{name} asks every client; leave clients_per_round out")

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0; a constraint that does not fit is refused here."""
        state = super().start(shape, seed, loss)
        self._constraint(shape).project(state.x)
        return state.remember(l2=np.array([loss.l2]))

    def request(self, state: State) -> Request:
        """Ask for ∇f(x_t), then for second derivatives on T."""
        if "union" in state.memory:
            return Curvature(state.x, state.memory["union"].astype(np.int64))
        return Slopes(state.x, with_diagonal=False)

    def update(self, state: State, answers: Answers) -> State:
        """Remember T, then step to x_{t+1}."""
        l2 = float(state.memory["l2"][0])
        if "union" not in state.memory:
            found = self._union(state.x, answers.mean("gradient") + l2 * state.x)
            return state.remember(union=found.astype(np.float64)).step(state.x, 0)
        union = state.memory["union"].astype(np.int64)  # T
        gradient = answers.mean("gradient") + l2 * flatten(state.x)[union]
        hessian = from_triangle(answers.mean("hessian"), union.size) + l2 * np.eye(union.size)
        with one_thread():
            x = self._pruned(state.x, union, gradient, hessian)
        return state.forget("union").step(x, 1)

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Newton's steps led too far; try FedSplice, which shortens them, or a larger l2."

    def _union(self, x: FloatArray, z: FloatArray) -> Int64Array:
        """supp H_2τ(z) ∪ supp x, as entries numbered class · d + feature."""
        constraint = self._constraint(x.shape)
        twice = replace(constraint, sparsity=2 * constraint.sparsity)
        return np.flatnonzero(flatten((twice.project(z) != 0) | (x != 0)))

    def _pruned(
        self, x: FloatArray, union: Int64Array, gradient: FloatArray, hessian: FloatArray
    ) -> FloatArray:
        """H_τ(b), and if asked for the lowest point of the same model on what that keeps."""
        b, _ = newton_point(x, union, gradient, hessian)
        pruned = self._constraint(x.shape).project(b)
        if not self.debias:
            return pruned
        change = flatten(pruned - x)[union]
        kept = np.flatnonzero(flatten(pruned)[union])
        slopes, model = (gradient + hessian @ change)[kept], hessian[np.ix_(kept, kept)]
        return newton_point(pruned, union[kept], slopes, model)[0]

    def _constraint(self, shape: tuple[int, ...]) -> Counting:
        constraint = as_sparsity(self.sparsity, shape)
        if not isinstance(constraint, Counting):
            raise OptionError(
                f"{type(self).__name__} looks at 2τ features, so it cannot keep to "
                f"{type(constraint).__name__}; use a number, TopK, TopKPerClass or TopKRows, or "
                "FedIterHT"
            )
        return constraint


@dataclass(frozen=True)
class CoSaMP(GraSP):
    """Compressive sampling matching pursuit (Needell & Tropp, 2009): `GraSP`, squared loss.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.1]], [1.0]), ([[1.0, -0.1]], [0.0])])
    >>> fs.run(fs.CoSaMP(1), data, loss="logistic")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: CoSaMP solves least squares; use GraSP for the logistic loss
    """

    debias: bool = field(default=False, init=False)

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0; a loss that is not quadratic is refused here."""
        if not loss.is_quadratic:
            raise OptionError(f"CoSaMP solves least squares; use GraSP for the {loss.name} loss")
        return super().start(shape, seed, loss)
