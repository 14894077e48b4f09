"""Run an algorithm on clients: ask, update, record, until the rounds are done."""

import time
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from fedsparse import checkpoint as checkpoints
from fedsparse.algorithms.base import Algorithm, State
from fedsparse.answers import Answers
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checkpoint import Progress
from fedsparse.checks import check_count, check_seed
from fedsparse.clients.workers import available_threads
from fedsparse.data.federated import FederatedData
from fedsparse.engines import Engine, LocalEngine
from fedsparse.errors import (
    CheckpointError,
    DataError,
    DivergenceWarning,
    FederationError,
    OptionError,
)
from fedsparse.history import Record
from fedsparse.kernels.random import sample_without_replacement
from fedsparse.losses import Loss, as_loss
from fedsparse.requests import Describe, Evaluate, Request
from fedsparse.result import Result

# An objective this many times that of x_0 has diverged: x_0 = 0 is a poor model already.
_HOPELESS = 1e3
# In place of a client's number when the clients of a round are drawn.
_PARTICIPATION = -1


def run(
    algorithm: Algorithm,
    data: FederatedData,
    *,
    loss: str | Loss = "squared",
    rounds: int = 100,
    seed: int = 0,
    engine: Literal["local"] = "local",
    threads: int | None = None,
    evaluate_every: int = 1,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 10,
    on_round: Callable[[Record], None] | None = None,
) -> Result:
    """Learn a sparse model from clients' data.

    Parameters
    ----------
    algorithm
        Such as ``FedIterHT(sparsity=200, local_steps=10)``.
    data
        The clients.
    loss
        ``"squared"``, ``"logistic"``, ``"softmax"`` or a loss object.
    rounds
        T, how many times x is updated.
    seed
        Fixes mini-batches and which clients take part.
    engine
        ``"local"``: all clients in this process.
    threads
        Clients worked on at a time; all cores by default. Results do not depend on it.
    evaluate_every
        Work out f(x) and write a line of history every so many rounds, and at the end.
    checkpoint
        A file to save the run to, and to go on from if it exists.
    every
        Rounds between two saves. Interrupting the run saves it, too.
    on_round
        Called with each `Record` as it is made.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients(
    ...     [([[1.0, 0.0], [0.0, 1.0]], [3.0, 0.1]), ([[1.0, 1.0]], [3.2])]
    ... )
    >>> result = fs.run(fs.FedIterHT(sparsity=1, local_steps=3), data, rounds=30)
    >>> result.support
    array([0])
    """
    _check_algorithm(algorithm)
    if not isinstance(data, FederatedData):
        raise OptionError(
            "the second argument must be FederatedData; make it with "
            "FederatedData.from_clients([(X, y), …]) or FederatedData.from_table(X, y, sites)"
        )
    _check_options(rounds, seed, evaluate_every, every)
    if engine != "local":
        raise OptionError(f'unknown engine {engine!r}; use "local"')
    carrier = LocalEngine(data, as_loss(loss), available_threads() if threads is None else threads)
    try:
        saver = _saver(carrier, algorithm, seed, checkpoint, every)
        return _Run(algorithm, carrier, int(seed), rounds, saver, on_round).finish(evaluate_every)
    finally:
        carrier.close()


def run_on(
    engine: Engine,
    algorithm: Algorithm,
    *,
    rounds: int = 100,
    seed: int = 0,
    evaluate_every: int = 1,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 10,
    on_round: Callable[[Record], None] | None = None,
) -> Result:
    """Learn a sparse model from the clients that an engine reaches.

    Parameters
    ----------
    engine
        Knows the clients and the loss; it is not closed.
    algorithm, rounds, seed, evaluate_every, checkpoint, every, on_round
        As for `run`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> engine = LocalEngine(data, fs.SquaredError(), threads=1)
    >>> run_on(engine, fs.FedAvg(local_steps=2), rounds=50).coef.round(6)
    array([3.])
    """
    _check_algorithm(algorithm)
    _check_options(rounds, seed, evaluate_every, every)
    saver = _saver(engine, algorithm, seed, checkpoint, every)
    return _Run(algorithm, engine, int(seed), rounds, saver, on_round).finish(evaluate_every)


def _check_algorithm(algorithm: object) -> None:
    if not isinstance(algorithm, Algorithm):
        raise OptionError(
            f"the first argument must be an algorithm such as FedIterHT(sparsity=20), "
            f"not {algorithm!r}"
        )


def _check_options(rounds: int, seed: int, evaluate_every: int, every: int) -> None:
    for name, value in (("rounds", rounds), ("evaluate_every", evaluate_every), ("every", every)):
        check_count(name, value)
    check_seed(seed)


def _saver(
    engine: Engine,
    algorithm: Algorithm,
    seed: int,
    checkpoint: str | PathLike[str] | None,
    every: int,
) -> "_Saver | None":
    if checkpoint is None:
        return None
    identity = checkpoints.problem_identity(algorithm, engine.fingerprint(), engine.loss, int(seed))
    return _Saver(Path(checkpoint), identity, every)


class _Saver:
    """Where and how often a run is saved."""

    def __init__(self, path: Path, identity: dict[str, str], every: int) -> None:
        self.path, self.identity, self.every = path, identity, every
        if not path.parent.is_dir():
            raise CheckpointError(
                f"{path} cannot be saved: there is no folder {path.parent}; make it first"
            )

    def save(self, progress: Progress) -> None:
        checkpoints.save(self.path, self.identity, progress)

    def load(self, rounds: int) -> Progress | None:
        if not self.path.exists():
            return None
        progress = checkpoints.load(self.path, self.identity)
        if progress.state.round > rounds:
            raise CheckpointError(
                f"{self.path} is at round {progress.state.round}, past the {rounds} asked for; "
                "ask for more rounds or choose another path"
            )
        return progress


class _Run:
    """A run in progress."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Engine,
        seed: int,
        rounds: int,
        saver: _Saver | None,
        on_round: Callable[[Record], None] | None,
    ) -> None:
        self._algorithm = algorithm
        self._engine = engine
        self._rounds = rounds
        self._saver = saver
        self._on_round = on_round
        self._everyone = np.arange(engine.masses.size)
        self._weights = algorithm.client_weights(engine.masses)
        self._check_participation()
        loaded = saver.load(rounds) if saver else None
        if loaded is None:
            start = algorithm.start(engine.shape, seed, engine.loss)
            self._progress = Progress(start, start)
            self._record(self._objective(start.x))
        else:
            self._progress = loaded
        if not np.isfinite(self._progress.records[0].objective):
            raise DataError(
                "f is not finite even at the start: the targets, or the x to start at, are too "
                "large; rescale them"
            )

    def finish(self, evaluate_every: int) -> Result:
        """Go on until all rounds are made or the run diverges."""
        diverged = False
        try:
            while not (diverged or self._is_over()):
                diverged = not self._advance(evaluate_every)
            if self._progress.records[-1].round < self._progress.state.round:
                self._record(self._objective(self._progress.state.x))
        except (KeyboardInterrupt, FederationError):
            self._save()
            raise
        self._save()
        x, objective = self._best()
        if not diverged:
            self._warn_if_worse_than_nothing(objective)
        records = tuple(self._progress.records)
        return Result(x, diverged, self._engine.classes, records, objective)

    def _best(self) -> tuple[FloatArray, float]:
        """The last x and its objective, or a better one that the algorithm remembers."""
        state, last = self._progress.state, self._progress.records[-1]
        known = self._algorithm.best_known(state)
        if known is not None and known[1] < last.objective:
            return known
        return state.x, last.objective

    def _is_over(self) -> bool:
        state = self._progress.state
        return state.round >= self._rounds or self._algorithm.is_done(state)

    def _advance(self, evaluate_every: int) -> bool:
        """One request and its answers; False, and the state stays, if they blew up."""
        progress = self._progress
        before = progress.state
        began = time.perf_counter()
        request = self._algorithm.request(before)
        which = request.asked(self._everyone if request.of_everyone else self._participants(before))
        with np.errstate(all="ignore"):  # what is not finite is looked for here
            answers = self._gather(request, which)
            if not answers.is_finite():
                if isinstance(request, Describe):
                    raise DataError("a client's smoothness is not finite; rescale its features")
                return self._give_up("an answer is not finite")
            after = self._algorithm.update(before, answers)
        seconds = time.perf_counter() - began
        if not np.isfinite(after.x).all():
            return self._give_up("x is not finite")
        is_new = after.round > before.round
        is_last = after.round == self._rounds
        is_due = is_new and (after.round % evaluate_every == 0 or is_last)
        objective = self._objective(after.x) if is_due else None
        is_guarded = self._algorithm.best_known(after) is not None
        if objective is not None and not self._is_plausible(objective, is_guarded):
            return self._give_up(f"the objective reached {objective:.3g}")
        advanced = Progress(
            after,
            progress.evaluated if objective is None else after,
            progress.records,
            progress.bytes_down + which.size * request.encoded_bytes(),
            progress.bytes_up + answers.encoded_bytes(),
            progress.seconds + seconds,
            progress.absent + which.size - answers.clients.size,
        )
        if objective is not None:
            advanced.records = [*progress.records, _record_of(advanced, objective)]
        self._progress = advanced  # in one step: an interrupt finds all of a round or none of it
        if objective is not None and self._on_round:
            self._on_round(advanced.records[-1])
        if self._saver and is_new and after.round % self._saver.every == 0:
            self._save()
        return True

    def _is_plausible(self, objective: float, is_guarded: bool) -> bool:
        """Whether the objective is a number and not far above where the run began.

        An algorithm that remembers its best x comes back from far above by itself.
        """
        if is_guarded:
            return bool(np.isfinite(objective))
        return objective <= _HOPELESS * max(self._progress.records[0].objective, 1e-300)

    def _give_up(self, reason: str) -> bool:
        """Go back to the last state whose objective is known, and say why."""
        progress = self._progress
        failed, last = progress.state.round + 1, progress.records[-1]
        totals = (last.bytes_down, last.bytes_up, last.seconds, last.absent)
        good = progress.evaluated
        self._progress = Progress(good, good, progress.records, *totals)
        self._warn(
            f"diverged in round {failed}: {reason}. "
            f"The result is that of round {self._progress.state.round}."
        )
        return False

    def _warn_if_worse_than_nothing(self, last: float) -> None:
        first = self._progress.records[0].objective
        if last > first:
            self._warn(
                f"ended with an objective of {last:.3g}, above the {first:.3g} at its start."
            )

    def _warn(self, what: str) -> None:
        advice = self._algorithm.divergence_advice()
        message = f"{type(self._algorithm).__name__} {what} {advice}"
        warnings.warn(message, DivergenceWarning, stacklevel=6)

    def _gather(self, request: Request, which: Int64Array) -> Answers:
        """The answers that came, weights adding up to one."""
        fields, answered = self._engine.gather(request, which)
        weights = self._weights[answered]
        # A client of weight 0 may still be the only one asked.
        if weights.any():
            return Answers(fields, answered, weights / weights.sum())
        return Answers(fields, answered, np.full(answered.size, 1 / answered.size))

    def _objective(self, x: FloatArray) -> float:
        fields, answered = self._engine.gather(Evaluate(x), self._everyone)
        weights = self._weights
        if answered.size < weights.size:
            weights = weights[answered] / weights[answered].sum()
        return float(Answers(fields, answered, weights).average("objective"))

    def _record(self, objective: float) -> None:
        self._progress.evaluated = self._progress.state
        record = _record_of(self._progress, objective)
        self._progress.records.append(record)
        if self._on_round:
            self._on_round(record)

    def _participants(self, state: State) -> Int64Array:
        """Places of the clients that take part in the coming round."""
        count = self._algorithm.clients_per_round
        if count is None or count == self._everyone.size:
            return self._everyone
        drawn = sample_without_replacement(
            state.seed, _PARTICIPATION, state.round, 0, self._everyone.size, count
        )
        return np.sort(drawn)

    def _check_participation(self) -> None:
        count = self._algorithm.clients_per_round
        if count is not None and count <= np.count_nonzero(self._weights == 0):
            raise OptionError(
                "weights has so many zeros that all clients of a round may have weight 0; "
                "raise clients_per_round or leave those clients out"
            )
        if count is not None and count > self._everyone.size:
            raise OptionError(
                f"clients_per_round is {count}, but there are only {self._everyone.size} clients"
            )

    def _save(self) -> None:
        if self._saver:
            self._saver.save(self._progress)


def _record_of(progress: Progress, objective: float) -> Record:
    return Record(
        round=progress.state.round,
        iterations=progress.state.iterations,
        objective=objective,
        nonzeros=int(np.count_nonzero(progress.state.x)),
        bytes_down=progress.bytes_down,
        bytes_up=progress.bytes_up,
        seconds=progress.seconds,
        absent=progress.absent,
    )
