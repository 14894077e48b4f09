"""What a run does around an algorithm: history, bytes, threads, divergence, options."""

import contextlib
import os
import subprocess
import sys
import warnings
from types import MappingProxyType

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs
from fedsparse.requests.wire import vectors as wire
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

TAU = 5
COLUMNS = [
    "round", "iterations", "objective", "nonzeros", "bytes_down", "bytes_up", "seconds", "absent",
]  # fmt: skip
ALGORITHMS = {
    "FedHT": fs.FedHT(TAU, local_steps=4),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=4),
    "DistributedIHT": fs.DistributedIHT(TAU),
    "FedAvg": fs.FedAvg(local_steps=4),
    "FedProx": fs.FedProx(local_steps=4, proximal=0.3),
    "GDHT": fs.GDHT(TAU),
    "SGDHT": fs.SGDHT(TAU, batch_size=4, step_size=0.02),
    "HSGHT": fs.HSGHT(TAU, batch_size=fs.GrowingBatch(2, 1.5), step_size=0.02),
    "SVRGHT": fs.SVRGHT(TAU, batch_size=4, local_steps=4, step_size=0.02),
    "FedHT mini-batch": fs.FedHT(TAU, local_steps=4, batch_size=4, step_size=0.02),
    "FedIterHT mini-batch": fs.FedIterHT(TAU, local_steps=4, batch_size=4, step_size=0.02),
    "FedHT corrected": fs.FedHT(
        TAU, local_steps=4, batch_size=4, step_size=0.02, variance_reduction=True
    ),
    "FedIterHT extrapolated": fs.FedIterHT(TAU, local_steps=4, server_step="extrapolated"),
}


def run(algorithm, data, *, loss="squared", rounds=5, threads=1, **options):
    return fs.run(
        algorithm, data, loss=LOSS_OBJECTS[loss], rounds=rounds, threads=threads, **options
    )


def small(loss="squared", storage="dense", **shape):
    return federate(clients_for(loss, **shape), storage)


def assert_same_bits(one, other):
    assert one.coef.tobytes() == other.coef.tobytes()
    assert one.history.drop("seconds").equals(other.history.drop("seconds"))


# ---------------------------------------------------------------- history


class TestHistory:
    @pytest.mark.parametrize("name", ALGORITHMS)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_has_one_row_per_round_and_one_for_the_start(self, name, storage):
        algorithm = ALGORITHMS[name]
        result = run(algorithm, small(storage=storage), rounds=6)
        history = result.history
        assert history.columns == COLUMNS
        assert history["round"].to_list() == list(range(7))
        steps = algorithm.local_steps
        assert history["iterations"].to_list() == [steps * round for round in range(7)]
        for column in ("bytes_down", "bytes_up"):
            assert history[column][0] == 0
            assert (history[column].diff().drop_nulls() > 0).all()
        assert history["seconds"][0] == 0.0
        assert (history["seconds"].diff().drop_nulls() >= 0).all()

    @pytest.mark.parametrize("loss", LOSSES)
    def test_first_row_is_the_start_at_zero(self, loss):
        clients = clients_for(loss)
        first = run(fs.FedHT(TAU), federate(clients), loss=loss).history.row(0, named=True)
        shape = (24, CLASSES) if loss == "softmax" else 24
        expected = oracle.objective(clients, np.zeros(shape), loss, 0.05)
        assert first["objective"] == pytest.approx(expected)
        assert first["nonzeros"] == 0

    @pytest.mark.parametrize("weights", ["uniform", "samples", (0.1, 0.2, 0.3, 0.4)])
    @pytest.mark.parametrize("clients_per_round", [None, 2])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_objective_is_that_of_all_clients(self, loss, weights, clients_per_round):
        clients = clients_for(loss)
        algorithm = fs.FedIterHT(TAU, weights=weights, clients_per_round=clients_per_round)
        result = run(algorithm, federate(clients), loss=loss)
        expected = oracle.objective(clients, result.coef, loss, 0.05, weights)
        assert result.objective == result.history["objective"][-1]
        assert result.objective == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_nonzeros_and_support_are_those_of_the_coefficients(self, loss):
        result = run(fs.FedIterHT(TAU), small(loss), loss=loss)
        assert result.history["nonzeros"][-1] == np.count_nonzero(result.coef)
        used = result.coef != 0 if result.coef.ndim == 1 else (result.coef != 0).any(axis=1)
        assert result.support.tolist() == np.flatnonzero(used).tolist()
        per_class = np.count_nonzero(result.coef, axis=0)
        assert np.all(per_class == TAU)

    @pytest.mark.parametrize(
        ("every", "rounds", "expected"),
        [(1, 3, [0, 1, 2, 3]), (2, 5, [0, 2, 4, 5]), (3, 6, [0, 3, 6]), (100, 4, [0, 4])],
    )
    def test_evaluate_every_leaves_rounds_out_and_never_the_last(self, every, rounds, expected):
        full = run(fs.FedIterHT(TAU), small(), rounds=rounds)
        result = run(fs.FedIterHT(TAU), small(), rounds=rounds, evaluate_every=every)
        assert result.history["round"].to_list() == expected
        assert result.coef.tobytes() == full.coef.tobytes()
        of_those_rounds = full.history.drop("seconds")[expected]
        assert result.history.drop("seconds").equals(of_those_rounds)

    def test_on_round_sees_every_row_as_it_is_made(self):
        seen = []
        result = run(fs.FedIterHT(TAU), small(), evaluate_every=2, on_round=seen.append)
        assert tuple(seen) == result.records
        assert [record.round for record in seen] == [0, 2, 4, 5]

    def test_result_tells_itself_in_one_line(self):
        text = repr(run(fs.FedIterHT(TAU), small()))
        assert text.startswith("Result(objective=")
        assert "rounds=5" in text

    def test_more_than_the_width_may_be_asked_for(self):
        everything = run(fs.FedAvg(local_steps=3), small())
        for algorithm in (fs.FedHT(10**6, local_steps=3), fs.FedIterHT(10**6, local_steps=3)):
            for storage in STORAGES:
                result = run(algorithm, small(storage=storage))
                np.testing.assert_allclose(result.coef, everything.coef, atol=1e-12)


# ---------------------------------------------------------------- bytes


def class_by_class(x):
    return x if x.ndim == 1 else x.T.ravel()


def shape_of(data, loss):
    return (data.width, CLASSES) if loss == "softmax" else (data.width,)


def rounds_of(algorithm, data, loss, rounds):
    """Every request of a run with the vector each client answers, none for numbers."""
    state = algorithm.start(shape_of(data, loss), 0, LOSS_OBJECTS[loss])
    while state.round < rounds:
        request = algorithm.request(state)
        fields = fields_of(request, data, LOSS_OBJECTS[loss])
        yield request, list(fields["x"].each()) if "x" in fields else []
        state = algorithm.update(state, answers_of(request, data, LOSS_OBJECTS[loss]))


def message(vector):
    return wire.encode(class_by_class(vector))


def change_message(client, classes, width):
    """Encoded change on the columns a client has; its length follows from where it is."""
    touched = np.flatnonzero(np.any(client[0] != 0, axis=0))
    indices = np.concatenate([label * width + touched for label in range(classes)])
    return wire.encode_sparse(indices, np.full(indices.size, 0.1), classes * width)


# Wide clients with few columns each, so that dense, sparse and change differ in length.
WIDE = MappingProxyType({"rows": (3, 4, 5), "width": 300, "density": 0.02})


class TestBytes:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize(
        "algorithm",
        [
            fs.FedHT(TAU, local_steps=3, step_size=0.1),
            fs.FedIterHT(TAU, local_steps=3, step_size=0.1),
            fs.DistributedIHT(TAU, step_size=0.1),
            fs.FedAvg(local_steps=3, step_size=0.1),
            fs.FedProx(local_steps=3, step_size=0.1),
            fs.FedIterHT(TAU, local_steps=3, step_size=0.1, batch_size=2),
            fs.FedHT(TAU, local_steps=3, step_size=0.1, server_step="extrapolated"),
        ],
        ids=["FedHT", "FedIterHT", "DistributedIHT", "FedAvg", "FedProx", "batch", "extrapolated"],
    )
    def test_are_lengths_of_encoded_messages(self, algorithm, storage, loss):
        clients = clients_for(loss, **WIDE)
        data = federate(clients, storage)
        history = run(algorithm, data, loss=loss, rounds=3).history
        classes = CLASSES if loss == "softmax" else 1
        down = up = 0
        expected = [(0, 0)]
        for request, vectors in rounds_of(algorithm, data, loss, 3):
            down += sum(len(message(request.x)) for _ in clients)
            if storage == "csr" and request.sparsity is None:
                up += sum(len(change_message(client, classes, data.width)) for client in clients)
            else:
                up += sum(len(message(vector)) for vector in vectors)
            if request.with_distance:
                up += 8 * len(clients)
            expected.append((down, up))
        assert list(zip(history["bytes_down"], history["bytes_up"], strict=True)) == expected

    @pytest.mark.parametrize("storage", STORAGES)
    def test_asking_for_the_step_size_costs_a_number_and_the_thresholds(self, storage):
        """l_i, and then a one for each of 256 thresholds that it lies above."""
        clients = clients_for("squared", **WIDE)
        data = federate(clients, storage)
        automatic = run(fs.FedIterHT(TAU), data, rounds=1)
        own = np.array([oracle.smoothness(Z, "squared", 0.05) for Z, _ in clients])
        thresholds = oracle.smoothness_thresholds(own)
        given = fs.FedIterHT(TAU, step_size=1 / oracle.largest_smoothness(own))
        history = run(given, data, rounds=1).history
        above = sum(len(wire.encode((one > thresholds).astype(float))) for one in own)
        assert automatic.history["bytes_down"][-1] == history["bytes_down"][-1]
        assert automatic.history["bytes_up"][-1] == history["bytes_up"][-1] + 3 * 8 + above

    @pytest.mark.parametrize("storage", STORAGES)
    def test_local_thresholding_uploads_tau_entries(self, storage):
        data = federate(clients_for("squared", rows=(40,) * 3, width=300, density=0.5), storage)
        history = run(fs.FedIterHT(TAU, local_steps=3), data, rounds=4).history
        most = len(wire.encode_sparse(np.arange(TAU) * 60 + 59, np.full(TAU, 0.1), 300)) + TAU
        assert (history["bytes_up"].diff().drop_nulls()[1:] <= 3 * most).all()

    def test_only_clients_that_take_part_are_counted(self):
        data = small(density=1.0)
        everyone = run(fs.FedAvg(step_size=0.05), data, rounds=1).history
        some = run(fs.FedAvg(step_size=0.05, clients_per_round=1), data, rounds=1).history
        assert some["bytes_down"][-1] * 4 == everyone["bytes_down"][-1]
        assert some["bytes_up"][-1] * 4 == everyone["bytes_up"][-1]

    def test_a_snapshot_of_an_earlier_round_travels_too(self):
        options = {"batch_size": 4, "step_size": 0.02, "local_steps": 2}
        plain = run(fs.FedAvg(**options), small(), rounds=2).history
        kept = run(fs.FedAvg(**options, variance_reduction=2), small(), rounds=2).history
        assert kept["bytes_down"][1] == plain["bytes_down"][1]
        snapshot = len(wire.encode(np.zeros(24)))
        assert kept["bytes_down"][2] - kept["bytes_down"][1] == 4 * (snapshot + wire.dense_size(24))

    def test_working_out_the_objective_is_not_counted(self):
        often = run(fs.FedIterHT(TAU), small(), rounds=6).history
        rarely = run(fs.FedIterHT(TAU), small(), rounds=6, evaluate_every=6).history
        assert often["bytes_down"][-1] == rarely["bytes_down"][-1]
        assert often["bytes_up"][-1] == rarely["bytes_up"][-1]


# ---------------------------------------------------------------- the same bits everywhere


class TestThreads:
    @pytest.mark.parametrize("name", ALGORITHMS)
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("loss", LOSSES)
    def test_number_does_not_change_a_bit(self, name, storage, loss):
        data = small(loss, storage, rows=(5, 9, 30, 6, 12, 3, 17, 8, 1, 4))
        alone = run(ALGORITHMS[name], data, loss=loss)
        assert not alone.diverged
        for threads in (2, 3):
            assert_same_bits(alone, run(ALGORITHMS[name], data, loss=loss, threads=threads))

    @pytest.mark.parametrize("threads", [1, 2])
    def test_same_seed_gives_the_same_bits_and_another_seed_others(self, threads):
        algorithm = fs.FedIterHT(TAU, batch_size=3, step_size=0.02, clients_per_round=3)
        one, same, other = (
            run(algorithm, small(), threads=threads, seed=seed) for seed in (5, 5, 6)
        )
        assert_same_bits(one, same)
        assert one.coef.tobytes() != other.coef.tobytes()

    def test_all_cores_are_the_default(self):
        algorithm = ALGORITHMS["FedIterHT"]
        assert_same_bits(run(algorithm, small()), run(algorithm, small(), threads=None))


def answer_of(fields, place):
    """One client's part of an answer: vectors and numbers by name."""
    parts = {}
    for name, field in fields.items():
        if isinstance(field, np.ndarray):
            parts[name] = field[place]
        else:
            parts[name] = list(field.each())[place]
    return parts


class TestViewsOfOneClient:
    """Another engine holds one client only; its answers must be those of the whole federation."""

    def requests(self, shape):
        random = np.random.default_rng(3)
        x, snapshot = random.standard_normal((2, *shape))
        x, snapshot = (fs.hard_threshold(vector, 2 * TAU) for vector in (x, snapshot))
        x = np.asfortranarray(x)
        steps = {"x": x, "steps": 4, "step_size": 0.05, "seed": 9, "round": 3}
        sparsity = fs.TopK(TAU) if len(shape) == 1 else fs.TopKPerClass(TAU)
        yield fs.Smoothness()
        yield fs.SmoothnessAbove(1.0, 100.0)
        yield fs.Evaluate(x)
        yield fs.Evaluate(x, is_penalized=False)
        yield fs.Gradient(x)
        yield fs.Judge(x)
        yield fs.ColumnSums(with_target=True)
        yield fs.ColumnSquares(np.arange(24.0))
        for constraint in (None, sparsity, fs.TopKGroups([i // 2 for i in range(24)], 4)):
            for batch in (None, 4, 100):
                yield fs.LocalSteps(
                    **steps, sparsity=constraint, batch_size=batch, with_distance=True
                )
                yield fs.LocalSteps(
                    **steps, sparsity=constraint, batch_size=batch, snapshot=snapshot
                )
                yield fs.LocalSteps(**steps, sparsity=constraint, batch_size=batch, proximal=0.4)

    def assert_views_agree(self, data, loss):
        for request in self.requests(shape_of(data, loss)):
            fields = fields_of(request, data, LOSS_OBJECTS[loss])
            for client in range(len(data)):
                own = answer_of(fields_of(request, data.client(client), LOSS_OBJECTS[loss]), 0)
                for name, expected in answer_of(fields, client).items():
                    assert np.asarray(own[name]).tobytes() == np.asarray(expected).tobytes(), (
                        request,
                        client,
                    )

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("loss", LOSSES)
    def test_answer_with_the_same_bits(self, storage, loss):
        clients = clients_for(loss)
        for _, y in clients:
            y[:CLASSES] = np.arange(CLASSES) if loss == "softmax" else y[:CLASSES]
        self.assert_views_agree(federate(clients, storage), loss)

    @pytest.mark.parametrize("storage", STORAGES)
    def test_answer_with_the_same_bits_where_a_class_is_missing(self, storage):
        clients = clients_for("softmax")
        clients[1][1][:] = np.arange(9) % 2 + 1  # no class 0
        clients[3][1][:] = 2.0
        self.assert_views_agree(federate(clients, storage), "softmax")

    @pytest.mark.parametrize("storage", STORAGES)
    def test_answer_with_the_same_bits_where_one_binary_label_is_missing(self, storage):
        clients = [(Z, 2 * y - 1) for Z, y in clients_for("logistic")]
        clients[0][1][:] = 1.0
        clients[1][1][:] = -1.0
        self.assert_views_agree(federate(clients, storage), "logistic")

    @pytest.mark.parametrize("storage", STORAGES)
    def test_some_clients_answer_as_all_do(self, storage):
        data, loss = small(storage=storage), LOSS_OBJECTS["squared"]
        for request in self.requests((data.width,)):
            everyone = fields_of(request, data, loss)
            some = fields_of(request, data, loss, which=[1, 3])
            for place, client in enumerate((1, 3)):
                expected = answer_of(everyone, client)
                for name, found in answer_of(some, place).items():
                    assert np.asarray(found).tobytes() == np.asarray(expected[name]).tobytes()


# ---------------------------------------------------------------- divergence


def run_recorded(algorithm, data, **options):
    """A run and the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(algorithm, data, **options)
    return result, caught


class TestDivergence:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("server_step", [1.0, "extrapolated"])
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT])
    def test_stops_warns_and_keeps_the_last_good_iterate(self, kind, server_step, storage):
        algorithm = kind(TAU, local_steps=2, step_size=0.9, server_step=server_step)
        data = small(storage=storage)
        with pytest.warns(fs.DivergenceWarning) as caught:
            result = run(algorithm, data, rounds=500)
        assert result.diverged
        assert "diverged" in repr(result)
        text = str(caught[0].message)
        assert f"{kind.__name__} diverged" in text
        assert "0.9" in text
        assert 'step_size="auto"' in text
        last = result.history["round"][-1]
        assert 0 < last < 500
        assert np.isfinite(result.coef).all()
        assert_same_bits(result, run(algorithm, data, rounds=last))

    def test_warning_points_at_the_callers_line(self):
        with pytest.warns(fs.DivergenceWarning) as caught:
            fs.run(fs.FedAvg(step_size=50.0), small(), rounds=50, threads=1)
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("batch_size", [None, 3])
    @pytest.mark.parametrize("server_step", [1.0, "extrapolated"])
    @pytest.mark.parametrize("step_size", [30.0, 1e30, 1e100, 1e300])
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT, fs.DistributedIHT, fs.FedAvg])
    def test_gives_one_warning_and_no_other(
        self, kind, storage, step_size, server_step, batch_size
    ):
        options = {"step_size": step_size, "server_step": server_step, "batch_size": batch_size}
        algorithm = kind(**options) if kind is fs.FedAvg else kind(TAU, **options)
        result, caught = run_recorded(algorithm, small(storage=storage), rounds=60)
        assert result.diverged
        assert np.isfinite(result.coef).all()
        assert [warning.category for warning in caught] == [fs.DivergenceWarning]

    @pytest.mark.parametrize("loss", ["logistic", "softmax"])
    @pytest.mark.parametrize("storage", STORAGES)
    def test_is_noticed_for_bounded_gradients_too(self, loss, storage):
        result, caught = run_recorded(
            fs.FedIterHT(TAU, step_size=1e6), small(loss, storage), loss=loss, rounds=60
        )
        assert result.diverged
        assert np.isfinite(result.coef).all()
        assert [warning.category for warning in caught] == [fs.DivergenceWarning]

    @pytest.mark.parametrize("evaluate_every", [1, 7, 25])
    @pytest.mark.parametrize("storage", STORAGES)
    def test_objective_is_that_of_the_coefficients_kept(self, evaluate_every, storage):
        clients = clients_for("squared")
        algorithm = fs.DistributedIHT(TAU, step_size=1.3)
        result, _ = run_recorded(
            algorithm, federate(clients, storage), rounds=3000, evaluate_every=evaluate_every
        )
        assert result.diverged
        expected = oracle.objective(clients, result.coef, "squared", 0.05)
        assert result.objective == pytest.approx(expected, rel=1e-9)
        assert result.history["nonzeros"][-1] == np.count_nonzero(result.coef)

    def test_advice_for_the_automatic_step_names_what_else_can_be_to_blame(self):
        algorithm = fs.FedAvg(server_step=1e3)
        with pytest.warns(fs.DivergenceWarning, match=r"server_step=1000\.0"):
            run(algorithm, small(), rounds=100)

    def test_advice_names_a_schedule(self):
        def too_long(round):
            return 50.0

        with pytest.warns(fs.DivergenceWarning, match=r'too_long.*step_size="auto"'):
            run(fs.FedAvg(step_size=too_long), small(), rounds=50)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("name", ["FedHT", "FedIterHT", "DistributedIHT", "FedAvg", "FedProx"])
    def test_the_automatic_step_does_not_diverge(self, name, storage, loss):
        result = run(ALGORITHMS[name], small(loss, storage), loss=loss, rounds=40)
        assert not result.diverged
        assert result.objective < result.history["objective"][0]

    @pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
    def test_the_automatic_step_copes_with_features_that_are_all_zero(self, convert):
        """There is nothing to learn, and any step size does: x stays zero."""
        data = fs.FederatedData.from_clients([(convert(np.zeros((2, 3))), [1.0, 2.0])])
        result = fs.run(fs.FedIterHT(2), data, rounds=2, threads=1)
        assert result.coef.tolist() == [0.0, 0.0, 0.0]
        assert not result.diverged

    @pytest.mark.parametrize("batch_size", [None, 1])
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT])
    def test_a_csr_client_without_any_entry_only_shrinks(self, kind, batch_size):
        clients = [*clients_for("squared"), (np.zeros((3, 24)), np.ones(3))]
        algorithm = kind(TAU, step_size=0.05, batch_size=batch_size, local_steps=3)
        csr = run(algorithm, federate(clients, "csr"))
        np.testing.assert_allclose(csr.coef, run(algorithm, federate(clients)).coef, atol=1e-12)


# ---------------------------------------------------------------- what algorithms have in common


class TestEquivalences:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_gradient_descent_is_distributed_iht_on_pooled_data(self, loss, storage):
        pooled = small(loss, storage).pooled()
        assert_same_bits(
            run(fs.GDHT(TAU), pooled, loss=loss), run(fs.DistributedIHT(TAU), pooled, loss=loss)
        )

    @pytest.mark.parametrize("batch_size", [None, 100])
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT])
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_variance_reduction_changes_nothing_with_full_batches(
        self, kind, loss, storage, batch_size
    ):
        data = small(loss, storage)
        plain = run(kind(TAU, local_steps=3), data, loss=loss)
        reduced = run(
            kind(TAU, local_steps=3, variance_reduction=True, batch_size=batch_size),
            data,
            loss=loss,
        )
        np.testing.assert_allclose(reduced.coef, plain.coef, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT])
    @pytest.mark.parametrize("storage", STORAGES)
    def test_all_clients_each_round_is_everyone_taking_part(self, kind, storage):
        data = small(storage=storage)
        assert_same_bits(run(kind(TAU), data), run(kind(TAU, clients_per_round=4), data))

    @pytest.mark.parametrize("storage", STORAGES)
    def test_proximal_zero_is_plain_averaging(self, storage):
        data = small(storage=storage)
        assert_same_bits(run(fs.FedProx(proximal=0.0), data), run(fs.FedAvg(), data))

    def test_uniform_weights_are_equal_numbers(self):
        given = fs.FedIterHT(TAU, weights=np.full(4, 0.25))
        assert_same_bits(run(given, small()), run(fs.FedIterHT(TAU), small()))

    def test_a_constant_schedule_is_a_number(self):
        schedule = fs.FedIterHT(TAU, step_size=lambda round: 0.05)
        assert_same_bits(run(schedule, small()), run(fs.FedIterHT(TAU, step_size=0.05), small()))

    def test_a_client_of_weight_zero_does_not_count(self):
        clients = clients_for("squared")
        weighted = run(fs.FedAvg(step_size=0.05, weights=(0.5, 0.5, 0, 0)), federate(clients))
        without = run(fs.FedAvg(step_size=0.05), federate(clients[:2]))
        np.testing.assert_allclose(weighted.coef, without.coef, atol=1e-13)

    def test_drawing_only_clients_of_weight_zero_is_not_called_divergence(self):
        """Such a round has no average: it is refused at once, or x stays as it is."""
        algorithm = fs.FedAvg(step_size=0.05, weights=(1.0, 0, 0, 0), clients_per_round=1)
        with contextlib.suppress(fs.OptionError):
            result, caught = run_recorded(algorithm, small(), rounds=20)
            assert not result.diverged
            assert not caught


# ---------------------------------------------------------------- projections as local thresholds


def keep_groups(groups, count):
    def project(x):
        energy = [np.sum(x[groups == group] ** 2) for group in range(groups.max() + 1)]
        best = sorted(range(len(energy)), key=lambda group: (-energy[group], group))[:count]
        return np.where(np.isin(groups, best).reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

    return project


def keep_singular_values(rank):
    def project(x):
        left, singular, right = np.linalg.svd(x, full_matrices=False)
        singular[rank:] = 0.0
        return left * singular @ right

    return project


def keep_entries(count, always=()):
    """The largest entries in row order, after whole rows that are always kept."""

    def project(x):
        is_kept = np.zeros(x.shape, dtype=bool)
        is_kept[list(always)] = True
        rest = np.where(is_kept, -1.0, np.abs(x)).ravel()
        free = count - np.count_nonzero(is_kept)
        chosen = np.argsort(-rest, kind="stable")[:free]
        is_kept.ravel()[chosen] = True
        return np.where(is_kept, x, 0.0)

    return project


def keep_entries_per_class(count, always=()):
    return lambda x: np.column_stack([keep_entries(count, always)(column) for column in x.T])


def numpy_loop(clients, loss, project, *, batch=None, corrected=False, at_server_only=False):
    """FedIter-HT or Fed-HT with any projection, as a researcher would write it first."""
    x = np.zeros((24, CLASSES) if loss == "softmax" else 24)
    for round in range(4):
        total = 0.0
        for i, (Z, y) in enumerate(clients):
            own = x
            for step in range(3):
                rows = np.arange(len(y))
                if batch is not None and batch < len(y):
                    rows = oracle.draw(oracle.key(7, i, round, step), len(y), batch)
                estimate = oracle.gradient(Z[rows], y[rows], own, loss, 0.05)
                if corrected:
                    estimate -= oracle.gradient(Z[rows], y[rows], x, loss, 0.05)
                    estimate += oracle.gradient(Z, y, x, loss, 0.05)
                own = own - 0.05 * estimate
                if not at_server_only:
                    own = project(own)
            total = total + own / len(clients)
        x = project(total)
    return x


GROUPS = np.arange(24) % 7
PROJECTIONS = {
    "groups": ("squared", fs.TopKGroups(list(GROUPS), 3), keep_groups(GROUPS, 3)),
    "groups of classes": ("softmax", fs.TopKGroups(list(GROUPS), 3), keep_groups(GROUPS, 3)),
    "low rank": ("softmax", fs.LowRank(2), keep_singular_values(2)),
    "entries of all classes": ("softmax", fs.TopK(9), keep_entries(9)),
    "entries and kept rows": ("softmax", fs.TopK(12, keep=[20, 3]), keep_entries(12, [3, 20])),
    "per class and kept rows": (
        "softmax",
        fs.TopKPerClass(5, keep=[20, 3]),
        keep_entries_per_class(5, [3, 20]),
    ),
    "entries and kept features": ("squared", fs.TopK(5, keep=[20, 3]), keep_entries(5, [3, 20])),
    "only kept features": ("logistic", fs.TopK(2, keep=[20, 3]), keep_entries(2, [3, 20])),
    "kept features, many": (
        "logistic",
        fs.TopK(9, keep=range(16, 24)),
        keep_entries(9, range(16, 24)),
    ),
}
ESTIMATORS = {
    "full": ({}, {}),
    "mini-batch": ({"batch_size": 4}, {"batch": 4}),
    "corrected": ({"batch_size": 4, "variance_reduction": True}, {"batch": 4, "corrected": True}),
}


class TestProjections:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("density", [0.1, 0.6])
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT])
    @pytest.mark.parametrize("name", PROJECTIONS)
    def test_any_constraint_runs_locally_and_at_the_server(
        self, name, kind, storage, density, estimator
    ):
        """With density 0.1 most clients lack some columns, among them kept ones."""
        loss, constraint, project = PROJECTIONS[name]
        ours, theirs = ESTIMATORS[estimator]
        clients = clients_for(loss, density=density)
        algorithm = kind(constraint, local_steps=3, step_size=0.05, **ours)
        result = run(algorithm, federate(clients, storage), loss=loss, rounds=4, seed=7)
        expected = numpy_loop(clients, loss, project, at_server_only=kind is fs.FedHT, **theirs)
        np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-10)


# ---------------------------------------------------------------- options


NOT_COUNTS = [0, -1, 1.5, True, "2", np.nan]


class TestOptions:
    @pytest.mark.parametrize("value", [*NOT_COUNTS, None], ids=repr)
    @pytest.mark.parametrize("option", ["rounds", "evaluate_every", "every"])
    def test_counts_of_rounds_are_whole_numbers_of_at_least_one(self, option, value):
        with pytest.raises(fs.OptionError, match=f"{option} must be a whole number"):
            fs.run(fs.FedHT(TAU), small(), **{option: value})

    @pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
    def test_threads_are_a_whole_number_of_at_least_one(self, value):
        with pytest.raises(fs.OptionError, match="threads"):
            fs.run(fs.FedHT(TAU), small(), rounds=1, threads=value)

    @pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, None, "0"], ids=repr)
    def test_seed_is_a_whole_number_of_at_least_zero(self, seed):
        with pytest.raises(fs.OptionError, match="seed must be a whole number"):
            fs.run(fs.FedHT(TAU), small(), rounds=1, seed=seed)

    @pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(5), np.uint8(3)], ids=repr)
    def test_any_such_seed_works(self, seed):
        algorithm = fs.FedAvg(batch_size=2, step_size=0.01, clients_per_round=2)
        assert not run(algorithm, small(), rounds=2, seed=seed).diverged

    @pytest.mark.parametrize(
        "option", [{"loss": "squared"}, {"threads": 1}, {"device": "cpu"}, {"engine": "torch"}]
    )
    def test_what_an_engine_knows_cannot_be_given_beside_it(self, option):
        with pytest.raises(fs.OptionError, match="leave loss, engine, device and threads out"):
            fs.run(fs.FedHT(TAU), fs.LocalEngine(small()), **option)

    @pytest.mark.parametrize("loss", ["hubris", 3])
    def test_unknown_losses_are_refused(self, loss):
        with pytest.raises(fs.OptionError, match="unknown loss"):
            fs.run(fs.FedHT(TAU), small(), loss=loss)

    @pytest.mark.parametrize("value", [*NOT_COUNTS, None], ids=repr)
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT, fs.SVRGHT])
    def test_local_steps_are_a_whole_number_of_at_least_one(self, kind, value):
        with pytest.raises(fs.OptionError, match="local_steps must be a whole number"):
            kind(TAU, local_steps=value)

    @pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT, fs.DistributedIHT, fs.SGDHT])
    def test_batches_have_at_least_one_row(self, kind, value):
        with pytest.raises(fs.OptionError, match="batch_size must be a whole number"):
            kind(TAU, batch_size=value)

    @pytest.mark.parametrize(
        ("first", "factor", "named"),
        [(0, 1.1, "first"), (2.0, 1.1, "first"), (1, 0.9, "factor"), (1, np.nan, "factor")],
    )
    def test_growing_batches_do_not_shrink(self, first, factor, named):
        with pytest.raises(fs.OptionError, match=f"{named} must be"):
            fs.GrowingBatch(first, factor)

    def test_growing_batches_end_at_all_rows(self):
        """The thousandth power of the factor is no number any more."""
        assert fs.GrowingBatch(1, 10.0).size(1000) >= 2**31
        growing = fs.FedAvg(batch_size=fs.GrowingBatch(1, 1e6), local_steps=2, step_size=0.02)
        assert not run(growing, small(), rounds=60).diverged

    @pytest.mark.parametrize("value", [0, -0.1, np.nan, np.inf, "fast", None, True], ids=repr)
    @pytest.mark.parametrize("kind", [fs.FedHT, fs.FedIterHT, fs.DistributedIHT, fs.GDHT])
    def test_step_size_is_positive(self, kind, value):
        with pytest.raises(fs.OptionError, match="step_size must be a number above 0"):
            kind(TAU, step_size=value)

    @pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "none", None], ids=repr)
    def test_server_step_is_positive(self, value):
        with pytest.raises(fs.OptionError, match="server_step must be a number above 0"):
            fs.FedHT(TAU, server_step=value)

    @pytest.mark.parametrize("value", [0.0, -1.0, np.nan, None, "x"], ids=repr)
    def test_a_schedule_must_give_positive_numbers(self, value):
        def schedule(round):
            return 0.01 if round < 2 else value

        seen = []
        with pytest.raises(fs.OptionError, match=r"schedule gave .* in round 2"):
            run(fs.FedHT(TAU, step_size=schedule), small(), on_round=seen.append)
        assert seen[-1].round == 1  # f(x_2) would have come with the answers of that round

    @pytest.mark.parametrize("value", [-0.1, np.nan, np.inf], ids=repr)
    def test_proximal_is_not_negative(self, value):
        with pytest.raises(fs.OptionError, match="proximal must be a number ≥ 0"):
            fs.FedProx(proximal=value)

    @pytest.mark.parametrize("value", [0, -1, 1.5], ids=repr)
    def test_a_snapshot_is_kept_for_at_least_one_round(self, value):
        with pytest.raises(fs.OptionError, match="variance_reduction must be"):
            fs.FedHT(TAU, variance_reduction=value)

    @pytest.mark.parametrize(
        ("weights", "expected"),
        [
            ((0.5, 0.5), "2 entries for 4 clients"),
            ((0.25,) * 5, "5 entries for 4 clients"),
            ((0.1, 0.2, 0.3, 0.3), "sum to 0.9"),
            ((1.0, 1.0, 1.0, 1.0), "sum to 4"),
            ((-0.5, 0.5, 0.5, 0.5), "≥ 0"),
            ((np.nan, 0.5, 0.25, 0.25), "≥ 0"),
            (np.full((2, 2), 0.25), "for 4 clients"),
        ],
        ids=str,
    )
    def test_weights_are_one_share_per_client(self, weights, expected):
        with pytest.raises(fs.OptionError, match=expected):
            fs.run(fs.FedHT(TAU, weights=weights), small())

    @pytest.mark.parametrize("weights", ["equal", ""])
    def test_unknown_weights_are_refused(self, weights):
        with pytest.raises(fs.OptionError, match='"uniform", "samples"'):
            fs.FedHT(TAU, weights=weights)

    @pytest.mark.parametrize("count", [5, 1000])
    def test_no_more_clients_a_round_than_there_are(self, count):
        with pytest.raises(fs.OptionError, match=f"clients_per_round is {count}, .* only 4"):
            fs.run(fs.FedHT(TAU, clients_per_round=count), small())

    @pytest.mark.parametrize("count", NOT_COUNTS, ids=repr)
    def test_clients_per_round_is_a_whole_number_of_at_least_one(self, count):
        with pytest.raises(fs.OptionError, match="clients_per_round must be a whole number"):
            fs.FedHT(TAU, clients_per_round=count)

    def test_fixed_options_of_presets_cannot_be_given(self):
        with pytest.raises(TypeError):
            fs.DistributedIHT(TAU, local_steps=3)
        with pytest.raises(TypeError):
            fs.GDHT(TAU, batch_size=3)


class TestParticipation:
    def test_draws_as_many_clients_as_asked_each_round(self):
        """A client that takes part moves its own column; nobody else has it."""
        clients = [(np.eye(6)[[i]], np.ones(1)) for i in range(6)]
        data = fs.FederatedData.from_clients(clients)
        algorithm = fs.FedAvg(clients_per_round=2, step_size=0.1, local_steps=1)
        seen = set()
        for seed in range(20):
            coef = fs.run(algorithm, data, rounds=1, seed=seed, threads=1).coef
            assert np.count_nonzero(coef) == 2
            seen.update(np.flatnonzero(coef).tolist())
        assert seen == set(range(6))

    def test_weights_of_those_that_take_part_sum_to_one(self):
        data = fs.FederatedData.from_clients([(np.ones((n, 1)), np.ones(n)) for n in (1, 2, 3)])
        algorithm = fs.FedAvg(clients_per_round=2, weights="samples", step_size=0.5, local_steps=1)
        for seed in range(5):
            assert fs.run(algorithm, data, rounds=1, seed=seed).coef[0] == pytest.approx(1.0)


class TestAwkwardProblems:
    def test_a_large_client_beside_a_small_one_costs_no_square_of_its_rows(self):
        random = np.random.default_rng(0)
        clients = [(random.standard_normal((rows, 20)), np.ones(rows)) for rows in (200_000, 5)]
        data = fs.FederatedData.from_clients(clients)
        result = fs.run(fs.FedHT(5, local_steps=3, step_size=0.01), data, rounds=2)
        assert not result.diverged

    def test_a_sparsity_beyond_a_huge_width_needs_no_room_for_it(self):
        random = np.random.default_rng(0)
        width = 10**7
        clients = []
        for _ in range(200):
            columns = np.sort(random.choice(width, 4, replace=False))
            clients.append((sparse.csr_array((np.ones(4), columns, [0, 2, 4]), (2, width)), [1, 2]))
        data = fs.FederatedData.from_clients(clients)
        result = fs.run(fs.FedIterHT(10**9, local_steps=2, step_size=0.1), data, rounds=2)
        assert result.records[-1].nonzeros == 800

    @pytest.mark.parametrize("scale", [1e-90, 1e90])
    @pytest.mark.parametrize("storage", STORAGES)
    def test_the_automatic_step_size_fits_features_of_any_scale(self, storage, scale):
        clients = [(Z * scale, y) for Z, y in clients_for("squared")]
        result = fs.run(fs.GDHT(TAU), federate(clients, storage), rounds=20)
        assert result.objective < 0.9 * result.records[0].objective

    def test_the_automatic_step_size_counts_the_proximal_term(self):
        clients = [
            (Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-9), y)
            for Z, y in clients_for("logistic")
        ]
        result = fs.run(fs.FedProx(), federate(clients), loss="logistic", rounds=20)
        assert not result.diverged

    def test_targets_too_large_for_f_are_refused(self):
        data = fs.FederatedData.from_clients([([[1.0]], [1e200])])
        with pytest.raises(fs.DataError, match="not finite even at the start"):
            fs.run(fs.FedHT(1), data)

    def test_features_too_large_for_a_smoothness_are_refused(self):
        data = fs.FederatedData.from_clients([([[1e200]], [1.0])])
        with pytest.raises(fs.DataError, match="smoothness is not finite"):
            fs.run(fs.FedHT(1), data)

    def test_a_run_that_ends_worse_than_nothing_says_so(self):
        data = federate(clients_for("squared"))
        with pytest.warns(fs.DivergenceWarning, match=r"above the .* at its start.*\"auto\""):
            fs.run(fs.DistributedIHT(TAU, step_size=1.5), data, rounds=3)

    def test_rounding_of_f_is_not_taken_for_an_end_worse_than_the_start(self):
        """Different answers tell f at the same x, and add rows up in other orders."""
        risen = []
        for seed in range(40):
            data = federate(clients_for("softmax", seed=seed, density=1.0))
            found = fs.run(fs.FedSplice(fs.TopKPerClass(TAU)), data, loss="softmax", threads=1)
            again = fs.FedSplice(fs.TopKPerClass(TAU), start_at=found.coef)
            with warnings.catch_warnings():
                warnings.simplefilter("error", fs.DivergenceWarning)
                result = fs.run(again, data, loss="softmax", threads=1)
            risen.append(result.objective > result.records[0].objective)
        assert any(risen)

    def test_divergence_between_evaluations_goes_back_to_the_last_one(self):
        data = federate(clients_for("squared"))
        with pytest.warns(fs.DivergenceWarning, match="The result is that of round 0"):
            result = fs.run(
                fs.DistributedIHT(TAU, step_size=50.0), data, rounds=40, evaluate_every=25
            )
        assert result.objective == result.records[0].objective

    def test_results_do_not_depend_on_the_threads_of_blas(self):
        code = (
            "import numpy as np, fedsparse as fs\n"
            "r = np.random.default_rng(0)\n"
            "c = [(r.standard_normal((3, 60000)), r.standard_normal(3)) for _ in range(3)]\n"
            "a = fs.FedHT(500, local_steps=3, server_step='extrapolated')\n"
            "x = fs.run(a, fs.FederatedData.from_clients(c), rounds=3, threads=1).coef\n"
            "import hashlib; print(hashlib.sha256(x.tobytes()).hexdigest())\n"
        )
        digests = {
            subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | {"OPENBLAS_NUM_THREADS": count},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for count in ("1", "2")
        }
        assert len(digests) == 1

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((fs.FedHT, "data"), "must be an algorithm"),
            ((fs.FedHT(1), [([[1.0]], [1.0])]), "must be FederatedData"),
        ],
    )
    def test_wrong_kinds_of_argument_are_named(self, arguments, message):
        with pytest.raises(fs.OptionError, match=message):
            fs.run(*arguments)

    def test_a_constraint_that_does_not_fit_is_refused_before_any_work(self):
        seen = []
        with pytest.raises(fs.OptionError, match="LowRank needs a matrix"):
            fs.run(fs.FedHT(fs.LowRank(1)), federate(clients_for("squared")), on_round=seen.append)
        assert not seen
