"""Conversations in lockstep: the bits of one by one, the exchanges of the slowest."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines.conversation import exchanges_of
from fedsparse.engines.run import running
from fedsparse.modelling.choosing import choose_by_ebic, cross_validate
from fedsparse.modelling.fitting import FitOptions, fit
from fedsparse.modelling.judging import evaluate_held_out, given
from fedsparse.modelling.stability import select_stably
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

LOSS = LOSS_OBJECTS["logistic"]
OPTIONS = FitOptions(LOSS)
NAMES = [str(feature) for feature in range(24)]


class Counted(fs.LocalEngine):
    """Notes how many asks every exchange carried."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asks = []

    def exchange(self, asks):
        self.asks.append(len(asks))
        return super().exchange(asks)


@pytest.fixture(params=STORAGES)
def engine(request):
    return Counted(federate(clients_for("logistic", rows=(9, 12, 30, 11)), request.param), LOSS, 1)


ALGORITHMS = (
    fs.FedIterHT(3, local_steps=2),
    fs.FedSplice(3),
    fs.FedHT(4, local_steps=3, batch_size=4, step_size=0.05, clients_per_round=2),
    fs.EDSL(3),
    fs.GraSP(3),
    fs.ScaffoldHT(3, local_steps=2),
    fs.AsyncSVRGHT(3, clients_per_round=2, updates=3),
    fs.FedAvg(local_steps=2, server_step="adaptive"),
)


def told(result):
    """All that a run found, but for how long it took."""
    records = [(r.round, r.objective, r.nonzeros, r.bytes_up, r.bytes_down) for r in result.records]
    return result.coef.tobytes(), result.objective, records


def counting(numbers, engine, log, name):
    """A conversation of so many exchanges that notes what it is told."""
    for number in range(numbers):
        (answers,) = yield (engine.ask(fs.Evaluate(np.full(24, float(number)))),)
        log.append((name, number))
        assert answers.count == 4
    return name


# ---------------------------------------------------------------- the same bits


def test_runs_in_lockstep_are_those_of_one_by_one(engine):
    together = fs.run_together(ALGORITHMS, engine, rounds=6, seed=4)
    for algorithm, result in zip(ALGORITHMS, together, strict=True):
        assert told(result) == told(fs.run(algorithm, engine, rounds=6, seed=4))


def test_rounds_of_all_that_are_in_lockstep_are_told_as_they_are_made(engine):
    records = []
    results = fs.run_together(ALGORITHMS, engine, rounds=3, on_round=records.append)
    made = [record.round for result in results for record in result.records]
    assert [record.round for record in records] != made  # not one run after the other
    assert sorted(record.round for record in records) == sorted(made)


def test_a_run_does_not_depend_on_what_else_is_in_lockstep(engine):
    alone = fs.run_together(ALGORITHMS[:1], engine, rounds=6)
    first = fs.run_together(ALGORITHMS, engine, rounds=6)
    last = fs.run_together(ALGORITHMS[::-1], engine, rounds=6)
    assert told(alone[0]) == told(first[0]) == told(last[-1])


def analyses(engine):
    """Everything that is made of several runs."""
    return {
        "cross-validation": lambda: cross_validate(engine, [1, 3], OPTIONS, folds=3),
        "EBIC": lambda: choose_by_ebic(engine, [1, 3], OPTIONS),
        "stability": lambda: select_stably(engine, 3, OPTIONS, NAMES, pairs=3),
        "judging": lambda: evaluate_held_out(engine, given(3), OPTIONS, folds=3),
        "a fit": lambda: fit(engine, 3, OPTIONS),
    }


def found(result):
    """A result as something that can be compared, exchanges and all."""
    if isinstance(result, tuple):
        return [found(part) for part in result]
    if hasattr(result, "coefficients"):
        return result.coefficients.tobytes(), result.intercept.tobytes()
    return result.model_dump()


def test_analyses_in_lockstep_are_those_of_one_by_one(engine):
    makers = analyses(engine)
    one_by_one = [found(fs.converse(engine, make())) for make in makers.values()]
    together = fs.converse(engine, fs.together([make() for make in makers.values()]))
    assert [found(result) for result in together] == one_by_one


@pytest.mark.parametrize("name", ["cross-validation", "stability", "judging"])
def test_an_analysis_in_lockstep_takes_no_more_exchanges_than_its_slowest_part(engine, name):
    found = fs.converse(engine, analyses(engine)[name]())
    assert len(engine.asks) == found.rounds
    assert max(engine.asks) > 1


def test_cross_validation_in_lockstep_is_that_of_its_folds(engine):
    """A path on the rows without a fold, judged on the fold: by itself and from outside."""
    chosen = fs.converse(engine, cross_validate(engine, [3], OPTIONS, folds=3))
    losses = []
    for fold in range(3):
        how = {"of": 3, "seed": 0, "by_class": True}
        training = engine.where(fs.Rows().but_part(fold, **how))
        model = fs.converse(engine, fit(training, 3, OPTIONS.roughly))
        lens = fs.Lens(LOSS, fs.Rows().part(fold, **how), model.scaling)
        ask = engine.through(lens).ask(
            fs.Evaluate(model.result.coef, is_penalized=False), "samples"
        )
        losses.append(engine.exchange([ask])[0].average("objective"))
    assert chosen.points[0].score == np.mean(losses)


# ---------------------------------------------------------------- exchanges


def test_exchanges_are_those_of_the_slowest(engine):
    log = []
    parts = [counting(numbers, engine, log, numbers) for numbers in (2, 5, 3)]
    results, exchanges = fs.converse(engine, exchanges_of(fs.together(parts)))
    assert results == [2, 5, 3]
    assert exchanges == 5
    assert engine.asks == [3, 3, 2, 1, 1]


def test_one_exchange_is_one_call_of_the_engine(engine):
    result = fs.run(fs.FedIterHT(3, step_size=0.1), engine, rounds=6)
    assert result.records[-1].round == 6
    assert engine.asks == [1] * 7  # six rounds, and f at the last x


def test_smoothness_takes_two_exchanges_before_the_first_round(engine):
    fs.run(fs.FedIterHT(3), engine, rounds=6)
    assert len(engine.asks) == 2 + 6 + 1


def test_f_travels_beside_what_cannot_tell_it(engine):
    """Two of the clients take part; f is that of all."""
    fs.run(fs.FedIterHT(3, step_size=0.1, clients_per_round=2), engine, rounds=3)
    assert engine.asks == [2, 2, 2, 1]


def test_conversations_one_after_the_other_add_their_exchanges(engine):
    def both():
        one = yield from exchanges_of(counting(2, engine, [], "a"))
        other = yield from exchanges_of(counting(3, engine, [], "b"))
        return one, other

    found, exchanges = fs.converse(engine, exchanges_of(both()))
    assert found == (("a", 2), ("b", 3))
    assert exchanges == 5


def test_nothing_to_ask_takes_no_exchange(engine):
    assert fs.converse(engine, fs.together([])) == []
    assert fs.run_together([], engine) == []
    assert engine.asks == []


# ---------------------------------------------------------------- errors


class Failing(Counted):
    """Fails in a certain exchange."""

    def __init__(self, *arguments, at, error):
        super().__init__(*arguments)
        self.at, self.error = at, error

    def exchange(self, asks):
        answers = super().exchange(asks)
        if len(self.asks) == self.at:
            raise self.error
        return answers


def failing(at, error):
    return Failing(federate(clients_for("logistic")), LOSS, 1, at=at, error=error)


def noting(engine, log, name):
    try:
        yield from counting(9, engine, [], name)
    except fs.FederationError as error:
        log.append((name, str(error)))
        raise


def test_an_error_is_told_to_all():
    engine, log = failing(2, fs.FederationError("the line is dead")), []
    parts = [noting(engine, log, name) for name in "abc"]
    nested = fs.together([fs.together(parts[:2]), exchanges_of(parts[2])])
    with pytest.raises(fs.FederationError, match="the line is dead"):
        fs.converse(engine, nested)
    assert log == [(name, "the line is dead") for name in "abc"]


def test_one_that_has_ended_is_not_told():
    engine, log = failing(3, fs.FederationError("the line is dead")), []
    with pytest.raises(fs.FederationError):
        fs.converse(
            engine, fs.together([counting(1, engine, [], "done"), noting(engine, log, "going on")])
        )
    assert [name for name, _ in log] == ["going on"]


def test_an_error_of_one_conversation_ends_all_and_is_told_to_the_others(engine):
    log = []

    def refusing():
        yield (engine.ask(fs.Evaluate(np.zeros(24))),)
        raise fs.FederationError("these rows will not do")

    parts = [noting(engine, log, "before"), refusing(), noting(engine, log, "after")]
    with pytest.raises(fs.FederationError, match="these rows will not do"):
        fs.converse(engine, fs.together(parts))
    assert len(engine.asks) == 1
    assert [name for name, _ in log] == ["before", "after"]


def test_one_that_cannot_save_does_not_keep_the_others_from_it():
    engine, log = failing(2, fs.FederationError("the line is dead")), []

    def without_room():
        try:
            yield from counting(9, engine, [], "a")
        except fs.FederationError:
            raise OSError("the disk is full") from None

    with pytest.raises(OSError, match="the disk is full"):
        fs.converse(engine, fs.together([without_room(), noting(engine, log, "b")]))
    assert [name for name, _ in log] == ["b"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), fs.FederationError("gone")], ids=repr)
def test_an_interrupted_run_is_saved_wherever_it_stood(error, tmp_path):
    data = federate(clients_for("logistic"))
    algorithm = fs.FedIterHT(3, step_size=0.1)
    path = tmp_path / "run.npz"
    with pytest.raises(type(error)):
        fs.run(algorithm, failing(5, error), rounds=8, checkpoint=path)
    with pytest.raises(fs.CheckpointError, match="is at round 4,"):
        fs.run(algorithm, data, loss=LOSS, rounds=1, checkpoint=path)
    resumed = fs.run(algorithm, data, loss=LOSS, rounds=8, checkpoint=path)
    assert told(resumed) == told(fs.run(algorithm, data, loss=LOSS, rounds=8))


def test_all_runs_in_lockstep_are_told_of_an_interrupt():
    engine, saved = failing(4, KeyboardInterrupt()), []

    class Saver:
        every = 100

        def __init__(self, name):
            self.name = name

        def load(self, rounds):
            return None

        def save(self, reached):
            saved.append((self.name, reached.state.round))

    runs = [
        running(engine, fs.FedIterHT(3, step_size=0.1), rounds=rounds, saver=Saver(rounds))
        for rounds in (2, 8, 9)
    ]
    with pytest.raises(KeyboardInterrupt):
        fs.converse(engine, fs.together(runs))
    assert saved == [(2, 2), (8, 3), (9, 3)]


def test_a_conversation_that_ends_in_peace_does_not_undo_an_error():
    data = fs.FederatedData.from_clients([([[1.0]], [2.0])])
    error = RuntimeError("the line is away")
    failing = Failing(data, "squared", 1, at=1, error=error)

    def forgiving():
        try:
            yield (failing.ask(fs.Evaluate(np.zeros(1))),)
        except RuntimeError:
            return 7

    for conversation in (forgiving(), exchanges_of(forgiving()), fs.together([forgiving()])):
        failing.asks.clear()
        with pytest.raises(RuntimeError, match="the line is away"):
            fs.converse(failing, conversation)
