"""Verdicts follow from the numbers, and say why a claim fails."""

import polars as pl
import pytest

from fedsparse.research.experiments.claims import claims_table
from fedsparse.research.experiments.experiment_settings import parse_settings
from tests.research.experiments.tiny import TINY

FACTS = {
    "experiment": "tiny",
    "samples": 48,
    "clients": 6,
    "samples_mean": 8.0,
    "samples_sd": 1.0,
    "smoothness_clients": 100.0,
    "smoothness_average": 10.0,
}


def a_run(algorithm, objectives, *, server="plain", stage="final", seed=0, gamma=0.1, k=2, ok=True):
    rounds = len(objectives)
    steps = 1 if algorithm == "Distributed-IHT" else k
    return pl.DataFrame(
        {
            "stage": stage,
            "seed": seed,
            "algorithm": algorithm,
            "server": server,
            "local_steps": pl.Series([steps] * rounds, dtype=pl.Int64),
            "step_size": pl.Series([gamma] * rounds, dtype=pl.Float64),
            "diverged": not ok,
            "round": range(rounds),
            "iterations": [(steps or 0) * r for r in range(rounds)],
            "objective": [float(value) for value in objectives],
        }
    )


def judged(runs, text=TINY, **facts):
    settings = parse_settings(text.replace("seeds = [0, 1]", "seeds = [0]", 1), "tiny.toml")
    return claims_table(settings, pl.concat(runs), pl.DataFrame([FACTS | facts]))


def verdict(table, start):
    return table.filter(pl.col("claim").str.starts_with(start))["verdict"][0]


BASELINE = a_run("Distributed-IHT", [9, 8, 7, 6, 5, 4, 3])
SLOW = [9, 8.9, 8.8, 8.7, 8.6, 8.5, 8.4]
GRID = [a_run("Fed-HT", [9, 1000], stage="grid", gamma=10.0, ok=False)]


class TestRounds:
    def test_fewer_rounds_by_the_papers_factor_hold(self):
        fast = a_run("Fed-HT", [9, 6, 4, 3, 2, 2, 2])
        assert verdict(judged([BASELINE, fast, *GRID]), "Fed-HT needs 2×") == "holds"

    def test_a_smaller_factor_is_named(self):
        middling = a_run("Fed-HT", [9, 8, 6, 5, 4, 3, 2])
        assert verdict(judged([BASELINE, middling, *GRID]), "Fed-HT needs") == (
            "holds with a smaller factor, 1.2× instead of 2×"
        )

    def test_what_only_the_adaptive_step_reaches_is_said_so_with_the_reason(self):
        slow = a_run("Fed-HT", SLOW, gamma=0.001)
        fast = a_run("Fed-HT", [9, 4, 3, 2, 2, 2, 2], server="adaptive")
        found = verdict(judged([BASELINE, slow, fast, *GRID]), "Fed-HT needs")
        assert found.startswith("holds with the adaptive server step and automatic γ; not as")
        assert "up to 10 times that of f: 1 of 1 settings diverged" in found
        assert "its best γ is 0.001, while Distributed-IHT can use 0.1" in found

    def test_what_nothing_reaches_does_not_hold(self):
        slow = a_run("Fed-HT", SLOW)
        found = verdict(judged([BASELINE, slow, *GRID]), "Fed-HT needs")
        assert found.startswith("does not hold because its best setting, K = 2 and γ = 0.1, ends")

    def test_an_algorithm_without_a_usable_setting_does_not_hold(self):
        found = verdict(judged([BASELINE, *GRID]), "Fed-HT needs")
        assert found == "does not hold because all 1 settings of the grid diverged"


def test_time_counts_the_delay_of_rounds_and_the_steps():
    fast = a_run("Fed-HT", [9, 6, 4, 3, 2, 2, 2], k=100)
    table = judged([BASELINE, fast, *GRID])
    ours = table.filter(pl.col("claim").str.contains("Fed-HT is faster"))["ours"][0]
    # 6 rounds of 0.15 s + 12 steps of 20 µs, over 3 rounds of 0.15 s + 300 steps of 20 µs.
    assert (6 * 0.15 + 12 * 20e-6) / (3 * 0.15 + 300 * 20e-6) == pytest.approx(1.974, abs=1e-3)
    assert ours.startswith("2×")


class TestLowest:
    text = TINY.replace("speedup = 1.5", 'lowest = "FedIter-HT"')

    def table(self, fed, federated_iterative, adaptive):
        return judged(
            [
                BASELINE,
                a_run("Fed-HT", [9, *[fed] * 6]),
                a_run("FedIter-HT", [9, *[federated_iterative] * 6]),
                a_run("FedIter-HT", [9, *[adaptive] * 6], server="adaptive"),
                *GRID,
            ],
            self.text,
        )

    def test_the_lowest_end_of_three_holds(self):
        assert verdict(self.table(2.5, 2.0, 9.0), "FedIter-HT ends") == "holds"

    def test_lower_with_the_adaptive_step_is_said_so(self):
        found = verdict(self.table(2.0, 2.5, 1.0), "FedIter-HT ends")
        assert found.startswith("holds with the adaptive server step and automatic γ; as written")

    def test_what_is_not_the_papers_is_none_of_the_three(self):
        runs = [BASELINE, a_run("Fed-HT", [9, *[2.5] * 6]), a_run("FedIter-HT", [9, *[2.0] * 6])]
        found = judged([*runs, a_run("FedSplice", [9, 1], k=None, gamma=None), *GRID], self.text)
        assert verdict(found, "FedIter-HT ends") == "holds"

    def test_otherwise_it_does_not_hold(self):
        found = verdict(self.table(2.0, 2.5, 9.0), "FedIter-HT ends")
        assert found == "does not hold because Fed-HT ends lower on 1 of 1 seeds"

    def test_most_seeds_are_not_all_seeds(self):
        runs = [BASELINE, *GRID]
        for seed, low in enumerate((2.0, 2.0, 2.9)):
            runs.append(a_run("Distributed-IHT", [9, *[3] * 6], seed=seed))
            runs.append(a_run("FedIter-HT", [9, *[low] * 6], seed=seed))
            runs.append(a_run("Fed-HT", [9, *[2.5] * 6], seed=seed))
        text = self.text.replace("seeds = [0, 1]", "seeds = [0, 1, 2]", 1)
        settings = parse_settings(text, "tiny.toml")
        table = claims_table(settings, pl.concat(runs[1:]), pl.DataFrame([FACTS]))
        assert verdict(table, "FedIter-HT ends") == "holds with exceptions: on 2 of 3 seeds"


class TestSamplesPerDevice:
    def text(self, mean, sd):
        return TINY.replace("speedup = 1.5", f"samples_mean = {mean}\nsamples_sd = {sd}")

    def test_mean_and_spread_hold(self):
        assert verdict(judged([BASELINE, *GRID], self.text(8.0, 1.05)), "Samples") == "holds"

    def test_a_mean_that_rows_over_clients_contradict_does_not_hold(self):
        found = verdict(judged([BASELINE, *GRID], self.text(8.8, 1.0)), "Samples")
        assert found == "does not hold because 48 rows on 6 clients make 8.00"

    def test_another_spread_is_named(self):
        found = verdict(judged([BASELINE, *GRID], self.text(8.0, 3.0)), "Samples")
        assert found.startswith("holds with another spread, 1.0")


class TestNothingToCompareWith:
    def test_an_experiment_without_claims_has_an_empty_table_with_columns(self):
        text = TINY[: TINY.index("[claims]")] + TINY[TINY.index("[quick]") :]
        table = judged([BASELINE, *GRID], text)
        assert table.height == 0
        assert table.columns == ["experiment", "claim", "paper", "ours", "verdict"]

    def test_a_baseline_that_goes_nowhere_proves_nothing(self):
        still = a_run("Distributed-IHT", [9] * 7)
        fast = a_run("Fed-HT", [9, 6, 4, 3, 2, 2, 2])
        assert verdict(judged([still, fast, *GRID]), "Fed-HT needs").startswith("does not hold")

    def test_a_baseline_that_diverged_proves_nothing(self):
        fast = a_run("Fed-HT", [9, 6, 4, 3, 2, 2, 2])
        found = verdict(judged([fast, *GRID]), "Fed-HT needs")
        assert found.endswith(
            "all settings of Distributed-IHT diverged, so there is nothing to compare with"
        )
