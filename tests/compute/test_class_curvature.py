"""Second derivatives of the softmax loss: exact, or matrices that separate the classes."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute import open_clients
from fedsparse.compute.asked_entries import AskedEntries
from fedsparse.compute.class_curvature import class_curvature, joint_curvature, shared_curvature
from fedsparse.compute.matrices import AskedMatrices
from fedsparse.compute.triangles import from_triangle, triangle_size
from fedsparse.compute.workers import Workers
from tests import oracle
from tests.builders import CLASSES, LOSS_OBJECTS, STORAGES, clients_for, federate

WIDTH, L2 = 9, 0.05
FEATURES = np.array([0, 2, 3, 7])
PLACES = np.array([0, 2, 8, 9 + 2, 9 + 3, 18 + 0, 18 + 1, 18 + 8])
"""Entries of x, class · d + feature: another number of features for each class."""


def sites():
    """Ragged clients; one lacks columns, one all but one class, and one has a single row."""
    clients = clients_for("softmax", rows=(5, 9, 30, 1), width=WIDTH)
    clients[0][0][:, 5:] = 0.0
    clients[1][1][:] = 1.0
    return clients


def somewhere(seed=3):
    """A point with zeros, numbers of either sign, and an empty row."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((WIDTH, CLASSES)) * (random.random((WIDTH, CLASSES)) < 0.6)
    x[3] = 0.0
    return x


def asked_of(work, at, width=WIDTH):
    """All entries, as they are."""
    blocks = [at]
    if work is class_curvature:
        blocks = [at[at // width == label] for label in range(-(-int(at[-1] + 1) // width))]
    return AskedMatrices(
        tuple(AskedEntries(np.zeros(own.size, dtype=np.bool_)) for own in blocks), is_short=False
    )


def told(work, clients, storage="dense", dtype=np.float64, *, at=PLACES, threads=1, which=None):
    """What every client answers: f_i, gradients and triangles."""
    data = clients if isinstance(clients, fs.FederatedData) else federate(clients, storage, dtype)
    which = np.arange(len(data)) if which is None else np.asarray(which)
    workers = Workers(threads)
    try:
        opened = open_clients(data, LOSS_OBJECTS["softmax"], workers)
        losses, gradients, triangles = work(opened, somewhere(), at, which, asked_of(work, at))
    finally:
        workers.close()
    return list(zip(losses, gradients.each(), triangles.each(), strict=True))


# ---------------------------------------------------------------- definitions


def by_scores(Z, x):
    """diag(p) − ppᵀ of every row, and p."""
    chances = np.exp(oracle.log_softmax(Z @ x))
    seconds = np.einsum("rk,kl->rkl", chances, np.eye(CLASSES))
    return seconds - chances[:, :, None] * chances[:, None, :], chances


def hessian(Z, x):
    """Of the mean loss by all entries of x, class by class."""
    seconds, _ = by_scores(Z, x)
    blocks = np.einsum("rkl,ri,rj->kilj", seconds, Z, Z) / len(Z)
    return blocks.reshape(WIDTH * CLASSES, -1)


def of_classes(Z, x):
    """A matrix for each class: rows count p min(1, 2 (1 − p))."""
    _, chances = by_scores(Z, x)
    counts = chances * np.minimum(1.0, 2.0 * (1.0 - chances))
    return [(Z.T * count) @ Z / len(Z) for count in counts.T]


def of_all_classes(Z, x):
    """One matrix: rows count the mean of p (1 − p), times c / (c − 1)."""
    _, chances = by_scores(Z, x)
    counts = np.sum(chances * (1.0 - chances), axis=1) / (CLASSES - 1)
    return (Z.T * counts) @ Z / len(Z)


def assert_close(values, expected):
    """Equal to 1e-12 of the largest entry."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
class TestDefinitions:
    @pytest.fixture
    def clients(self, dtype):
        """In numbers that the data type holds exactly, so that only sums can differ."""
        return [(Z.astype(dtype).astype(float), y) for Z, y in sites()]

    @pytest.mark.parametrize("places", [PLACES, PLACES[:1], PLACES[:0], np.arange(27)], ids=len)
    def test_joint(self, clients, storage, dtype, places):
        answers = told(joint_curvature, clients, storage, dtype, at=places)
        for (Z, y), (loss, gradient, triangle) in zip(clients, answers, strict=True):
            slopes = oracle.gradient(Z, y, somewhere(), "softmax", 0.0)
            assert_close(loss, oracle.loss_value(Z, y, somewhere(), "softmax", L2))
            assert_close(gradient, slopes.T.ravel()[places])
            expected = hessian(Z, somewhere())[np.ix_(places, places)]
            assert_close(from_triangle(triangle, places.size), expected)

    def test_of_each_class(self, clients, storage, dtype):
        answers = told(class_curvature, clients, storage, dtype)
        for (Z, y), (loss, gradient, triangles) in zip(clients, answers, strict=True):
            slopes = oracle.gradient(Z, y, somewhere(), "softmax", 0.0)
            assert_close(loss, oracle.loss_value(Z, y, somewhere(), "softmax", L2))
            assert_close(gradient, slopes.T.ravel()[PLACES])
            begin = 0
            for label, matrix in enumerate(of_classes(Z, somewhere())):
                own = PLACES[PLACES // WIDTH == label] % WIDTH
                end = begin + triangle_size(own.size)
                part = from_triangle(triangles[begin:end], own.size)
                assert_close(part, matrix[np.ix_(own, own)])
                begin = end
            assert begin == triangles.size

    def test_of_all_classes(self, clients, storage, dtype):
        answers = told(shared_curvature, clients, storage, dtype, at=FEATURES)
        for (Z, y), (loss, gradient, triangle) in zip(clients, answers, strict=True):
            slopes = oracle.gradient(Z, y, somewhere(), "softmax", 0.0)
            assert_close(loss, oracle.loss_value(Z, y, somewhere(), "softmax", L2))
            assert_close(gradient, slopes[FEATURES].T.ravel())
            expected = of_all_classes(Z, somewhere())[np.ix_(FEATURES, FEATURES)]
            assert_close(from_triangle(triangle, FEATURES.size), expected)

    def test_slopes(self, clients, storage, dtype):
        """The diagonal of the exact Hessian, of all entries."""
        opened = open_clients(federate(clients, storage, dtype), fs.Softmax(l2=L2), Workers(1))
        losses, gradients, diagonals = opened.slopes(somewhere(), np.arange(len(clients)))
        answers = zip(clients, losses, gradients.each(), diagonals.each(), strict=True)
        for (Z, y), loss, gradient, diagonal in answers:
            assert_close(loss, oracle.loss_value(Z, y, somewhere(), "softmax", L2))
            assert_close(gradient, oracle.gradient(Z, y, somewhere(), "softmax", 0.0))
            assert_close(diagonal.T.ravel(), np.diag(hessian(Z, somewhere())))


def test_the_exact_hessian_is_how_the_gradient_changes():
    """By differences: no formula of second derivatives is used."""
    (Z, y), *_ = clients_for("softmax", rows=(30,), width=WIDTH)
    ((_, _, triangle),) = told(joint_curvature, [(Z, y)], at=np.arange(WIDTH * CLASSES))
    for place in range(WIDTH * CLASSES):
        step = np.zeros(WIDTH * CLASSES)
        step[place] = 1e-5
        step = step.reshape(CLASSES, WIDTH).T
        after, before = (
            oracle.gradient(Z, y, somewhere() + sign * step, "softmax", 0.0) for sign in (1, -1)
        )
        column = (after - before).T.ravel() / 2e-5
        exact = from_triangle(triangle, WIDTH * CLASSES)[place]
        np.testing.assert_allclose(exact, column, atol=1e-8)


def test_matrices_of_classes_times_two_bend_f_at_least_as_much_as_it_does():
    """So that steps which are short enough always lead down."""
    for Z, _ in sites():
        bound = np.zeros((WIDTH * CLASSES, WIDTH * CLASSES))
        for label, matrix in enumerate(of_classes(Z, somewhere())):
            own = slice(label * WIDTH, (label + 1) * WIDTH)
            bound[own, own] = 2.0 * matrix
        least = np.linalg.eigvalsh(bound - hessian(Z, somewhere()))[0]
        assert least >= -1e-12


# ---------------------------------------------------------------- weights, threads, order


WORKS = {
    "joint": (joint_curvature, PLACES),
    "each": (class_curvature, PLACES),
    "shared": (shared_curvature, FEATURES),
}


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", WORKS)
class TestAnswers:
    def test_a_row_of_weight_two_counts_like_the_row_twice(self, name, storage):
        work, at = WORKS[name]
        clients = clients_for("softmax", rows=(6, 7), width=WIDTH)
        twice = [(np.repeat(Z, 2, axis=0)[1:], np.repeat(y, 2)[1:]) for Z, y in clients]
        weights = np.full(13, 2.0)
        weights[[0, 6]] = 1.0
        plain = federate(clients, storage)
        weighted = fs.FederatedData.from_table(
            plain.features, plain.targets, np.repeat([0, 1], plain.counts), row_weights=weights
        )
        answers = (told(work, data, storage, at=at) for data in (weighted, twice))
        for one, other in zip(*answers, strict=True):
            for value, expected in zip(one, other, strict=True):
                assert_close(value, expected)

    def test_threads_change_no_bit(self, name, storage):
        work, at = WORKS[name]
        clients = clients_for("softmax", rows=(5, 9, 300, 6, 1, 12, 40), width=WIDTH)
        one, two = (told(work, clients, storage, at=at, threads=count) for count in (1, 2))
        assert bits(one) == bits(two)

    def test_only_those_asked_answer_in_the_order_asked(self, name, storage):
        work, at = WORKS[name]
        everyone = bits(told(work, sites(), storage, at=at))
        some = bits(told(work, sites(), storage, at=at, which=[2, 0]))
        assert some == [everyone[2], everyone[0]]

    def test_a_loss_with_one_score_is_refused(self, name, storage):
        work, at = WORKS[name]
        opened = open_clients(federate(clients_for("logistic")), fs.Logistic(), Workers(1))
        with pytest.raises(fs.OptionError, match="needs a loss with several classes"):
            work(opened, np.zeros(24), at, np.arange(4), asked_of(work, at))


def bits(answers):
    return [tuple((np.asarray(field) + 0.0).tobytes() for field in own) for own in answers]


def test_a_feature_that_is_not_there_is_refused():
    with pytest.raises(fs.OptionError, match="there is no feature 9; they go from 0 to 8"):
        told(shared_curvature, sites(), at=np.array([1, 9]))


@pytest.mark.parametrize("score", [40.0, 400.0])
def test_rows_of_which_the_class_is_certain_hardly_bend_f_and_are_finite(score):
    clients = [(np.array([[score], [-score]]), np.array([0.0, 1.0]))]
    opened = open_clients(federate(clients), fs.Softmax(), Workers(1))
    x = np.array([[1.0, -1.0]])
    for work, at in ((joint_curvature, np.arange(2)), (class_curvature, np.arange(2))):
        loss, _, triangles = work(opened, x, at, np.arange(1), asked_of(work, at, 1))
        (triangle,) = triangles.each()
        assert np.isfinite(triangle).all()
        assert np.abs(triangle).max() < 1e-12
        assert loss[0] < 1e-3
