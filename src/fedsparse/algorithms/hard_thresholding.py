"""Fed-HT, FedIter-HT, Distributed-IHT, and the centralized methods they generalize.

Tong, Liang, Zhu & Bi, Federated Nonconvex Sparse Learning, 2021. All run

    for t = 0 … T−1:
        every client i:  x_i ← x_t
                         K times:  x_i ← x_i − γ g_i(x_i)
                                   x_i ← H_τ(x_i)              (FedIter-HT only)
        x_{t+1} = H_τ(Σ p_i x_i)

and differ in K and in where H_τ is applied. The local loop is `fedsparse.requests.LocalSteps`.
"""

from dataclasses import dataclass, field
from operator import itemgetter

from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.averaging import FedAvg
from fedsparse.algorithms.refit import (
    begin_refit,
    confirmed,
    is_refitting,
    refit_options,
    refit_request,
    refit_update,
)
from fedsparse.algorithms.step_sizes import GrowingBatch
from fedsparse.arrays import FloatArray
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity, as_sparsity
from fedsparse.requests import Answers, Request


@dataclass(frozen=True)
class FedHT(FedAvg):
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

    sparsity: int | Sparsity
    refit: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        as_sparsity(self.sparsity, (1,))  # refuses a τ below 1

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """The state before the first round; a constraint that does not fit is refused here."""
        state = super().start(shape, seed, loss)
        self._project(state.x)
        if not self.refit:
            return state
        if len(shape) > 1:
            raise OptionError(
                "refit=True works with the squared and the logistic loss; leave it out for softmax"
            )
        return state.remember(**refit_options(loss))

    def request(self, state: State) -> Request:
        """Ask for local steps, or for the curvature that a refit needs."""
        return refit_request(state) if is_refitting(state) else super().request(state)

    def update(self, state: State, answers: Answers) -> State:
        """Move to the projected average, or refit."""
        if is_refitting(state):
            return refit_update(state, answers)
        moved = super().update(state, answers)
        return begin_refit(moved) if self.refit and moved.round > state.round else moved

    def best_known(self, state: State) -> tuple[FloatArray, float] | None:
        """The best x of the adaptive step, or the one before a step not confirmed yet."""
        known = [super().best_known(state), confirmed(state)]
        return min((each for each in known if each is not None), key=itemgetter(1), default=None)

    def _project(self, x: FloatArray) -> FloatArray:
        return as_sparsity(self.sparsity, x.shape).project(x)


@dataclass(frozen=True)
class FedIterHT(FedHT):
    """Federated Iterative Hard Thresholding: H_τ after every local step too (Algorithm 2).

    Parameters are those of `FedHT`. Clients send τ-sparse vectors.

    Examples
    --------
    >>> FedIterHT(200, local_steps=10).local_steps
    10
    """

    def _local_sparsity(self, state: State) -> Sparsity:
        return as_sparsity(self.sparsity, state.x.shape)


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
