"""What no rows can answer is found, in one site's answer and in sums; what rows can, never."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.stacks import DenseStack
from fedsparse.compute.triangles import triangle_size
from fedsparse.engines.run import running
from fedsparse.errors import FederationError
from fedsparse.federation.server.plausibility import (
    Promises,
    notes_on_rows,
    objection_to_answer,
    objection_to_sums,
    watched,
)
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.problem.losses import Logistic, Softmax, SquaredError
from fedsparse.requests import (
    Answers,
    ColumnSquares,
    ColumnSums,
    CorrectedSteps,
    Curvature,
    Evaluate,
    Judge,
    LocalSteps,
    ScoreCounts,
    Slopes,
    Smoothness,
    SmoothnessAbove,
)
from fedsparse.requests.score_counts import BINS
from fedsparse.requests.wire.answer_bytes import decode_answer, encode_answer
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate, fields_of

SUPPORT = np.array([0, 2, 3, 11, 17, 23])


def points(shape):
    """Where f may be asked for: nothing, something, nearly anything, and far too much."""
    draw = np.random.default_rng(4)
    usual = draw.standard_normal(shape)
    sparse = np.where(np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) < 3, usual, 0.0)
    return [np.zeros(shape), usual, sparse, 1e-9 * usual, 300.0 * usual, 1e12 * usual]


def requests_at(x, width, loss):
    """All that can be asked at x."""
    asked = [
        Evaluate(x), Evaluate(x, is_penalized=False), Judge(x),
        LocalSteps(x, 3, 0.01, with_objective=True, with_distance=True),
        CorrectedSteps(
            x, 3, 0.01, snapshot=x, gradient=x, with_objective=True, with_distance=True,
            with_gradient=True,
        ),
    ]  # fmt: skip
    if not isinstance(loss, SquaredError):
        asked += [ScoreCounts(x, 0.3)]
    if not isinstance(loss, Softmax):
        asked += [Slopes(x), Curvature(x, SUPPORT)]
    return asked


def requests_of_rows(width, loss):
    """All that has nothing to do with an x."""
    is_numbers = isinstance(loss, SquaredError)
    classes = 0 if is_numbers else 3 if isinstance(loss, Softmax) else 2
    alone = JudgeAlone(
        sparsity=2, keep=np.zeros(width), part=0, parts=3, part_seed=0, precision=None,
        standardize=True, intercept=True, rounds=4, seed=0, centre=0.0,
    )  # fmt: skip
    return [
        ColumnSums(with_target=is_numbers, classes=classes), ColumnSquares(np.zeros(width)),
        Smoothness(), SmoothnessAbove(0.1, 100.0), alone,
    ]  # fmt: skip


def asked_of(engine, loss):
    """Every request, at every point."""
    yield from requests_of_rows(engine.width, loss)
    for x in points(engine.shape):
        yield from requests_at(x, engine.width, loss)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
def test_whatever_rows_answer_is_plausible_alone_and_as_a_sum(loss, storage):
    data, own = federate(clients_for(loss), storage), LOSS_OBJECTS[loss]
    engine = fs.LocalEngine(data, own)
    for request in asked_of(engine, own):
        (sums,) = engine.exchange([engine.ask(request, "samples")])
        assert objection_to_sums(request, own, sums) is None, request
        for place, mass in enumerate(data.masses):
            answer = fields_of(request, data, own, which=[place])
            assert objection_to_answer(request, own, answer, float(mass)) is None, request
    engine.close()


def units_for(x, mass, near):
    """About the roots of second derivatives by each feature, or far from them."""
    with np.errstate(all="ignore"):
        return np.exp2(np.rint(np.log2(np.where(x > 0, x, 1.0) * mass) / 2.0) + near)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squared", "logistic"]),
    storage=st.sampled_from(STORAGES),
    bits=st.sampled_from([8, 16]),
    sums=st.sampled_from(["float", "fixed"]),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_told_in_a_few_bits_is_plausible(seed, loss, storage, bits, sums):
    draw = np.random.default_rng(seed)
    width, own = int(draw.integers(3, 40)), LOSS_OBJECTS[loss]
    scales, tail = 10.0 ** draw.uniform(-3, 3, width), draw.choice([1.2, 2.0, 30.0])
    clients = []
    for _ in range(4):
        Z = draw.standard_t(tail, (int(draw.integers(2, 30)), width)) + draw.choice([0.0, 9.0])
        Z *= draw.random(Z.shape) < draw.choice([0.05, 0.5, 1.0])
        Z[:, draw.random(width) < 0.3] = draw.standard_normal()
        y = Z[:, 0] + draw.choice([0.0, 1.0]) * draw.standard_normal(len(Z))
        clients.append((Z * scales, y if loss == "squared" else (y > 0).astype(float)))
    clients[0][1][:2] = 0.0, 1.0
    data = federate(clients, storage)
    engine = fs.LocalEngine(data, own, sums=sums)
    support = np.flatnonzero(draw.random(width) < 0.8)
    known = support[draw.random(support.size) < draw.choice([0.0, 0.5, 1.0])]
    for x in (np.zeros(width), draw.standard_normal(width) / scales):
        diagonal = engine.exchange([engine.ask(Slopes(x), "samples")])[0].total("diagonal")
        units = units_for(diagonal, 1.0, draw.choice([0, 0, -2, 4]))
        for request in (
            Slopes(x, support, units, bits, with_diagonal=False),
            Slopes(x, support, units, bits),
            Curvature(x, support, units=units, bits=bits),
            Curvature(x, support, known, units, bits),
            Curvature(x, support, known, units, bits, only_second=True),
            Curvature(x, support, known),
        ):
            (told,) = engine.exchange([engine.ask(request, "samples")])
            assert objection_to_sums(request, own, told) is None, request
            for place, mass in enumerate(data.masses):
                answer = fields_of(request, data, own, which=[place])
                arrived = decode_answer(encode_answer(answer), request, (width,))
                assert objection_to_answer(request, own, arrived, float(mass)) is None, request
    engine.close()


def told_by_a_liar(request, change):
    data = federate(clients_for("squared"))
    (own,) = fields_of(request, data, SquaredError(), which=[2])["hessian"].written[0]
    answer = dict(fields_of(request, data, SquaredError(), which=[2]))
    shape = answer["hessian"].shape
    return answer | {"hessian": RoundedStack(shape, [[replace(own, **change(own))]])}


ROUNDED = Curvature(np.zeros(24), SUPPORT, units=np.ones(24))
PARTLY = Curvature(np.zeros(24), SUPPORT, SUPPORT[:2], units=np.ones(24))


@pytest.mark.parametrize("request_", [ROUNDED, PARTLY], ids=["all", "some known"])
def test_rounded_matrices_of_no_rows_are_found(request_):
    def steep(own):
        return {"step": 50.0 * own.step, "mass": 0.0, "mean": np.empty(0)}

    told = objection_to_answer(request_, SquaredError(), told_by_a_liar(request_, steep), 30.0)
    assert told == "second derivatives are those of no convex f"
    honest = told_by_a_liar(request_, lambda own: {})
    assert objection_to_answer(request_, SquaredError(), honest, 30.0) is None


@pytest.mark.parametrize("request_", [ROUNDED, PARTLY], ids=["all", "some known"])
def test_slopes_too_steep_for_rounded_matrices_are_found(request_):
    answer = dict(told_by_a_liar(request_, lambda own: {}))
    slopes = 40.0 * next(answer["gradient"].each())
    answer["gradient"] = DenseStack(slopes[None], slopes.shape)
    told = objection_to_answer(request_, SquaredError(), answer, 30.0)
    assert told == "slopes are steeper than f and second derivatives allow"


def test_rows_that_are_met_exactly_are_plausible():
    """Residuals are nothing but rounding errors."""
    draw = np.random.default_rng(0)
    Z = draw.standard_normal((40, 24)) * np.exp(draw.uniform(-9, 9, 24))
    x = draw.standard_normal(24)
    engine = fs.LocalEngine(fs.FederatedData.from_clients([(Z, Z @ x)]), "squared")
    for request in (Slopes(x), Curvature(x, SUPPORT)):
        (told,) = engine.exchange([engine.ask(request)])
        assert objection_to_sums(request, SquaredError(), told) is None
    engine.close()


@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["squared", "logistic"]))
@settings(max_examples=30, deadline=None)
def test_rows_of_any_scale_and_tail_are_plausible_wherever_a_run_leads(seed, loss):
    draw = np.random.default_rng(seed)
    scales, tail = 10.0 ** draw.uniform(-6, 6, 9), draw.choice([1.2, 2.0, 30.0])
    clients = []
    for _ in range(3):
        Z = draw.standard_t(tail, (int(draw.integers(4, 40)), 9))
        Z[:, 1] = Z[:, 0]
        y = Z[:, 0] - Z[:, 4] + draw.choice([0.0, 1e-9, 3.0]) * draw.standard_normal(len(Z))
        if loss == "logistic":
            y = (y > 0).astype(float)
            y[:2] = 0.0, 1.0
        clients.append((Z * scales, y))
    engine, promises = fs.LocalEngine(fs.FederatedData.from_clients(clients), loss, 1), Promises()
    fs.converse(engine, watched(running(engine, fs.FedSplice(3), rounds=12), promises))
    engine.close()
    assert promises.broken == 0


def sums_of(request, loss, change):
    """Sums of four clients, the third of which changes its answer."""
    kind = "squared" if isinstance(loss, SquaredError) else "logistic"
    data = federate(clients_for(kind))
    engine = fs.LocalEngine(data, loss)
    told = [engine.exchange([engine.ask(request, which=np.array([i]))])[0] for i in range(4)]
    engine.close()
    answers = [{name: own.mean(name) for name in own.sums} for own in told]
    answers[2] = change(answers[2])
    weight = data.masses / data.masses.sum()
    sums = {
        name: sum(share * own[name] for share, own in zip(weight, answers, strict=True))
        for name in answers[0]
    }
    return Answers(sums, 1.0, 4, 4)


X0 = np.zeros(24)
POISON = {
    "f below 0": (Slopes(X0), SquaredError(), lambda own: own | {"objective": -1e9}, "f is"),
    "f of classes": (
        Slopes(X0), Logistic(), lambda own: own | {"objective": own["objective"] + 3.0}, "at x = 0",
    ),
    "negative diagonal": (
        Slopes(X0), SquaredError(), lambda own: own | {"diagonal": -50.0 * own["diagonal"]},
        "second derivative is negative",
    ),
    "negative Hessian": (
        Curvature(X0, SUPPORT), SquaredError(), lambda own: own | {"hessian": -9 * own["hessian"]},
        "second derivative is negative",
    ),
    "indefinite Hessian": (
        Curvature(X0, SUPPORT), SquaredError(),
        lambda own: own | {"hessian": own["hessian"] + 50.0 * indefinite()},
        "no convex f",
    ),
    "gradient times 40": (
        Slopes(X0), SquaredError(), lambda own: own | {"gradient": 40 * own["gradient"]}, "steeper",
    ),
    "gradient times 40 on a support": (
        Curvature(X0, SUPPORT), Logistic(), lambda own: own | {"gradient": 40 * own["gradient"]},
        "steeper",
    ),
    "planted slope": (
        Slopes(X0), Logistic(), lambda own: own | {"gradient": own["gradient"] + 50.0 * plant()},
        "steeper",
    ),
}  # fmt: skip


def plant():
    return np.eye(24)[5]


def indefinite():
    """Nothing on the diagonal, much beside it."""
    matrix = np.ones((SUPPORT.size, SUPPORT.size)) - np.eye(SUPPORT.size)
    return matrix[np.triu_indices(SUPPORT.size)]


@pytest.mark.parametrize(("request_", "loss", "change", "told"), POISON.values(), ids=POISON)
def test_what_one_of_four_makes_of_a_sum_is_found_in_the_sum(request_, loss, change, told):
    assert triangle_size(SUPPORT.size) == indefinite().size
    assert told in objection_to_sums(request_, loss, sums_of(request_, loss, change))
    assert objection_to_sums(request_, loss, sums_of(request_, loss, lambda own: own)) is None


JUDGED = {
    "half a row": ([1.5, 0.0, 0.0, 2.0], [1, 1, 1, 3, 4.5, 0, 0, 0], "not whole"),
    "rows it does not have": ([10, 0, 0, 10], [1, 1, 1, 100, 900, 0, 0, 0], "20 rows are judged"),
    "more pairs than there are": ([2, 0, 0, 3], [1, 1, 7, 7, 9, 0, 0, 0], "pairs"),
    "more pairs in order than pairs": ([2, 0, 0, 3], [1, 1, 7, 6, 9, 0, 0, 0], "pairs"),
    "more partners than rows": ([2, 0, 0, 3], [1, 1, 6, 6, 90, 0, 0, 0], "more rows than"),
    "squares below 0": ([5, 0, 0, 0], [1, -1, 0, 0, 0, 0, 0, 0], "below 0"),
}

JUDGED_NUMBERS = {
    "squares below 0": ([0, -1, 1, 0, 0, 5, 1, 1], "below 0"),
    "more rows apart than rows": ([0, 1, 1, 0, 0, 9, 1, 1], "9 rows are told of apart, of 5"),
    "fourth powers too small": ([0, 1, 1, 0, 0, 5, 1, 0.1], "not those of their squares"),
    "fourth powers too large": ([0, 1, 1, 0, 0, 5, 1, 3], "not those of their squares"),
}


@pytest.mark.parametrize(("counts", "sums", "told"), JUDGED.values(), ids=JUDGED)
def test_counts_that_no_rows_have_are_found(counts, sums, told):
    answer = {"counts": np.array(counts, float), "sums": np.array(sums, float)}
    request = Judge(np.ones(3))
    assert told in objection_to_answer(request, Logistic(), answer, rows=12.0)


@pytest.mark.parametrize(("sums", "told"), JUDGED_NUMBERS.values(), ids=JUDGED_NUMBERS)
def test_sums_of_errors_that_no_rows_have_are_found(sums, told):
    answer = {"counts": np.array([5.0, 0.0, 0.0, 0.0]), "sums": np.array(sums, float)}
    request = Judge(np.ones(3))
    assert told in objection_to_answer(request, SquaredError(), answer, rows=12.0)


@pytest.mark.parametrize(
    ("change", "told"), [(0.5, "not whole"), (-1.0, "not whole"), (99.0, "are counted of 12")]
)
def test_rows_in_bins_that_no_rows_have_are_found(change, told):
    counts = np.zeros(2 * BINS)
    counts[7] = change
    request = ScoreCounts(np.ones(3))
    assert told in objection_to_answer(request, Logistic(), {"counts": counts}, rows=12.0)


def test_a_smoothness_below_that_of_the_penalty_is_found():
    answer = {"smoothness": np.array([0.01])}
    assert "at least 0.5" in objection_to_answer(Smoothness(), Logistic(0.5), answer, rows=9.0)


def test_thresholds_that_contradict_each_other_are_found():
    above = np.zeros(256)
    above[9] = 1.0
    request = SmoothnessAbove(1.0, 2.0)
    assert "thresholds" in objection_to_answer(request, Logistic(), {"above": above}, rows=9.0)


def test_a_distance_that_is_not_the_one_travelled_is_found():
    request = LocalSteps(np.zeros(2), 1, 0.1, with_distance=True)
    answer = {"x": np.array([3.0, 4.0]), "squared_distance": np.array([1.0])}
    assert "x lies 5 away" in objection_to_answer(request, SquaredError(), answer, rows=9.0)


@pytest.mark.parametrize("sums", ["float", "fixed"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("storage", STORAGES)
def test_honest_sites_keep_every_promise(loss, storage, sums):
    data, promises = federate(clients_for(loss), storage), Promises()
    engine = fs.LocalEngine(data, loss, sums=sums)
    for algorithm in (fs.FedSplice(4), fs.FedHT(4, local_steps=3, refit=True)):
        fs.converse(engine, watched(running(engine, algorithm, rounds=30), promises))
    engine.close()
    assert promises.kept > 0
    assert promises.broken == 0


class Lying(fs.LocalEngine):
    """Half the slopes: little enough to be plausible."""

    def exchange(self, asks):
        honest = super().exchange(asks)
        return [
            Answers({**own.sums, "gradient": 0.5 * own.sums["gradient"]}, own.weight, 4, 4)
            if "gradient" in own.sums
            else own
            for own in honest
        ]


def test_slopes_that_f_does_not_follow_are_told():
    engine, promises = Lying(federate(clients_for("squared")), "squared"), Promises()
    fs.converse(engine, watched(running(engine, fs.FedSplice(4), rounds=12), promises))
    engine.close()
    assert promises.broken > 0
    (note,) = promises.notes()
    assert "a site is faulty or lies" in note


def test_a_sum_that_cannot_be_ends_the_conversation():
    engine = fs.LocalEngine(federate(clients_for("squared")), "squared")

    def asking():
        (told,) = yield (engine.ask(Evaluate(np.zeros(24))),)
        return told

    conversation = watched(asking(), Promises())
    next(conversation)
    with pytest.raises(FederationError, match=r"cannot be the sum over any rows \(f is -1"):
        conversation.send([Answers({"objective": np.array(-1.0)}, 1.0, 4, 4)])


def test_a_site_with_nearly_all_rows_is_told_of_where_there_are_others_to_compare():
    assert notes_on_rows({"aachen": 30, "bari": 30, "cork": 30}) == []
    (note,) = notes_on_rows({"aachen": 30, "bari": 30, "cork": 30_000_000})
    assert note.startswith("cork says that it has 30,000,000 of all 30,000,060 rows")
