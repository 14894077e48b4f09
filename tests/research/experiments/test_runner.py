"""Running an experiment: the grid, the choice, the seeds, and going on after a stop."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.errors import OptionError
from fedsparse.research.experiments.experiment_settings import parse_settings
from fedsparse.research.experiments.problems import Experiment
from fedsparse.research.experiments.runner import Runner
from fedsparse.research.experiments.store import Store
from tests.research.experiments.tiny import TINY


def experiment(text=TINY):
    return Experiment(parse_settings(text, "tiny.toml"))


def finish(folder, text=TINY, watch=lambda doing: None):
    return Runner(experiment(text), Store(folder), watch).finish()


def without_seconds(table):
    return table.drop("seconds")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("runs"))


def runs_of(results, stage):
    return results.filter(stage=stage).group_by(
        "seed", "algorithm", "server", "local_steps", "step_size", maintain_order=True
    )


class TestResults:
    def test_the_grid_has_every_k_and_step_size_on_the_first_seed(self, found):
        keys = [key for key, _ in runs_of(found.results, "grid")]
        assert len(keys) == 3 + 2 * 2 * 3  # Distributed-IHT has K = 1
        assert {key[0] for key in keys} == {0}

    def test_diverged_runs_are_stopped_and_marked(self, found):
        huge = found.results.filter(pl.col("step_size") == 10, stage="grid")
        assert huge["diverged"].all()
        objectives = huge.filter(algorithm="Fed-HT", local_steps=3)["objective"]
        assert objectives.len() <= 2

    def test_the_chosen_setting_is_the_lowest_after_all_rounds(self, found):
        finalists = found.results.filter(stage="finalist", algorithm="FedIter-HT", round=6)
        best = finalists.sort("objective").row(0, named=True)
        chosen = found.results.filter(
            stage="final", algorithm="FedIter-HT", server="plain", seed=0, round=6
        ).row(0, named=True)
        assert (chosen["local_steps"], chosen["step_size"]) == (
            best["local_steps"],
            best["step_size"],
        )

    def test_final_runs_are_six_methods_on_every_seed(self, found):
        keys = [key for key, _ in runs_of(found.results, "final")]
        assert len(keys) == 6 * 2
        assert all(run["round"].max() == 6 for _, run in runs_of(found.results, "final"))

    def test_a_run_is_the_run_a_user_would_make(self, found):
        own = found.results.filter(
            stage="final", algorithm="FedIter-HT", server="extrapolated", seed=1
        )
        data = fs.datasets.simulation_1(clients=6, samples=8, width=20, relevant=4, seed=1)
        algorithm = fs.FedIterHT(5, local_steps=3, server_step="extrapolated")
        history = fs.run(algorithm, data, loss="squared", rounds=6, seed=1).history
        assert own["objective"].to_list() == history["objective"].to_list()
        assert own["bytes_up"].to_list() == history["bytes_up"].to_list()


class TestFacts:
    def test_tell_sizes_and_samples_per_device(self, found):
        facts = found.facts.row(0, named=True)
        assert (facts["samples"], facts["width"], facts["clients"]) == (48, 20, 6)
        assert (facts["samples_mean"], facts["samples_sd"]) == (8.0, 0.0)

    def test_smoothness_is_that_of_the_hessians(self, found):
        data = fs.datasets.simulation_1(clients=6, samples=8, width=20, relevant=4)
        hessians = [2 * data.client(i).features.T @ data.client(i).features / 8 for i in range(6)]
        facts = found.facts.row(0, named=True)
        largest = max(np.linalg.eigvalsh(hessian)[-1] for hessian in hessians)
        average = np.linalg.eigvalsh(np.mean(hessians, axis=0))[-1]
        np.testing.assert_allclose(facts["smoothness_clients"], largest, rtol=0.02)
        np.testing.assert_allclose(facts["smoothness_average"], average, rtol=1e-3)


class _StoppedError(Exception):
    pass


def stop_after(pieces):
    """A watcher that ends the work when so many pieces have begun, as Ctrl-C would."""
    begun = []

    def watch(doing):
        begun.append(doing)
        if len(begun) > pieces:
            raise _StoppedError

    return watch


class TestGoingOn:
    @pytest.mark.parametrize("pieces", [1, 10, 20, 30])
    def test_a_stopped_reproduction_ends_with_the_same_table(self, found, tmp_path, pieces):
        with pytest.raises(_StoppedError):
            finish(tmp_path, watch=stop_after(pieces))
        again = finish(tmp_path)
        assert without_seconds(again.results).equals(without_seconds(found.results))
        assert again.facts.equals(found.facts)

    def test_finished_runs_are_not_run_again(self, tmp_path):
        first = finish(tmp_path)
        again = finish(tmp_path)
        assert again.results.equals(first.results)  # measured seconds, too

    def test_runs_kept_before_absence_was_counted_still_serve(self, found, tmp_path):
        with pytest.raises(_StoppedError):
            finish(tmp_path, watch=stop_after(10))
        for file in tmp_path.iterdir():
            kept = pl.read_parquet(file)
            if "absent" in kept.columns:
                kept.drop("absent").write_parquet(file)
        again = finish(tmp_path)
        assert without_seconds(again.results).equals(without_seconds(found.results))

    def test_a_damaged_run_is_run_again(self, found, tmp_path):
        finish(tmp_path)
        for file in tmp_path.iterdir():
            file.write_bytes(file.read_bytes()[:-20])
        again = finish(tmp_path)
        assert without_seconds(again.results).equals(without_seconds(found.results))

    def test_another_configuration_is_another_run(self, tmp_path):
        finish(tmp_path)
        other = finish(tmp_path, TINY.replace("sparsity = 5", "sparsity = 4"))
        assert other.results["nonzeros"].max() == 4

    def test_the_bar_never_passes_its_end(self, tmp_path):
        seen = []
        finish(tmp_path, watch=seen.append)
        assert [doing.done for doing in seen] == list(range(len(seen)))
        assert len(seen) <= seen[0].total


def test_options_the_simulation_does_not_know_are_named(tmp_path):
    with pytest.raises(OptionError, match=r'tiny: key "data.options" .*simulation_1.*clientss'):
        finish(tmp_path, TINY.replace("clients = 6", "clientss = 6"))
