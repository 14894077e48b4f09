"""FedSplice with several classes: features of each class, or shared by all."""

import warnings

import numpy as np
import pytest

import fedsparse as fs
from tests import oracle
from tests.builders import CLASSES, LOSS_OBJECTS, STORAGES, answers_of, clients_for, federate

ROUNDS = 100
TAU = 4
CONSTRAINTS = (fs.TopKPerClass, fs.TopKRows)


def splice(clients, sparsity=TAU, storage="dense", **options):
    loss = options.pop("loss", LOSS_OBJECTS["softmax"])
    return fs.run(fs.FedSplice(sparsity), federate(clients, storage), loss=loss, **options)


def features_taken(x, constraint):
    """Of the class that takes most, or of all classes together."""
    per_class = np.count_nonzero(x, axis=0).max(initial=0)
    return int(x.any(axis=1).sum() if isinstance(constraint, fs.TopKRows) else per_class)


# ---------------------------------------------------------------- against FedIter-HT


def plain(random, rows, width):
    return random.standard_normal((rows, width))


def collinear(random, rows, width):
    basis = np.random.default_rng(0).standard_normal((max(1, width // 2), width))
    return random.standard_normal((rows, len(basis))) @ basis


def duplicated(random, rows, width):
    return random.standard_normal((rows, width))[:, np.arange(width) // 2]


def shifted(random, rows, width):
    """Every client's rows lie around a centre of its own."""
    return random.standard_normal((rows, width)) + 3.0 * random.standard_normal(width)


def of_few_values(random, rows, width):
    return np.sign(random.standard_normal((rows, width))) * (random.random((rows, width)) < 0.5)


KINDS = (plain, collinear, duplicated, shifted, of_few_values)


def problem(seed):
    """Clients, most of which lack some class, a loss, a constraint and a storage."""
    random = np.random.default_rng(seed)
    width, classes = int(random.integers(2, 13)), int(random.integers(3, 6))
    storage = STORAGES[random.integers(2)]
    noise = random.choice([0.0, 0.3, 1.0])  # without it classes are separable
    truth = random.standard_normal((width, classes)) * (random.random((width, classes)) < 0.6)
    clients = []
    for rows in random.choice([3, 8, 20, 40], size=random.integers(2, 6)):
        Z = KINDS[seed % len(KINDS)](random, rows, width)
        if storage == "csr":
            Z = Z * (random.random(Z.shape) < 0.6)
        y = np.argmax(Z @ truth + noise * random.gumbel(size=(rows, classes)), axis=1)
        clients.append((Z, np.minimum(y, random.integers(1, classes)).astype(float)))
    clients[0][1][:2] = 0.0, 1.0
    loss = fs.Softmax(l2=float(random.choice([0.0, 1e-4, 1e-2])))
    constraint = CONSTRAINTS[random.integers(2)](int(random.integers(1, width + 1)))
    return clients, loss, constraint, storage


@pytest.fixture(scope="module")
def compared():
    """The constraint, and what FedSplice and FedIter-HT make of it, for 40 problems."""
    results = []
    for seed in range(40):
        clients, loss, constraint, storage = problem(seed)
        data = federate(clients, storage)
        options = {"loss": loss, "rounds": ROUNDS, "threads": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.DivergenceWarning)  # looked for below
            ours = fs.run(fs.FedSplice(constraint), data, **options)
            rival = fs.FedIterHT(constraint, local_steps=10)
            theirs = fs.run(rival, data, evaluate_every=ROUNDS, **options)
        results.append((constraint, ours, theirs))
    return results


class TestManyProblems:
    """Collinear, separable and more; in either storage, with either constraint."""

    def test_at_most_tau_features(self, compared):
        for constraint, ours, _ in compared:
            assert features_taken(ours.coef, constraint) <= constraint.sparsity

    def test_the_best_of_all_rounds_is_returned(self, compared):
        for _, ours, _ in compared:
            assert not ours.diverged
            assert np.isfinite(ours.coef).all()
            lowest = min(record.objective for record in ours.records)
            assert ours.objective == pytest.approx(lowest, rel=1e-12)

    def test_never_worse_than_federated_iterative_hard_thresholding(self, compared):
        """On these; of some hundred, one in a hundred ends up to 5 % higher."""
        worse = []
        for seed, (constraint, ours, theirs) in enumerate(compared):
            floor = 1e-9 * ours.records[0].objective
            if ours.objective > theirs.objective * (1 + 1e-9) + floor:
                worse.append((seed, constraint, ours.objective / theirs.objective - 1))
        assert not worse


# ---------------------------------------------------------------- what it finds


def gradient_at(clients, x, weights="uniform"):
    """∇f(x), by the oracle."""
    own = [oracle.gradient(Z, y, x, "softmax", 0.05) for Z, y in clients]
    return np.tensordot(oracle.client_weights(clients, weights), own, axes=1)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", CONSTRAINTS)
class TestSolution:
    def test_is_the_minimizer_on_its_support(self, kind, storage):
        clients = clients_for("softmax")
        x = splice(clients, kind(TAU), storage).coef
        assert features_taken(x, kind(TAU)) == TAU
        np.testing.assert_allclose(gradient_at(clients, x)[x != 0], 0.0, atol=1e-6)

    def test_objective_is_that_of_the_coefficients(self, kind, storage):
        clients = clients_for("softmax")
        result = splice(clients, kind(TAU), storage)
        assert result.objective == pytest.approx(
            oracle.objective(clients, result.coef, "softmax", 0.05), rel=1e-12
        )
        assert result.objective == min(record.objective for record in result.records)

    def test_is_found_again_from_any_number_of_threads(self, kind, storage):
        clients = clients_for("softmax")
        one, two = (splice(clients, kind(TAU), storage, threads=count) for count in (1, 2))
        assert one.coef.tobytes() == two.coef.tobytes()
        assert one.history.drop("seconds").equals(two.history.drop("seconds"))

    def test_clients_count_as_they_are_weighted(self, kind, storage):
        clients = clients_for("softmax")
        algorithm = fs.FedSplice(kind(TAU), weights="samples")
        data = federate(clients, storage)
        result = fs.run(algorithm, data, loss=LOSS_OBJECTS["softmax"])
        x = result.coef
        expected = oracle.objective(clients, x, "softmax", 0.05, "samples")
        assert result.objective == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient_at(clients, x, "samples")[x != 0], 0.0, atol=1e-6)

    def test_a_row_of_weight_two_counts_like_the_row_twice(self, kind, storage):
        clients = clients_for("softmax")
        twice = [(np.repeat(Z, 2, axis=0)[1:], np.repeat(y, 2)[1:]) for Z, y in clients]
        plain = federate(clients, storage)
        weights = np.full(plain.samples, 2.0)
        weights[plain.pointer[:-1]] = 1.0
        sites = np.repeat(np.arange(len(plain)), plain.counts)
        weighted = fs.FederatedData.from_table(
            plain.features, plain.targets, sites, row_weights=weights
        )
        loss = LOSS_OBJECTS["softmax"]
        one = fs.run(fs.FedSplice(kind(TAU)), weighted, loss=loss)
        other = splice(twice, kind(TAU), storage)
        assert one.objective == pytest.approx(other.objective, rel=1e-9)
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-5)

    def test_does_not_depend_on_the_order_of_sites(self, kind, storage):
        clients = clients_for("softmax")
        one, other = (splice(own, kind(TAU), storage) for own in (clients, clients[::-1]))
        assert one.objective == pytest.approx(other.objective, rel=1e-9)


def test_a_plain_number_is_of_each_class():
    clients = clients_for("softmax")
    number, named = (splice(clients, own) for own in (TAU, fs.TopKPerClass(TAU)))
    assert number.coef.tobytes() == named.coef.tobytes()


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_storages_lead_to_the_same(kind):
    dense, csr = (splice(clients_for("softmax"), kind(TAU), storage) for storage in STORAGES)
    assert dense.objective == pytest.approx(csr.objective, rel=1e-9)
    assert np.array_equal(dense.coef != 0, csr.coef != 0)


def test_true_features_are_found_where_there_is_enough_to_learn_from():
    """Sites that disagree about where their rows lie, but not about the model."""
    random = np.random.default_rng(0)
    truth = np.zeros((40, CLASSES))
    truth[[3, 20, 31]] = [[2.0, -2.0, 0.0], [0.0, 2.0, -2.0], [-2.0, 0.0, 2.0]]
    clients = []
    for _ in range(5):
        Z = random.standard_normal((80, 40)) + random.standard_normal(40)
        clients.append((Z, np.argmax(Z @ truth + random.gumbel(size=(80, CLASSES)), axis=1)))
    result = splice(clients, fs.TopKRows(3), loss=fs.Softmax(l2=1e-3))
    assert result.support.tolist() == [3, 20, 31]


def test_two_classes_are_the_logistic_loss():
    """Coefficients of the classes are opposite halves; their ℓ2 term is half of that."""
    clients = clients_for("logistic")
    soft = splice(clients, fs.TopKRows(TAU), loss=fs.Softmax(l2=0.1)).coef
    single = fs.run(fs.FedSplice(TAU), federate(clients), loss=fs.Logistic(l2=0.05)).coef
    np.testing.assert_allclose(soft[:, 1] - soft[:, 0], single, atol=1e-4)


# ---------------------------------------------------------------- features to keep


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", CONSTRAINTS)
class TestKeep:
    @pytest.mark.parametrize("keep", [[7], [20, 7], [20, 21, 22, 7]])
    def test_features_stay_in_every_class(self, kind, storage, keep):
        """Those that have nothing to say, too: the room for others is τ less their number."""
        constraint = kind(TAU, keep=keep)
        x = splice(clients_for("softmax"), constraint, storage).coef
        assert x[keep].all()
        assert features_taken(x, constraint) == TAU

    def test_an_empty_column_may_be_kept_and_stays_zero(self, kind, storage):
        clients = clients_for("softmax")
        for Z, _ in clients:
            Z[:, 5] = 0.0
        constraint = kind(TAU, keep=[5])
        x = splice(clients, constraint, storage).coef
        assert not x[5].any()
        assert features_taken(x, constraint) == TAU - 1


def test_features_that_would_be_taken_anyway_may_be_kept():
    clients = clients_for("softmax")
    free = splice(clients, fs.TopKRows(TAU))
    kept = splice(clients, fs.TopKRows(TAU, keep=free.support))
    assert kept.support.tolist() == free.support.tolist()
    assert kept.objective == pytest.approx(free.objective, rel=1e-9)


# ---------------------------------------------------------------- rounds


def states_of(algorithm, data, loss, rounds=ROUNDS):
    """Requests and states of a run until it is done."""
    state = algorithm.start((data.width, CLASSES), 0, loss)
    while state.round < rounds and not algorithm.is_done(state):
        request = algorithm.request(state)
        state = algorithm.update(state, answers_of(request, data, loss, algorithm.weights))
        yield request, state


@pytest.mark.parametrize("kind", CONSTRAINTS)
class TestRounds:
    def test_come_to_an_end(self, kind):
        assert splice(clients_for("softmax"), kind(TAU)).records[-1].round < 40

    def test_best_objective_never_rises(self, kind):
        data, loss = federate(clients_for("softmax")), LOSS_OBJECTS["softmax"]
        known = [
            float(state.memory["best_objective"][0])
            for _, state in states_of(fs.FedSplice(kind(TAU)), data, loss)
        ]
        assert (np.diff(known) <= 0).all()

    def test_every_point_keeps_to_the_constraint(self, kind):
        data, loss = federate(clients_for("softmax")), LOSS_OBJECTS["softmax"]
        for _, state in states_of(fs.FedSplice(kind(TAU)), data, loss):
            assert features_taken(state.x, kind(TAU)) <= TAU
            assert features_taken(state.memory["best"], kind(TAU)) <= TAU

    def test_that_end_early_give_the_best_so_far(self, kind):
        clients = clients_for("softmax")
        for rounds in range(1, 9):
            result = splice(clients, kind(TAU), rounds=rounds)
            assert result.objective == min(record.objective for record in result.records)
            assert result.objective == pytest.approx(
                oracle.objective(clients, result.coef, "softmax", 0.05), rel=1e-12
            )

    def test_starting_at_the_solution_changes_hardly_anything(self, kind):
        clients = clients_for("softmax")
        first = splice(clients, kind(TAU))
        algorithm = fs.FedSplice(kind(TAU), start_at=first.coef)
        again = fs.run(algorithm, federate(clients), loss=LOSS_OBJECTS["softmax"])
        assert again.records[0].objective == pytest.approx(first.objective, rel=1e-12)
        assert again.objective <= (1 + 1e-12) * first.objective

    def test_bytes_are_those_of_the_requests(self, kind):
        data, loss = federate(clients_for("softmax"), "csr"), LOSS_OBJECTS["softmax"]
        run = list(states_of(fs.FedSplice(kind(TAU)), data, loss))
        down = np.cumsum([len(data) * request.encoded_bytes() for request, _ in run])
        result = fs.run(fs.FedSplice(kind(TAU)), data, loss=loss)
        assert result.history["bytes_down"].to_list() == [0, *down]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_interrupted_and_resumed_gives_the_same_bits(kind, storage, tmp_path):
    data = federate(clients_for("softmax"), storage)
    algorithm = fs.FedSplice(kind(TAU))
    options = {"loss": LOSS_OBJECTS["softmax"], "threads": 1}
    expected = fs.run(algorithm, data, **options)
    for at in range(1, min(9, expected.records[-1].round)):

        def interrupt(record, at=at):
            if record.round == at:
                raise KeyboardInterrupt

        path = tmp_path / f"{at}.npz"
        with pytest.raises(KeyboardInterrupt):
            fs.run(algorithm, data, checkpoint=path, on_round=interrupt, **options)
        resumed = fs.run(algorithm, data, checkpoint=path, **options)
        assert resumed.coef.tobytes() == expected.coef.tobytes()
        assert resumed.objective == expected.objective
        assert resumed.history.drop("seconds").equals(expected.history.drop("seconds"))


def test_a_checkpoint_of_the_other_constraint_is_refused(tmp_path):
    data, path = federate(clients_for("softmax")), tmp_path / "run.npz"
    options = {"loss": LOSS_OBJECTS["softmax"], "checkpoint": path}
    fs.run(fs.FedSplice(fs.TopKRows(TAU)), data, rounds=2, **options)
    with pytest.raises(fs.CheckpointError):
        fs.run(fs.FedSplice(fs.TopKPerClass(TAU)), data, rounds=4, **options)
