"""``fedsparse reproduce`` through the installed command, on an experiment of the user's own."""

import os
import resource
import signal
import subprocess
import time

import polars as pl
import pytest

import fedsparse as fs
from fedsparse.cli.reproduce import reproduce as command
from fedsparse.research.experiments import reproduction
from fedsparse.research.experiments.runner import Means
from tests.cli.commands import COMMAND, assert_one_line, fedsparse
from tests.research.experiments.tiny import TINY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("experiment") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def shown(experiment):
    done = fedsparse("reproduce", experiment, "--out", experiment.parent / "out")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def out(shown, experiment):
    return experiment.parent / "out"


def results_in(out):
    return pl.read_parquet(out / "tables" / "results.parquet").drop("seconds")


class TestReproduce:
    def test_ends_with_verdicts_and_paths(self, shown, out):
        assert "Tiny simulation" in shown.stdout
        assert "verdict: " in shown.stdout
        assert f"Page:    {out / 'index.html'}" in shown.stdout

    def test_writes_tables_figures_and_a_page(self, out):
        tables = {path.name for path in (out / "tables").iterdir()}
        assert {"results.parquet", "claims.parquet", "claims.csv"} <= tables
        stems = {path.stem for path in (out / "figures").iterdir()}
        for stem in stems:
            assert (out / "figures" / f"{stem}.png").exists()
            assert (out / "figures" / f"{stem}.svg").exists()
        assert "figure-3-tiny" in stems
        assert (out / "index.html").read_text("utf-8").startswith("<!doctype html>")

    def test_without_a_terminal_a_line_tells_what_is_done(self, shown):
        assert shown.stderr.splitlines() == ["tiny: 31 pieces of work", "drawing figures and page"]

    def test_quick_runs_the_small_version(self, experiment, tmp_path):
        done = fedsparse("reproduce", experiment, "--quick", "--out", tmp_path)
        assert done.returncode == 0, done.stderr
        assert results_in(tmp_path)["round"].max() == 4


class TestGoingOn:
    def test_killed_half_way_it_continues_to_the_same_table(self, experiment, out, tmp_path):
        process = subprocess.Popen(
            [COMMAND, "reproduce", experiment, "--out", tmp_path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        runs = tmp_path / "runs"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if runs.is_dir() and len(list(runs.glob("*.parquet"))) >= 12:
                break
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
        finished = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.parquet")}
        assert 12 <= len(finished) < len(list((out / "runs").glob("*.parquet")))
        again = fedsparse("reproduce", experiment, "--out", tmp_path)
        assert again.returncode == 0, again.stderr
        for name, written in finished.items():
            assert (runs / name).stat().st_mtime_ns == written
        assert results_in(tmp_path).equals(results_in(out))


class TestErrors:
    def test_an_unknown_experiment_suggests_the_nearest(self, tmp_path):
        done = fedsparse("reproduce", "simulaton-1", "--out", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, 'did you mean "simulation-1"?')

    def test_a_malformed_experiment_names_the_key(self, tmp_path):
        path = tmp_path / "mine.toml"
        path.write_text(TINY.replace("sparsity = 5", "sparsty = 5"))
        done = fedsparse("reproduce", path, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert_one_line(done.stderr, 'mine.toml: key "sparsity" is missing')

    def test_a_missing_experiment_file_is_named(self, tmp_path):
        done = fedsparse("reproduce", tmp_path / "mine.toml")
        assert done.returncode == 2
        assert_one_line(done.stderr, "mine.toml: no such file or directory")

    def test_missing_data_without_a_network_say_what_to_put_where(self, tmp_path):
        nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
        folders = {"FEDSPARSE_DATA": str(tmp_path), "FEDSPARSE_CACHE": str(tmp_path / "cache")}
        environment = os.environ | nowhere | folders
        done = fedsparse("reproduce", "rcv1", "--out", tmp_path / "out", env=environment)
        assert done.returncode == 2
        assert_one_line(done.stderr, f"put it into the folder {tmp_path / 'rcv1'}")
        assert "rcv1_train.binary.bz2" in done.stderr

    def test_an_engine_that_is_not_known_is_named(self, experiment, tmp_path):
        done = fedsparse("reproduce", experiment, "--engine", "abacus", "--out", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "engine must be")
        assert not any(tmp_path.iterdir())  # and before anything is begun

    def test_an_impossible_network_is_refused(self, experiment, tmp_path):
        done = fedsparse("reproduce", experiment, "--bandwidth", 0, "--out", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "bandwidth")

    def test_a_full_disk_loses_nothing_that_was_finished(self, experiment, out, tmp_path):
        # The system refuses to write files beyond a size, as it does when a disk is full.
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

        done = fedsparse("reproduce", experiment, "--out", tmp_path, preexec_fn=limit)
        assert done.returncode == 2
        last = done.stderr.splitlines()[-1] + "\n"
        assert_one_line(last, "make room and run the same command again")
        finished = {path.name for path in (tmp_path / "runs").glob("*.parquet")}
        assert finished == {path.name for path in (out / "runs").glob("*.parquet")}
        again = fedsparse("reproduce", experiment, "--out", tmp_path)
        assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("options", "is_at_once"),
    [({"device": "cuda"}, True), ({"device": "cuda", "in_turn": True}, False), ({}, False)],
)
def test_experiments_run_at_once_on_a_gpu_unless_told_otherwise(
    tmp_path, monkeypatch, options, is_at_once
):
    def stop(*names, means, **others):
        raise fs.OptionError(f"at once: {means.at_once}")

    monkeypatch.setattr(reproduction, "reproduce", stop)
    monkeypatch.setattr(Means, "check", lambda means: None)  # there may be no GPU
    with pytest.raises(fs.OptionError, match=f"at once: {is_at_once}"):
        command("all", out=tmp_path, **options)
