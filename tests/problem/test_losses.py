"""The losses: numbers against extended precision, labels and what is said about bad ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.problem.losses import as_loss
from tests.builders import CLASSES, LOSS_OBJECTS, LOSSES, clients_for

PRECISE = np.longdouble
EXTREME_SCORES = [-1e3, -745.0, -40.0, -1.0, -1e-12, 0.0, 1e-300, 0.3, 37.0, 709.0, 710.0, 1e3]
untimed = settings(deadline=None)
scores_anywhere = st.floats(-1e3, 1e3)


def precise_value(loss, scores, target):
    """One row's loss in extended precision, from the formulas in the paper."""
    row = np.atleast_1d(np.asarray(scores, dtype=PRECISE))
    if loss == "squared":
        return (PRECISE(target) - row[0]) ** 2
    if loss == "logistic":
        sign = PRECISE(1) if target else PRECISE(-1)
        return np.logaddexp(PRECISE(0), -sign * row[0])
    return np.logaddexp.reduce(row - row[int(target)])


def precise_derivative(loss, scores, target):
    row = np.atleast_1d(np.asarray(scores, dtype=PRECISE))
    if loss == "squared":
        return 2 * (row - PRECISE(target))
    if loss == "logistic":
        return np.exp(-np.logaddexp(PRECISE(0), -row)) - PRECISE(target)
    probabilities = np.exp(row - np.logaddexp.reduce(row))
    probabilities[int(target)] -= 1
    return probabilities


def rows_for(loss, scores):
    """Rows of scores with each fitting target: one score a row, or one for every class."""
    if loss == "softmax":
        rows = [[a, b, c] for a in scores for b in scores[::3] for c in scores[::4]]
        return [(row, label) for row in rows for label in range(CLASSES)]
    return [([score], target) for score in scores for target in (0.0, 1.0)]


def federated(*targets, width=2):
    """One client for each list of targets; what the features are does not matter."""
    return fs.FederatedData.from_clients(
        {f"lab-{i}": (np.ones((len(y), width)), y) for i, y in enumerate(targets)}
    )


class TestNumbers:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_value_is_exact_up_to_rounding_at_extreme_scores(self, loss):
        for scores, target in rows_for(loss, EXTREME_SCORES):
            expected = float(precise_value(loss, scores, target))
            found = as_loss(loss).value([scores], [target])
            # Rounding of scores of this size is unavoidable, everything beyond it is not.
            size = max(1.0, abs(expected), *np.abs(scores))
            assert found == pytest.approx(expected, rel=1e-15, abs=4e-16 * size), (scores, target)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_derivative_is_exact_up_to_rounding_at_extreme_scores(self, loss):
        for scores, target in rows_for(loss, EXTREME_SCORES):
            found = as_loss(loss).derivative([scores], [target])[0]
            expected = precise_derivative(loss, scores, target).astype(float)
            np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)

    @pytest.mark.parametrize("loss", LOSSES)
    @untimed
    @given(data=st.data())
    def test_derivative_is_that_of_the_value(self, loss, data):
        size = CLASSES if loss == "softmax" else 1
        scores = np.array(data.draw(st.lists(st.floats(-20, 20), min_size=size, max_size=size)))
        target = data.draw(st.integers(0, size - 1 if loss == "softmax" else 1))
        slopes = as_loss(loss).derivative([scores], [target])[0]
        for place in range(size):
            step = np.zeros(size, dtype=PRECISE)
            step[place] = PRECISE(2.0) ** -20
            above = precise_value(loss, scores + step, target)
            below = precise_value(loss, scores - step, target)
            difference = float((above - below) / (2 * step[place]))
            assert slopes[place] == pytest.approx(difference, abs=1e-9)

    @pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
    def test_second_derivative_is_that_of_the_derivative(self, loss):
        scores, step = np.linspace(-6.0, 6.0, 25), 1e-5
        targets = np.ones(scores.size)
        above, below = (
            as_loss(loss).derivative(scores + shift, targets) for shift in (step, -step)
        )
        np.testing.assert_allclose(
            as_loss(loss).second_derivative(scores), (above - below) / (2 * step), rtol=1e-6
        )

    def test_value_is_the_mean_over_rows(self):
        assert fs.SquaredError().value([1.0, 2.0, 5.0], [0.0, 2.0, 2.0]) == pytest.approx(10 / 3)
        assert fs.Logistic().value([0.0, 0.0], [0, 1]) == pytest.approx(np.log(2))
        assert fs.Softmax().value(np.zeros((2, 4)), [0, 3]) == pytest.approx(np.log(4))

    def test_derivative_has_the_shape_of_the_scores(self):
        assert fs.Logistic().derivative(np.zeros(5), np.zeros(5)).shape == (5,)
        assert fs.Softmax().derivative(np.zeros((5, 3)), np.zeros(5)).shape == (5, 3)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_arguments_are_left_alone(self, loss):
        scores, targets = np.array([[0.5] * CLASSES] * 2), np.array([0.0, 1.0])
        scores = scores if loss == "softmax" else scores[:, 0].copy()
        before = scores.copy()
        as_loss(loss).value(scores, targets)
        as_loss(loss).derivative(scores, targets)
        np.testing.assert_array_equal(scores, before)

    @untimed
    @given(score=scores_anywhere)
    def test_logistic_is_softmax_of_two_classes(self, score):
        for target in (0, 1):
            logistic = fs.Logistic().value([score], [target])
            assert fs.Softmax().value([[0.0, score]], [target]) == pytest.approx(
                logistic, abs=1e-12
            )

    def test_squared_error_has_no_half(self):
        assert fs.SquaredError().value([3.0], [1.0]) == 4.0
        assert fs.SquaredError().derivative([3.0], [1.0]).tolist() == [4.0]

    @pytest.mark.parametrize("loss", LOSSES)
    def test_nan_scores_are_not_hidden(self, loss):
        scores = np.full((1, CLASSES), np.nan) if loss == "softmax" else [np.nan]
        assert np.isnan(as_loss(loss).value(scores, [1]))
        assert np.isnan(as_loss(loss).derivative(scores, [1])).all()


class TestSmoothness:
    def gradient(self, loss, Z, y, x):
        scores = Z @ x
        return Z.T @ loss.derivative(scores, y) / len(y) + loss.l2 * x

    @pytest.mark.parametrize("name", LOSSES)
    @pytest.mark.parametrize("seed", range(3))
    def test_bounds_how_fast_the_gradient_changes(self, name, seed):
        loss = LOSS_OBJECTS[name]
        Z, y = clients_for(name, rows=(20,), width=6, density=1.0, seed=seed)[0]
        bound = loss.smoothness(np.linalg.norm(Z, 2) ** 2 / len(Z))
        random = np.random.default_rng(seed)
        shape = (6, CLASSES) if name == "softmax" else (6,)
        for _ in range(50):
            u = random.standard_normal(shape) * 10.0 ** random.integers(-3, 2)
            v = u + random.standard_normal(shape) * 10.0 ** random.integers(-3, 2)
            change = self.gradient(loss, Z, y, u) - self.gradient(loss, Z, y, v)
            assert np.linalg.norm(change) <= bound * np.linalg.norm(u - v) * (1 + 1e-9)

    def test_is_attained_by_the_squared_loss(self):
        loss = fs.SquaredError(l2=0.3)
        Z, y = clients_for("squared", rows=(20,), width=6, density=1.0)[0]
        eigenvalues, eigenvectors = np.linalg.eigh(Z.T @ Z / len(Z))
        u = eigenvectors[:, -1]
        change = self.gradient(loss, Z, y, u) - self.gradient(loss, Z, y, 0 * u)
        assert loss.smoothness(eigenvalues[-1]) == pytest.approx(np.linalg.norm(change))

    def test_is_attained_at_undecided_scores(self):
        assert fs.Logistic(l2=0).smoothness(4.0) == 1.0
        step = 1e-6
        slope = np.diff(fs.Logistic().derivative([-step, step], [0, 0]))[0] / (2 * step)
        assert fs.Logistic.curvature == pytest.approx(slope)
        # Two classes at one half each, moved apart: the worst case for softmax.
        scores = np.array([[-step, step], [step, -step]])
        change = np.diff(fs.Softmax().derivative(scores, [0, 0]), axis=0)
        ratio = np.linalg.norm(change) / np.linalg.norm(np.diff(scores, axis=0))
        assert fs.Softmax.curvature == pytest.approx(ratio)


class TestOptions:
    @pytest.mark.parametrize("kind", [fs.SquaredError, fs.Logistic, fs.Softmax])
    @pytest.mark.parametrize("l2", [-1e-9, np.nan, np.inf])
    def test_l2_must_be_a_number_of_at_least_zero(self, kind, l2):
        with pytest.raises(fs.OptionError, match="l2 must be a number ≥ 0"):
            kind(l2=l2)

    def test_defaults_are_those_of_the_paper(self):
        assert as_loss("squared") == fs.SquaredError(l2=0.0)
        assert as_loss("logistic") == fs.Logistic(l2=1e-4)
        assert as_loss("softmax") == fs.Softmax(l2=1e-4)

    def test_an_object_stands_for_itself(self):
        loss = fs.Logistic(l2=3.0)
        assert as_loss(loss) is loss

    @pytest.mark.parametrize("name", ["hinge", "", None])
    def test_unknown_names_are_refused_with_the_known_ones(self, name):
        with pytest.raises(fs.OptionError, match="squared, logistic, softmax"):
            as_loss(name)


class TestLabels:
    @pytest.mark.parametrize("targets", [[0.5, -2.0], [1, 2], [True, False], np.float16([1, 2.5])])
    def test_squared_takes_any_numbers(self, targets):
        encoded = fs.SquaredError().encode(federated(targets))
        assert encoded.values.dtype == np.float64
        assert encoded.values.tolist() == [float(value) for value in targets]
        assert encoded.classes is None

    @pytest.mark.parametrize(
        ("targets", "classes"),
        [
            (np.array([0, 1, 1]), [0, 1]),
            (np.array([0.0, 1.0, 1.0]), [0, 1]),
            (np.array([False, True, True]), [0, 1]),
            (np.array([0, 1, 1], dtype=np.uint8), [0, 1]),
            (np.array([-1, 1, 1]), [-1, 1]),
            (np.array([-1.0, 1.0, 1.0], dtype=np.float32), [-1, 1]),
        ],
    )
    def test_logistic_takes_either_labelling(self, targets, classes):
        encoded = fs.Logistic().encode(federated(targets[:1], targets[1:]))
        assert encoded.values.tolist() == [0.0, 1.0, 1.0]
        assert encoded.classes.tolist() == classes

    @pytest.mark.parametrize("label", [0, 1, -1, True])
    def test_logistic_takes_clients_with_one_class_only(self, label):
        encoded = fs.Logistic().encode(federated([label, label], [label]))
        assert encoded.values.tolist() == [float(label > 0)] * 3

    @pytest.mark.parametrize(
        ("targets", "classes"),
        [
            (["dog", "cat", "eel", "cat"], ["cat", "dog", "eel"]),
            ([7, 3, 9, 3], [3, 7, 9]),
            ([7.0, 3.0, 9.0, 3.0], [3.0, 7.0, 9.0]),
            ([0, -1, 1, -1], [-1, 0, 1]),
            (np.array(["dog", "cat", "eel", "cat"], dtype=object), ["cat", "dog", "eel"]),
        ],
    )
    def test_softmax_numbers_classes_in_sorted_order(self, targets, classes):
        encoded = fs.Softmax().encode(federated(targets[:2], targets[2:]))
        assert encoded.values.tolist() == [1.0, 0.0, 2.0, 0.0]
        assert encoded.classes.tolist() == classes

    def test_softmax_takes_booleans(self):
        encoded = fs.Softmax().encode(federated([True, False]))
        assert encoded.values.tolist() == [1.0, 0.0]

    def test_softmax_allows_a_class_to_be_missing_at_some_client(self):
        encoded = fs.Softmax().encode(federated([0, 1, 2], [2, 2], [1]))
        assert encoded.values.tolist() == [0, 1, 2, 2, 2, 1]
        assert encoded.classes.tolist() == [0, 1, 2]

    def test_a_run_with_text_labels_tells_the_classes(self):
        data = federated(["no", "yes"], ["maybe", "no"])
        result = fs.run(fs.FedIterHT(1, local_steps=2), data, loss="softmax", rounds=2, threads=1)
        assert result.classes.tolist() == ["maybe", "no", "yes"]
        assert result.coef.shape == (2, 3)


class TestMisfits:
    @pytest.mark.parametrize(
        ("loss", "good", "bad", "place"),
        [
            ("logistic", [0, 1], [1, 0, 2], "lab-1, row 2 has label 2"),
            ("logistic", [0.0, 1.0], [0.25, 1.0], "lab-1, row 0 has label 0.25"),
            ("logistic", [0, 1], [0, -1], "lab-1, row 1 has label -1"),
            ("logistic", [1, -1], [1, 3], "lab-1, row 1 has label 3"),
            ("logistic", ["0", "1"], ["1", "0"], "lab-0, row 0 has label 0"),
            ("squared", ["1", "2"], ["x", "2"], "lab-0, row 0 has label 1"),
            ("softmax", [0.0, 1.0], [1.0, 0.5], "lab-1, row 1 has label 0.5"),
        ],
    )
    def test_message_names_client_row_label_and_a_way_out(self, loss, good, bad, place):
        with pytest.raises(fs.DataError) as caught:
            fs.run(fs.FedAvg(), federated(good, bad), loss=loss, rounds=1, threads=1)
        assert str(caught.value).startswith(place)
        assert 'loss="' in str(caught.value)

    @pytest.mark.parametrize("label", [3, "a", True])
    def test_softmax_needs_two_classes(self, label):
        with pytest.raises(fs.DataError, match=f"same label, {label}.*needs two classes"):
            fs.run(fs.FedAvg(), federated([label], [label]), loss="softmax", threads=1)
