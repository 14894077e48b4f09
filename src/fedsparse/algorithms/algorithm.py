"""The server's side of an algorithm: what to ask next, and what to make of the answers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers, Request, Weights


@dataclass(frozen=True)
class State:
    """All that an algorithm remembers from round to round; a checkpoint is this written out.

    Attributes
    ----------
    x
        x_t, the current coefficients.
    round
        t, how many times x has been updated.
    iterations
        Local steps taken by each client so far.
    seed
        Seed of the run.
    memory
        Whatever else the algorithm keeps, by name.
    """

    x: FloatArray
    round: int = 0
    iterations: int = 0
    seed: int = 0
    memory: Mapping[str, FloatArray] = field(default_factory=dict)

    def step(self, x: FloatArray, iterations: int) -> "State":
        """The state after a round that led to ``x``."""
        return replace(
            self, x=x, round=self.round + 1, iterations=self.iterations + int(iterations)
        )

    def forget(self, *names: str) -> "State":
        """The same state with less in memory."""
        kept = {name: value for name, value in self.memory.items() if name not in names}
        return replace(self, memory=kept)

    def remember(self, **values: FloatArray) -> "State":
        """The same state with more in memory."""
        return replace(self, memory={**self.memory, **values})


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """Base of all algorithms.

    An algorithm is three functions over an explicit state and never touches data: ``start`` makes
    the state, ``request`` says what to ask the clients next, ``update`` makes the next state of
    their answers.

    Parameters
    ----------
    clients_per_round
        How many clients, drawn anew each round, take part; None for all.
    weights
        p_i: ``"uniform"`` (1/N), ``"samples"`` (n_i/n), or one number per client, summing to one.

    Examples
    --------
    A complete algorithm: plain gradient descent on all clients.

    >>> import fedsparse as fs
    >>> from fedsparse.algorithms.algorithm import Algorithm
    >>> class GradientDescent(Algorithm):
    ...     def request(self, state):
    ...         return fs.Gradient(state.x)
    ...     def update(self, state, answers):
    ...         return state.step(state.x - 0.1 * answers.mean("gradient"), iterations=1)
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> float(fs.run(GradientDescent(), data, rounds=100).coef.round(6)[0])
    3.0
    """

    clients_per_round: int | None = None
    weights: Weights = "uniform"

    def __post_init__(self) -> None:
        if self.clients_per_round is not None:
            check_count("clients_per_round", self.clients_per_round)
        if isinstance(self.weights, str) and self.weights not in ("uniform", "samples"):
            raise OptionError(
                f'weights must be "uniform", "samples" or one number per client, '
                f"not {self.weights!r}"
            )

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """The state before the first round: x_0 = 0."""
        return State(x=np.zeros(shape, order="F"), seed=seed)

    @abstractmethod
    def request(self, state: State) -> Request:
        """What to ask the clients next."""

    @abstractmethod
    def update(self, state: State, answers: Answers) -> State:
        """The state after their answers."""

    def best_known(self, state: State) -> tuple[FloatArray, float] | None:
        """The best x whose objective the server has learned, if the algorithm returns that one."""
        if "best_objective" not in state.memory:
            return None
        return state.memory["best"], float(state.memory["best_objective"][0])

    def is_done(self, state: State) -> bool:
        """Whether more rounds would change nothing."""
        return False

    def restarted(self, x: FloatArray, seed: int, generation: int) -> Sequence["Algorithm"]:
        """What to run, in lockstep, after a run that ended at x, to look for something better."""
        return ()

    def shortened(self, state: State) -> State | None:
        """The state to go on with where answers are not finite; None: the run has diverged."""
        return None

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Try a smaller step size."

    def check_weights(self, clients: int) -> None:
        """Refuse weights that are not one number per client, summing to one.

        Examples
        --------
        >>> import fedsparse as fs
        >>> fs.FedAvg(weights=[0.5, 0.6]).check_weights(2)
        Traceback (most recent call last):
            ...
        fedsparse.errors.OptionError: weights sum to 1.1 instead of 1; divide them by their sum
        """
        if isinstance(self.weights, str):
            return
        try:
            weights = np.asarray(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise OptionError("weights must be numbers ≥ 0") from None
        if weights.shape != (clients,):
            raise OptionError(
                f"weights has {weights.size} entries for {clients} clients; give one each"
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise OptionError("weights must be numbers ≥ 0")
        if not np.isclose(weights.sum(), 1.0, rtol=0, atol=1e-9):
            raise OptionError(
                f"weights sum to {weights.sum():.6g} instead of 1; divide them by their sum"
            )
        count = self.clients_per_round
        if count is not None and count <= np.count_nonzero(weights == 0):
            raise OptionError(
                "weights has so many zeros that all clients of a round may have weight 0; "
                "raise clients_per_round or leave those clients out"
            )
