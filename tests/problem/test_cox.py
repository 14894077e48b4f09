"""Cox's partial likelihood beside a plain one, with ties, strata and awkward scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.compute.triangles import from_triangle
from tests.builders import STORAGES, answers_of, federate

TIES = ("efron", "breslow")
WIDTH = 6


def minus_log_likelihood(scores, signed, ties):
    """One stratum, event time by event time."""
    times, total = np.abs(signed), 0.0
    for time in np.unique(times[signed > 0]):
        died = (times == time) & (signed > 0)
        at_risk, tied = np.exp(scores[times >= time]).sum(), np.exp(scores[died]).sum()
        for place in range(died.sum()):
            share = place / died.sum() if ties == "efron" else 0.0
            total += np.log(at_risk - share * tied)
        total -= scores[died].sum()
    return total


def objective(clients, x, ties):
    rows = sum(len(y) for _, y in clients)
    return sum(minus_log_likelihood(Z @ x, y, ties) for Z, y in clients) / rows


def strata(seed=0, rows=(40, 25, 60), step=0.5):
    """Clients whose times come in steps, so that many are tied."""
    random = np.random.default_rng(seed)
    clients = []
    for count in rows:
        Z = random.standard_normal((count, WIDTH)) * (random.random((count, WIDTH)) < 0.6)
        times = step * np.ceil(random.exponential(np.exp(Z[:, 1] - Z[:, 0])) / step)
        clients.append((Z, np.where(random.random(count) < 0.7, times, -times)))
    return clients


def derivative(function, x, step=1e-5):
    return np.array(
        [(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(x.size)]
    )


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("ties", TIES)
class TestDerivatives:
    x = np.array([0.7, -0.4, 0.0, 0.3, -1.0, 0.0])

    def test_f_is_minus_the_log_likelihood_over_the_rows(self, ties, storage):
        data, loss = federate(strata(), storage), fs.Cox(ties=ties, l2=0.3)
        told = answers_of(fs.Evaluate(self.x), data, loss, "samples").average("objective")
        expected = objective(strata(), self.x, ties) + 0.15 * self.x @ self.x
        assert told == pytest.approx(expected, rel=1e-14)

    def test_slopes_are_those_of_f(self, ties, storage):
        data = federate(strata(), storage)
        told = answers_of(fs.Slopes(self.x), data, fs.Cox(ties=ties), "samples")
        expected = derivative(lambda x: objective(strata(), x, ties), self.x)
        np.testing.assert_allclose(told.mean("gradient"), expected, atol=1e-8)
        alone = answers_of(fs.Gradient(self.x), data, fs.Cox(ties=ties), "samples")
        np.testing.assert_allclose(alone.mean("gradient"), told.mean("gradient"), atol=1e-14)

    def test_second_derivatives_are_those_of_slopes(self, ties, storage):
        data, loss = federate(strata(), storage), fs.Cox(ties=ties)

        def slopes(x):
            return answers_of(fs.Gradient(x), data, loss, "samples").mean("gradient")

        told = answers_of(fs.Curvature(self.x, np.arange(WIDTH)), data, loss, "samples")
        hessian = from_triangle(told.mean("hessian"), WIDTH)
        np.testing.assert_allclose(hessian, derivative(slopes, self.x), atol=1e-8)
        diagonal = answers_of(fs.Slopes(self.x), data, loss, "samples").mean("diagonal")
        np.testing.assert_allclose(np.diag(hessian), diagonal, atol=1e-14)

    def test_a_block_is_part_of_the_whole_hessian(self, ties, storage):
        data, loss, places = federate(strata(), storage), fs.Cox(ties=ties), np.array([1, 4])
        x = np.array([0.7, -0.4, 0.0, 0.3, 0.0, 0.0])  # not covered by the block
        whole = answers_of(fs.Curvature(x, np.arange(WIDTH)), data, loss).mean("hessian")
        part = answers_of(fs.Curvature(x, places), data, loss).mean("hessian")
        expected = from_triangle(whole, WIDTH)[np.ix_(places, places)]
        np.testing.assert_allclose(from_triangle(part, 2), expected, atol=1e-13)


@settings(deadline=None, max_examples=60)
@given(
    times=st.lists(st.integers(1, 5), min_size=2, max_size=12),
    seed=st.integers(0, 2**31),
    ties=st.sampled_from(TIES),
)
def test_any_ties_give_the_plain_likelihood_and_slopes_that_sum_to_zero(times, seed, ties):
    random = np.random.default_rng(seed)
    signed = np.array(times, dtype=float) * random.choice([-1.0, 1.0], len(times))
    scores = random.normal(0.0, 2.0, len(times))
    found = fs.Cox(ties=ties).at_scores(scores, np.column_stack([signed, np.ones(len(times))]))
    expected = minus_log_likelihood(scores, signed, ties)
    assert found.losses.sum() == pytest.approx(expected, abs=1e-12)
    assert found.slopes.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("ties", TIES)
class TestAwkwardScores:
    signed = np.array([1.0, 2.0, 2.0, -3.0, 4.0])
    scores = np.array([0.3, -1.0, 0.5, 0.1, 2.0])

    def slopes(self, scores, ties):
        return fs.Cox(ties=ties).derivative(scores, self.signed)

    def test_a_number_added_to_all_changes_nothing(self, ties):
        for shift in (-1e4, 700.0, 1e4):
            found = self.slopes(self.scores + shift, ties)
            np.testing.assert_allclose(found, self.slopes(self.scores, ties), atol=1e-10)

    def test_scores_far_apart_stay_finite(self, ties):
        far = np.array([900.0, -900.0, 0.0, -2000.0, 50.0])
        assert np.isfinite(self.slopes(far, ties)).all()
        assert fs.Cox(ties=ties).value(far, self.signed) >= 0.0

    def test_all_times_tied_are_one_risk_set(self, ties):
        signed = np.array([2.0, 2.0, -2.0])
        first = np.log(3.0)
        second = np.log(2.0) if ties == "efron" else first
        expected = (first + second) / 3
        assert fs.Cox(ties=ties).value(np.zeros(3), signed) == pytest.approx(expected)


def test_a_client_without_an_event_has_no_part_in_f():
    Z, y = strata()[0]
    told = answers_of(fs.Slopes(np.ones(WIDTH)), federate([(Z, -np.abs(y))]), fs.Cox())
    assert told.average("objective") == 0.0
    assert not told.mean("gradient").any()
    assert not told.mean("diagonal").any()


def test_strata_are_not_pooled():
    clients = strata()
    apart = answers_of(fs.Evaluate(np.ones(WIDTH)), federate(clients), fs.Cox(), "samples")
    together = [(np.vstack([Z for Z, _ in clients]), np.concatenate([y for _, y in clients]))]
    pooled = answers_of(fs.Evaluate(np.ones(WIDTH)), federate(together), fs.Cox(), "samples")
    assert apart.average("objective") < pooled.average("objective")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("ties", TIES)
def test_splicing_ends_where_no_slope_is_left_on_the_support(ties, storage):
    data, loss = federate(strata(), storage), fs.Cox(ties=ties, l2=0.01)
    algorithm = fs.FedSplice(3, weights="samples", message_bytes=None, tolerance=0.0)
    result = fs.run(algorithm, data, loss=loss)
    gradient = answers_of(fs.Gradient(result.coef), data, loss, "samples").mean("gradient")
    slopes = (gradient + loss.l2 * result.coef)[result.support]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-7)


@pytest.mark.parametrize(
    "algorithm",
    [
        fs.DistributedIHT(3, weights="samples"),
        fs.FedIterHT(3, local_steps=3),
        fs.FedHT(3, local_steps=3),
        fs.FedHT(3, local_steps=2, refit=True),
        fs.FedAvg(local_steps=3),
        fs.FedProx(local_steps=3, proximal=0.1),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_methods_with_full_gradients_lower_f(algorithm):
    result = fs.run(algorithm, federate(strata()), loss=fs.Cox(l2=0.01), rounds=30)
    assert not result.diverged
    assert result.objective < 0.95 * result.records[0].objective


@pytest.mark.parametrize("threads", [1, 2])
def test_clients_answer_alike_whatever_the_threads_and_the_sums(threads):
    x, request = np.linspace(-1, 1, WIDTH), fs.Slopes(np.linspace(-1, 1, WIDTH))
    expected = answers_of(request, federate(strata()), fs.Cox())
    engine = fs.LocalEngine(federate(strata()), fs.Cox(), threads)
    (told,) = engine.exchange([engine.ask(fs.Slopes(x))])
    assert told.mean("gradient").tobytes() == expected.mean("gradient").tobytes()
    assert told.mean("diagonal").tobytes() == expected.mean("diagonal").tobytes()


class TestBadInput:
    def refused(self, targets, match, loss=None, algorithm=None):
        data = fs.FederatedData.from_clients({"lab-0": (np.ones((len(targets), 2)), targets)})
        with pytest.raises((fs.DataError, fs.OptionError), match=match):
            fs.run(algorithm or fs.FedSplice(1), data, loss=loss or fs.Cox())

    def test_a_time_of_zero_is_named(self):
        self.refused([1.0, 0.0], "lab-0, row 1 has target 0.0, but times .* above 0")

    def test_no_event_anywhere_is_refused(self):
        self.refused([-1.0, -2.0], "no row has an event")

    def test_rows_that_do_not_count_the_same_are_refused(self):
        table = fs.FederatedData.from_table(np.ones((2, 1)), [1.0, 2.0], ["a", "a"], [1.0, 2.0])
        with pytest.raises(fs.DataError, match="all count the same"):
            fs.run(fs.FedSplice(1), table, loss="cox")

    def test_unknown_ties_are_refused(self):
        with pytest.raises(fs.OptionError, match='ties must be "efron" or "breslow"'):
            fs.Cox(ties="exact")

    def test_mini_batches_are_refused(self):
        batches = fs.FedHT(1, batch_size=1, step_size=0.1)
        self.refused([1.0, 2.0], "no mean over rows, so it has no mini-batches", None, batches)

    def test_edsl_says_what_to_use_instead(self):
        self.refused([1.0, 2.0], "EDSL .* use FedSplice or FedIterHT", None, fs.EDSL(1))
