"""FedSplice: few rounds, an end, and hardly ever a worse one than FedIter-HT's."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import fedsparse as fs
from fedsparse.algorithms.splicing import FEWEST_CANDIDATES, FIRST_FEATURES
from fedsparse.compute.triangles import from_triangle
from tests import oracle
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, answers_of, clients_for, federate

ONE_SCORE = ("squared", "logistic")
TAU = 5
ROUNDS = 100


def splice(clients, sparsity=TAU, *, loss="squared", storage="dense", rounds=ROUNDS, **options):
    algorithm = fs.FedSplice(sparsity, **options)
    data = federate(clients, storage)
    return fs.run(algorithm, data, loss=LOSS_OBJECTS[loss], rounds=rounds, threads=1)


def states_of(algorithm, data, loss, rounds=ROUNDS):
    """Requests and states of a run until it is done, and the objective at every state."""
    weights = algorithm.weights
    state = algorithm.start((data.width,), 0, loss)
    while state.round < rounds and not algorithm.is_done(state):
        request = algorithm.request(state)
        state = algorithm.update(state, answers_of(request, data, loss, weights))
        told = answers_of(fs.Evaluate(state.x), data, loss, weights)
        yield request, state, told.average("objective")


# ---------------------------------------------------------------- against FedIter-HT


def plain(random, rows, width):
    return random.standard_normal((rows, width))


def ill_conditioned(random, rows, width):
    mixed = np.random.default_rng(0).standard_normal((width, width))
    return random.standard_normal((rows, width)) * np.logspace(0, -4, width) @ mixed


def collinear(random, rows, width):
    basis = np.random.default_rng(0).standard_normal((max(1, width // 2), width))
    return random.standard_normal((rows, len(basis))) @ basis


def duplicated(random, rows, width):
    return random.standard_normal((rows, width))[:, np.arange(width) // 2]


def shifted(random, rows, width):
    """Every client's rows lie around a centre of its own."""
    return random.standard_normal((rows, width)) + 3.0 * random.standard_normal(width)


def in_many_units(random, rows, width):
    return random.standard_normal((rows, width)) * np.logspace(-3, 3, width)


def of_few_values(random, rows, width):
    return np.sign(random.standard_normal((rows, width))) * (random.random((rows, width)) < 0.5)


KINDS = (
    plain,
    ill_conditioned,
    collinear,
    duplicated,
    shifted,
    in_many_units,
    of_few_values,
)


def problem(seed):
    """Clients, some with one row, a loss, τ and a storage."""
    random = np.random.default_rng(seed)
    width = int(random.integers(1, 15))
    features = KINDS[seed % len(KINDS)]
    is_logistic = bool(random.integers(2))
    noise = random.choice([0.0, 0.5])  # without it classes are separable
    storage = STORAGES[random.integers(2)]
    truth = random.standard_normal(width) * (random.random(width) < 0.6)
    clients = []
    for rows in random.choice([1, 3, 8, 20], size=random.integers(1, 6)):
        Z = features(random, rows, width)
        if storage == "csr":
            Z = Z * (random.random(Z.shape) < 0.6)
        score = Z @ truth + noise * random.standard_normal(rows)
        clients.append((Z, (score > 0).astype(float) if is_logistic else score))
    kind = fs.Logistic if is_logistic else fs.SquaredError
    loss = kind(l2=float(random.choice([0.0, 1e-4, 1e-2])))
    return clients, loss, int(random.integers(1, width + 1)), storage


@pytest.fixture(scope="module")
def compared():
    """τ, and what FedSplice and FedIter-HT make of it, for 200 problems."""
    results = []
    for seed in range(200):
        clients, loss, sparsity, storage = problem(seed)
        data = federate(clients, storage)
        options = {"loss": loss, "rounds": ROUNDS, "threads": 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.DivergenceWarning)  # looked for below
            ours = fs.run(fs.FedSplice(sparsity), data, **options)
            theirs = fs.run(
                fs.FedIterHT(sparsity, local_steps=10), data, evaluate_every=ROUNDS, **options
            )
        results.append((sparsity, ours, theirs))
    return results


class TestManyProblems:
    """Ill-conditioned, collinear, separable and more; with either loss and storage."""

    def test_at_most_tau_features(self, compared):
        for sparsity, ours, _ in compared:
            assert all(record.nonzeros <= sparsity for record in ours.records)
            assert np.count_nonzero(ours.coef) <= sparsity

    def test_the_best_of_all_rounds_is_returned(self, compared):
        for _, ours, _ in compared:
            assert not ours.diverged
            lowest = min(record.objective for record in ours.records)
            assert ours.objective == pytest.approx(lowest, rel=1e-12)

    def test_never_worse_than_federated_iterative_hard_thresholding(self, compared):
        """On these; best subsets are NP-hard, and among thousands a few do end higher."""
        worse = []
        for seed, (_, ours, theirs) in enumerate(compared):
            # Below 1e-9 of f(0) it is rounding and the ridge of the subset search that differ.
            floor = 1e-9 * ours.records[0].objective
            if ours.objective > theirs.objective * (1 + 1e-9) + floor:
                worse.append((seed, ours.objective / theirs.objective - 1))
        assert not worse


# ---------------------------------------------------------------- what it finds


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ONE_SCORE)
class TestSolution:
    def test_is_the_minimizer_on_its_support(self, loss, storage):
        clients = clients_for(loss)
        result = splice(clients, loss=loss, storage=storage)
        gradient = np.mean([oracle.gradient(Z, y, result.coef, loss, 0.05) for Z, y in clients], 0)
        assert result.support.size == TAU
        np.testing.assert_allclose(gradient[result.support], 0.0, atol=1e-6)

    def test_objective_is_that_of_the_coefficients(self, loss, storage):
        clients = clients_for(loss)
        result = splice(clients, loss=loss, storage=storage, weights="samples")
        expected = oracle.objective(clients, result.coef, loss, 0.05, "samples")
        assert result.objective == pytest.approx(expected, rel=1e-12)
        assert result.objective == min(record.objective for record in result.records)

    def test_is_found_again_from_any_number_of_threads(self, loss, storage):
        data = federate(clients_for(loss), storage)
        one, two = (fs.run(fs.FedSplice(TAU), data, loss=loss, threads=n) for n in (1, 2))
        assert one.coef.tobytes() == two.coef.tobytes()
        assert one.history.drop("seconds").equals(two.history.drop("seconds"))


def test_true_features_are_found_where_there_is_little_noise():
    """Sites that disagree about where their rows lie, but not about the model."""
    random = np.random.default_rng(0)
    truth = np.zeros(80)
    truth[[3, 20, 41, 77]] = [1.0, -2.0, 0.7, 1.5]
    clients = []
    for _ in range(6):
        Z = random.standard_normal((40, 80)) + 2.0 * random.standard_normal(80)
        clients.append((Z, Z @ truth + 0.1 * random.standard_normal(40)))
    result = fs.run(fs.FedSplice(4), federate(clients))
    assert result.support.tolist() == [3, 20, 41, 77]


def test_tau_of_all_features_is_least_squares():
    clients = clients_for("squared", rows=(30, 30, 30), density=1.0)
    result = fs.run(fs.FedSplice(24), federate(clients))
    rows = np.vstack([Z for Z, _ in clients])
    expected = np.linalg.lstsq(rows, np.concatenate([y for _, y in clients]))[0]
    np.testing.assert_allclose(result.coef, expected, atol=1e-7)


@pytest.mark.parametrize("loss", ONE_SCORE)
@pytest.mark.parametrize("storage", STORAGES)
class TestDegenerateData:
    def test_nothing_to_learn_ends_at_once(self, loss, storage):
        """All features are 0, so that no candidate promises anything."""
        clients = [(np.zeros((3, 4)), np.array([0.0, 1.0, 1.0]))] * 2
        result = splice(clients, 2, loss=loss, storage=storage)
        assert not result.coef.any()
        assert result.records[-1].round <= 2

    def test_one_row_in_all(self, loss, storage):
        clients = [(np.array([[1.0, 2.0, 0.0]]), np.array([1.0]))]
        result = splice(clients, 2, loss=loss, storage=storage)
        assert np.isfinite(result.coef).all()
        assert result.objective < result.records[0].objective

    def test_fewer_features_than_tau(self, loss, storage):
        result = splice(clients_for(loss, width=3, density=1.0), 9, loss=loss, storage=storage)
        assert result.support.tolist() == [0, 1, 2]


# ---------------------------------------------------------------- rounds


class TestRounds:
    @pytest.mark.parametrize("loss", ONE_SCORE)
    def test_best_objective_never_rises(self, loss):
        algorithm = fs.FedSplice(TAU)
        data = federate(clients_for(loss))
        known = [
            float(state.memory["best_objective"][0])
            for _, state, _ in states_of(algorithm, data, LOSS_OBJECTS[loss])
        ]
        assert (np.diff(known) <= 0).all()

    def test_squared_loss_needs_two_rounds_a_splice(self):
        """Slopes, curvature, slopes, curvature: the model is exact, so no step is taken back."""
        data = federate(clients_for("squared"))
        asked, objectives = [], []
        for request, _, objective in states_of(fs.FedSplice(TAU), data, LOSS_OBJECTS["squared"]):
            asked.append(type(request))
            objectives.append(objective)
        assert len(asked) >= 4
        assert asked == [fs.Slopes, fs.Curvature] * (len(asked) // 2)
        assert (np.diff(objectives) <= 1e-12).all()

    def test_a_step_that_raises_f_is_taken_back_and_shortened(self):
        """From far out, where the logistic loss is almost flat, a Newton step goes too far."""
        clients = [(np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 0.0, 0.0]))]
        start = np.array([8.0])
        run = list(states_of(fs.FedSplice(1, start_at=start), federate(clients), fs.Logistic()))
        begin = run[0][1].memory["best_objective"][0]
        risen = [place for place, (_, _, objective) in enumerate(run) if objective > begin]
        assert risen
        back = next(state for _, state, _ in run[risen[0] + 1 :] if state.x[0] != start[0])
        assert back.memory["best"] == start
        assert abs(back.x[0] - start[0]) < abs(run[risen[0]][1].x[0] - start[0])
        assert run[-1][2] < begin

    def test_a_step_far_too_long_is_shortened_and_not_taken_for_divergence(self):
        """A step may raise f a thousandfold; FedSplice takes it back by itself."""
        clients = [(np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 0.0, 0.0]))]
        algorithm = fs.FedSplice(1, start_at=np.array([30.0]))
        result = fs.run(algorithm, federate(clients), loss=fs.Logistic(l2=0.0))
        assert not result.diverged
        assert result.objective < 0.7

    def test_an_exchange_that_fails_does_not_hold_up_the_coefficients(self):
        """The model at a flat point prefers the other feature; f does not, round after round."""
        clients = [(np.array([[0.0, 1.0], [-1.0, 0.0], [2.0, 1.0]]), np.zeros(3))]
        result = fs.run(fs.FedSplice(1), federate(clients), loss=fs.Logistic(l2=1e-4))
        plain = fs.run(fs.FedIterHT(1), federate(clients), loss=fs.Logistic(l2=1e-4))
        assert result.objective <= plain.objective * (1 + 1e-9)
        assert result.records[-1].round < ROUNDS

    def test_rounds_that_end_early_give_the_best_so_far(self):
        clients = clients_for("logistic")
        for rounds in range(1, 9):
            result = splice(clients, loss="logistic", rounds=rounds)
            assert result.objective == min(record.objective for record in result.records)
            assert result.objective == pytest.approx(
                oracle.objective(clients, result.coef, "logistic", 0.05), rel=1e-12
            )

    def test_a_large_tolerance_stops_earlier(self):
        rounds = [
            splice(clients_for("logistic"), loss="logistic", tolerance=share).records[-1].round
            for share in (1e-9, 1e-2)
        ]
        assert rounds[1] < rounds[0]

    @pytest.mark.parametrize("loss", LOSSES)
    def test_room_for_further_features_is_filled_whatever_the_tolerance(self, loss):
        clients = clients_for(loss)
        sparsity = fs.TopKRows if loss == "softmax" else fs.TopK
        smaller = splice(clients, sparsity(2), loss=loss)
        start = {"start_at": smaller.coef, "tolerance": 0.9}
        assert splice(clients, sparsity(2), loss=loss, **start).support.size == 2
        larger = splice(clients, sparsity(3), loss=loss, **start)
        assert larger.support.size == 3
        assert 0.1 * smaller.objective < larger.objective < smaller.objective

    def test_bytes_are_those_of_the_requests_and_answers(self):
        data = federate(clients_for("squared"), "csr")
        loss = LOSS_OBJECTS["squared"]
        run = list(states_of(fs.FedSplice(TAU), data, loss))
        down = np.cumsum([len(data) * request.encoded_bytes() for request, _, _ in run])
        result = fs.run(fs.FedSplice(TAU), data, loss=loss)
        assert result.history["bytes_down"].to_list() == [0, *down]


# ---------------------------------------------------------------- options


class TestOptions:
    @pytest.mark.parametrize("loss", ONE_SCORE)
    @pytest.mark.parametrize("keep", [[7], [7, 20], [20, 21, 22, 23, 7]])
    def test_features_to_keep_stay(self, loss, keep):
        """Those that have nothing to say, too: the room for others is τ less their number."""
        result = splice(clients_for(loss), fs.TopK(TAU, keep=keep), loss=loss)
        assert np.isin(keep, result.support).all()
        assert result.support.size == TAU

    def test_features_to_keep_must_exist(self):
        with pytest.raises(fs.OptionError):
            splice(clients_for("squared"), fs.TopK(TAU, keep=[24]))

    @pytest.mark.parametrize("loss", ONE_SCORE)
    def test_starting_at_the_solution_changes_nothing(self, loss):
        clients = clients_for(loss)
        first = splice(clients, loss=loss)
        again = splice(clients, loss=loss, start_at=first.coef)
        assert again.records[0].objective == pytest.approx(first.objective, rel=1e-12)
        assert again.records[-1].round == 2
        assert again.support.tolist() == first.support.tolist()
        assert again.objective <= (1 + 1e-12) * first.objective

    def test_start_is_thresholded_to_tau(self):
        start = np.arange(24.0)
        algorithm = fs.FedSplice(2, start_at=start)
        state = algorithm.start((24,), 0, fs.SquaredError())
        assert np.flatnonzero(state.x).tolist() == [22, 23]
        assert start.tolist() == list(range(24))

    def test_start_of_the_wrong_length_is_refused(self):
        with pytest.raises(fs.OptionError, match="start_at"):
            splice(clients_for("squared"), start_at=np.ones(7))

    def test_start_that_is_not_finite_is_refused(self):
        with pytest.raises(fs.OptionError, match="start_at"):
            splice(clients_for("squared"), start_at=np.full(24, np.nan))

    @pytest.mark.parametrize(
        ("candidates", "sparsity", "expected"),
        [(None, 5, FIRST_FEATURES), (None, 220, 220 + FEWEST_CANDIDATES), (3, 5, 8), (1, 1, 2)],
    )
    def test_candidates_beside_those_that_fill_the_support(self, candidates, sparsity, expected):
        clients = clients_for("squared", rows=(30, 30), width=400, density=1.0)
        algorithm = fs.FedSplice(sparsity, candidates=candidates)
        requests = states_of(algorithm, federate(clients), fs.SquaredError())
        next(requests)
        assert next(requests)[0].support.size == expected

    @pytest.mark.parametrize(
        "options",
        [
            {"candidates": 0},
            {"candidates": 2.5},
            {"tolerance": -1e-9},
            {"tolerance": float("nan")},
            {"clients_per_round": 2},
            {"sparsity": 0},
            {"weights": "votes"},
            {"restarts": -1},
        ],
        ids=str,
    )
    def test_that_make_no_sense_are_refused(self, options):
        with pytest.raises(fs.OptionError, match=next(iter(options))):
            fs.FedSplice(**({"sparsity": 3} | options))


# ---------------------------------------------------------------- restarts


def in_blocks(loss, seed, rows=150, width=120, block=6):
    """Three sites; columns of a block correlate by 0.95: many supports are nearly as good."""
    random = np.random.default_rng(seed)
    shared = np.repeat(random.standard_normal((rows, width // block)), block, axis=1)
    Z = np.sqrt(0.95) * shared + np.sqrt(0.05) * random.standard_normal((rows, width))
    scores = Z @ (random.standard_normal(width) * (random.random(width) < 0.1))
    targets = scores + random.standard_normal(rows)
    y = targets if loss == "squared" else (random.random(rows) < expit(2.0 * scores)).astype(float)
    return list(zip(np.split(Z, 3), np.split(y, 3), strict=True))


def with_and_without_restarts(loss, seed, count=4):
    clients = in_blocks(loss, seed)
    return (splice(clients, 8, loss=loss, candidates=10, restarts=own) for own in (0, count))


class TestRestarts:
    @pytest.mark.parametrize("loss", ONE_SCORE)
    def test_never_end_higher(self, loss):
        for seed in range(3):
            once, again = with_and_without_restarts(loss, seed)
            assert again.objective <= once.objective

    def test_lead_out_of_a_support_that_no_exchange_improves(self):
        once, again = with_and_without_restarts("logistic", 1)
        assert again.objective < (1 - 1e-3) * once.objective

    @pytest.mark.parametrize("loss", ONE_SCORE)
    def test_are_rounds_that_follow_those_of_the_first_run(self, loss):
        once, again = with_and_without_restarts(loss, 0)
        rounds = again.history["round"].to_list()
        objectives = [own.objective for own in once.records]
        assert rounds == list(range(rounds[-1] + 1))
        assert rounds[-1] > once.records[-1].round
        assert [own.objective for own in again.records[: len(objectives)]] == objectives

    @pytest.mark.parametrize("loss", ONE_SCORE)
    def test_give_the_same_bits_again(self, loss):
        (_, first), (_, second) = (with_and_without_restarts(loss, 1) for _ in range(2))
        np.testing.assert_array_equal(first.coef, second.coef)


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("loss", ONE_SCORE)
@pytest.mark.parametrize("start_at", [None, 0.1 * np.arange(24)], ids=["from 0", "from elsewhere"])
def test_interrupted_and_resumed_gives_the_same_bits(loss, start_at, tmp_path):
    data = federate(clients_for(loss))
    algorithm = fs.FedSplice(TAU, start_at=start_at)
    options = {"loss": LOSS_OBJECTS[loss], "threads": 1}
    expected = fs.run(algorithm, data, **options)
    for at in range(1, min(6, expected.records[-1].round)):

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


def test_a_checkpoint_from_another_start_is_refused(tmp_path):
    data = federate(clients_for("squared"))
    path = tmp_path / "run.npz"
    fs.run(fs.FedSplice(TAU, start_at=np.arange(24.0)), data, checkpoint=path, rounds=2)
    with pytest.raises(fs.CheckpointError):
        fs.run(fs.FedSplice(TAU, start_at=-np.arange(24.0)), data, checkpoint=path, rounds=4)


# ---------------------------------------------------------------- losses without a bound


@pytest.mark.parametrize("level", [-2.0, 0.0, 2.0, 4.0])
def test_counts_of_any_size_are_learnt_from_zero(level):
    """Newton's first step leads far too high where rates are large; it is shortened then."""
    random = np.random.default_rng(0)
    clients = []
    for _ in range(3):
        Z = np.column_stack([np.ones(200), random.standard_normal((200, 20))])
        rates = np.exp(level + 0.5 * Z[:, 3] - 0.4 * Z[:, 7])
        clients.append((Z, random.poisson(rates).astype(float)))
    data = federate(clients)
    result = fs.run(fs.FedSplice(3), data, loss="poisson", threads=1)
    assert result.coef[0] == pytest.approx(level, abs=0.5)
    assert result.coef[[3, 7]] == pytest.approx([0.5, -0.4], abs=0.25)


def tilted(seed):
    """Few rows whose classes correlated features tell: models misjudge where f is low."""
    random = np.random.default_rng(seed)
    clients = []
    for _ in range(3):
        Z = random.standard_normal((12, 14))
        Z[:, ::2] += 0.9 * Z[:, 1::2]
        score = Z[:, :4].sum(axis=1) + 0.3 * random.standard_normal(12)
        clients.append((Z, (score > 0).astype(float)))
    return federate(clients)


def lowest_nearby(data, loss, x):
    """f as Newton's step on the support promises it, twice the step's gain lower to be generous."""
    support = np.flatnonzero(x)
    answers = answers_of(fs.Curvature(x, support), data, loss, "uniform")
    hessian = from_triangle(answers.mean("hessian"), support.size) + loss.l2 * np.eye(support.size)
    gradient = answers.mean("gradient") + loss.l2 * x[support]
    gain = 0.5 * gradient @ np.linalg.solve(hessian, gradient)
    return answers.average("objective") - 2.0 * gain


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_new_support_is_kept_only_as_long_as_newtons_steps_promise_to_pay(seed):
    data, loss = tilted(seed), fs.Logistic(l2=1e-4)
    algorithm = fs.FedSplice(4, message_bytes=None)
    before, mended = algorithm.start((data.width,), 0, loss), 0
    for _, state, _ in states_of(algorithm, data, loss):
        best = float(before.memory["best_objective"][0])
        if state.memory.get("mended", [0.0])[0] > before.memory.get("mended", [0.0])[0]:
            assert lowest_nearby(data, loss, before.x) < best
            mended += 1
        before = state
    assert mended > 0
