"""Fed-HT, FedIter-HT, Distributed-IHT, and the centralized methods they generalize.

Tong, Liang, Zhu & Bi, Federated Nonconvex Sparse Learning, 2021. All run

    for t = 0 … T−1:
        every client i:  x_i ← x_t                             (request)
                         K times:  x_i ← x_i − γ g_i(x_i)
                                   x_i ← H_τ(x_i)              (FedIter-HT only)
        x_{t+1} = H_τ(Σ p_i x_i)                               (update)

and differ in K and in where H_τ is applied. The local loop is `fedsparse.requests.LocalSteps`.
"""

from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.refit import (
    begin_refit,
    confirmed,
    is_refitting,
    refit_request,
    refit_update,
    with_refits,
)
from fedsparse.algorithms.safeguard import has_risen, is_safeguarded, with_shorter_step
from fedsparse.algorithms.server_steps import after_server_step
from fedsparse.algorithms.step_sizes import (
    GrowingBatch,
    batch_size_in,
    lacks_smoothness,
    smoothness_request,
    smoothness_update,
    step_size_in,
)
from fedsparse.algorithms.stepping import Stepping
from fedsparse.algorithms.thresholding import Thresholding
from fedsparse.algorithms.variance_reduction import snapshot_in, snapshot_to_keep
from fedsparse.arrays import FloatArray
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import as_sparsity
from fedsparse.requests import Answers, LocalSteps, Request


@dataclass(frozen=True)
class FedHT(Thresholding, Stepping):
    """Federated Hard Thresholding: H_τ at the server only (Algorithm 1).

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or a constraint such as `TopKGroups`.
    refit
        Follow every round by a Newton refit on the support: one more round for the squared loss,
        up to three for the logistic loss.
    local_steps, step_size, batch_size, variance_reduction, server_step
        K, γ, b and more: see `FedAvg`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0, 0.0]], [2.0]), ([[1.0, 0.1]], [4.0])])
    >>> fs.run(fs.FedHT(sparsity=1, local_steps=5), data, rounds=20).support
    array([0])
    """

    thresholds_locally: ClassVar[bool] = False
    """Whether clients apply H_τ after each of their steps."""

    refit: bool = field(default=False, kw_only=True)

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0, and what refits remember."""
        state = super().start(shape, seed, loss)
        return with_refits(state, loss) if self.refit else state

    def request(self, state: State) -> Request:
        """Ask for K local steps from x_t; at times for what γ or a refit needs."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_request(state)
        if is_refitting(state):
            return refit_request(state)
        threshold = as_sparsity(self.sparsity, state.x.shape)
        return LocalSteps(
            x=state.x,
            steps=self.local_steps,  # K
            step_size=step_size_in(state, self.step_size),  # γ
            batch_size=batch_size_in(state, self.batch_size),
            sparsity=threshold if self.thresholds_locally else None,
            snapshot=snapshot_in(state, self.variance_reduction),
            seed=state.seed,
            round=state.round,
            with_objective=self.server_step == "adaptive" or is_safeguarded(state),
            with_distance=isinstance(self.server_step, str),
        )

    def update(self, state: State, answers: Answers) -> State:
        """x_{t+1} = H_τ(Σ p_i x_i), or H_τ of where the server's step leads."""
        if lacks_smoothness(state, self.step_size):
            return smoothness_update(state, answers)
        if is_refitting(state):
            return self._back(state, answers) or refit_update(state, answers)
        threshold = as_sparsity(self.sparsity, state.x.shape)
        x, memory = after_server_step(state, answers, self.server_step)
        memory |= snapshot_to_keep(state, self.variance_reduction)
        state = state.remember(**memory).step(threshold.project(x), self.local_steps)
        return begin_refit(state) if self.refit else state

    def _back(self, state: State, answers: Answers) -> State | None:
        """The best x again, where the step that a refit should follow has raised f."""
        if not is_safeguarded(state) or confirmed(state) is not None:
            return None
        has_failed = has_risen(state, answers.average("objective"))
        return with_shorter_step(state.forget("refit")) if has_failed else None

    def best_known(self, state: State) -> tuple[FloatArray, float] | None:
        """The best x of the adaptive step, or the one before a step not confirmed yet."""
        known = [super().best_known(state), confirmed(state)]
        return min((each for each in known if each is not None), key=itemgetter(1), default=None)


@dataclass(frozen=True)
class FedIterHT(FedHT):
    """Federated Iterative Hard Thresholding: H_τ after every local step too (Algorithm 2).

    Parameters are those of `FedHT`. Clients send τ-sparse vectors.

    Examples
    --------
    >>> FedIterHT(200, local_steps=10).local_steps
    10
    """

    thresholds_locally: ClassVar[bool] = True


@dataclass(frozen=True)
class DistributedIHT(FedHT):
    """Distributed IHT: one local step a round, H_τ at the server. Rounds are iterations.

    Parameters are those of `FedHT`, without ``local_steps``.

    Examples
    --------
    >>> DistributedIHT(200, step_size=0.01).local_steps
    1
    """

    local_steps: int = field(default=1, init=False)


# With one client (``data.pooled()``) these are the centralized methods of the literature.


@dataclass(frozen=True)
class GDHT(DistributedIHT):
    """Gradient descent with hard thresholding (Jain, Tewari & Kar, NeurIPS 2014).

    Examples
    --------
    >>> GDHT(10).batch_size is None
    True
    """

    batch_size: None = field(default=None, init=False)
    variance_reduction: bool = field(default=False, init=False)


@dataclass(frozen=True)
class HTP(GDHT):
    """Hard thresholding pursuit (Foucart, 2011; Yuan, Li & Zhang, JMLR 2018): `GDHT` with refits.

    A gradient step, H_τ, then the minimum on the support: exact for the squared loss, two Newton
    steps otherwise. An iteration is two rounds for the squared loss, up to four otherwise.

    Examples
    --------
    >>> HTP(10, step_size=0.1).refit
    True
    """

    refit: bool = field(default=True, init=False)


@dataclass(frozen=True)
class SGDHT(DistributedIHT):
    """Mini-batch gradient descent with hard thresholding (Nguyen, Needell & Woolf, 2017).

    Examples
    --------
    >>> SGDHT(10, batch_size=32).batch_size
    32
    """

    batch_size: int = field(default=1, kw_only=True)
    variance_reduction: bool = field(default=False, init=False)


@dataclass(frozen=True)
class HSGHT(DistributedIHT):
    """Hybrid stochastic gradient, a geometrically growing batch (Zhou, Yuan & Feng, 2018).

    Examples
    --------
    >>> HSGHT(10, batch_size=GrowingBatch(8, 1.2)).batch_size.size(5)
    20
    """

    batch_size: GrowingBatch = field(default=GrowingBatch(1, 1.1), kw_only=True)
    variance_reduction: bool = field(default=False, init=False)


@dataclass(frozen=True)
class SVRGHT(FedIterHT):
    """Stochastic variance-reduced gradient with hard thresholding (Li et al., ICML 2016).

    A round is one epoch: a full gradient at the snapshot x_t, then ``local_steps`` corrected
    mini-batch steps, each followed by H_τ.

    Examples
    --------
    >>> SVRGHT(10, batch_size=4, local_steps=50).variance_reduction
    True
    """

    batch_size: int = field(default=1, kw_only=True)
    variance_reduction: bool = field(default=True, init=False)
