"""The adaptive server step: extrapolated steps, averaged, and a way back when they fail."""

import warnings

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.algorithms.server_steps import (
    MOMENTUM,
    SHRINK,
    TOLERATED,
    Adaptive,
    adaptive_step,
)
from tests import oracle
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate

TAU = 5
ROUNDS = 25
ALGORITHMS = {
    "FedAvg": lambda step: fs.FedAvg(local_steps=4, server_step=step),
    "FedHT": lambda step: fs.FedHT(TAU, local_steps=4, server_step=step),
    "FedIterHT": lambda step: fs.FedIterHT(TAU, local_steps=4, server_step=step),
    "DistributedIHT": lambda step: fs.DistributedIHT(TAU, server_step=step),
}


def run(algorithm, clients, *, loss="squared", storage="dense", rounds=ROUNDS, **options):
    return fs.run(
        algorithm, federate(clients, storage), loss=LOSS_OBJECTS[loss], rounds=rounds, **options
    )


def torn_clients(agreement):
    """Two clients that agree about the first coefficient and pull the second either way.

    Near the common coefficient the average change all but vanishes while the clients' own changes
    stay, so that the rule's step grows without bound.
    """
    Z = np.diag([np.sqrt(agreement), 1.0])
    return [(Z, np.array([3.0 * np.sqrt(agreement), pull])) for pull in (1.0, -1.0)]


def number(value):
    return np.array([float(value)])


# ---------------------------------------------------------------- one step


class TestStep:
    def test_begins_with_the_extrapolated_step(self):
        moved, known = adaptive_step(None, number(1), 9.0, number(3))
        assert moved == 4.0
        assert (known.best, known.best_objective) == (1.0, 9.0)

    def test_averages_each_step_with_the_one_before(self):
        """Steps of 4, −4 and 4 in turn: what overshoots is averaged away."""
        x, known, lengths = number(0), None, []
        for objective, extrapolated in ((9.0, 4), (8.0, -4), (7.0, 4), (6.0, 4)):
            moved, known = adaptive_step(known, x, objective, number(extrapolated))
            lengths.append(float((moved - x)[0]))
            x = moved
        expected = [4.0]
        for extrapolated in (-4, 4, 4):
            expected.append((1 - MOMENTUM) * extrapolated + MOMENTUM * expected[-1])
        assert lengths == expected

    @pytest.mark.parametrize(
        ("objective", "best"), [(3.0, 8.0), (4.0, 8.0), (4.5, 0.0), (TOLERATED * 4.0, 0.0)]
    )
    def test_goes_on_while_f_is_not_far_above_the_lowest(self, objective, best):
        _, known = adaptive_step(None, number(0), 4.0, number(8))
        moved, known = adaptive_step(known, number(8), objective, number(2))
        assert moved == 8.0 + (1 - MOMENTUM) * 2 + MOMENTUM * 8
        assert known.best == best
        assert known.best_objective == min(objective, 4.0)

    def test_returns_to_the_best_and_leaves_it_with_a_quarter_of_the_step(self):
        _, known = adaptive_step(None, number(1), 4.0, number(16))
        moved, known = adaptive_step(known, number(17), 50.0, number(-7))
        assert moved == 1.0 + 16.0 / SHRINK
        moved, known = adaptive_step(known, moved, 40.0, number(-7))
        assert moved == 1.0 + 16.0 / SHRINK**2
        assert (known.best, known.best_objective) == (1.0, 4.0)

    def test_forgets_the_step_that_failed(self):
        """After a return, momentum is that of the shorter step."""
        _, known = adaptive_step(None, number(0), 4.0, number(16))
        x, known = adaptive_step(known, number(16), 50.0, number(-7))
        moved, _ = adaptive_step(known, x, 3.0, number(2))
        assert moved == x + (1 - MOMENTUM) * 2 + MOMENTUM * 16 / SHRINK

    def test_the_best_objective_never_rises(self):
        random = np.random.default_rng(0)
        known, x, lowest = None, number(0), np.inf
        for objective in 10.0 * random.random(200):
            x, known = adaptive_step(known, x, objective, random.standard_normal(1))
            lowest = min(lowest, objective)
            assert known.best_objective == lowest

    def test_memory_holds_all_of_it(self):
        _, known = adaptive_step(None, number(0), 9.0, number(16))
        again = Adaptive.recall(known.as_memory()).as_memory()
        assert again.keys() == known.as_memory().keys()
        for name, values in known.as_memory().items():
            assert np.array_equal(again[name], values)
        assert Adaptive.recall({}) is None


# ---------------------------------------------------------------- in a run


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ALGORITHMS)
class TestRun:
    def test_result_is_the_best_of_all_rounds(self, name, loss, storage):
        clients = clients_for(loss)
        result = run(ALGORITHMS[name]("adaptive"), clients, loss=loss, storage=storage)
        assert result.objective == min(record.objective for record in result.records)
        expected = oracle.objective(clients, result.coef, loss, 0.05)
        assert result.objective == pytest.approx(expected, rel=1e-12)

    def test_begins_with_the_round_of_the_extrapolated_rule(self, name, loss, storage):
        rule, ours = (
            run(ALGORITHMS[name](step), clients_for(loss), loss=loss, storage=storage, rounds=1)
            for step in ("extrapolated", "adaptive")
        )
        assert [record.objective for record in ours.records] == [
            record.objective for record in rule.records
        ]


@pytest.mark.parametrize("agreement", [0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize("local_steps", [2, 5, 10])
def test_does_not_diverge_where_the_rule_does(agreement, local_steps):
    """The best that these clients can agree on has f = ½, which plain averaging finds."""
    clients = torn_clients(agreement)
    results = {}
    for step in ("extrapolated", "adaptive"):
        algorithm = fs.FedAvg(local_steps=local_steps, server_step=step)
        with warnings.catch_warnings():
            warnings.simplefilter("error" if step == "adaptive" else "ignore")
            results[step] = fs.run(algorithm, federate(clients), rounds=60)
    rule, ours = results["extrapolated"], results["adaptive"]
    assert rule.diverged or max(record.objective for record in rule.records[5:]) > 5.0
    assert not ours.diverged
    assert ours.records[-1].round == 60
    assert ours.objective == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_costs_one_number_a_client_more_than_the_rule(name):
    """In the first round, after which the two may part."""
    sizes = [
        run(ALGORITHMS[name](step), clients_for("squared"), rounds=1).history["bytes_up"][-1]
        for step in ("extrapolated", "adaptive")
    ]
    assert sizes[1] - sizes[0] == 8 * 4


@pytest.mark.parametrize("at", [1, 6, 13])
def test_interrupted_and_resumed_gives_the_same_bits(at, tmp_path):
    clients = torn_clients(0.4) + torn_clients(0.3)
    algorithm = fs.FedIterHT(2, local_steps=3, server_step="adaptive")

    def interrupt(record):
        if record.round == at:
            raise KeyboardInterrupt

    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        run(algorithm, clients, checkpoint=path, on_round=interrupt)
    resumed, expected = run(algorithm, clients, checkpoint=path), run(algorithm, clients)
    assert resumed.coef.tobytes() == expected.coef.tobytes()
    assert resumed.objective == expected.objective
    assert resumed.history.drop("seconds").equals(expected.history.drop("seconds"))


def test_is_refused_with_some_clients_a_round():
    with pytest.raises(fs.OptionError, match="clients_per_round"):
        fs.FedIterHT(TAU, server_step="adaptive", clients_per_round=2)


def test_other_words_are_refused():
    with pytest.raises(fs.OptionError, match="server_step"):
        fs.FedIterHT(TAU, server_step="careful")
