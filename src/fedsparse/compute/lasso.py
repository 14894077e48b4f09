"""An ℓ1 problem on one client's own rows, shifted by a gradient: what EDSL asks of a client."""

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compute.clients import Clients
from fedsparse.compute.stacks import squared_norm

# Enough for the support; the next round corrects the rest.
_STEPS = 400
_CLOSE = 1e-7
_HALVINGS = 16


def shifted_lasso(
    clients: Clients, client: int, start: FloatArray, shift: FloatArray, sparsity: int
) -> FloatArray:
    """Minimize f_i(x) + shift·x + λ‖x‖₁, with λ as small as at most τ non-zeros allow.

    Accelerated proximal gradient steps (Beck & Teboulle, 2009), λ by bisection.

    Parameters
    ----------
    clients, client
        Whose rows.
    start
        Where to begin.
    shift
        ∇f(x_t) − ∇f_i(x_t).
    sparsity
        τ.
    """
    smoothness = clients.loss.smoothness(float(clients.largest_eigenvalues(np.array([client]))[0]))
    problem = _ShiftedLasso(clients, client, shift, smoothness)
    high = float(np.abs(problem.gradient(np.zeros_like(start))).max())
    low, best = 0.0, np.zeros_like(start)
    for _ in range(_HALVINGS):
        penalty = (low + high) / 2
        found = problem.solve(start, penalty)
        if np.count_nonzero(found) <= sparsity:
            best, high = found, penalty
        else:
            low = penalty
    return best


class _ShiftedLasso:
    def __init__(self, clients: Clients, client: int, shift: FloatArray, smoothness: float) -> None:
        self._gradient_on = clients.gradient_on_rows(client)
        self._rows = np.arange(clients.data.counts[client])
        self._l2 = clients.loss.l2
        self._shift = shift
        self._step = 1.0 / smoothness if smoothness > 0 else 1.0

    def gradient(self, x: FloatArray) -> FloatArray:
        return self._gradient_on(x, self._rows) + self._l2 * x + self._shift

    def solve(self, start: FloatArray, penalty: float) -> FloatArray:
        x, ahead, momentum = start, start, 1.0
        for _ in range(_STEPS):
            moved = ahead - self._step * self.gradient(ahead)
            after = np.sign(moved) * np.maximum(np.abs(moved) - self._step * penalty, 0.0)
            following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead = after + (momentum - 1.0) / following * (after - x)
            change = squared_norm(after - x)
            x, momentum = after, following
            if change <= _CLOSE**2 * max(squared_norm(x), 1e-300):
                break
        return x
