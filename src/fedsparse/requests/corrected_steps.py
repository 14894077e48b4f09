"""Local steps along the gradient of all clients, as far as it is known: what SCAFFOLD takes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import Stack
from fedsparse.requests.local_steps import LocalSteps, RowGradient
from fedsparse.requests.request import Fields, Shapes


@dataclass(frozen=True)
class CorrectedSteps(LocalSteps):
    """Ask for K local steps x ← x − γ (g_i(x) − g_i(s) + c).

    Both g_i are on the rows of the step, so that the noise of mini-batches cancels, too. The loop
    is that of `LocalSteps` with variance reduction, but for c, which is told and not worked out of
    the client's own rows; it is not compiled. The others are those of `LocalSteps`.

    Parameters
    ----------
    snapshot
        s.
    gradient
        c: ∇f(s), the ℓ2 term left out.
    with_gradient
        Have clients send ∇f_i(x_t), too, the ℓ2 term left out.

    Examples
    --------
    Two clients of one row, whose own minima are 1 and 3. From x = 2, where ∇f = 0, neither moves:

    >>> import numpy as np
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [1.0]), ([[1.0]], [3.0])])
    >>> engine, x = fs.LocalEngine(data, "squared"), np.array([2.0])
    >>> steps = CorrectedSteps(x, 5, 0.1, snapshot=x, gradient=np.zeros(1), with_distance=True)
    >>> (answers,) = engine.exchange([engine.ask(steps)])
    >>> answers.average("squared_distance")
    0.0
    """

    snapshot: FloatArray = field(kw_only=True)
    gradient: FloatArray = field(kw_only=True)
    with_gradient: bool = field(default=False, kw_only=True)

    def telling_objective(self) -> None:
        """They cannot: x may be an earlier one than that where the run stands."""

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, the snapshot where it is another vector, and c."""
        return (*super().vectors(), self.gradient)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x, and what else is asked for."""
        told = super().answer_shapes(shape)
        return {**told, "gradient": shape} if self.with_gradient else told

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """What `LocalSteps` answers, and ``gradient`` if that is asked for."""
        told = super().answer(clients, which)
        if not self.with_gradient:
            return told
        return {**told, "gradient": clients.mean_gradients(self.x, which)}

    def _steps(self, clients: Clients, which: Int64Array) -> tuple[Stack, FloatArray | None]:
        return self._walked(clients, which)

    def _correction(
        self, gradient: RowGradient, every_row: Int64Array, is_full: bool
    ) -> Callable[[Int64Array], FloatArray | float]:
        if is_full:
            correction = self.gradient - gradient(self.snapshot, every_row)
            return lambda rows: correction
        return lambda rows: self.gradient - gradient(self.snapshot, rows)
