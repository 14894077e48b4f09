"""Clients spread over workers: the bits of one process, on any number of them, whatever dies."""

import gc
import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines import ray_engine
from fedsparse.engines.lens import Lens
from fedsparse.engines.ray_cluster import RayCluster
from fedsparse.engines.ray_engine import RayEngine
from fedsparse.engines.ray_worker import Shard
from fedsparse.modelling.fitting import FitOptions, fit
from fedsparse.problem.scaling import Scaling
from fedsparse.tables import LibsvmShards, TableShards
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate
from tests.engines.in_process_cluster import InProcessCluster

ROUNDS = 4
ROWS = (5, 9, 30, 6, 7, 11)
STEP = {"step_size": 0.1}
# A new algorithm, or a way to use one, is a row.
ALGORITHMS = {
    "FedHT": fs.FedHT(5, local_steps=4, **STEP),
    "FedIterHT": fs.FedIterHT(5, local_steps=4, **STEP),
    "DistributedIHT": fs.DistributedIHT(5, **STEP),
    "FedAvg": fs.FedAvg(local_steps=4, **STEP),
    "FedProx": fs.FedProx(local_steps=4, proximal=0.5, **STEP),
    "FedSplice": fs.FedSplice(3),
    "mini-batches": fs.FedHT(5, local_steps=4, batch_size=4, **STEP),
    "growing batches": fs.FedIterHT(5, local_steps=4, batch_size=fs.GrowingBatch(2, 1.5), **STEP),
    "variance reduction": fs.FedHT(5, batch_size=4, variance_reduction=True, **STEP),
    "automatic step": fs.FedIterHT(5, local_steps=4, step_size="auto"),
    "extrapolated": fs.FedIterHT(5, local_steps=4, server_step="extrapolated", **STEP),
    "by rows": fs.FedIterHT(5, local_steps=4, weights="samples", **STEP),
    "given weights": fs.FedHT(5, weights=(0.1, 0.2, 0.3, 0.1, 0.1, 0.2), **STEP),
    "three clients a round": fs.FedHT(5, clients_per_round=3, **STEP),
}


def data_for(loss, storage="dense"):
    return federate(clients_for(loss, rows=ROWS), storage)


def counted(result):
    """All that a run tells, but how long it took."""
    return [replace(record, seconds=0.0) for record in result.records]


def assert_same_bits(found, expected):
    assert found.coef.tobytes() == expected.coef.tobytes()
    assert counted(found) == counted(expected)


def assert_same_answers(found, expected):
    assert (found.weight, found.count, found.asked) == (
        expected.weight, expected.count, expected.asked,
    )  # fmt: skip
    assert found.bytes_up == expected.bytes_up
    assert found.sums.keys() == expected.sums.keys()
    for name, own in found.sums.items():
        assert own.tobytes() == expected.sums[name].tobytes(), name


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(ray_engine, "RayCluster", InProcessCluster)


@pytest.mark.usefixtures("in_process")
class TestWithWorkersInThisProcess:
    @pytest.mark.parametrize("workers", [1, 2, 4])
    @pytest.mark.parametrize("name", ALGORITHMS)
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_run_ends_with_the_bits_of_one_process(self, loss, storage, name, workers):
        data = data_for(loss, storage)
        engine = RayEngine(data, LOSS_OBJECTS[loss], workers, threads=1)
        found = fs.run(ALGORITHMS[name], engine, rounds=ROUNDS, seed=3)
        local = fs.LocalEngine(data, LOSS_OBJECTS[loss], 1)
        assert_same_bits(found, fs.run(ALGORITHMS[name], local, rounds=ROUNDS, seed=3))

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("kind", ["poisson", "cox"])
    @pytest.mark.parametrize("name", ["DistributedIHT", "FedSplice"])
    def test_so_do_runs_for_counts_and_survival(self, name, kind, storage):
        random = np.random.default_rng(2)
        clients = [
            (Z, random.poisson(2.0, y.size) if kind == "poisson" else y)
            for Z, y in clients_for("squared", rows=ROWS)
        ]
        data = federate(clients, storage)
        engine, local = RayEngine(data, kind, 3, 1), fs.LocalEngine(data, kind, 1)
        algorithm = {"DistributedIHT": fs.DistributedIHT(3, step_size=0.01)}.get(name)
        algorithm = algorithm or ALGORITHMS[name]
        found = fs.run(algorithm, engine, rounds=ROUNDS)
        assert_same_bits(found, fs.run(algorithm, local, rounds=ROUNDS))

    @pytest.mark.parametrize("sums", ["float", "fixed"])
    @pytest.mark.parametrize("storage", STORAGES)
    def test_all_that_a_fit_asks_is_answered_with_the_same_bits(self, storage, sums):
        """Scaled, an intercept, parts of the rows, in lockstep: what `modelling` makes of it."""
        data = data_for("logistic", storage)
        told = []
        for kind in (RayEngine, fs.LocalEngine):
            engine = kind(data, fs.Logistic(l2=0.1), threads=1, sums=sums)
            one, other = (
                engine.where(fs.Rows().but_part(k, of=2, seed=5, by_class=True)) for k in range(2)
            )
            options = FitOptions(fs.Logistic(l2=0.1))
            models = fs.converse(
                engine, fs.together([fit(own, 4, options) for own in (engine, one, other)])
            )
            told.append([model.coefficients.tobytes() for model in models])
        assert told[0] == told[1]

    def test_several_asks_of_an_exchange_are_answered_each_by_itself(self):
        data = data_for("squared", "csr")
        engine, local = RayEngine(data, workers=3), fs.LocalEngine(data)
        x = np.linspace(-1.0, 1.0, data.width)
        scaling = Scaling(np.zeros(data.width), np.full(data.width, 2.0), intercept=1.0)
        lens = Lens(fs.SquaredError(), fs.Rows().part(0, of=3).without(4))
        asks = [
            local.ask(fs.Gradient(x)),
            local.through(lens).ask(fs.Evaluate(x), "samples"),
            local.ask(fs.Slopes(x), which=np.array([0, 1])),
            local.ask(fs.Evaluate(x), (0.0, 0.0, 1.0, 0.0, 0.0, 0.0), np.array([0, 5])),
            local.through(replace(lens, scaling=scaling)).ask(fs.ColumnSums()),
        ]
        for found, expected in zip(engine.exchange(asks), local.exchange(asks), strict=True):
            assert_same_answers(found, expected)

    def test_engines_through_several_lenses_do_not_get_each_others_answers(self):
        data = data_for("squared")
        engine, local = RayEngine(data), fs.LocalEngine(data)
        x = np.zeros(data.width)
        for rows in (fs.Rows(), fs.Rows().without(1), fs.Rows().without(2), fs.Rows()):
            asks = [own.where(rows).ask(fs.Evaluate(x)) for own in (engine, local)]
            (found,) = engine.where(rows).exchange(asks[:1])
            (expected,) = local.exchange(asks[1:])
            assert_same_answers(found, expected)

    def test_what_is_not_finite_arrives_as_it_is(self):
        data = data_for("squared")
        x = np.full(data.width, 1e308)
        for found, expected in zip(
            *(
                own.exchange([own.ask(fs.Gradient(x)), own.ask(fs.Evaluate(x))])
                for own in (RayEngine(data), fs.LocalEngine(data))
            ),
            strict=True,
        ):
            assert not found.is_finite()
            assert_same_answers(found, expected)

    def test_a_worker_that_took_anothers_place_works_its_part_out_anew(self):
        data = data_for("logistic")
        engine = RayEngine(data, "logistic", 3)
        algorithm = fs.FedHT(5, batch_size=4, **STEP)

        def kill(record):
            engine._cluster.kill(record.round % 3)

        found = fs.run(algorithm, engine, rounds=ROUNDS, on_round=kill)
        assert_same_bits(found, fs.run(algorithm, data, loss="logistic", rounds=ROUNDS))

    def test_workers_agree_on_classes_of_which_each_sees_some(self):
        """Client i has labels i and i + 1 only, and they are words."""
        words = np.array(["ash", "birch", "elm", "oak", "yew"])
        random = np.random.default_rng(0)
        rows = [random.standard_normal((6, 4)) for _ in range(4)]
        data = fs.FederatedData.from_clients(
            [(Z, words[i + np.arange(6) % 2]) for i, Z in enumerate(rows)]
        )
        engine = RayEngine(data, "softmax", 4)
        assert engine.classes.tolist() == words.tolist()
        halves = engine.where(fs.Rows().part(1, of=2, by_class=True))
        local = fs.LocalEngine(data, "softmax").where(fs.Rows().part(1, of=2, by_class=True))
        for own, expected in ((engine, data), (halves, local)):
            options = {"loss": "softmax"} if expected is data else {}
            found = fs.run(fs.FedAvg(step_size=0.1), own, rounds=3)
            assert_same_bits(found, fs.run(fs.FedAvg(step_size=0.1), expected, rounds=3, **options))

    def test_a_checkpoint_of_one_process_is_gone_on_from(self, tmp_path):
        data, path = data_for("squared"), tmp_path / "run.npz"
        algorithm = fs.FedHT(5, **STEP)
        fs.run(algorithm, fs.LocalEngine(data), rounds=2, checkpoint=path)
        engine = RayEngine(data)
        found = fs.run(algorithm, engine, rounds=ROUNDS, checkpoint=path)
        assert_same_bits(found, fs.run(algorithm, data, rounds=ROUNDS))

    def test_workers_get_about_as_many_rows_each(self):
        engine = RayEngine(data_for("squared"), workers=2)
        assert [(own.clients, own.rows) for own in engine.workers()] == [(3, 44), (3, 24)]

    def test_there_are_no_more_workers_than_clients(self):
        assert len(RayEngine(data_for("squared"), workers=40).workers()) == len(ROWS)

    def test_targets_that_do_not_suit_the_loss_are_refused_as_in_one_process(self):
        data = federate([(np.eye(2), np.array([0.0, 1.0])), (np.eye(2), np.array([0.0, 7.0]))])
        with pytest.raises(fs.DataError, match="client 1, row 1 has label 7"):
            RayEngine(data, "logistic")

    def test_an_error_of_a_worker_is_that_of_one_process(self):
        engine = RayEngine(data_for("squared"))
        scaling = Scaling(np.zeros(2), np.ones(2), intercept=0.0)
        lens = Lens(fs.SquaredError(), scaling=scaling)
        with pytest.raises(fs.OptionError, match="the lens scales 2 features, but there are 24"):
            engine.exchange([engine.through(lens).ask(fs.Evaluate(np.zeros(2)))])

    def test_a_loss_with_classes_is_not_put_in_the_place_of_one_without(self):
        engine = RayEngine(data_for("logistic"), "squared").through(Lens(fs.Logistic()))
        with pytest.raises(fs.OptionError, match="open one for the logistic loss"):
            _ = engine.classes


def write_tables(folder, clients, *, per_shard):
    """Parquet shards of several clients each."""
    import polars as pl

    paths = []
    for begin in range(0, len(clients), per_shard):
        frames = [
            pl.DataFrame(Z, schema=[f"gene {j}" for j in range(Z.shape[1])]).with_columns(
                pl.Series("y", y), pl.lit(f"clinic {begin + place}").alias("clinic")
            )
            for place, (Z, y) in enumerate(clients[begin : begin + per_shard])
        ]
        paths.append(folder / f"part-{begin}.parquet")
        pl.concat(frames).write_parquet(paths[-1])
    return paths


def write_libsvm(folder, clients):
    """A file for each client."""
    paths = []
    for place, (Z, y) in enumerate(clients):
        lines = [
            " ".join([repr(float(t)), *(f"{j + 1}:{float(row[j])!r}" for j in np.flatnonzero(row))])
            for row, t in zip(Z, y, strict=True)
        ]
        paths.append(folder / f"clinic {place}.libsvm")
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


@pytest.mark.usefixtures("in_process")
class TestShards:
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_parquet_shards_give_the_bits_of_one_process(self, tmp_path, workers):
        clients = clients_for("softmax", rows=ROWS)
        paths = write_tables(tmp_path, clients, per_shard=2)
        engine = RayEngine.from_shards(
            paths, TableShards("y", site="clinic"), "softmax", workers=workers
        )
        assert engine.names == tuple(f"clinic {place}" for place in range(len(ROWS)))
        found = fs.run(ALGORITHMS["mini-batches"], engine, rounds=ROUNDS)
        expected = fs.run(
            ALGORITHMS["mini-batches"], federate(clients), loss="softmax", rounds=ROUNDS
        )
        assert_same_bits(found, expected)

    def test_libsvm_files_are_a_client_each(self, tmp_path):
        clients = clients_for("logistic", rows=ROWS)
        paths = write_libsvm(tmp_path, clients)
        engine = RayEngine.from_shards(paths, LibsvmShards(24), "logistic", workers=2)
        assert engine.names == tuple(f"clinic {place}" for place in range(len(ROWS)))
        found = fs.run(ALGORITHMS["FedHT"], engine, rounds=ROUNDS)
        expected = fs.run(
            ALGORITHMS["FedHT"], federate(clients, "csr"), loss="logistic", rounds=ROUNDS
        )
        assert_same_bits(found, expected)

    def test_the_fingerprint_does_not_depend_on_how_shards_are_spread(self, tmp_path):
        clients = clients_for("squared", rows=ROWS)
        paths = write_tables(tmp_path, clients, per_shard=2)
        read = TableShards("y", site="clinic")
        told = {
            RayEngine.from_shards(paths, read, workers=workers).fingerprint()
            for workers in (1, 2, 3)
        }
        clients[5][1][0] += 1.0
        others = write_tables(tmp_path, clients, per_shard=2)
        assert told != {RayEngine.from_shards(others, read).fingerprint()}
        assert len(told) == 1

    def test_a_shard_that_cannot_be_read_is_named_with_the_worker(self, tmp_path):
        paths = write_tables(tmp_path, clients_for("squared", rows=ROWS), per_shard=2)
        paths[2].write_bytes(b"not a table")
        with pytest.raises(fs.DataError, match=r"worker 2 of 2, on .*, cannot read .*part-4"):
            RayEngine.from_shards(paths, TableShards("y", site="clinic"), workers=2)

    def test_a_shard_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(fs.DataError, match=r"cannot read .*none.parquet: there is no file"):
            RayEngine.from_shards([tmp_path / "none.parquet"], TableShards("y"))

    @pytest.mark.parametrize(
        ("read", "sentence"),
        [
            (TableShards("z"), "no column 'z'"),
            (TableShards("y"), "column 'clinic' is not of numbers"),
        ],
        ids=["no target", "words"],
    )
    def test_columns_that_cannot_be_used_are_named(self, tmp_path, read, sentence):
        paths = write_tables(tmp_path, clients_for("squared", rows=ROWS), per_shard=2)
        with pytest.raises(fs.DataError, match=sentence):
            RayEngine.from_shards(paths, read)

    @pytest.mark.parametrize("workers", [1, 2])
    def test_shards_with_columns_in_another_order_are_refused(self, tmp_path, workers):
        import polars as pl

        paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
        frame = pl.DataFrame({"a": [1.0], "b": [2.0], "y": [3.0]})
        frame.write_parquet(paths[0])
        frame.select("b", "a", "y").write_parquet(paths[1])
        with pytest.raises(fs.DataError, match="columns; make them the same"):
            RayEngine.from_shards(paths, TableShards("y"), workers=workers)

    def test_a_client_in_two_shards_is_refused(self, tmp_path):
        paths = write_tables(tmp_path, clients_for("squared", rows=ROWS), per_shard=3)
        with pytest.raises(fs.DataError, match="client 'clinic 0' is in 2 shards"):
            RayEngine.from_shards([paths[0], paths[0]], TableShards("y", site="clinic"))

    def test_no_shards_are_refused(self):
        with pytest.raises(fs.OptionError, match="there are no shards"):
            RayEngine.from_shards([], TableShards("y"))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(fs.OptionError, match=r"pip install 'fedsparse\[ray\]'"):
        fs.run(fs.FedAvg(), data_for("squared"), engine="ray")


def test_the_package_is_imported_without_ray():
    code = "import sys; sys.modules['ray'] = None; import fedsparse; fedsparse.open_engine"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_number_of_workers_below_one_is_refused():
    with pytest.raises(fs.OptionError, match="workers must be a whole number of at least 1"):
        RayEngine(data_for("squared"), workers=0)


@contextmanager
def rays_loose_ends():
    """Ray drops its handles of processes that it does not wait for, and opened files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="module")
def cluster():
    """One for all tests; engines join it."""
    with rays_loose_ends():
        pytest.importorskip("ray", reason="Ray is not installed")
        started = RayCluster(cores=16)  # workers of several engines at a time; they mostly wait
    yield
    with rays_loose_ends():
        started.close()


@pytest.fixture(
    scope="module", params=[(loss, own) for loss in LOSSES for own in STORAGES], ids=str
)
def problem(request, cluster):
    """Data, their loss, and two workers that have them."""
    loss, storage = request.param
    data = data_for(loss, storage)
    engine = RayEngine(data, LOSS_OBJECTS[loss], workers=2, threads=1)
    yield data, LOSS_OBJECTS[loss], engine
    engine.close()


@pytest.mark.slow
class TestOnRay:
    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_a_run_ends_with_the_bits_of_one_process(self, problem, name):
        data, loss, engine = problem
        found = fs.run(ALGORITHMS[name], engine, rounds=ROUNDS, seed=3)
        local = fs.LocalEngine(data, loss, 1)
        assert_same_bits(found, fs.run(ALGORITHMS[name], local, rounds=ROUNDS, seed=3))

    @pytest.mark.usefixtures("cluster")
    def test_a_worker_whose_process_is_killed_is_replaced(self):
        data = data_for("logistic", "csr")
        engine = RayEngine(data, "logistic", workers=2, threads=1)
        before = [own.process for own in engine.workers()]

        def kill(record):
            if record.round == 1:
                os.kill(before[0], signal.SIGKILL)

        algorithm = ALGORITHMS["variance reduction"]
        found = fs.run(algorithm, engine, rounds=ROUNDS, on_round=kill)
        after = [own.process for own in engine.workers()]
        engine.close()
        assert_same_bits(found, fs.run(algorithm, data, loss="logistic", rounds=ROUNDS))
        assert (after[0] != before[0], after[1] == before[1]) == (True, True)

    @pytest.mark.usefixtures("cluster")
    def test_an_error_of_a_worker_is_that_of_one_process(self, tmp_path):
        paths = write_tables(tmp_path, clients_for("squared", rows=ROWS), per_shard=3)
        paths[1].write_bytes(b"not a table")
        with pytest.raises(fs.DataError, match=r"^worker 2 of 2, on .*, cannot read .*part-3"):
            RayEngine.from_shards(paths, TableShards("y", "clinic"), workers=2, threads=1)

    @pytest.mark.usefixtures("cluster")
    def test_a_reader_of_ones_own_reads_at_the_worker(self, tmp_path):
        clients = clients_for("squared", rows=ROWS)

        def read(path):
            own = clients[int(path.name)]
            return Shard(fs.FederatedData.from_clients({path.name: own}))

        paths = [tmp_path / str(place) for place in range(len(ROWS))]
        engine = RayEngine.from_shards(paths, read, workers=2, threads=1)
        found = fs.run(ALGORITHMS["FedHT"], engine, rounds=ROUNDS)
        engine.close()
        assert_same_bits(found, fs.run(ALGORITHMS["FedHT"], federate(clients), rounds=ROUNDS))


CLUSTER_THAT_GOES_AWAY = """
import os, signal, sys
from pathlib import Path
import fedsparse as fs
from tests.builders import clients_for, federate

def kill(record):
    if record.round == 2:
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, name, _, parent = status.read_text().split()[:4]
            except (OSError, ValueError):
                continue
            if int(parent) == os.getpid() and name == "(gcs_server)":
                os.kill(int(pid), signal.SIGKILL)

try:
    fs.run(fs.FedHT(5, step_size=0.1), federate(clients_for("squared")), rounds=50,
           engine="ray", on_round=kill, checkpoint=sys.argv[1])
except fs.FederationError as error:
    print(error, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_cluster_that_goes_away_is_told_of_and_the_run_is_saved(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    path = tmp_path / "run.npz"
    told = subprocess.run(
        [sys.executable, "-c", CLUSTER_THAT_GOES_AWAY, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the Ray cluster at" in told.stdout, told.stderr
    assert "is gone" in told.stdout
    data = federate(clients_for("squared"))
    found = fs.run(fs.FedHT(5, step_size=0.1), data, rounds=5, checkpoint=path)
    assert_same_bits(found, fs.run(fs.FedHT(5, step_size=0.1), data, rounds=5))


CLUSTER_THAT_IS_NOT_THERE = """
import fedsparse as fs
from tests.builders import clients_for, federate

try:
    fs.RayEngine(federate(clients_for("squared")), address="127.0.0.1:9")
except fs.FederationError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_told_of():
    pytest.importorskip("ray", reason="Ray is not installed")
    told = subprocess.run(
        [sys.executable, "-c", CLUSTER_THAT_IS_NOT_THERE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "there is no Ray cluster at 127.0.0.1:9 (" in told.stdout, told.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_another_cluster_than_the_one_that_was_joined_is_refused():
    with pytest.raises(fs.OptionError, match=r"already.* to join 127\.0\.0\.1:9"):
        RayEngine(data_for("squared"), address="127.0.0.1:9")
