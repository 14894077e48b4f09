"""Run an algorithm on clients: ask, update, record, until the rounds are done."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from os import PathLike
from pathlib import Path
from types import FrameType

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count, check_seed
from fedsparse.compute.kernels.random import sample_without_replacement
from fedsparse.engines import checkpoint as checkpoints
from fedsparse.engines.checkpoint import Reached
from fedsparse.engines.conversation import Conversation, converse, together
from fedsparse.engines.engine import Ask, Engine
from fedsparse.engines.handed_back import checked_request, checked_state
from fedsparse.engines.history import Record
from fedsparse.engines.opening import open_engine
from fedsparse.engines.result import Result, with_restarts
from fedsparse.errors import (
    CheckpointError,
    DataError,
    DivergenceWarning,
    FederationError,
    OptionError,
)
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers, Evaluate, Request, Smoothness

HOPELESS = 1e3
"""A run has diverged, and ends, where f or x is no finite number or f is above so many times
f(x_0): x_0 = 0 is a poor model already."""
# An objective above another by less than this share of it may be the same: what tells f beside
# other answers adds rows up in another order.
_ROUNDING = 1e-9
# In place of a client's number when the clients of a round are drawn.
_PARTICIPATION = -1

OnRound = Callable[[Record], None]


def run(
    algorithm: Algorithm,
    data: FederatedData | Engine,
    *,
    loss: str | Loss | None = None,
    rounds: int = 100,
    seed: int = 0,
    engine: str = "local",
    device: str | None = None,
    threads: int | None = None,
    evaluate_every: int = 1,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 10,
    on_round: OnRound | None = None,
) -> Result:
    """Learn a sparse model from clients' data.

    Parameters
    ----------
    algorithm
        Such as ``FedIterHT(sparsity=200, local_steps=10)``.
    data
        The clients, or an engine that reaches them (which knows the loss, and is not closed).
    loss
        ``"squared"`` (the default), ``"logistic"``, ``"softmax"`` or a loss object.
    rounds
        T, how many times x is updated.
    seed
        Fixes mini-batches and which clients take part.
    engine, device
        What answers; see `open_engine`.
    threads
        Clients worked on at a time; all cores by default. Results do not depend on it.
    evaluate_every
        Learn f(x) and write a line of history every so many rounds, and at the end. Clients tell
        it with their next answer.
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
    _check_options(rounds=rounds, evaluate_every=evaluate_every, every=every)
    check_seed(seed)
    with _engine_for(data, loss, engine, device, threads) as answering:
        saver = None
        if checkpoint is not None:
            shown = f"{answering.fingerprint()} through {answering.lens.digest}"
            identity = checkpoints.problem_identity(
                algorithm, shown, answering.lens.loss, int(seed)
            )
            saver = _Saver(Path(checkpoint), identity, every)
        conversation = running(
            answering,
            algorithm,
            rounds=rounds,
            seed=seed,
            evaluate_every=evaluate_every,
            saver=saver,
            on_round=on_round,
        )
        return converse(answering, conversation)


def run_together(
    algorithms: Sequence[Algorithm],
    data: FederatedData | Engine,
    *,
    loss: str | Loss | None = None,
    rounds: int = 100,
    seed: int = 0,
    engine: str = "local",
    device: str | None = None,
    threads: int | None = None,
    evaluate_every: int = 1,
    on_round: OnRound | None = None,
) -> list[Result]:
    """Run several algorithms in lockstep: what all of them ask next is one message to a client.

    The results are those of one run after the other: bit for bit with compiled loops; to 1e-9 with
    ``engine="torch"``, where many models share a pass over the rows and much time. A run that is
    over, or has diverged, asks nothing more.

    Parameters
    ----------
    algorithms
        What to run.
    data, loss, rounds, seed, engine, device, threads, evaluate_every
        As for `run`.
    on_round
        Called with each `Record` of any of them as it is made.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=5, samples=40, width=30, relevant=3)
    >>> results = fs.run_together([fs.FedSplice(2), fs.FedSplice(4)], data)
    >>> [result.support.size for result in results]
    [2, 4]
    """
    for algorithm in algorithms:
        _check_algorithm(algorithm)
    _check_options(rounds=rounds, evaluate_every=evaluate_every)
    check_seed(seed)
    with _engine_for(data, loss, engine, device, threads) as answering:
        runs = [
            running(
                answering,
                algorithm,
                rounds=rounds,
                seed=seed,
                evaluate_every=evaluate_every,
                on_round=on_round,
            )
            for algorithm in algorithms
        ]
        return converse(answering, together(runs))


def running(
    engine: Engine,
    algorithm: Algorithm,
    *,
    rounds: int = 100,
    seed: int = 0,
    evaluate_every: int = 1,
    saver: "_Saver | None" = None,
    on_round: OnRound | None = None,
) -> Conversation[Result]:
    """A run as a conversation: yields what it asks, is sent sums, returns a result.

    Parameters
    ----------
    engine
        Whose clients are asked, through its lens.
    algorithm, rounds, seed, evaluate_every, on_round
        As for `run`.
    saver
        Keeps checkpoints.
    """
    course = _Course(engine, algorithm, int(seed), rounds, evaluate_every, saver, on_round)
    result = yield from _to_its_end(course)
    for generation in count():
        others = algorithm.restarted(result.coef, int(seed), generation)
        if not others or result.diverged:
            break
        courses = [_Course(engine, own, int(seed), rounds, 1, None, None) for own in others]
        found = yield from together([_to_its_end(own) for own in courses])
        before, result = result.objective, with_restarts(result, found)
        if not result.objective < before - _ROUNDING * abs(before):
            break
    return result


def _to_its_end(course: "_Course") -> Conversation[Result]:
    try:
        while not course.is_over():
            course.take((yield course.asks()))
        if course.lacks_last_objective():
            course.take_last((yield course.asks_last()))
    except (KeyboardInterrupt, FederationError):
        course.save()
        raise
    course.save()
    return course.result()


@contextmanager
def _engine_for(
    data: FederatedData | Engine,
    loss: str | Loss | None,
    engine: str,
    device: str | None,
    threads: int | None,
) -> Iterator[Engine]:
    if isinstance(data, Engine):
        if (loss, engine, device, threads) != (None, "local", None, None):
            raise OptionError(
                "an engine knows its loss, device and threads; leave loss, engine, device and "
                "threads out"
            )
        yield data
        return
    if not isinstance(data, FederatedData):
        raise OptionError(
            "the second argument must be FederatedData; make it with "
            "FederatedData.from_clients([(X, y), …]) or FederatedData.from_table(X, y, sites)"
        )
    loss = "squared" if loss is None else loss
    opened = open_engine(data, loss, engine=engine, device=device, threads=threads)
    try:
        opened.lens.loss.check_together(data)
        yield opened
    finally:
        opened.close()


def _check_algorithm(algorithm: object) -> None:
    if not isinstance(algorithm, Algorithm):
        raise OptionError(
            f"the first argument must be an algorithm such as FedIterHT(sparsity=20), "
            f"not {algorithm!r}"
        )


def _check_options(**counts: int) -> None:
    for name, value in counts.items():
        check_count(name, value)


def _frames_to_the_caller() -> int:
    """How far up the first line outside this package is, whatever held the conversation."""
    package, level = __name__.partition(".")[0], 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


class _Saver:
    """Where and how often a run is saved."""

    def __init__(self, path: Path, identity: dict[str, str], every: int) -> None:
        self.path, self.identity, self.every = path, identity, every
        if not path.parent.is_dir():
            raise CheckpointError(
                f"{path} cannot be saved: there is no folder {path.parent}; make it first"
            )

    def save(self, reached: Reached) -> None:
        checkpoints.save(self.path, self.identity, reached)

    def load(self, rounds: int) -> Reached | None:
        if not self.path.exists():
            return None
        reached = checkpoints.load(self.path, self.identity)
        if reached.state.round > rounds:
            raise CheckpointError(
                f"{self.path} is at round {reached.state.round}, past the {rounds} asked for; "
                "ask for more rounds or choose another path"
            )
        return reached


class _Course:
    """A run in progress: what it asks next, and what it makes of the answers."""

    def __init__(
        self,
        engine: Engine,
        algorithm: Algorithm,
        seed: int,
        rounds: int,
        evaluate_every: int,
        saver: _Saver | None,
        on_round: OnRound | None,
    ) -> None:
        self._engine = engine
        self._algorithm = algorithm
        self._rounds = rounds
        self._evaluate_every = evaluate_every
        self._saver = saver
        self._on_round = on_round
        self._everyone = np.arange(len(engine.names))
        self._check_participation()
        self._diverged = False
        self._request: Request | None = None
        self._is_objective_extra = False
        self._is_of_everyone = True
        start = self._checked(algorithm.start(engine.shape, seed, engine.lens.loss), "start")
        loaded = saver.load(rounds) if saver else None
        self._reached = Reached(start, start) if loaded is None else self._going_on(loaded)

    def _going_on(self, loaded: Reached) -> Reached:
        """How far the run has come, without f at its last x if more rounds are to tell it.

        It was asked for by itself, because the run ended there: its last bits may be others than
        those that come with the answers of the next round.
        """
        last, state = loaded.records[-1:], loaded.state
        is_at_end = state.round >= self._rounds or self._algorithm.is_done(state)
        is_due = state.round % self._evaluate_every == 0
        if not is_at_end and is_due and last and last[0].round == state.round:
            return replace(loaded, records=loaded.records[:-1])
        return loaded

    def is_over(self) -> bool:
        """Whether all rounds are made, more would change nothing, or the run diverged."""
        state = self._reached.state
        return self._diverged or state.round >= self._rounds or self._algorithm.is_done(state)

    def asks(self) -> tuple[Ask, ...]:
        """What the algorithm asks next, and f(x_t) where a line of history is due.

        f comes with the answers to the request if that can tell it, else it is asked beside it in
        the same message, unless the algorithm knows it.
        """
        self._began = time.perf_counter()
        state = self._reached.state
        request = checked_request(
            self._algorithm.request(state), self._algorithm, self._engine.shape
        )
        taking_part = self._everyone if request.of_everyone else self._participants(state)
        which = request.asked(taking_part)
        is_everyone = which.size == self._everyone.size
        self._is_of_everyone = is_everyone
        beside: tuple[Ask, ...] = ()
        self._is_objective_extra = False
        self._known_objective: float | None = None
        if self._is_due(state) and request.is_round:
            telling = request.telling_objective() if is_everyone else None
            best = self._algorithm.best_known(state)
            if telling is None and best is not None and np.array_equal(best[0], state.x):
                self._known_objective = best[1]
            elif telling is None:
                beside = (self._evaluate(),)
            else:
                self._is_objective_extra = telling is not request
                request = telling
        self._request = request
        weights = self._algorithm.weights
        ask = self._engine.ask(request, weights, None if is_everyone else which)
        self._prepared = time.perf_counter() - self._began
        return (ask, *beside)

    def take(self, told: Sequence[Answers]) -> None:
        """Go on with the answers; the state stays if they blew up."""
        began = time.perf_counter()
        answers, request = told[0], self._request
        assert request is not None
        before, reached = self._reached.state, self._reached
        if answers.count == 0:
            self._skip_or_refuse(before)
            return
        shortened = None
        if self._is_due(before) and request.is_round:
            objective = self._known_objective
            if objective is None:
                objective = told[-1].average("objective")
            if self._is_plausible(objective):
                self._record(objective)
                reached = self._reached
            else:
                shortened = self._algorithm.shortened(before)
                if shortened is None:
                    self._give_up(f"the objective reached {objective:.3g}", before.round)
                    return
        with np.errstate(all="ignore"):  # what is not finite is looked for here
            if shortened is None and not answers.is_finite():
                if isinstance(request, Smoothness):
                    raise DataError("a client's smoothness is not finite; rescale its features")
                shortened = self._algorithm.shortened(before)
                if shortened is None:
                    self._give_up("an answer is not finite", before.round + 1)
                    return
            after = shortened or self._checked(self._algorithm.update(before, answers), "update")
        if not np.isfinite(after.x).all():
            self._give_up("x is not finite", before.round + 1)
            return
        seconds = self._prepared + sum(each.seconds for each in told)
        self._reached = Reached(  # in one step: an interrupt finds all of a round or none of it
            after,
            reached.evaluated,
            reached.records,
            reached.bytes_down + answers.asked * request.encoded_bytes(),
            reached.bytes_up + answers.bytes_up - self._bytes_of_objectives(answers),
            reached.seconds + seconds + time.perf_counter() - began,
            reached.absent + answers.absent,
        )
        is_new = after.round > before.round
        if self._saver and is_new and after.round % self._saver.every == 0:
            self.save()

    def _checked(self, state: State, by: str) -> State:
        return checked_state(state, self._algorithm, by, self._engine.shape)

    def _skip_or_refuse(self, before: State) -> None:
        """Nobody answered: those drawn for the round have no rows, or nobody has any.

        Or nobody tells: sites keep back what few of their rows would make up, and a step that
        overshot may bring all of them there.
        """
        if not self._is_of_everyone:
            self._reached = replace(self._reached, state=before.step(before.x, 0))
        elif self._reached.records:
            self._give_up("no client tells its answer there", before.round + 1)
        else:
            raise DataError("no client has a row to learn from; ask for other rows, or give more")

    def lacks_last_objective(self) -> bool:
        """Whether f at the last x is not known yet."""
        records = self._reached.records
        return not records or records[-1].round < self._reached.state.round

    def asks_last(self) -> tuple[Ask, ...]:
        """Ask for f at the last x."""
        return (self._evaluate(),)

    def take_last(self, told: Sequence[Answers]) -> None:
        """Record f at the last x, or go back if it is hopeless."""
        if told[0].count == 0:
            self._give_up("no client tells its answer there", self._reached.state.round)
            return
        objective = told[0].average("objective")
        if self._is_plausible(objective):
            self._record(objective)
        else:
            self._give_up(f"the objective reached {objective:.3g}", self._reached.state.round)

    def result(self) -> Result:
        """What the run found."""
        x, objective = self._best()
        if not self._diverged:
            self._warn_if_worse_than_nothing(objective)
        records = tuple(self._reached.records)
        is_done = not self._diverged and self._algorithm.is_done(self._reached.state)
        return Result(x, self._diverged, self._engine.classes, records, objective, is_done)

    def save(self) -> None:
        """Write a checkpoint, if the run keeps one."""
        if self._saver:
            self._saver.save(self._reached)

    def _bytes_of_objectives(self, answers: Answers) -> int:
        """Bytes of f_i(x_t) that only the history asked for: watching a run is not its cost."""
        return 8 * answers.count if self._is_objective_extra else 0

    def _evaluate(self) -> Ask:
        return self._engine.ask(Evaluate(self._reached.state.x), self._algorithm.weights)

    def _is_due(self, state: State) -> bool:
        """Whether the history lacks a line for the state."""
        records = self._reached.records
        is_new = not records or records[-1].round < state.round
        return is_new and state.round % self._evaluate_every == 0

    def _record(self, objective: float) -> None:
        """Write a line of history for the state."""
        reached = self._reached
        totals = (reached.bytes_down, reached.bytes_up, reached.seconds, reached.absent)
        # What was asked before the first round is part of what leads to x_1: x_0 costs nothing.
        led_here = totals if reached.records else (0, 0, 0.0, 0)
        if not reached.records and not np.isfinite(objective):
            raise DataError(
                "f is not finite even at the start: the targets, or the x to start at, are too "
                "large; rescale them"
            )
        record = Record(
            reached.state.round,
            reached.state.iterations,
            objective,
            int(np.count_nonzero(reached.state.x)),
            *led_here,
        )
        records = [*reached.records, record]
        self._reached = Reached(reached.state, reached.state, records, *totals)
        if self._on_round:
            self._on_round(record)

    def _best(self) -> tuple[FloatArray, float]:
        """The last x and its objective, or a better one that the algorithm remembers."""
        state, last = self._reached.state, self._reached.records[-1]
        known = self._algorithm.best_known(state)
        if known is not None and known[1] < last.objective:
            return known
        return state.x, last.objective

    def _is_plausible(self, objective: float) -> bool:
        """Whether the objective is a number and not far above where the run began.

        An algorithm that remembers its best x comes back from far above by itself.
        """
        records = self._reached.records
        if not records:
            return True
        if self._algorithm.best_known(self._reached.state) is not None:
            return bool(np.isfinite(objective))
        return objective <= HOPELESS * max(records[0].objective, 1e-300)

    def _give_up(self, reason: str, failed: int) -> None:
        """Go back to the last state whose objective is known, and say why."""
        self._diverged = True
        reached = self._reached
        if not reached.records:
            raise DataError(
                f"{reason} even at the start: the targets, or the x to start at, are too large; "
                "rescale them"
            )
        last, good = reached.records[-1], reached.evaluated
        totals = (last.bytes_down, last.bytes_up, last.seconds, last.absent)
        self._reached = Reached(good, good, reached.records, *totals)
        self._warn(
            f"diverged in round {failed}: {reason}. The result is that of round {good.round}."
        )

    def _warn_if_worse_than_nothing(self, last: float) -> None:
        first = self._reached.records[0].objective
        if last > first + _ROUNDING * abs(first):
            self._warn(
                f"ended with an objective of {last:.3g}, above the {first:.3g} at its start."
            )

    def _warn(self, what: str) -> None:
        advice = self._algorithm.divergence_advice()
        message = f"{type(self._algorithm).__name__} {what} {advice}"
        warnings.warn(message, DivergenceWarning, stacklevel=_frames_to_the_caller())

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
        self._algorithm.check_weights(self._everyone.size)
        count = self._algorithm.clients_per_round
        if count is not None and count > self._everyone.size:
            raise OptionError(
                f"clients_per_round is {count}, but there are only {self._everyone.size} clients"
            )
