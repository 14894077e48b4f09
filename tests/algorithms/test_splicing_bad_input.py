"""FedSplice on data that are no use, options that make no sense, and Hessians that were rounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.algorithms.subset import Quadratic, best_subset
from fedsparse.modelling.choosing import cross_validate
from fedsparse.modelling.fitting import FitOptions
from fedsparse.modelling.judging import evaluate_held_out
from fedsparse.modelling.judging import given as always
from tests.builders import CLASSES, LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate

ROUNDS = 100


def constraints(loss, sparsity):
    """A number, and for softmax features that classes share."""
    return (sparsity, fs.TopKRows(sparsity)) if loss == "softmax" else (sparsity,)


def splice(clients, sparsity, loss, storage="dense", **options):
    return fs.run(fs.FedSplice(sparsity), federate(clients, storage), loss=loss, **options)


def check_sound(result, rounds=ROUNDS):
    """Ended by itself, finite, and better than nothing."""
    assert not result.diverged
    assert np.isfinite(result.coef).all()
    assert result.objective < result.records[0].objective
    assert result.records[-1].round < rounds


def with_l2(loss, l2):
    return type(LOSS_OBJECTS[loss])(l2=l2)


# ---------------------------------------------------------------- columns


def doubled(Z):
    """The first three columns say the same, in different units."""
    Z[:, 1], Z[:, 2] = Z[:, 0], -2.0 * Z[:, 0]


def all_equal(Z):
    Z[:] = Z[:, :1]


def constant(Z):
    """The same number in all rows of everyone, twice."""
    Z[:, 3], Z[:, 4] = 1.0, 7.0


def empty(Z):
    Z[:, 3:6] = 0.0


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
class TestUselessColumns:
    @pytest.mark.parametrize("l2", [0.0, 0.01])
    @pytest.mark.parametrize("spoil", [doubled, all_equal, constant, empty])
    def test_do_no_harm(self, loss, storage, spoil, l2):
        clients = clients_for(loss, rows=(40, 60, 30), density=0.6)
        for Z, _ in clients:
            spoil(Z)
        for sparsity in constraints(loss, 5):
            result = splice(clients, sparsity, with_l2(loss, l2), storage)
            check_sound(result)
            assert np.abs(result.coef).max() < 50.0

    def test_a_column_that_another_repeats_is_not_needed(self, loss, storage):
        """Without an ℓ2 term, which would rather share a coefficient among two."""
        clients = clients_for(loss, rows=(40, 60, 30), density=0.6)
        twice = [(np.hstack([Z, Z]), y) for Z, y in clients]
        for sparsity in constraints(loss, 3):
            once, again = (
                splice(own, sparsity, with_l2(loss, 0.0), storage) for own in (clients, twice)
            )
            assert again.objective == pytest.approx(once.objective, rel=1e-6)

    def test_an_empty_column_is_never_taken(self, loss, storage):
        clients = clients_for(loss)
        for Z, _ in clients:
            empty(Z)
        for sparsity in constraints(loss, 24):
            result = splice(clients, sparsity, LOSS_OBJECTS[loss], storage)
            assert not result.coef[3:6].any()


# ---------------------------------------------------------------- τ


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
class TestLargeSparsity:
    @pytest.mark.parametrize("sparsity", [24, 25, 1000])
    def test_all_features_are_the_minimizer_of_f(self, loss, storage, sparsity):
        """f is strictly convex: its gradient vanishes there alone."""
        clients = clients_for(loss)
        for constraint in constraints(loss, sparsity):
            result = splice(clients, constraint, LOSS_OBJECTS[loss], storage)
            check_sound(result)
            engine = fs.LocalEngine(federate(clients, storage), LOSS_OBJECTS[loss])
            (told,) = engine.exchange([engine.ask(fs.Gradient(result.coef))])
            gradient = told.mean("gradient") + 0.05 * result.coef
            np.testing.assert_allclose(gradient, 0.0, atol=1e-6)

    def test_more_features_than_rows(self, loss, storage):
        clients = clients_for(loss, rows=(4, 3))
        for sparsity in constraints(loss, 20):
            check_sound(splice(clients, sparsity, LOSS_OBJECTS[loss], storage))

    def test_more_features_than_rows_without_an_l2_term(self, loss, storage):
        """Rows are told apart without an error; whatever does it is finite."""
        clients = clients_for(loss, rows=(4, 3))
        for sparsity in constraints(loss, 20):
            result = splice(clients, sparsity, with_l2(loss, 0.0), storage)
            assert np.isfinite(result.coef).all()
            assert result.objective < 1e-6

    def test_a_row_each(self, loss, storage):
        of_two = clients_for(loss, rows=(4, 4))
        clients = [(Z[row : row + 1], y[row : row + 1]) for Z, y in of_two for row in range(4)]
        for sparsity in constraints(loss, 3):
            check_sound(splice(clients, sparsity, LOSS_OBJECTS[loss], storage))


# ---------------------------------------------------------------- classes


def of_three_classes(rows=60, width=6, seed=0):
    """Features, and labels that the first three columns decide without an error."""
    Z = np.random.default_rng(seed).standard_normal((rows, width))
    return Z, np.argmax(Z[:, :CLASSES], axis=1)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("constraint", constraints("softmax", 3), ids=["per class", "shared"])
class TestAbsentClasses:
    def test_a_site_may_have_one_class_only(self, constraint, storage):
        Z, y = of_three_classes()
        apart = [(Z[y == label], y[y == label]) for label in range(CLASSES)]
        result = splice(apart, constraint, fs.Softmax(l2=0.01), storage)
        check_sound(result)
        assert (np.argmax(Z @ result.coef, axis=1) == y).mean() > 0.8

    def test_sites_that_lack_classes_tell_no_less_together(self, constraint, storage):
        """Which rows lie where is all the same where every site counts by its rows."""
        Z, y = of_three_classes(60)
        order = np.argsort(y, kind="stable")
        mixed = [(Z[part], y[part]) for part in np.split(np.arange(60), 3)]
        apart = [(Z[part], y[part]) for part in np.split(order, 3)]
        one, other = (
            splice(own, constraint, fs.Softmax(l2=0.01), storage) for own in (mixed, apart)
        )
        assert one.objective == pytest.approx(other.objective, rel=1e-9)
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-5)

    def test_a_class_that_no_row_has_any_more_becomes_unlikely(self, constraint, storage):
        """As in a fold: the classes are those of all rows."""
        Z, y = of_three_classes()
        y[:3], y[3:] = 2, np.minimum(y[3:], 1)
        data = federate([(Z[:30], y[:30]), (Z[30:], y[30:])], storage)
        whole = fs.LocalEngine(data, fs.Softmax(l2=0.01))
        rest = whole.where(fs.Rows().without(0))
        result = fs.run(fs.FedSplice(constraint), rest)
        check_sound(result)
        assert result.coef.shape == (6, CLASSES)
        assert (np.argmax(Z[30:] @ result.coef, axis=1) == y[30:]).mean() > 0.8


def patients(rare, *, at_one_site, others=("b", "c"), rows=90):
    """Features, labels with so many rows of class a, and three sites."""
    random = np.random.default_rng(0)
    X, sites = random.standard_normal((rows, 8)), np.repeat([0, 1, 2], rows // 3)
    y = np.asarray(others)[(X[:, 0] > 0).astype(int) % len(others)]
    y[np.arange(rare) if at_one_site else np.arange(rare) * (rows // 3)] = "a"
    return X, y, sites


@pytest.mark.parametrize("at_one_site", [True, False], ids=["at one site", "spread"])
@pytest.mark.parametrize("rare", [1, 3])
@pytest.mark.parametrize("others", [("b",), ("b", "c")], ids=["two classes", "three classes"])
class TestRareClass:
    """Some folds have none of its rows, or it has none to learn from."""

    @pytest.mark.parametrize("sparsity", ["cv", "ebic", 3])
    def test_an_estimator_gives_probabilities_of_all_classes(
        self, rare, at_one_site, others, sparsity
    ):
        X, y, sites = patients(rare, at_one_site=at_one_site, others=others)
        model = fs.FedSparseClassifier(sparsity=sparsity).fit(X, y, sites=sites)
        chances = model.predict_proba(X)
        assert model.classes_.tolist() == ["a", *others]
        assert np.isfinite(chances).all()
        np.testing.assert_allclose(chances.mean(axis=0)[0], rare / len(X), atol=0.02)
        assert model.score(X, y) >= 0.9

    def test_conversations_choose_and_judge(self, rare, at_one_site, others):
        X, y, sites = patients(rare, at_one_site=at_one_site, others=others)
        codes = np.unique(y, return_inverse=True)[1]
        loss = fs.Logistic(l2=0.1) if len(others) == 1 else fs.Softmax(l2=0.1)
        engine = fs.LocalEngine(fs.FederatedData.from_table(X, codes, sites), loss)
        chosen = fs.converse(engine, cross_validate(engine, [0, 1, 3], FitOptions(loss)))
        assert all(np.isfinite(point.score) for point in chosen.points)
        told = fs.converse(engine, evaluate_held_out(engine, always(1), FitOptions(loss)))
        assert told.confusion is not None
        # A fold without which only one class is left teaches nothing.
        assert np.sum(told.confusion.counts) == len(X) or (rare == 1 and len(others) == 1)


# ---------------------------------------------------------------- separable classes


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
class TestSeparableClassesWithoutAnL2Term:
    """f has no minimizer: coefficients grow, and f goes to 0."""

    def run(self, loss, sparsity, storage, rounds=ROUNDS):
        Z, y = of_three_classes()
        if loss == "logistic":
            y = (y == 0).astype(float) if sparsity != 1 else (Z[:, 0] > 0).astype(float)
        clients = [(Z[part], y[part]) for part in np.split(np.arange(60), 3)]
        return [
            splice(clients, constraint, with_l2(loss, 0.0), storage, rounds=rounds)
            for constraint in constraints(loss, sparsity)
        ]

    @pytest.mark.parametrize("sparsity", [1, 3, 6])
    def test_coefficients_stay_finite(self, loss, storage, sparsity):
        for result in self.run(loss, sparsity, storage):
            assert not result.diverged
            assert np.isfinite(result.coef).all()
            assert result.objective == min(record.objective for record in result.records)
            assert result.objective < 0.75 * result.records[0].objective

    def test_rounds_come_to_an_end_by_themselves(self, loss, storage):
        """Once f is next to nothing there is no gain that matters."""
        for result in self.run(loss, 1 if loss == "logistic" else 6, storage, rounds=1000):
            assert result.records[-1].round < ROUNDS


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("loss", "sparsity", "what"),
    [
        ("softmax", fs.TopK(3), "cannot keep to TopK for several classes; use a number, TopKPer"),
        ("softmax", fs.LowRank(1), "cannot keep to LowRank"),
        ("softmax", fs.TopKGroups(["a"] * 24, 1), "cannot keep to TopKGroups"),
        ("squared", fs.LowRank(1), "cannot keep to LowRank; use a number, TopK, or FedIterHT"),
        ("softmax", fs.TopKPerClass(2, keep=[1, 2, 3]), "keep names 3"),
        ("softmax", fs.TopKRows(2, keep=[1, 2, 3]), "keep names 3"),
        ("softmax", fs.TopKRows(2, keep=[24]), "keep names feature 24"),
        ("softmax", fs.TopKPerClass(2, keep=[-1]), "keep names feature -1"),
        ("softmax", fs.TopKRows(2, keep=["age"]), "keep must list features by whole numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:30],
)
def test_a_constraint_that_does_not_fit_is_refused_in_one_sentence(loss, sparsity, what):
    with pytest.raises(fs.OptionError, match=what) as refused:
        splice(clients_for(loss), sparsity, LOSS_OBJECTS[loss])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("start", [np.ones(24), np.ones((24, 2)), np.full((24, CLASSES), np.nan)])
def test_a_start_that_does_not_fit_is_refused(start):
    with pytest.raises(fs.OptionError, match=r"start_at must be .* of shape \(24, 3\)"):
        fs.run(fs.FedSplice(2, start_at=start), federate(clients_for("softmax")), loss=fs.Softmax())


@pytest.mark.parametrize(
    ("labels", "what"),
    [(0.0, "all rows have the same label"), (0.5, "client 1, row 0 has label 0.5")],
)
def test_labels_that_are_no_classes_are_refused_in_one_sentence(labels, what):
    clients = clients_for("softmax")
    clients = [(Z, np.zeros(len(y))) for Z, y in clients]
    clients[1][1][:] = labels
    with pytest.raises(fs.DataError, match=what):
        splice(clients, 2, fs.Softmax())


@pytest.mark.filterwarnings("ignore::fedsparse.DivergenceWarning")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1e-160, 1e160, 1e200])
def test_features_beyond_all_bounds_end_a_run_with_what_was_best_so_far(loss, size):
    clients = [(Z * size, y) for Z, y in clients_for(loss)]
    for sparsity in constraints(loss, 2):
        result = splice(clients, sparsity, LOSS_OBJECTS[loss])
        assert np.isfinite(result.coef).all()
        assert result.objective <= result.records[0].objective * (1 + 1e-12)


# ---------------------------------------------------------------- rounded Hessians

ENTRIES = 0.002
"""What rounding to 8 bits changes in an entry of a correlation matrix, at most."""


def correlations(seed, *, size, rows, blocks):
    """½ uᵀRu − bᵀu with R of few rows, so that it is singular; ten features matter."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, size))
    if blocks:
        Z = (
            np.sqrt(0.1) * Z
            + np.sqrt(0.9) * random.standard_normal((rows, size))[:, np.arange(size) // 10]
        )
    Z /= np.linalg.norm(Z, axis=0)
    y = Z[:, random.choice(size, 10, replace=False)] @ random.standard_normal(10)
    return Quadratic(Z.T @ Z, Z.T @ (y + 0.5 * y.std() * random.standard_normal(rows)))


def rounded(model, seed):
    """The same with errors of its own in every pair of entries."""
    errors = np.random.default_rng(seed + 1).uniform(-ENTRIES, ENTRIES, model.hessian.shape)
    upper = np.triu(errors)
    return Quadratic(model.hessian + upper + np.triu(errors, 1).T, model.linear)


def explained(model, support):
    """How low the model gets on a support, by least squares: it needs no inverse."""
    part, linear = model.hessian[np.ix_(support, support)], model.linear[support]
    return 0.5 * linear @ np.linalg.lstsq(part, linear, rcond=1e-9)[0]


def drop(model, support, u):
    """How much lower the model is at u than at 0."""
    return model.linear[support] @ u - 0.5 * u @ model.hessian[np.ix_(support, support)] @ u


class TestRoundedHessians:
    """They are slightly indefinite: by themselves they have no lowest point."""

    @pytest.mark.parametrize("blocks", [False, True], ids=["independent", "blocks of 0.9"])
    @pytest.mark.parametrize("sparsity", [5, 30, 60, 100, 150])
    def test_lead_to_nearly_as_good_a_support_and_coefficients(self, sparsity, blocks):
        exact = correlations(sparsity, size=300, rows=100, blocks=blocks)
        model = rounded(exact, sparsity)
        assert np.linalg.eigvalsh(model.hessian)[0] < -0.01
        chosen = best_subset(model, sparsity)
        best = explained(exact, best_subset(exact, sparsity))
        assert chosen.size == sparsity
        assert explained(exact, chosen) >= 0.95 * best
        u = model.minimizer(chosen)
        assert drop(exact, chosen, u) >= 0.95 * best
        assert np.abs(u).max() < 10.0

    @settings(max_examples=30, derandomize=True)
    @given(st.integers(0, 10**6), st.integers(1, 30), st.integers(5, 40))
    def test_never_lead_to_coefficients_beyond_all_bounds(self, seed, sparsity, rows):
        model = rounded(correlations(seed, size=40, rows=rows, blocks=bool(seed % 2)), seed)
        chosen = best_subset(model, sparsity)
        shortfall = max(-np.linalg.eigvalsh(model.hessian)[0], 0.0)
        u = model.minimizer(chosen)
        assert np.isfinite(u).all()
        if shortfall > 0:
            # The least eigenvalue on the support is raised to the shortfall.
            assert np.linalg.norm(u) <= 1.1 * np.linalg.norm(model.linear) / shortfall

    def test_that_are_definite_all_the_same_are_taken_as_they_are(self):
        exact = correlations(0, size=40, rows=400, blocks=False)
        model = rounded(exact, 0)
        support = np.arange(12)
        expected = np.linalg.solve(model.hessian[:12, :12], model.linear[:12])
        np.testing.assert_allclose(model.minimizer(support), expected, rtol=1e-9)

    def test_a_support_that_is_clear_in_spite_of_them_is_not_shrunk(self):
        """Five features have no eigenvalue near 0, though all 300 have."""
        model = rounded(correlations(1, size=300, rows=100, blocks=False), 1)
        chosen = best_subset(model, 5)
        part = model.hessian[np.ix_(chosen, chosen)]
        expected = np.linalg.solve(part, model.linear[chosen])
        np.testing.assert_allclose(model.minimizer(chosen), expected, rtol=1e-9)
