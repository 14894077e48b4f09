"""Lenses: what clients look at when they answer, and that nothing else matters."""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines import local
from fedsparse.modelling.fitting import FitOptions, fit, prepare
from fedsparse.problem.scaling import Scaling
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate

ROWS = {
    "a fold": fs.Rows().part(1, of=3, seed=5),
    "all but a fold": fs.Rows().but_part(1, of=3, seed=5, by_class=True),
    "without a client": fs.Rows().without(2),
    "half of all but a fold": fs.Rows().but_part(0, of=4).part(1, of=2, seed=2),
}


def data_for(loss, storage="dense"):
    return federate(clients_for(loss, rows=(9, 12, 30, 11)), storage)


def told(result):
    records = [(r.round, r.objective, r.nonzeros, r.bytes_up, r.bytes_down) for r in result.records]
    return result.coef.tobytes(), records


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ROWS)
def test_a_run_on_some_rows_is_that_of_data_that_hold_no_others(name, storage, loss):
    """Mini-batches, too: a client draws them by its place in the whole federation."""
    data, own = data_for(loss, storage), LOSS_OBJECTS[loss]
    engine = fs.LocalEngine(data, own, 1).where(ROWS[name])
    fewer = data.where(ROWS[name].mask(data))
    for algorithm in (
        fs.FedIterHT(3, local_steps=2, weights="samples"),
        fs.FedHT(3, local_steps=2, batch_size=3, step_size=0.05),
    ):
        expected = fs.run(algorithm, fewer, loss=own, rounds=4, seed=6, threads=1)
        assert told(fs.run(algorithm, engine, rounds=4, seed=6)) == told(expected)


def test_engines_on_other_rows_leave_the_first_as_it_was():
    engine = fs.LocalEngine(data_for("squared"))
    before = engine.lens
    engine.where(ROWS["a fold"])
    assert engine.lens is before
    assert engine.where(ROWS["a fold"]).names == engine.names


def test_clients_without_a_row_of_the_lens_are_not_waited_for():
    engine = fs.LocalEngine(data_for("squared")).where(fs.Rows().without(2))
    (answers,) = engine.exchange([engine.ask(fs.Gradient(np.zeros(24)))])
    assert (answers.count, answers.asked, answers.absent) == (3, 3, 0)
    some = engine.ask(fs.Gradient(np.zeros(24)), which=np.array([2, 3]))
    assert engine.exchange([some])[0].count == 1


def test_rows_that_nobody_has_give_no_sums():
    engine = fs.LocalEngine(fs.FederatedData.from_clients([([[1.0]], [2.0])]))
    nobody = engine.where(fs.Rows().without(0))
    (answers,) = engine.exchange([nobody.ask(fs.Evaluate(np.zeros(1)))])
    assert (answers.count, answers.asked) == (0, 0)
    with pytest.raises(fs.DataError, match="no client has a row to learn from"):
        fs.run(fs.FedAvg(step_size=0.1), nobody)


def test_weights_are_those_of_the_rows_looked_at():
    """Two of three rows at one client, one at the other."""
    data = fs.FederatedData.from_clients(
        [([[1.0]] * 3, [0.0, 6.0, 9.0]), ([[1.0]] * 2, [1.0, 4.0])]
    )
    engine = fs.LocalEngine(data).where(fs.Rows().but_part(0, of=2))
    (told,) = engine.exchange([engine.ask(fs.ColumnSums(with_target=True))])
    rows, target = float(told.total("rows")), float(told.total("target"))
    (answers,) = engine.exchange([engine.ask(fs.Gradient(np.zeros(1)), "samples")])
    assert answers.weight == rows
    assert answers.mean("gradient")[0] == pytest.approx(-2 * target / rows)


# ---------------------------------------------------------------- scaling


@pytest.mark.parametrize("storage", STORAGES)
def test_a_scaled_lens_is_data_scaled_by_hand(storage):
    data = data_for("squared", storage)
    random = np.random.default_rng(0)
    mean = np.zeros(24) if storage == "csr" else random.standard_normal(24)
    scaling = Scaling(mean, random.random(24) + 0.5, intercept=3.0, offset=1.5)
    engine = fs.LocalEngine(data, "squared", 1)
    scaled = engine.through(replace(engine.lens, scaling=scaling))
    assert scaled.shape == (25,)
    dense = data.features.toarray() if storage == "csr" else data.features
    by_hand = np.column_stack([(dense - mean) / scaling.scale, np.full(data.samples, 3.0)])
    sites = np.repeat(np.arange(4), data.counts)
    expected = fs.FederatedData.from_table(by_hand, data.targets - 1.5, sites)
    algorithm = fs.FedIterHT(3, local_steps=2)
    found = fs.run(algorithm, scaled, rounds=4).coef
    np.testing.assert_allclose(found, fs.run(algorithm, expected, rounds=4).coef, atol=1e-12)


def holed(data, share=0.2):
    is_missing = np.random.default_rng(3).random(data.features.shape) < share
    return replace(data, features=np.where(is_missing, np.nan, data.features))


def test_holes_are_filled_from_the_rows_that_a_model_is_fitted_on():
    """What is held out has no part in it: the fills are the means of the other rows."""
    data = holed(data_for("squared"))
    engine = fs.LocalEngine(data, "squared", 1, few_holes=0)
    assert engine.has_holes
    training = fs.Rows().but_part(0, of=3)
    prepared = fs.converse(engine, prepare(engine.where(training), FitOptions(fs.SquaredError())))
    mask = training.mask(data)
    np.testing.assert_allclose(
        prepared.scaling.fill, np.nanmean(data.features[mask], axis=0), rtol=1e-12
    )
    held_out = prepared.engine.through(replace(prepared.engine.lens, rows=fs.Rows().part(0, of=3)))
    (answers,) = engine.exchange([held_out.ask(fs.Evaluate(np.ones(25)), "samples")])
    shown = prepared.scaling.apply(data.features[~mask])
    assert np.isfinite(shown).all()
    own = data.targets[~mask] - prepared.scaling.offset
    assert answers.average("objective") == pytest.approx(np.mean((own - shown.sum(axis=1)) ** 2))


def test_a_model_does_not_depend_on_what_is_held_out():
    """But for who fills holes: how many are held out has a part in that where they are few."""
    data = holed(data_for("squared"))
    rows = fs.Rows().but_part(0, of=3)
    engine, only_these = (
        fs.LocalEngine(own, few_holes=0) for own in (data, data.where(rows.mask(data)))
    )
    models = [
        fs.converse(own, fit(own, 3, FitOptions(fs.SquaredError())))
        for own in (engine.where(rows), only_these)
    ]
    assert models[0].coefficients.tobytes() == models[1].coefficients.tobytes()
    assert models[0].intercept.tobytes() == models[1].intercept.tobytes()


def test_a_lens_for_another_width_is_refused():
    engine = fs.LocalEngine(data_for("squared"))
    lens = replace(engine.lens, scaling=Scaling(np.zeros(3), np.ones(3), 0.0))
    with pytest.raises(fs.OptionError, match="scales 3 features, but there are 24"):
        engine.exchange([engine.through(lens).ask(fs.Evaluate(np.zeros(3)))])


# ---------------------------------------------------------------- pooled


def test_a_pooled_lens_shows_all_rows_as_those_of_one_client():
    data = data_for("squared")
    engine = fs.LocalEngine(data, "squared", 1)
    pooled = engine.through(replace(engine.lens, is_pooled=True))
    algorithm = fs.FedSplice(3)
    expected = fs.run(algorithm, data.pooled(), rounds=5)
    np.testing.assert_array_equal(fs.run(algorithm, pooled, rounds=5).coef, expected.coef)


# ---------------------------------------------------------------- digests


SCALING = Scaling(np.zeros(2), np.ones(2), 3.0)
BASE = fs.Lens(fs.Logistic(l2=0.1), ROWS["a fold"], SCALING)
OTHERS = {
    "loss": replace(BASE, loss=fs.SquaredError(l2=0.1)),
    "ℓ2 weight": replace(BASE, loss=fs.Logistic(l2=0.1 + 1e-17 + 1e-16)),
    "rows": replace(BASE, rows=ROWS["all but a fold"]),
    "no scaling": replace(BASE, scaling=None),
    "mean": replace(BASE, scaling=replace(SCALING, mean=np.array([0.0, 1e-300]))),
    "scale": replace(BASE, scaling=replace(SCALING, scale=np.array([1.0, 2.0]))),
    "intercept": replace(BASE, scaling=replace(SCALING, intercept=100.0)),
    "offset": replace(BASE, scaling=replace(SCALING, offset=1e-300)),
    "fill": replace(BASE, scaling=replace(SCALING, fill=np.zeros(2))),
    "pooled": replace(BASE, is_pooled=True),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_lenses_that_show_something_else_have_other_digests(other):
    assert other.digest != BASE.digest


def test_a_lens_made_again_has_the_same_digest():
    again = fs.Lens(
        fs.Logistic(l2=0.1),
        fs.Rows.from_json(ROWS["a fold"].to_json()),
        Scaling(np.zeros(2), np.ones(2), 3.0),
    )
    assert again.digest == BASE.digest


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("room", [0, 20_000])
@pytest.mark.parametrize("storage", STORAGES)
def test_lenses_beyond_the_room_for_them_give_the_same_bits(storage, room, monkeypatch):
    data, lenses = data_for("logistic", storage), list(ROWS.values())

    def runs():
        engine = fs.LocalEngine(data, LOSS_OBJECTS["logistic"], 1)
        algorithm = fs.FedIterHT(3, local_steps=2)
        results = [fs.run(algorithm, engine.where(rows), rounds=3) for rows in lenses]
        options = FitOptions(LOSS_OBJECTS["logistic"])
        fits = [fit(engine.where(rows), 3, options) for rows in lenses]
        models = fs.converse(engine, fs.together(fits))
        return [told(result) for result in [*results, *(model.result for model in models)]]

    expected = runs()
    monkeypatch.setattr(local, "_KEPT_BYTES", room)
    assert runs() == expected


def test_what_is_not_asked_about_any_more_is_forgotten(monkeypatch):
    data = data_for("squared")
    engine = fs.LocalEngine(data, "squared", 1)
    monkeypatch.setattr(local, "_KEPT_BYTES", 2 * data.features.nbytes)
    for seed in range(20):
        part = engine.where(fs.Rows().part(0, of=2, seed=seed))
        engine.exchange([part.ask(fs.Evaluate(np.zeros(24)))])
    assert sum(kept.bytes for kept in engine._prepared.values()) <= 2 * data.features.nbytes


def test_a_checkpoint_on_some_rows_is_not_one_on_others(tmp_path):
    engine = fs.LocalEngine(data_for("squared"), "squared", 1)
    algorithm, path = fs.FedIterHT(3, local_steps=2), tmp_path / "run.npz"
    fs.run(algorithm, engine.where(fs.Rows().part(0, of=5)), rounds=2, checkpoint=path)
    with pytest.raises(fs.CheckpointError, match="its data differs"):
        fs.run(algorithm, engine.where(fs.Rows().part(1, of=5)), rounds=2, checkpoint=path)


def test_a_round_whose_clients_have_no_rows_is_passed_over():
    engine = fs.LocalEngine(data_for("squared"), "squared", 1).where(fs.Rows().without(1))
    algorithm = fs.FedIterHT(3, local_steps=2, step_size=0.01, clients_per_round=1)
    result = fs.run(algorithm, engine, rounds=20)
    assert result.records[-1].round == 20
    assert result.objective < result.records[0].objective
