"""Choosing τ, and stability."""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.choosing import choose_by_ebic, cross_validate, default_sparsities
from fedsparse.modelling.fitting import FitOptions, fit, prepare
from fedsparse.modelling.stability import select_stably
from fedsparse.problem.losses import Poisson

LEAST_SQUARES = FitOptions(fs.SquaredError(l2=1e-4))
NAMES = [f"gene {number}" for number in range(40)]


def hold(conversation_of, data, *arguments, loss="squared", **options):
    """What a conversation about all rows finds."""
    engine = fs.LocalEngine(data, loss, 1)
    return fs.converse(engine, conversation_of(engine, *arguments, **options))


def labs(noise=0.5, width=40, rows=120, seed=0):
    """Five labs; features 2, 5 and 11 decide."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, width))
    y = Z[:, [2, 5, 11]] @ [2.0, -1.5, 1.0] + noise * random.standard_normal(rows)
    return fs.FederatedData.from_table(Z, y, np.arange(rows) % 5)


def test_cross_validation_equals_fitting_fold_by_fold():
    data = labs()
    found = hold(cross_validate, data, [1, 3, 5], LEAST_SQUARES, folds=4)
    losses = []
    for fold in range(4):
        unseen = fs.Rows().part(fold, of=4).mask(data)
        model = hold(fit, data.where(~unseen), 3, LEAST_SQUARES)
        predictions = data.features[unseen] @ model.coefficients + model.intercept
        losses.append(np.mean((data.targets[unseen] - predictions) ** 2))
    point = found.points[1]
    assert point.score == pytest.approx(np.mean(losses), rel=1e-6)
    assert point.standard_error == pytest.approx(np.std(losses, ddof=1) / 2, rel=1e-6)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_both_ways_find_the_true_number(noise):
    data = labs(noise)
    sparsities = [1, 2, 3, 4, 6, 10, 20]
    assert hold(cross_validate, data, sparsities, LEAST_SQUARES).chosen == 3
    selection, model = hold(choose_by_ebic, data, sparsities, LEAST_SQUARES)
    assert selection.chosen == 3
    assert np.flatnonzero(model.coefficients).tolist() == [2, 5, 11]


def test_choosing_costs_few_rounds():
    data = labs()
    sparsities = default_sparsities(data.width, data.samples)
    assert len(sparsities) == 10
    most = 5 * len(sparsities) + 4  # f of a model's last x is an exchange, too
    assert hold(cross_validate, data, sparsities, LEAST_SQUARES).rounds <= most
    assert hold(choose_by_ebic, data, sparsities, LEAST_SQUARES)[0].rounds <= most


def labs_with_classes():
    """Three classes, which the same features decide."""
    data = labs()
    labels = np.digitize(data.targets, [-1, 1])
    return fs.FederatedData.from_table(data.features, labels, np.arange(120) % 5)


def test_what_cannot_start_from_a_model_is_tried_side_by_side():
    algorithm = fs.FedIterHT(1, server_step="adaptive")
    options = FitOptions(fs.Softmax(l2=0.01), algorithm=algorithm, rounds=30)
    found = hold(cross_validate, labs_with_classes(), [1, 3], options, folds=3, loss="softmax")
    assert found.rounds == 2 + 2 + 30 + 1 + 1  # scaling, smoothness, rounds, f(x_30), held-out rows
    assert found.measure == "log-loss per held-out row"


def test_more_than_two_classes_go_along_a_path_too():
    data, options = labs_with_classes(), FitOptions(fs.Softmax(l2=0.01))
    sparsities = [1, 2, 3, 4, 6]
    found = hold(cross_validate, data, sparsities, options, loss="softmax")
    assert found.chosen == 3
    assert found.measure == "log-loss per held-out row"
    selection, model = hold(choose_by_ebic, data, sparsities, options, loss="softmax")
    assert selection.chosen == 3
    assert np.flatnonzero(model.coefficients.any(axis=1)).tolist() == [2, 5, 11]
    most = 9 * len(sparsities) + 4  # a few more of each, since models only bound f
    assert max(found.rounds, selection.rounds) <= most


def weakly_linked(kind, seed=0):
    """20,000 rows, and a feature that explains less than one percent of f: surely not by chance."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((20000, 12))
    link = 0.09 * Z[:, 4] + random.standard_normal(20000)
    targets = {
        "numbers": link,
        "two classes": (link > 0).astype(float),
        "three classes": np.digitize(link, [-0.4, 0.4]).astype(float),
    }
    return fs.FederatedData.from_table(Z, targets[kind], np.arange(20000) % 5)


@pytest.mark.parametrize("kind", ["numbers", "two classes", "three classes"])
def test_a_feature_of_little_effect_is_found_where_rows_are_many(kind):
    """Though exchanges of features that gain as little are not made in models only compared."""
    data = weakly_linked(kind)
    loss = replace(LOSSES[kind], l2=1e-4)
    selection, model = hold(choose_by_ebic, data, [0, 1, 2], FitOptions(loss), loss=loss)
    assert selection.chosen == 1
    assert np.flatnonzero(model.coefficients.reshape(12, -1).any(axis=1)).tolist() == [4]


def test_models_that_stand_for_another_have_its_features():
    """Those of half of the rows, say: fitted less exactly, in fewer rounds."""
    random = np.random.default_rng(0)
    Z = random.standard_normal((240, 100)) + random.standard_normal((240, 1))
    score = Z[:, :8] @ [1.0, -1.0, 0.8, -0.8, 0.6, -0.6, 0.4, -0.4]
    targets = (score + random.logistic(size=240) > 0).astype(float)
    data = fs.FederatedData.from_table(Z, targets, np.arange(240) % 5)
    options = FitOptions(fs.Logistic(l2=0.03))
    same, rounds = [], []
    for seed in range(12):
        half = data.where(fs.Rows().part(0, of=2, seed=seed, by_class=True).mask(data))
        exact, nearly = (
            hold(fit, half, 8, own, loss=options.loss) for own in (options, options.nearly)
        )
        same.append(np.array_equal(exact.coefficients != 0, nearly.coefficients != 0))
        rounds.append([model.result.records[-1].round for model in (exact, nearly)])
    assert np.mean(same) > 0.8
    saved = np.array(rounds)
    assert np.all(saved[:, 1] <= saved[:, 0])
    assert saved[:, 1].mean() < 0.9 * saved[:, 0].mean()


def ten_features(seed):
    """Ten features decide, between 8 and 12 of the default grid.

    No other column explains any of the noise: of 30, one does by chance, and EBIC then takes it.
    """
    random = np.random.default_rng(seed)
    Z = random.standard_normal((200, 40))
    noise = 0.5 * random.standard_normal(200)
    noise -= Z @ np.linalg.lstsq(Z, noise, rcond=None)[0]
    y = Z[:, :10] @ np.linspace(2.0, 1.0, 10) + noise
    return fs.FederatedData.from_table(Z, y, np.arange(200) % 5)


def tried(selection):
    return [point.sparsity for point in selection.points]


class TestRefining:
    @pytest.mark.parametrize("seed", range(3))
    def test_a_true_number_between_those_of_the_grid_is_found(self, seed):
        data = ten_features(seed)
        grid = default_sparsities(data.width, data.samples)
        assert {8, 12} < set(grid)
        assert 10 not in grid
        assert hold(cross_validate, data, grid, LEAST_SQUARES, refine=True).chosen == 10
        selection, model = hold(choose_by_ebic, data, grid, LEAST_SQUARES, refine=True)
        assert selection.chosen == 10
        assert np.flatnonzero(model.coefficients).tolist() == list(range(10))

    def test_a_list_that_was_given_is_not_refined(self):
        data, given = ten_features(0), [2, 8, 12, 20]
        assert tried(hold(cross_validate, data, given, LEAST_SQUARES)) == given
        assert tried(hold(choose_by_ebic, data, given, LEAST_SQUARES)[0]) == given
        model = fs.FedSparseRegressor("cv", sparsities=given)
        model.fit(data.features, data.targets)
        assert tried(model.selection_) == given

    def test_it_ends_when_the_neighbours_of_best_and_chosen_are_adjacent(self):
        found = hold(cross_validate, ten_features(1), [0, 10, 40], LEAST_SQUARES, refine=True)
        assert {found.best - 1, found.best + 1, found.chosen - 1} <= set(tried(found))
        assert len(found.points) <= 3 + 3 * 8

    def test_where_the_best_is_the_last_of_the_grid_the_numbers_below_it_are_tried(self):
        found = hold(cross_validate, ten_features(0), [0, 5, 11], LEAST_SQUARES, refine=True)
        assert set(range(6, 11)) < set(tried(found))
        assert found.chosen == 10

    def test_no_model_is_fitted_twice(self):
        data, fitted = ten_features(0), []
        told = {"refine": True, "on_model": fitted.append}
        selection, _ = hold(choose_by_ebic, data, [0, 5, 15], LEAST_SQUARES, **told)
        assert sorted(fitted) == sorted(f"τ = {sparsity}" for sparsity in tried(selection))

    def test_the_gap_below_the_smallest_within_one_error_is_refined(self):
        """The best has more features than are taken: the number below the latter decides."""
        data = labs(noise=3.0)
        coarse = hold(cross_validate, data, [0, 5, 20], LEAST_SQUARES)
        assert coarse.chosen == 5
        found = hold(cross_validate, data, [0, 5, 20], LEAST_SQUARES, refine=True)
        assert 0 < found.chosen < 5

    def test_what_is_tried_between_is_what_a_path_finds_there(self):
        """Each starts at the nearest smaller model, as if it came next on the path."""
        data = ten_features(2)
        refined = hold(cross_validate, data, [8, 12], LEAST_SQUARES, refine=True)
        assert tried(refined) == [8, 9, 10, 11, 12]
        scores = {point.sparsity: point.score for point in refined.points}
        for between in (9, 10, 11):
            alone = hold(cross_validate, data, [8, between], LEAST_SQUARES)
            assert alone.points[1].score == scores[between]

    def test_it_costs_the_exchanges_of_a_model_not_of_all_of_them(self):
        data = ten_features(0)
        coarse = hold(cross_validate, data, [8, 12], LEAST_SQUARES)
        refined = hold(cross_validate, data, [8, 12], LEAST_SQUARES, refine=True)
        assert refined.rounds - coarse.rounds <= 6

    def test_a_method_that_cannot_start_from_a_model_is_refined_once(self):
        data = ten_features(0)
        options = replace(LEAST_SQUARES, algorithm=fs.FedIterHT(1), rounds=20)
        coarse = hold(cross_validate, data, [0, 8, 20], options)
        refined = hold(cross_validate, data, [0, 8, 20], options, refine=True)
        assert len(refined.points) == 3 + 4
        assert refined.rounds < 2 * coarse.rounds


def noise(kind, seed):
    """Five sites whose targets have nothing to do with the features."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((150, 30))
    targets = {
        "numbers": random.standard_normal(150) + 4.0,
        "two classes": (np.arange(150) % 3 == 0).astype(float),
        "three classes": (np.arange(150) % 3).astype(float),
    }
    return fs.FederatedData.from_table(Z, random.permutation(targets[kind]), np.arange(150) % 5)


LOSSES = {
    "numbers": fs.SquaredError(l2=1e-4),
    "two classes": fs.Logistic(l2=0.05),
    "three classes": fs.Softmax(l2=0.05),
}


class TestNoFeatures:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("kind", LOSSES)
    def test_permuted_targets_get_none(self, kind, seed):
        data, loss = noise(kind, seed), LOSSES[kind]
        grid, options = default_sparsities(data.width, data.samples), FitOptions(loss, rounds=30)
        assert hold(cross_validate, data, grid, options, loss=loss, refine=True).chosen == 0
        selection, model = hold(choose_by_ebic, data, grid, options, loss=loss, refine=True)
        assert selection.chosen == 0
        assert not model.coefficients.any()

    def test_the_model_predicts_the_average(self):
        data = noise("numbers", 0)
        model = hold(fit, data, 0, LEAST_SQUARES)
        assert model.intercept == pytest.approx([data.targets.mean()])

    def test_the_model_predicts_the_shares_of_classes(self):
        data = noise("two classes", 0)
        model = hold(fit, data, 0, FitOptions(LOSSES["two classes"]), loss="logistic")
        assert 1.0 / (1.0 + np.exp(-model.intercept[0])) == pytest.approx(1 / 3, abs=1e-4)

    def test_its_loss_is_that_of_the_training_rows_average_on_the_others(self):
        data = noise("numbers", 1)
        found = hold(cross_validate, data, [0], LEAST_SQUARES, folds=3)
        losses = []
        for fold in range(3):
            unseen = fs.Rows().part(fold, of=3).mask(data)
            average = data.targets[~unseen].mean()
            losses.append(np.mean((data.targets[unseen] - average) ** 2))
        assert found.points[0].score == pytest.approx(np.mean(losses))

    def test_features_to_keep_are_the_smallest_model(self):
        data, options = noise("numbers", 0), replace(LEAST_SQUARES, keep=(4, 7))
        grid = default_sparsities(data.width, data.samples, options.fewest)
        assert grid[:3] == [2, 3, 5]
        selection, model = hold(choose_by_ebic, data, grid, options, refine=True)
        assert selection.chosen == 2
        assert np.flatnonzero(model.coefficients).tolist() == [4, 7]

    def test_without_an_intercept_there_is_at_least_one(self):
        options = replace(LEAST_SQUARES, intercept=False)
        assert default_sparsities(30, 150, options.fewest)[0] == 1
        with pytest.raises(fs.OptionError, match="has 1 feature or more; ask for no fewer"):
            hold(cross_validate, noise("numbers", 0), [0, 1], options)

    def test_an_estimator_predicts_the_same_for_all_rows(self):
        data = noise("three classes", 0)
        model = fs.FedSparseClassifier("cv", rounds=30).fit(data.features, data.targets)
        assert (model.sparsity_, model.support_.size) == (0, 0)
        assert np.ptp(model.predict_proba(data.features), axis=0) == pytest.approx([0.0] * 3)


def test_stable_features_are_the_true_ones():
    found = hold(select_stably, labs(), 3, LEAST_SQUARES, NAMES, pairs=10)
    stable = [each.feature for each in found.features if each.frequency >= found.threshold]
    assert sorted(stable) == ["gene 11", "gene 2", "gene 5"]
    assert all(each.without_a_site == 1.0 for each in found.features[:3])
    assert found.expected_false == pytest.approx(9 / (0.5 * 40))
    assert found.subsamples == 20


def test_noise_is_not_stable():
    data = labs()
    noise = fs.FederatedData.from_table(
        data.features, np.random.default_rng(1).standard_normal(120), np.repeat(np.arange(5), 24)
    )
    found = hold(select_stably, noise, 2, LEAST_SQUARES, NAMES, pairs=15, threshold=0.9)
    assert sum(each.frequency >= 0.9 for each in found.features) <= 1


def test_one_site_has_no_others_to_leave_out():
    found = hold(select_stably, labs().pooled(), 3, LEAST_SQUARES, NAMES, pairs=2)
    assert found.features[0].without_a_site is None


@pytest.mark.parametrize("threshold", [0.5, 1.1])
def test_a_threshold_without_error_control_is_refused(threshold):
    with pytest.raises(fs.OptionError, match="threshold must be above"):
        hold(
            select_stably,
            labs(),
            3,
            LEAST_SQUARES,
            NAMES,
            threshold=threshold,
        )


def test_the_unit_of_an_exposure_does_not_change_what_ebic_chooses():
    """Years or days: the same rows, and the same likelihood but for a constant."""
    random = np.random.default_rng(0)
    Z = random.standard_normal((120, 12))
    years = random.uniform(0.5, 3.0, 120)
    counts = random.poisson(years * np.exp(0.3 * Z[:, 4] + 0.1 * Z[:, 7])).astype(float)
    penalties = []
    for unit in (1.0, 365.25):
        exposures = unit * years
        data = fs.FederatedData.from_table(Z, counts / exposures, np.arange(120) % 4, exposures)
        loss = fs.Poisson(l2=1e-6 / unit)
        selection, _ = hold(choose_by_ebic, data, [0, 1, 2, 3], FitOptions(loss), loss=loss)
        scores = np.array([point.score for point in selection.points])
        penalties.append((selection.chosen, *(scores - scores[0]).round(1).tolist()))
    assert penalties[0] == penalties[1]


def test_ebic_of_survival_counts_events():
    random = np.random.default_rng(0)
    Z = random.standard_normal((200, 5))
    times = random.exponential(np.exp(-Z[:, 2]))
    signed = np.where(np.arange(200) % 4 == 0, times, -times)
    data = fs.FederatedData.from_table(Z, signed, np.arange(200) % 4)
    options = FitOptions(fs.Cox(l2=1e-3))
    engine = fs.LocalEngine(data, options.loss)
    prepared = fs.converse(engine, prepare(engine, options))
    assert prepared.observations == np.count_nonzero(signed > 0)


def test_counts_are_compared_per_unit_of_exposure_whatever_the_rows():
    random = np.random.default_rng(0)
    Z, exposures = random.standard_normal((120, 4)), random.uniform(20, 400, 120)
    rates = random.poisson(exposures * np.exp(-4 + Z[:, 1])) / exposures
    data = fs.FederatedData.from_table(Z, rates, np.repeat([0, 1, 2], 40), exposures)
    options = FitOptions(Poisson(), intercept=True)
    found = hold(cross_validate, data, [1], options, loss="poisson", folds=3)
    assert found.measure == "half the deviance per held-out unit of exposure"
    means = []
    for fold in range(3):
        unseen = fs.Rows().part(fold, of=3).mask(data)
        model = hold(fit, data.where(~unseen), 1, options, loss="poisson")
        expected = np.exp(Z[unseen] @ model.coefficients + model.intercept)
        own = rates[unseen]
        excess = own * np.log(np.where(own > 0, own, 1.0) / expected) - own + expected
        means.append(np.average(excess, weights=exposures[unseen]))
    assert found.points[0].score == pytest.approx(np.mean(means), rel=1e-6)
