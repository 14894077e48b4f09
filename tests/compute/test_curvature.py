"""Second derivatives that clients send: exact, the same whoever asks, as short as their data."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.algorithms import EDSL
from fedsparse.compute import open_clients
from fedsparse.compute.triangles import from_triangle, triangle_index, triangle_size
from fedsparse.compute.workers import Workers
from fedsparse.engines import LocalEngine
from fedsparse.engines.engine import Ask
from fedsparse.engines.lens import Lens
from fedsparse.problem.rows import Rows
from fedsparse.requests import ClassCurvature, SharedCurvature
from fedsparse.requests.wire import vectors as wire
from fedsparse.requests.wire.stack_sizes import stack_bytes
from tests import oracle
from tests.builders import (
    CLASSES,
    LOSS_OBJECTS,
    LOSSES,
    STORAGES,
    answers_of,
    clients_for,
    federate,
    fields_of,
)

ONE_SCORE = ("squared", "logistic")
WIDTH = 24
SUPPORT = np.array([0, 2, 3, 11, 17, 23])
ENTRIES = np.concatenate([SUPPORT, WIDTH + SUPPORT[2:4], 2 * WIDTH + SUPPORT[1:]])
"""Of a matrix x, numbered class · d + feature."""


def hessian(Z, x, loss):
    """Second derivatives of a client's mean loss, straight from the definition."""
    probability = 1.0 / (1.0 + np.exp(-(Z @ x)))
    curvature = {"squared": np.full(len(Z), 2.0), "logistic": probability * (1.0 - probability)}
    return sum(c * np.outer(z, z) for c, z in zip(curvature[loss], Z, strict=True)) / len(Z)


def somewhere(seed=5):
    """A point with zeros and numbers of either sign."""
    random = np.random.default_rng(seed)
    return random.standard_normal(WIDTH) * (random.random(WIDTH) < 0.4)


def somewhere_by_class(seed=5):
    """A matrix with zeros, some rows of them, and numbers of either sign."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((WIDTH, CLASSES)) * (random.random((WIDTH, CLASSES)) < 0.6)
    x[random.random(WIDTH) < 0.4] = 0.0
    return x


def chances_at(Z, x):
    """Probabilities of the classes, row by row."""
    return np.exp(oracle.log_softmax(Z @ x))


def softmax_hessian(Z, x):
    """All second derivatives of a client's mean loss, straight from the definition."""
    total = np.zeros((x.size, x.size))
    for z, p in zip(Z, chances_at(Z, x), strict=True):
        total += np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z))
    return total / len(Z)


def class_matrices(Z, x):
    """Of each class Σ min(p, 2p (1 − p)) zzᵀ / B."""
    chances = chances_at(Z, x)
    bounds = np.minimum(chances, 2.0 * chances * (1.0 - chances))
    return [(Z * bounds[:, [label]]).T @ Z / len(Z) for label in range(CLASSES)]


def shared_matrix(Z, x):
    """Σ mean of p (1 − p) c / (c − 1) over classes, times zzᵀ / B."""
    chances = chances_at(Z, x)
    spread = (chances * (1.0 - chances)).mean(axis=1) * CLASSES / (CLASSES - 1)
    return (Z * spread[:, None]).T @ Z / len(Z)


def lacking_columns(loss):
    """Ragged clients; the first has only columns 2 to 5, the last none at all."""
    clients = clients_for(loss)
    clients[0][0][:, :2] = 0.0
    clients[0][0][:, 6:] = 0.0
    clients[-1][0][:] = 0.0
    return clients


def ask(request, data, loss, *, which=None, threads=1):
    return fields_of(request, data, LOSS_OBJECTS[loss], which=which, threads=threads)


def vectors_of(stack):
    """The vector of each client; adding 0 turns −0, which the others' weights of 0 may leave."""
    return [vector + 0.0 for vector in stack.each()]


def assert_close(values, expected):
    """Equal to 1e-12 of the largest entry."""
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * scale)


REQUESTS = {
    "Slopes": fs.Slopes(somewhere()),
    "Curvature": fs.Curvature(somewhere(), SUPPORT),
    "LocalSteps": fs.LocalSteps(somewhere(), 3, 0.1, with_objective=True),
}
REQUESTS_BY_CLASS = {
    "Slopes": fs.Slopes(somewhere_by_class()),
    "Slopes with a support": fs.Slopes(somewhere_by_class(), ENTRIES),
    "Curvature": fs.Curvature(somewhere_by_class(), ENTRIES),
    "ClassCurvature": ClassCurvature(somewhere_by_class(), ENTRIES),
    "SharedCurvature": SharedCurvature(somewhere_by_class(), SUPPORT),
}


def names_of(loss):
    return REQUESTS_BY_CLASS if loss == "softmax" else REQUESTS


def request_of(name, loss):
    return names_of(loss)[name]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
class TestValues:
    @pytest.fixture
    def clients(self, loss, dtype):
        """In numbers that the data type holds exactly, so that only sums can differ."""
        return [(Z.astype(dtype).astype(float), y) for Z, y in lacking_columns(loss)]

    @pytest.mark.parametrize("fresh", [1, 2, 4])
    def test_of_what_is_known_in_part_the_rest_is_told(self, clients, loss, dtype, storage, fresh):
        """Few new features or many: entries between two that are known are left out, no other."""
        x, known = somewhere(), np.delete(SUPPORT, np.arange(1, 1 + fresh))
        data = federate(clients, storage, dtype)
        told = ask(fs.Curvature(x, SUPPORT, known), data, loss)["hessian"]
        is_known = np.isin(SUPPORT, known)
        is_asked = np.triu(~(is_known[:, None] & is_known))
        for (Z, _), entries in zip(clients, vectors_of(told), strict=True):
            expected = hessian(Z, x, loss)[np.ix_(SUPPORT, SUPPORT)][is_asked]
            assert_close(entries, expected)

    def test_slopes_equal_the_definition(self, clients, loss, storage, dtype):
        x = somewhere()
        answer = ask(fs.Slopes(x), federate(clients, storage, dtype), loss)
        gradients = vectors_of(answer["gradient"])
        diagonals = vectors_of(answer["diagonal"])
        for place, (Z, y) in enumerate(clients):
            assert_close(answer["objective"][place], oracle.loss_value(Z, y, x, loss, 0.05))
            assert_close(gradients[place], oracle.gradient(Z, y, x, loss, 0.0))
            assert_close(diagonals[place], np.diag(hessian(Z, x, loss)))

    @pytest.mark.parametrize("support", [SUPPORT, SUPPORT[:1], np.arange(WIDTH), SUPPORT[:0]])
    def test_curvature_equals_the_definition(self, clients, loss, storage, dtype, support):
        x = somewhere()
        answer = ask(fs.Curvature(x, support), federate(clients, storage, dtype), loss)
        gradients = vectors_of(answer["gradient"])
        triangles = vectors_of(answer["hessian"])
        for place, (Z, y) in enumerate(clients):
            assert_close(answer["objective"][place], oracle.loss_value(Z, y, x, loss, 0.05))
            assert_close(gradients[place], oracle.gradient(Z, y, x, loss, 0.0)[support])
            expected = hessian(Z, x, loss)[np.ix_(support, support)]
            assert_close(from_triangle(triangles[place], support.size), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
class TestValuesOfSoftmax:
    """Of a matrix x, laid out class by class."""

    SUPPORTS = (ENTRIES, ENTRIES[:1], ENTRIES[-3:], np.arange(WIDTH * CLASSES), ENTRIES[:0])

    @pytest.fixture
    def clients(self, dtype):
        """In numbers that the data type holds exactly, so that only sums can differ."""
        return [(Z.astype(dtype).astype(float), y) for Z, y in lacking_columns("softmax")]

    def told(self, request, clients, storage, dtype):
        """Of each client f_i(x), and the vectors of its answer by name."""
        answer = ask(request, federate(clients, storage, dtype), "softmax")
        vectors = {name: vectors_of(answer[name]) for name in answer if name != "objective"}
        for place, (Z, y) in enumerate(clients):
            value = oracle.loss_value(Z, y, request.x, "softmax", 0.05)
            assert_close(answer["objective"][place], value)
            yield Z, y, {name: each[place] for name, each in vectors.items()}

    def flat_gradient(self, Z, y, x):
        return oracle.gradient(Z, y, x, "softmax", 0.0).ravel(order="F")

    def test_slopes_equal_the_definition(self, clients, storage, dtype):
        x = somewhere_by_class()
        for Z, y, told in self.told(fs.Slopes(x), clients, storage, dtype):
            assert set(told) == {"gradient", "diagonal"}
            assert_close(told["gradient"], oracle.gradient(Z, y, x, "softmax", 0.0))
            assert_close(told["diagonal"].ravel(order="F"), np.diag(softmax_hessian(Z, x)))

    @pytest.mark.parametrize("support", SUPPORTS)
    def test_curvature_is_the_exact_hessian_of_all_classes_together(
        self, clients, storage, dtype, support
    ):
        x = somewhere_by_class()
        for Z, y, told in self.told(fs.Curvature(x, support), clients, storage, dtype):
            assert_close(told["gradient"], self.flat_gradient(Z, y, x)[support])
            expected = softmax_hessian(Z, x)[np.ix_(support, support)]
            assert_close(from_triangle(told["hessian"], support.size), expected)

    def test_slopes_with_a_support_tell_that_hessian_beside(self, clients, storage, dtype):
        x = somewhere_by_class()
        for Z, y, told in self.told(fs.Slopes(x, ENTRIES), clients, storage, dtype):
            assert_close(told["gradient"], oracle.gradient(Z, y, x, "softmax", 0.0))
            expected = softmax_hessian(Z, x)[np.ix_(ENTRIES, ENTRIES)]
            assert_close(from_triangle(told["hessian"], ENTRIES.size), expected)

    @pytest.mark.parametrize("support", SUPPORTS)
    def test_class_curvature_is_a_matrix_for_each_class(self, clients, storage, dtype, support):
        x = somewhere_by_class()
        own = [support[support // WIDTH == label] % WIDTH for label in range(CLASSES)]
        for Z, y, told in self.told(ClassCurvature(x, support), clients, storage, dtype):
            assert_close(told["gradient"], self.flat_gradient(Z, y, x)[support])
            expected = [
                matrix[np.ix_(part, part)][np.triu_indices(part.size)]
                for matrix, part in zip(class_matrices(Z, x), own, strict=True)
            ]
            assert_close(told["hessian"], np.concatenate(expected))

    @pytest.mark.parametrize("features", [SUPPORT, SUPPORT[:1], np.arange(WIDTH), SUPPORT[:0]])
    def test_shared_curvature_is_one_matrix_for_all(self, clients, storage, dtype, features):
        x = somewhere_by_class()
        for Z, y, told in self.told(SharedCurvature(x, features), clients, storage, dtype):
            gradient = oracle.gradient(Z, y, x, "softmax", 0.0)[features]
            assert_close(told["gradient"], gradient.ravel(order="F"))
            expected = shared_matrix(Z, x)[np.ix_(features, features)]
            assert_close(from_triangle(told["hessian"], features.size), expected)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_hessian_of_softmax_is_how_its_gradient_changes(storage):
    """By differences of what clients tell themselves."""
    data, x, step = federate(clients_for("softmax"), storage), somewhere_by_class(), 1e-5
    exact = vectors_of(ask(fs.Curvature(x, ENTRIES), data, "softmax")["hessian"])
    for column, entry in enumerate(ENTRIES):
        ahead, behind = x.copy(), x.copy()
        ahead[entry % WIDTH, entry // WIDTH] += step
        behind[entry % WIDTH, entry // WIDTH] -= step
        gradients = [
            vectors_of(ask(fs.Curvature(point, ENTRIES), data, "softmax")["gradient"])
            for point in (ahead, behind)
        ]
        for triangle, above, below in zip(exact, *gradients, strict=True):
            slope = (above - below) / (2.0 * step)
            own = from_triangle(triangle, ENTRIES.size)[column]
            np.testing.assert_allclose(slope, own, rtol=0, atol=1e-8)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
def test_a_support_that_covers_x_gives_the_same_as_one_that_does_not(loss, storage):
    """Where x is zero elsewhere, scores come from the rows on the support."""
    data, x = federate(clients_for(loss), storage), somewhere()
    nonzero = np.flatnonzero(x)
    covered, uncovered = (ask(fs.Curvature(x, s), data, loss) for s in (nonzero, nonzero[1:]))
    np.testing.assert_allclose(covered["objective"], uncovered["objective"], rtol=1e-12)
    for place in range(len(data)):
        (full, gradient), (part, own) = (
            (list(answer["hessian"].each())[place], list(answer["gradient"].each())[place])
            for answer in (covered, uncovered)
        )
        of_all = from_triangle(full, nonzero.size)
        assert_close(of_all[1:, 1:], from_triangle(part, nonzero.size - 1))
        assert_close(gradient[1:], own)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
def test_row_weights_count(loss, storage):
    """A row of weight two answers like the row twice."""
    clients = clients_for(loss, rows=(6, 7))
    twice = [(np.repeat(Z, 2, axis=0)[1:], np.repeat(y, 2)[1:]) for Z, y in clients]
    plain = federate(clients, storage)
    weights = np.full(13, 2.0)
    weights[[0, 6]] = 1.0
    weighted = fs.FederatedData.from_table(
        plain.features, plain.targets, np.repeat([0, 1], plain.counts), row_weights=weights
    )
    for request in (request_of(name, loss) for name in names_of(loss) if name != "LocalSteps"):
        answers = [ask(request, data, loss) for data in (weighted, federate(twice, storage))]
        for name in answers[0]:
            values = [
                field if isinstance(field, np.ndarray) else np.stack(vectors_of(field))
                for field in (answer[name] for answer in answers)
            ]
            assert_close(*values)


@pytest.mark.parametrize("storage", STORAGES)
def test_second_derivatives_of_certain_rows_are_small_but_not_lost(storage):
    """p (1 − p) = e^{-|s|} where 1 − p would round to nothing."""
    data = federate([(np.array([[1.0]]), np.array([1.0]))], storage)
    for score in (-60.0, 60.0, 700.0):
        answer = ask(fs.Slopes(np.array([score])), data, "logistic")
        assert answer["diagonal"].total(np.ones(1))[0] == pytest.approx(np.exp(-abs(score)))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_triangle_holds_each_pair_once_row_by_row(size):
    row, column = np.triu_indices(size)
    assert triangle_index(row, column, size).tolist() == list(range(triangle_size(size)))
    matrix = np.arange(size * size, dtype=float).reshape(size, size)
    symmetric = matrix + matrix.T
    assert np.array_equal(from_triangle(symmetric[row, column], size), symmetric)


# ---------------------------------------------------------------- the same bits for everyone


def bits(answer):
    """All that is in an answer, by field."""
    return {
        name: field.tobytes()
        if isinstance(field, np.ndarray)
        else [vector.tobytes() for vector in vectors_of(field)]
        for name, field in answer.items()
    }


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("name", "loss"), [(name, loss) for loss in LOSSES for name in names_of(loss)]
)
class TestSameBits:
    def test_a_client_alone_answers_as_it_does_among_others(self, name, loss, storage):
        data = federate(lacking_columns(loss), storage)
        whole = ask(request_of(name, loss), data, loss)
        for place in range(len(data)):
            alone = bits(ask(request_of(name, loss), data.client(place), loss))
            for field, values in whole.items():
                if isinstance(values, np.ndarray):
                    assert alone[field] == values[place : place + 1].tobytes()
                else:
                    assert alone[field] == [vectors_of(values)[place].tobytes()]

    def test_threads_and_earlier_questions_change_nothing(self, name, loss, storage):
        data = federate(clients_for(loss, rows=(5, 9, 30, 6, 1, 12, 40)), storage)
        expected = bits(ask(request_of(name, loss), data, loss, threads=1))
        workers = Workers(2)
        clients = open_clients(data, LOSS_OBJECTS[loss], workers)
        for _ in range(3):  # every other call goes through the clients backwards
            assert bits(request_of(name, loss).answer(clients, np.arange(len(data)))) == expected
        workers.close()

    def test_only_the_clients_asked_answer_in_the_order_asked(self, name, loss, storage):
        data = federate(lacking_columns(loss), storage)
        which = [2, 0]
        some = ask(request_of(name, loss), data, loss, which=which)
        alone = [bits(ask(request_of(name, loss), data.client(place), loss)) for place in which]
        for field, values in bits(some).items():
            if isinstance(values, bytes):
                assert values == b"".join(one[field] for one in alone)
            else:
                assert values == [vector for one in alone for vector in one[field]]


# ---------------------------------------------------------------- what travels


def encoded(values, indices, length):
    """Bytes of one sparse vector."""
    pointer = np.array([0, indices.size])
    return int(wire.encoded_sizes(pointer, indices, values, length)[0])


class TestBytes:
    def test_csr_slopes_hold_only_the_columns_of_the_client(self):
        clients = lacking_columns("logistic")
        answer = ask(fs.Slopes(somewhere()), federate(clients, "csr"), "logistic", which=[0])
        own = np.flatnonzero(clients[0][0].any(axis=0))
        diagonal = np.diag(hessian(clients[0][0], somewhere(), "logistic"))
        assert answer["diagonal"].indices.tolist() == own.tolist()
        assert stack_bytes(answer["diagonal"]) == encoded(diagonal[own], own, WIDTH)

    def test_csr_curvature_holds_only_pairs_of_columns_of_the_client(self):
        clients = lacking_columns("squared")
        request = fs.Curvature(somewhere(), SUPPORT)
        answer = ask(request, federate(clients, "csr"), "squared", which=[0])
        places = np.flatnonzero(clients[0][0][:, SUPPORT].any(axis=0))
        assert answer["gradient"].indices.tolist() == places.tolist()
        row, column = np.triu_indices(places.size)
        length = triangle_size(SUPPORT.size)
        pairs = triangle_index(places[row], places[column], SUPPORT.size)
        own = SUPPORT[places]
        values = hessian(clients[0][0], somewhere(), "squared")[own[row], own[column]]
        assert answer["hessian"].indices.tolist() == pairs.tolist()
        assert stack_bytes(answer["hessian"]) == encoded(values, pairs, length)

    def test_a_client_without_columns_sends_next_to_nothing(self):
        data = federate(lacking_columns("squared"), "csr")
        answer = ask(fs.Slopes(somewhere()), data, "squared", which=[3])
        nothing = encoded(np.empty(0), np.empty(0, dtype=np.int64), WIDTH)
        assert stack_bytes(answer["diagonal"]) == nothing

    @pytest.mark.parametrize("storage", STORAGES)
    def test_an_objective_travels_in_eight_bytes(self, storage):
        data = federate(clients_for("squared"), storage)
        plain = fs.LocalSteps(somewhere(), 2, 0.01)
        with_objective = fs.LocalSteps(somewhere(), 2, 0.01, with_objective=True)
        sizes = [
            answers_of(request, data, LOSS_OBJECTS["squared"]).bytes_up
            for request in (plain, with_objective)
        ]
        assert sizes[1] - sizes[0] == 8 * len(data)

    def test_a_support_travels_down_beside_x(self):
        x = somewhere()
        members = np.zeros(WIDTH)
        members[SUPPORT] = 1.0
        expected = len(wire.encode(x)) + len(wire.encode(members))
        assert fs.Curvature(x, SUPPORT).encoded_bytes() == expected
        assert fs.Slopes(x).encoded_bytes() == len(wire.encode(x))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "algorithm",
    [
        fs.FedHT(3, refit=True),
        fs.FedIterHT(3, refit=True),
        fs.DistributedIHT(3, refit=True),
        EDSL(3),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_softmax_is_refused_before_any_work(algorithm, monkeypatch):
    def work(*_):
        raise AssertionError("a client was asked")

    monkeypatch.setattr(LocalEngine, "exchange", work)
    told = (
        r"works with the squared and the logistic loss|need one score a row, which softmax does not"
    )
    with pytest.raises(fs.OptionError, match=told):
        fs.run(algorithm, federate(clients_for("softmax")), loss="softmax")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
@pytest.mark.parametrize("kind", [ClassCurvature, SharedCurvature])
def test_curvature_by_class_of_a_loss_with_one_score_is_refused(kind, loss, storage):
    with pytest.raises(fs.OptionError, match="needs a loss with several classes"):
        ask(kind(somewhere(), SUPPORT), federate(clients_for(loss), storage), loss)


@pytest.mark.parametrize("storage", STORAGES)
def test_shared_curvature_on_a_feature_that_is_not_there_is_refused(storage):
    request = SharedCurvature(somewhere_by_class(), np.array([0, WIDTH]))
    with pytest.raises(fs.OptionError, match=f"no feature {WIDTH}; they go from 0 to {WIDTH - 1}"):
        ask(request, federate(clients_for("softmax"), storage), "softmax")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
class TestDiagonalsThatAreKept:
    """Whoever was asked before, and wherever: answers are those of a first request."""

    ASKED = ([0, 1, 2, 3], [0, 1, 2, 3], [3, 1], [1, 3], [1, 3], [2], [0, 1, 2, 3])

    def test_are_those_of_a_first_answer(self, loss, storage):
        data = federate(clients_for(loss), storage)
        opened = open_clients(data, LOSS_OBJECTS[loss], Workers(1))
        for seed, which in enumerate(self.ASKED):
            request = fs.Slopes(somewhere(seed))
            again = request.answer(opened, np.array(which))
            first = ask(request, data, loss, which=which)
            assert again["objective"].tobytes() == first["objective"].tobytes()
            for name in ("gradient", "diagonal"):
                for one, other in zip(again[name].each(), first[name].each(), strict=True):
                    assert one.tobytes() == other.tobytes()

    def test_belong_to_the_rows_of_a_lens(self, loss, storage):
        data = federate(clients_for(loss, rows=(12, 20, 15)), storage)
        engine = LocalEngine(data, LOSS_OBJECTS[loss], 1)
        folds = [Lens(engine.lens.loss, Rows().but_part(number, of=3)) for number in range(3)]
        for seed in range(3):
            asks = [Ask(lens, fs.Slopes(somewhere(seed))) for lens in folds]
            fresh = LocalEngine(data, LOSS_OBJECTS[loss], 1)
            for told, expected in zip(engine.exchange(asks), fresh.exchange(asks), strict=True):
                assert told.total("diagonal").tobytes() == expected.total("diagonal").tobytes()


@pytest.mark.parametrize("storage", STORAGES)
def test_diagonals_are_kept_only_where_they_are_short_beside_the_rows(storage):
    """With a row each, they would be as long as the rows themselves."""
    for rows, is_kept in (((1,) * 20, False), ((40, 50), True)):
        data = federate(clients_for("squared", rows=rows), storage)
        opened = open_clients(data, LOSS_OBJECTS["squared"], Workers(1))
        everyone = np.arange(len(data))
        first, second = (opened.slopes(somewhere(seed), everyone)[2] for seed in (1, 2))
        assert (first is second) == is_kept


@pytest.mark.parametrize("is_covered", [True, False], ids=["covered", "not covered"])
@pytest.mark.parametrize("density", [0.03, 1.0])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
def test_hessians_of_many_rows(loss, storage, density, is_covered):
    """In several blocks of rows; from pairs of stored values, and where these are too many."""
    clients = clients_for(loss, rows=(1200, 7), width=70, density=density)
    support = np.arange(3, 70)
    x = 0.1 * np.random.default_rng(1).standard_normal(70)
    if is_covered:
        x[:3] = 0.0
    answer = ask(fs.Curvature(x, support), federate(clients, storage), loss)
    triangles = answer["hessian"].each()
    for (Z, y), value, gradient, triangle in zip(
        clients, answer["objective"], answer["gradient"].each(), triangles, strict=True
    ):
        expected = hessian(Z, x, loss)[3:, 3:]
        assert value == pytest.approx(oracle.loss_value(Z, y, x, loss, 0.05), rel=1e-12)
        slopes = oracle.gradient(Z, y, x, loss, 0.0)[3:]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(
            from_triangle(triangle, support.size), expected, rtol=1e-9, atol=1e-13
        )
