"""Asynchronous SVRG-HT, simulated: who comes next has read an x that may be old."""

import numpy as np
import pytest

import fedsparse as fs
from tests.builders import LOSS_OBJECTS, clients_for, federate

TAU = 5
OPTIONS = {"staleness": 3, "updates": 6, "clients_per_round": 2, "step_size": 0.02}


class Watched(fs.LocalEngine):
    """Notes what was asked of whom."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []

    def exchange(self, asks):
        self.asked.extend((ask.request, ask.which) for ask in asks)
        return super().exchange(asks)


def watched(rounds=20, **options):
    engine = Watched(federate(clients_for("squared")), LOSS_OBJECTS["squared"], 1)
    iterates = []
    algorithm = fs.AsyncSVRGHT(TAU, **(OPTIONS | options))
    for count in range(1, rounds + 1):
        iterates.append(fs.run(algorithm, engine, rounds=count, evaluate_every=100).coef)
    engine.asked.clear()
    fs.run(algorithm, engine, rounds=rounds, evaluate_every=100)
    kinds = (fs.Slopes, fs.CorrectedSteps)
    return [ask for ask in engine.asked if isinstance(ask[0], kinds)], [np.zeros(24), *iterates]


def ages(asked, iterates):
    """For every update the lowest number of rounds since x was what was read."""
    found = []
    for round_, (request, _) in enumerate(asked):
        if isinstance(request, fs.CorrectedSteps):
            same = [np.array_equal(request.x, x) for x in iterates[round_::-1]]
            found.append(same.index(True))
    return found


def test_what_was_read_is_at_most_so_many_updates_old_and_sometimes_is():
    found = ages(*watched())
    assert set(found) == {0, 1, 2, 3}


def test_without_staleness_everybody_has_read_the_last_x():
    assert set(ages(*watched(staleness=0))) == {0}


def test_everyone_tells_the_gradient_and_then_some_come_next():
    asked, _ = watched()
    kinds = [type(request).__name__ for request, _ in asked]
    assert kinds == (["Slopes"] + ["CorrectedSteps"] * 6) * 2 + ["Slopes"] + ["CorrectedSteps"] * 5
    assert all(which is None for request, which in asked if isinstance(request, fs.Slopes))
    others = [tuple(which) for request, which in asked if which is not None]
    assert {len(which) for which in others} == {2}
    assert len(set(others)) > 1


def test_nothing_that_was_read_is_older_than_the_snapshot():
    asked, iterates = watched(staleness=100)
    for round_, (request, _) in enumerate(asked):
        if isinstance(request, fs.CorrectedSteps):
            since = iterates[round_ - round_ % 7 : round_ + 1]
            assert any(np.array_equal(request.x, x) for x in since)


def test_a_seed_is_a_run():
    data = federate(clients_for("squared"))
    algorithm = fs.AsyncSVRGHT(TAU, **OPTIONS)
    one, same, other = (fs.run(algorithm, data, rounds=12, seed=seed).coef for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_f_in_the_history_is_that_of_x_and_not_of_what_was_read():
    clients = clients_for("squared", rows=(30,))
    options = OPTIONS | {"clients_per_round": None}
    result = fs.run(fs.AsyncSVRGHT(TAU, **options), federate(clients), rounds=9)
    for record in result.records[1:]:
        alone = fs.run(fs.AsyncSVRGHT(TAU, **options), federate(clients), rounds=record.round)
        assert record.objective == pytest.approx(alone.objective, rel=1e-12)


@pytest.mark.parametrize(
    "options", [{"staleness": -1}, {"staleness": 1.5}, {"updates": 0}, {"step_size": 0}], ids=str
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(fs.OptionError, match=next(iter(options))):
        fs.AsyncSVRGHT(TAU, **options)


def test_a_loss_without_bounded_curvature_needs_a_step_size():
    data = fs.FederatedData.from_clients([(np.ones((3, 2)), np.array([1.0, 0.0, 2.0]))])
    with pytest.raises(fs.OptionError, match="give a step_size"):
        fs.run(fs.AsyncSVRGHT(1), data, loss="poisson")
