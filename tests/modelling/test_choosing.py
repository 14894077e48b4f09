"""Choosing τ, and stability."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.choosing import choose_by_ebic, cross_validate, default_sparsities
from fedsparse.modelling.fitting import FitOptions, fit
from fedsparse.modelling.stability import select_stably

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
    assert len(sparsities) == 9
    most = 5 * len(sparsities) + 4  # f of a model's last x is an exchange, too
    assert hold(cross_validate, data, sparsities, LEAST_SQUARES).rounds <= most
    assert hold(choose_by_ebic, data, sparsities, LEAST_SQUARES)[0].rounds <= most


def test_more_than_two_classes_are_tried_side_by_side():
    data = labs()
    labels = np.digitize(data.targets, [-1, 1])
    data = fs.FederatedData.from_table(data.features, labels, np.repeat(np.arange(5), 24))
    options = FitOptions(fs.Softmax(l2=0.01), rounds=30)
    found = hold(cross_validate, data, [1, 3], options, folds=3, loss="softmax")
    assert found.rounds == 2 + 2 + 30 + 1 + 1  # scaling, smoothness, rounds, f(x_30), held-out rows
    assert found.measure == "log-loss per held-out row"


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
