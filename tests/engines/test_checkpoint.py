"""Checkpoints: what an interrupted run leaves behind, and what is made of other files."""

import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs
from fedsparse.engines import checkpoint as checkpoints
from fedsparse.requests import Answers
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

TAU = 5
ROUNDS = 11
REPOSITORY = Path(__file__).parents[2]


def halving(round):
    return 0.05 * 0.5 ** (round // 4)


# algorithm, loss, options of the run
RUNS = {
    "mini-batch": (fs.FedIterHT(TAU, batch_size=4, step_size=0.02), "squared", {}),
    "snapshot of 3 rounds": (
        fs.FedIterHT(TAU, batch_size=4, step_size=0.02, variance_reduction=3),
        "logistic",
        {},
    ),
    "automatic step": (fs.FedHT(TAU, local_steps=3), "squared", {}),
    "some clients": (
        fs.FedIterHT(TAU, clients_per_round=2, step_size=0.02, batch_size=3),
        "squared",
        {},
    ),
    "softmax": (fs.FedIterHT(TAU, local_steps=3), "softmax", {}),
    "softmax, snapshot of 3 rounds": (
        fs.FedAvg(local_steps=3, batch_size=4, step_size=0.02, variance_reduction=3),
        "softmax",
        {},
    ),
    "evaluated every 4 rounds": (fs.FedIterHT(TAU), "squared", {"evaluate_every": 4}),
    "schedule, extrapolated": (
        fs.FedHT(TAU, step_size=halving, server_step="extrapolated", weights=(0.1, 0.2, 0.3, 0.4)),
        "squared",
        {},
    ),
    "growing batch": (
        fs.HSGHT(TAU, batch_size=fs.GrowingBatch(2, 1.3), step_size=0.02),
        "logistic",
        {},
    ),
}


def run(name, rounds=ROUNDS, storage="dense", seed=3, **options):
    algorithm, loss, own = RUNS[name]
    return fs.run(
        algorithm,
        federate(clients_for(loss), storage),
        loss=LOSS_OBJECTS[loss],
        rounds=rounds,
        seed=seed,
        threads=1,
        **own,
        **options,
    )


def interrupt_at(round):
    """Ctrl-C as the record of a round is shown."""

    def on_round(record):
        if record.round >= round:
            raise KeyboardInterrupt

    return on_round


def interrupt_in_call(patched, owner, method, number):
    """Ctrl-C in a certain call of a method."""
    original = getattr(owner, method)
    calls = []

    def interrupted(self, *arguments):
        calls.append(method)
        if len(calls) == number:
            raise KeyboardInterrupt
        return original(self, *arguments)

    patched.setattr(owner, method, interrupted)


def assert_same_run(result, expected):
    assert result.coef.tobytes() == expected.coef.tobytes()
    assert result.coef.shape == expected.coef.shape
    assert result.diverged == expected.diverged
    assert result.history.drop("seconds").equals(expected.history.drop("seconds"))
    assert result.history["seconds"].is_sorted()


class TestResume:
    @pytest.mark.parametrize("at", [1, 4, 5, 10])
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("name", RUNS)
    def test_interrupted_and_resumed_gives_the_same_bits(self, name, storage, at, tmp_path):
        path = tmp_path / "run.npz"
        with pytest.raises(KeyboardInterrupt):
            run(name, storage=storage, checkpoint=path, on_round=interrupt_at(at))
        resumed = run(name, storage=storage, checkpoint=path)
        assert_same_run(resumed, run(name, storage=storage))

    @pytest.mark.parametrize("name", RUNS)
    def test_interrupted_again_and_again_gives_the_same_bits(self, name, tmp_path):
        path = tmp_path / "run.npz"
        for at in range(1, ROUNDS):
            with contextlib.suppress(KeyboardInterrupt):  # not every round has a record
                run(name, checkpoint=path, every=2, on_round=interrupt_at(at))
        assert_same_run(run(name, checkpoint=path), run(name))

    @pytest.mark.parametrize(
        ("owner", "method", "call"),
        [
            *(
                (owner, method, call)
                for owner, method in [
                    (fs.LocalEngine, "exchange"),
                    (Answers, "is_finite"),
                    (Answers, "mean"),
                    (fs.LocalSteps, "encoded_bytes"),
                    (fs.LocalSteps, "answer"),
                ]
                for call in (2, 5)
            ),
            (fs.Evaluate, "answer", 1),  # f at the last x
        ],
        ids=lambda part: part.__name__ if isinstance(part, type) else str(part),
    )
    def test_interrupt_may_come_at_any_moment_of_a_round(
        self, owner, method, call, tmp_path, monkeypatch
    ):
        path = tmp_path / "run.npz"
        with monkeypatch.context() as patched:
            interrupt_in_call(patched, owner, method, call)
            with pytest.raises(KeyboardInterrupt):
                run("mini-batch", checkpoint=path)
        assert path.exists()
        assert_same_run(run("mini-batch", checkpoint=path), run("mini-batch"))

    @pytest.mark.parametrize("name", RUNS)
    def test_more_rounds_later_equal_one_long_run(self, name, tmp_path):
        path = tmp_path / "run.npz"
        for rounds in (4, 8, 12):
            last = run(name, rounds=rounds, checkpoint=path)
            assert_same_run(last, run(name, rounds=rounds))

    def test_a_finished_run_is_read_back_without_new_rounds(self, tmp_path):
        path = tmp_path / "run.npz"
        first = run("softmax", checkpoint=path)
        seen = []
        again = run("softmax", checkpoint=path, on_round=seen.append)
        assert_same_run(again, first)
        assert again.history.equals(first.history)
        assert again.classes.tolist() == first.classes.tolist()
        assert seen == []

    def test_result_at_the_round_of_the_interrupt_has_its_own_objective(
        self, tmp_path, monkeypatch
    ):
        """f(x) was not worked out in round 6; a run that ends there must do it."""
        path = tmp_path / "run.npz"
        with monkeypatch.context() as patched:
            interrupt_in_call(patched, fs.LocalSteps, "answer", 7)
            with pytest.raises(KeyboardInterrupt):
                run("evaluated every 4 rounds", checkpoint=path)
        resumed = run("evaluated every 4 rounds", rounds=6, checkpoint=path)
        assert_same_run(resumed, run("evaluated every 4 rounds", rounds=6))

    def test_threads_and_saving_may_change_on_the_way(self, tmp_path):
        path = tmp_path / "run.npz"
        algorithm, loss, _ = RUNS["mini-batch"]
        data = federate(clients_for(loss))
        for rounds, threads, every in ((3, 2, 1), (7, 1, 100), (ROUNDS, 3, 2)):
            result = fs.run(
                algorithm,
                data,
                loss=LOSS_OBJECTS[loss],
                seed=3,
                rounds=rounds,
                threads=threads,
                every=every,
                checkpoint=path,
            )
        assert_same_run(result, run("mini-batch"))

    def test_a_diverged_run_is_kept_at_its_last_good_round(self, tmp_path):
        path = tmp_path / "run.npz"
        algorithm = fs.DistributedIHT(TAU, step_size=1.3)
        data = federate(clients_for("squared"))
        results = []
        for _ in range(2):
            with pytest.warns(fs.DivergenceWarning):
                results.append(fs.run(algorithm, data, rounds=500, checkpoint=path, threads=1))
        assert_same_run(results[1], results[0])

    @pytest.mark.parametrize("kind", [str, Path, os.fspath])
    def test_path_may_be_text_or_a_path(self, kind, tmp_path):
        path = tmp_path / "a run.npz"
        run("automatic step", rounds=1, checkpoint=kind(path))
        assert path.exists()

    def test_name_of_the_file_is_kept(self, tmp_path):
        run("automatic step", rounds=1, checkpoint=tmp_path / "state")
        assert [file.name for file in tmp_path.iterdir()] == ["state"]

    @pytest.mark.parametrize(("every", "saves"), [(1, 12), (3, 4), (100, 1)])
    def test_is_saved_every_so_many_rounds_and_at_the_end(
        self, every, saves, tmp_path, monkeypatch
    ):
        made = []
        replace = os.replace
        monkeypatch.setattr(os, "replace", lambda *paths: (made.append(paths), replace(*paths)))
        run("automatic step", checkpoint=tmp_path / "run.npz", every=every)
        assert len(made) in (saves, saves - 1)  # the last save may serve as the one at the end


# ---------------------------------------------------------------- processes that end early


CHILD = """
import sys
import fedsparse as fs
from tests.engines.test_checkpoint import RUNS
from tests.builders import LOSS_OBJECTS, clients_for, federate

algorithm, loss, _ = RUNS["mini-batch"]

def tell(record):
    print(record.round, flush=True)

print("ready", flush=True)
fs.run(algorithm, federate(clients_for(loss)), loss=LOSS_OBJECTS[loss], rounds=1_000_000, seed=3,
       threads=2, every=int(sys.argv[2]), checkpoint=sys.argv[1], on_round=tell)
"""


def stopped_child(path, every, end, rounds):
    """Start a long run in another process and send it a signal after some rounds."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(every)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in child.stdout:
            if line.strip() == str(rounds):
                child.send_signal(end)
                break
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    return child.returncode, errors


def round_in(path):
    """The round a checkpoint of the child's run is at."""
    with pytest.raises(fs.CheckpointError, match=r"at round \d+") as caught:
        run("mini-batch", rounds=1, checkpoint=path)
    return int(str(caught.value).split("at round ")[1].split(",")[0])


@pytest.mark.slow
class TestProcesses:
    def test_killed_run_goes_on_from_its_last_save(self, tmp_path):
        path = tmp_path / "run.npz"
        code, _ = stopped_child(path, 2, signal.SIGKILL, 9)
        assert code == -signal.SIGKILL
        reached = round_in(path)
        assert reached >= 8
        assert reached % 2 == 0
        resumed = run("mini-batch", rounds=reached + 4, checkpoint=path)
        assert_same_run(resumed, run("mini-batch", rounds=reached + 4))

    def test_ctrl_c_saves_the_round_it_came_in(self, tmp_path):
        path = tmp_path / "run.npz"
        code, errors = stopped_child(path, 1_000_000, signal.SIGINT, 9)
        assert code != 0
        assert "KeyboardInterrupt" in errors
        reached = round_in(path)
        assert reached >= 9
        assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
        resumed = run("mini-batch", rounds=reached + 4, checkpoint=path)
        assert_same_run(resumed, run("mini-batch", rounds=reached + 4))


# ---------------------------------------------------------------- writing fails


class TestAtomic:
    @pytest.mark.parametrize("step", ["replace", "fsync"])
    def test_failing_write_leaves_the_old_file(self, step, tmp_path, monkeypatch):
        path = tmp_path / "run.npz"
        run("mini-batch", rounds=4, checkpoint=path)
        before = path.read_bytes()

        def fail(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, step, fail)
            with pytest.raises(OSError, match="No space left on device") as caught:
                run("mini-batch", checkpoint=path)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
        assert_same_run(run("mini-batch", checkpoint=path), run("mini-batch"))

    def test_interrupted_write_leaves_a_usable_file(self, tmp_path, monkeypatch):
        path = tmp_path / "run.npz"
        fsync, calls = os.fsync, []

        def interrupted(descriptor):
            calls.append(descriptor)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return fsync(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run("mini-batch", checkpoint=path, every=2)
        assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
        assert_same_run(run("mini-batch", checkpoint=path), run("mini-batch"))

    def test_no_folder_is_told_before_any_work_is_done(self, tmp_path):
        seen = []
        path = tmp_path / "missing" / "run.npz"
        with pytest.raises((OSError, fs.CheckpointError)) as caught:
            run("mini-batch", checkpoint=path, on_round=seen.append)
        assert "missing" in str(caught.value)
        assert [record.round for record in seen] in ([], [0])

    def test_a_file_where_the_folder_should_be_is_told_before_any_work_is_done(self, tmp_path):
        seen = []
        (tmp_path / "taken").write_text("notes")
        with pytest.raises((OSError, fs.CheckpointError)):
            run("mini-batch", checkpoint=tmp_path / "taken" / "run.npz", on_round=seen.append)
        assert [record.round for record in seen] in ([], [0])
        assert (tmp_path / "taken").read_text() == "notes"


# ---------------------------------------------------------------- files that do not fit


def changed_data():
    clients = clients_for("squared")
    clients[2][0][1, 1] += 1e-9
    return clients


def changed_target():
    clients = clients_for("squared")
    clients[2][1][1] += 1e-9
    return clients


def regrouped():
    """The same rows, one of them with another client."""
    clients = clients_for("squared")
    (first, y), (second, z) = clients[:2]
    moved = [(first[:-1], y[:-1]), (np.vstack([first[-1:], second]), np.append(y[-1], z))]
    return [*moved, *clients[2:]]


MANY = 2000


def grouped(last):
    """Groups of features as arrays, too long to be printed whole."""
    groups = np.arange(MANY)
    groups[MANY // 2] = last
    return fs.TopKGroups(groups, 3)


def kept(feature):
    return fs.TopK(MANY, keep=np.append(np.arange(1200), [feature, 1990, 1991, 1992]))


OTHER_PROBLEMS = {
    "loss": {"loss": "logistic"},
    "l2": {"loss": fs.SquaredError(l2=0.1)},
    "algorithm": {"algorithm": fs.FedHT(TAU, step_size=0.02)},
    "sparsity": {"algorithm": fs.FedIterHT(TAU + 1, step_size=0.02)},
    "step size": {"algorithm": fs.FedIterHT(TAU, step_size=0.03)},
    "weights": {"algorithm": fs.FedIterHT(TAU, step_size=0.02, weights="samples")},
    "seed": {"seed": 4},
    "a feature": {"data": federate(changed_data())},
    "a target": {"data": federate(changed_target())},
    "whose rows": {"data": federate(regrouped())},
    "storage": {"data": federate(clients_for("squared"), "csr")},
    "precision": {"data": federate(clients_for("squared"), dtype=np.float32)},
    "one client": {"data": federate(clients_for("squared")).pooled()},
}


def run_problem(path, rounds=4, **changes):
    problem = {
        "algorithm": fs.FedIterHT(TAU, step_size=0.02),
        "data": federate(clients_for("squared", rows=(5, 9, 30, 6))),
        "loss": "squared",
        "seed": 3,
    } | changes
    return fs.run(
        problem["algorithm"],
        problem["data"],
        loss=problem["loss"],
        seed=problem["seed"],
        rounds=rounds,
        threads=1,
        checkpoint=path,
    )


def assert_refused(path, match, **options):
    """One clear sentence, and the file stays as it is."""
    before = path.read_bytes()
    with pytest.raises(fs.CheckpointError, match=match) as caught:
        run_problem(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


class TestOtherFiles:
    @pytest.mark.parametrize("changed", OTHER_PROBLEMS)
    def test_checkpoint_of_another_problem_is_refused(self, changed, tmp_path):
        path = tmp_path / "run.npz"
        run_problem(path)
        if changed == "loss":
            labelled = [(Z, (y > 0).astype(float)) for Z, y in clients_for("squared")]
            path.unlink()
            run_problem(path, data=federate(labelled))
            assert_refused(path, "loss differs", data=federate(labelled), loss="logistic")
            return
        assert_refused(path, "belongs to another run", rounds=8, **OTHER_PROBLEMS[changed])

    @pytest.mark.parametrize("make", [grouped, kept])
    def test_constraints_are_told_apart_whatever_their_length(self, make, tmp_path):
        path = tmp_path / "run.npz"
        data = federate(clients_for("squared", rows=(3, 4), width=MANY))
        run_problem(path, data=data, algorithm=fs.FedHT(make(1500)))
        other = fs.FedHT(make(1501))
        assert_refused(path, "algorithm differs", data=data, algorithm=other)

    def test_schedules_are_told_apart(self, tmp_path):
        def schedule(length):
            return lambda round: length

        path = tmp_path / "run.npz"
        run_problem(path, algorithm=fs.FedHT(TAU, step_size=schedule(0.02)))
        other = fs.FedHT(TAU, step_size=schedule(0.03))
        assert_refused(path, "algorithm differs", algorithm=other)

    def test_a_schedule_object_is_the_same_in_another_process(self):
        """Where an object lies in memory is no part of what it does."""

        class Constant:
            def __call__(self, round):
                return 0.02

        one, other = (
            checkpoints.problem_identity(
                fs.FedHT(TAU, step_size=schedule), "data", fs.SquaredError(), 0
            )
            for schedule in (Constant(), Constant())
        )
        assert one == other

    def test_checkpoint_of_another_version_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "run.npz"
        with monkeypatch.context() as patched:
            patched.setattr(checkpoints, "_VERSION", 99)
            run_problem(path)
        assert_refused(path, r"version 99.*another path")

    def test_checkpoint_at_a_later_round_is_refused(self, tmp_path):
        path = tmp_path / "run.npz"
        run_problem(path, rounds=6)
        assert_refused(path, "at round 6, past the 5 asked for", rounds=5)

    def test_truncated_checkpoint_is_refused(self, tmp_path):
        path = tmp_path / "run.npz"
        run_problem(path)
        whole = path.read_bytes()
        for length in range(0, len(whole), 7):
            path.write_bytes(whole[:length])
            assert_refused(path, "not a checkpoint of fedsparse or is damaged")

    def test_corrupt_checkpoint_is_refused_or_harmless(self, tmp_path):
        """Not every bit of the container matters; one that does must not lead to a wrong run."""
        path = tmp_path / "run.npz"
        expected = run_problem(path)
        whole = path.read_bytes()
        failures = []
        for position in range(0, len(whole), 3):
            for flip in (0x01, 0x80, 0xFF):
                damaged = bytearray(whole)
                damaged[position] ^= flip
                path.write_bytes(damaged)
                try:
                    result = run_problem(path)
                except fs.CheckpointError:
                    assert path.read_bytes() == damaged
                except Exception as error:
                    failures.append((position, flip, f"{type(error).__name__}: {error}"))
                else:
                    assert_same_run(result, expected)
        assert not failures

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"dear diary", id="text"),
            pytest.param(bytes(range(256)) * 20, id="bytes"),
            pytest.param(b"\x80\x04N.", id="pickle"),
            pytest.param(b"PK\x03\x04 not really", id="zip in name only"),
        ],
    )
    def test_other_content_is_refused(self, content, tmp_path):
        path = tmp_path / "run.npz"
        path.write_bytes(content)
        assert_refused(path, "not a checkpoint of fedsparse or is damaged")

    @pytest.mark.parametrize(
        "save",
        [
            pytest.param(lambda room: np.save(room, np.arange(3)), id="one array"),
            pytest.param(lambda room: np.savez(room, x=np.arange(3)), id="an archive"),
            pytest.param(lambda room: np.savez(room, header=np.array("[]")), id="a list"),
            pytest.param(lambda room: np.savez(room, header=np.array("{}")), id="no version"),
            pytest.param(lambda room: np.savez(room, header=np.array("no JSON")), id="no JSON"),
            pytest.param(
                lambda room: np.savez(room, header=np.array('{"version": 1}')), id="nothing else"
            ),
            pytest.param(
                lambda room: np.savez(room, header=np.array({}, dtype=object)), id="an object"
            ),
        ],
    )
    def test_other_numpy_files_are_refused(self, save, tmp_path):
        path = tmp_path / "run.npz"
        room = io.BytesIO()
        save(room)
        path.write_bytes(room.getvalue())
        assert_refused(path, "not a checkpoint of fedsparse or is damaged")

    def test_a_directory_is_refused(self, tmp_path):
        path = tmp_path / "run.npz"
        path.mkdir()
        with pytest.raises((OSError, fs.CheckpointError)) as caught:
            run_problem(path)
        assert str(path) in str(caught.value)
        assert list(path.iterdir()) == []

    def test_nothing_in_a_checkpoint_is_executed(self, tmp_path):
        path = tmp_path / "run.npz"
        run_problem(path)
        with np.load(path, allow_pickle=False) as archive:
            assert all(archive[name].dtype.kind in "fiuU" for name in archive.files)


class TestIdentity:
    def test_the_width_of_sparse_data_counts(self, tmp_path):
        path = tmp_path / "run.npz"
        entries = (np.ones(2), np.array([0, 1]), np.array([0, 1, 2]))
        for width, refused in ((10, False), (20, True)):
            matrix = sparse.csr_array(entries, (2, width))
            data = fs.FederatedData.from_clients([(matrix, [1.0, 2.0])])
            if refused:
                with pytest.raises(fs.CheckpointError, match="its data differs"):
                    fs.run(fs.FedHT(1), data, rounds=2, checkpoint=path)
            else:
                fs.run(fs.FedHT(1), data, rounds=2, checkpoint=path)

    def test_plain_attributes_of_a_home_made_algorithm_count(self, tmp_path):
        class Mine(fs.Algorithm):
            step = 0.1

            def request(self, state):
                return fs.Gradient(state.x)

            def update(self, state, answers):
                return state.step(state.x - self.step * answers.mean("gradient"), 1)

        data = fs.FederatedData.from_clients([([[1.0]], [2.0])])
        fs.run(Mine(), data, rounds=2, checkpoint=tmp_path / "run.npz")
        Mine.step = 0.2
        with pytest.raises(fs.CheckpointError, match=r"step=0.1.* there, step=0.2.* here"):
            fs.run(Mine(), data, rounds=2, checkpoint=tmp_path / "run.npz")

    def test_numpy_numbers_and_python_numbers_are_the_same_options(self, tmp_path):
        data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [3.0])])
        path = tmp_path / "run.npz"
        numpy_style = fs.FedHT(
            1, local_steps=np.int64(3), step_size=np.float64(0.1), weights=[0.5, 0.5]
        )
        python_style = fs.FedHT(1, local_steps=3, step_size=0.1, weights=(0.5, 0.5))
        fs.run(numpy_style, data, rounds=2, checkpoint=path)
        assert fs.run(python_style, data, rounds=2, checkpoint=path).records[-1].round == 2


def test_a_resumed_run_that_diverges_goes_back_as_far_as_an_uninterrupted_one(
    tmp_path, monkeypatch
):
    """Saved between two evaluations, the checkpoint still knows the last evaluated state."""
    data = federate(clients_for("squared"))
    options = {"rounds": 60, "evaluate_every": 7}
    algorithm = fs.DistributedIHT(TAU, step_size=1.5)
    with pytest.warns(fs.DivergenceWarning, match="diverged"):
        expected = fs.run(algorithm, data, **options)
    path = tmp_path / "run.npz"
    with monkeypatch.context() as patched:
        interrupt_in_call(patched, fs.LocalSteps, "encoded_bytes", 10)
        with pytest.raises(KeyboardInterrupt):
            fs.run(algorithm, data, checkpoint=path, **options)
    with pytest.raises(fs.CheckpointError, match="is at round 9,"):
        fs.run(algorithm, data, checkpoint=path, rounds=1)
    with pytest.warns(fs.DivergenceWarning, match="diverged"):
        resumed = fs.run(algorithm, data, checkpoint=path, **options)
    assert resumed.records[-1].round == expected.records[-1].round == 7
    np.testing.assert_array_equal(resumed.coef, expected.coef)
