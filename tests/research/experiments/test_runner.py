"""Running an experiment: the grid, the choice, the seeds, and going on after a stop."""

from typing import ClassVar

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.errors import OptionError
from fedsparse.research.experiments import runner
from fedsparse.research.experiments.experiment_settings import parse_settings
from fedsparse.research.experiments.problems import Experiment
from fedsparse.research.experiments.runner import Means, Runner
from fedsparse.research.experiments.store import Store
from tests.research.experiments.tiny import TINY


def experiment(text=TINY):
    return Experiment(parse_settings(text, "tiny.toml"))


def finish(folder, text=TINY, watch=lambda doing: None):
    return Runner(experiment(text), Store(folder), watch).finish()


def data_of(seed):
    return fs.datasets.simulation_1(clients=6, samples=8, width=20, relevant=4, seed=seed)


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

    def test_every_setting_of_the_grid_is_run_in_full_unless_it_diverges(self, found):
        for _, run in runs_of(found.results, "grid"):
            has_diverged = run["diverged"].any()
            assert has_diverged == (run["step_size"][0] == 10)
            assert (run["round"].max() < 6) == has_diverged

    def test_a_run_has_diverged_where_a_users_would_have(self, found):
        # f is told up to where it was last no more than 1,000 f(0).
        huge = found.results.filter(algorithm="Distributed-IHT", step_size=10.0, stage="grid")
        with pytest.warns(fs.DivergenceWarning):
            own = fs.run(fs.DistributedIHT(5, step_size=10.0), data_of(0), rounds=6)
        assert huge["objective"].to_list() == own.history["objective"].to_list()
        assert huge["objective"].max() <= 1000 * huge["objective"][0]

    def test_the_chosen_setting_is_the_lowest_after_all_rounds(self, found):
        ends = found.results.filter(stage="grid", algorithm="FedIter-HT", diverged=False, round=6)
        best = ends.sort("objective").row(0, named=True)
        chosen = found.results.filter(
            stage="final", algorithm="FedIter-HT", server="plain", seed=0, round=6
        ).row(0, named=True)
        assert (chosen["local_steps"], chosen["step_size"]) == (
            best["local_steps"],
            best["step_size"],
        )

    def test_final_runs_are_seven_methods_on_every_seed(self, found):
        keys = [key for key, _ in runs_of(found.results, "final")]
        assert {key[:3] for key in keys} == {
            (seed, algorithm, server)
            for seed in (0, 1)
            for algorithm in ("Distributed-IHT", "Fed-HT", "FedIter-HT")
            for server in ("plain", "adaptive")
        } | {(0, "FedSplice", "plain"), (1, "FedSplice", "plain")}
        assert len(keys) == 7 * 2

    def test_a_run_is_the_run_a_user_would_make(self, found):
        own = found.results.filter(stage="final", algorithm="FedIter-HT", server="plain", seed=1)
        setting = own.row(0, named=True)
        algorithm = fs.FedIterHT(
            5, local_steps=setting["local_steps"], step_size=setting["step_size"]
        )
        history = fs.run(algorithm, data_of(1), loss="squared", rounds=6, seed=1).history
        assert own["objective"].to_list() == history["objective"].to_list()
        assert own["bytes_up"].to_list() == history["bytes_up"].to_list()

    @pytest.mark.parametrize(
        ("name", "server", "algorithm"),
        [
            ("FedIter-HT", "adaptive", fs.FedIterHT(5, local_steps=3, server_step="adaptive")),
            ("FedSplice", "plain", fs.FedSplice(5)),
        ],
    )
    def test_of_methods_that_keep_the_best_x_its_f_is_told(self, found, name, server, algorithm):
        own = found.results.filter(stage="final", algorithm=name, server=server, seed=1)
        result = fs.run(algorithm, data_of(1), loss="squared", rounds=6, seed=1)
        seen = result.history["objective"].to_list()
        assert own["objective"].to_list() == [min(seen[: end + 1]) for end in range(len(seen))]
        assert own["objective"][-1] == result.objective


class _Lockstep(fs.LocalEngine):
    """Stands for an engine that answers many models in one pass: tells how many were asked."""

    asked: ClassVar[list[int]] = []

    def exchange(self, asks):
        self.asked.append(len(asks))
        return super().exchange(asks)


class TestLockstep:
    @pytest.fixture
    def lockstep(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_Lockstep, "asked", [])
        monkeypatch.setattr(
            runner,
            "open_engine",
            lambda data, loss, *, engine, device: _Lockstep(data, loss),
        )
        means = Means(engine="torch", device="cuda")
        return Runner(experiment(), Store(tmp_path), lambda doing: None, means)

    def test_gives_the_tables_of_one_by_one(self, found, lockstep):
        assert without_seconds(lockstep.finish().results).equals(without_seconds(found.results))

    def test_asks_for_all_settings_of_an_algorithm_at_once_until_they_diverge(self, lockstep):
        lockstep.finish()
        assert max(_Lockstep.asked) >= 2 * 3  # each K and γ
        of_runs = _Lockstep.asked[2:]  # facts have asked everyone, and each of 6 clients alone
        of_fed_ht = of_runs[of_runs.index(6) :]
        assert of_fed_ht[:6] == sorted(of_fed_ht[:6], reverse=True)
        assert of_fed_ht[5] == 4  # those with γ = 10 ask nothing more


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
    """A watcher that ends the work when so many pieces are done, as Ctrl-C would."""

    def watch(doing):
        if doing.done >= pieces and "preparing" not in doing.what:
            raise _StoppedError

    return watch


class TestGoingOn:
    @pytest.mark.parametrize("pieces", [1, 10, 20, 25])
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

    def test_the_bar_moves_with_the_work_and_never_passes_its_end(self, tmp_path):
        seen = []
        finish(tmp_path, watch=seen.append)
        done = [doing.done for doing in seen]
        assert done == sorted(done)
        assert done[0] == 0
        assert max(done) < seen[0].total
        assert any(doing.what.endswith("γ = 0.01: round 6 of 6") for doing in seen)


def test_options_the_simulation_does_not_know_are_named(tmp_path):
    with pytest.raises(OptionError, match=r'tiny: key "data.options" .*simulation_1.*clientss'):
        finish(tmp_path, TINY.replace("clients = 6", "clientss = 6"))
