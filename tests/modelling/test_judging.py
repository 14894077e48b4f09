"""Judging on held-out rows: who is judged on what."""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.fitting import FitOptions, fit
from fedsparse.modelling.judging import evaluate_held_out, given
from fedsparse.modelling.stability import select_stably


def hold(data, choose, options, **how):
    engine = fs.LocalEngine(data, options.loss, 1)
    return fs.converse(engine, evaluate_held_out(engine, choose, options, **how))


def labs(by_class=False):
    random = np.random.default_rng(0)
    Z = random.standard_normal((90, 15))
    y = Z[:, 2] - Z[:, 5] + 0.3 * random.standard_normal(90)
    targets = (y > 0).astype(np.int64) if by_class else y
    return fs.FederatedData.from_table(Z, targets, np.repeat(["a", "b", "c"], [60, 24, 6]))


def test_every_row_is_held_out_once_for_every_method():
    found = hold(labs(), given(2), FitOptions(fs.SquaredError()))
    rows = {(score.method, score.site): score.rows for score in found.scores}
    for method in ("federated", "alone", "pooled"):
        assert rows[method, None] == 90
        assert [rows[method, site] for site in "abc"] == [60, 24, 6]


def test_small_sites_gain_by_joining():
    found = hold(
        labs(by_class=True), given(2), FitOptions(fs.Logistic(l2=0.04)), labels=("no", "yes")
    )
    accuracy = {(s.method, s.site): s.metrics["accuracy"] for s in found.scores}
    assert accuracy["federated", None] >= accuracy["alone", None]
    assert accuracy["federated", None] == pytest.approx(accuracy["pooled", None], abs=0.03)
    assert found.confusion.classes == ("no", "yes")
    assert sum(map(sum, found.confusion.counts)) == 90


def test_choosing_the_number_of_features_sees_training_rows_only():
    seen = []

    def choose(training, prepared):
        (told,) = yield (training.ask(fs.ColumnSums()),)
        seen.append((prepared.rows, int(told.total("rows"))))
        return 2

    hold(labs(), choose, FitOptions(fs.SquaredError()), folds=3)
    assert all(rows == told for rows, told in seen)
    assert sum(rows for rows, _ in seen) == 2 * 90


def test_one_fold_is_enough_for_large_data():
    found = hold(labs(), given(2), FitOptions(fs.SquaredError()), only_first=True)
    assert found.scores[0].rows == 17
    assert found.held_out == "a random fifth of every site's rows"


def test_a_hole_among_held_out_rows_alone_is_filled_too():
    """The site's other rows have none, so nothing but the table says that there are holes."""
    data = labs()
    features = data.features.copy()
    features[0, 3] = np.nan
    found = hold(replace(data, features=features), given(2), FitOptions(fs.SquaredError()))
    assert all(np.isfinite(score.metrics["RMSE"]) for score in found.scores)


def test_a_given_penalty_is_that_of_sites_alone_too():
    """Whatever loss the engine itself was made with."""

    def alone(l2):
        options = FitOptions(fs.Logistic(l2=l2))
        data = labs(by_class=True)
        engine = fs.LocalEngine(data, fs.Logistic(l2=8.0), 1)
        found = fs.converse(engine, evaluate_held_out(engine, given(2), options))
        losses = {score.method: score.metrics["log-loss"] for score in found.scores[:3]}
        return losses["alone"]

    assert alone(0.01) < 0.9 * alone(8.0)


def test_a_site_left_out_is_judged_by_the_model_of_the_others():
    engine = fs.LocalEngine(labs(), "squared")
    options = FitOptions(fs.SquaredError())
    names = [str(place) for place in range(15)]
    found = fs.converse(engine, select_stably(engine, 2, options, names, pairs=1))
    assert [own.score.rows for own in found.left_out] == [60, 24, 6]
    first = found.left_out[0].score
    assert first.site == "a"
    data = labs()
    others = fs.FederatedData.from_clients(
        [(data.client(place).features, data.client(place).targets) for place in (1, 2)]
    )
    alone = fs.LocalEngine(others, "squared")
    model = fs.converse(alone, fit(alone, 2, options.nearly))
    own = data.client(0)
    predicted = own.features @ model.coefficients + model.intercept
    explained = 1 - np.mean((own.targets - predicted) ** 2) / own.targets.var()
    assert first.metrics["R²"] == pytest.approx(explained, abs=1e-9)
    low, high = first.intervals["R²"]
    assert low < explained < high


def test_where_sites_cannot_be_singled_out_none_is_judged_alone():
    engine = fs.LocalEngine(labs(), "squared", sums="fixed")
    names = [str(place) for place in range(15)]
    found = fs.converse(
        engine, select_stably(engine, 2, FitOptions(fs.SquaredError()), names, pairs=1)
    )
    assert found.left_out == ()
