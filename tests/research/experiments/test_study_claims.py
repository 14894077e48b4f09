"""Verdicts of the studies on made-up tables: each can come out either way."""

import math
from pathlib import Path

import polars as pl
import pytest

from fedsparse.research.experiments import reproduction
from fedsparse.research.experiments.reproduction import reproduce
from fedsparse.research.experiments.runner import Means
from fedsparse.research.experiments.store import Store
from fedsparse.research.experiments.study_claims import (
    message_claims,
    scaling_claims,
    split_claims,
)
from fedsparse.research.theory.split_study import DIGITS, PLANTED, SPLITS
from tests.research.experiments.tiny import TINY

SPREAD = (0.98, 1.0, 1.02)
"""How repetitions differ."""


def splits(error=lambda split, steps: 1.0, objective=lambda split: 1.0):
    """A table of the split study with a given error and objective; digits have no error."""
    rows = []
    for problem in (PLANTED, DIGITS):
        for place, split in enumerate(SPLITS):
            for algorithm in ("Fed-HT", "FedIter-HT"):
                for steps in (1, 5, 20) if problem == PLANTED else (5,):
                    for repetition, factor in enumerate(SPREAD):
                        known = problem == PLANTED
                        rows.append(
                            {
                                "problem": problem,
                                "repetition": repetition,
                                "split": split,
                                "algorithm": algorithm,
                                "local_steps": steps,
                                "dissimilarity": 3.0 + place if known else None,
                                "error": error(split, steps) * factor if known else None,
                                "objective": objective(split) * (2 - factor),
                            }
                        )
    return pl.DataFrame(rows)


def messages(**loads):
    """A table of the message study from (down, up, total) by algorithm, the same for all rows."""
    usual = {
        "Distributed-IHT": (2000, 8000, 1e6),
        "Fed-HT": (2000, 8000, 2e5),
        "FedIter-HT": (2000, 2000, 8e4),
        "FedAvg": (8000, 8000, 1e5),
    }
    names = {name: name.replace("-", "_") for name in usual}
    return pl.DataFrame(
        [
            {
                "rows": kind,
                "algorithm": name,
                **dict(
                    zip(("down", "up", "total"), loads.get(names[name], usual[name]), strict=True)
                ),
            }
            for kind in ("dense", "text")
            for name in usual
        ]
    )


def row(table, start):
    return table.filter(pl.col("claim").str.starts_with(start)).row(0, named=True)


def verdict(table, start):
    return row(table, start)["verdict"]


class TestLocalSteps:
    def test_an_error_that_grows_with_k_on_every_split_holds(self):
        table = split_claims(splits(error=lambda split, steps: steps**0.5))
        found = row(table, "Fed-HT: more local steps")
        assert found["verdict"] == "holds"
        assert found["ours"].startswith("‖x_T − x*‖² IID: 4.47× (4.47 to 4.47); Dirichlet(1): 4.47")

    def test_on_some_splits_they_are_named(self):
        table = split_claims(splits(error=lambda split, steps: 1 if split == "IID" else steps))
        assert verdict(table, "FedIter-HT: more local steps") == (
            "holds with exceptions: only for Dirichlet(1), Dirichlet(0.1)"
        )

    def test_an_error_that_stands_does_not_hold(self):
        found = verdict(split_claims(splits()), "Fed-HT: more local steps")
        assert found.startswith("does not hold because the error grows nowhere")

    def test_a_run_that_diverged_is_growth(self):
        table = splits(error=lambda split, steps: math.inf if steps == 20 else 1.0)
        assert verdict(split_claims(table), "Fed-HT: more local steps") == "holds"


class TestUnlikeClients:
    def test_a_larger_error_on_the_most_unlike_split_holds(self):
        table = split_claims(splits(error=lambda split, steps: 1.0 + SPLITS.index(split)))
        found = row(table, "Fed-HT: rows dealt by Dirichlet(0.1)")
        assert found["verdict"] == "holds"
        assert "K = 5: 3× (3 to 3); K = 20: 3×" in found["ours"]
        assert "IID 3, Dirichlet(1) 4, Dirichlet(0.1) 5" in found["ours"]

    def test_a_smaller_one_does_not(self):
        table = split_claims(splits(error=lambda split, steps: 1 / (1 + SPLITS.index(split))))
        assert verdict(table, "FedIter-HT: rows dealt by").startswith("does not hold because")


class TestNoiseThatHelps:
    @pytest.mark.parametrize("problem", [PLANTED, DIGITS])
    def test_lower_ends_hold(self, problem):
        table = split_claims(splits(objective=lambda split: 1.0 if split == "IID" else 0.5))
        found = table.filter(pl.col("claim").str.contains(problem))["verdict"]
        assert found.to_list() == ["holds"]

    def test_higher_ends_do_not(self):
        table = split_claims(splits(objective=lambda split: 1.0 if split == "IID" else 2.0))
        assert verdict(table, "Noise of non-IID rows") == (
            "does not hold because f ends lower in only 0 of 12 runs"
        )

    def test_mostly_lower_ends_hold_with_exceptions(self):
        def objective(split):
            return {"IID": 1.0, "Dirichlet(1)": 0.5, "Dirichlet(0.1)": 1.0}[split]

        table = splits(objective=objective)
        slightly_lower = pl.when(split="Dirichlet(0.1)", repetition=0).then(0.9).otherwise(1.0)
        table = table.with_columns(objective=pl.col("objective") * slightly_lower)
        assert verdict(split_claims(table), "Noise of non-IID rows") == (
            "holds with exceptions: f ends lower in 8 of 12 runs"
        )


class TestBandwidth:
    def test_fewer_bytes_a_round_hold(self):
        found = row(message_claims(messages()), "Fed-HT sends less a round than FedAvg")
        assert found["verdict"] == "holds"
        assert found["ours"].startswith(
            "dense: 2 kB down and 8 up instead of 8 and 8 (1.6×); text: 2 kB down"
        )

    def test_as_many_do_not(self):
        found = verdict(message_claims(messages()), "Fed-HT sends less a round than Distributed")
        assert found == "does not hold because a round of Distributed-IHT sends as little"

    def test_less_on_some_rows_holds_with_exceptions(self):
        on_text = pl.when(rows="text", algorithm="Fed-HT").then(9000.0).otherwise(pl.col("down"))
        table = messages().with_columns(down=on_text)
        assert verdict(message_claims(table), "Fed-HT sends less a round than FedAvg") == (
            "holds with exceptions: on 1 of 2 kinds of rows"
        )

    def test_fewer_bytes_to_the_goal_hold(self):
        found = row(message_claims(messages()), "FedIter-HT sends less than Distributed-IHT until")
        assert found["verdict"] == "holds"
        assert (
            "Distributed-IHT 1,000 kB, Fed-HT 200 kB, FedIter-HT 80 kB, FedAvg 100 kB"
            in (found["ours"])
        )

    def test_a_goal_that_is_never_reached_does_not_hold(self):
        table = message_claims(messages(Fed_HT=(2000, 8000, None)))
        found = row(table, "Fed-HT sends less than Distributed-IHT until")
        assert found["verdict"].startswith("does not hold because Distributed-IHT sends as little")
        assert "Fed-HT never" in found["ours"]


class TestRates:
    def judged(self, slope, low):
        slopes = {"slope": slope, "low": low, "high": slope + 0.1, "expected": 1.0}
        return scaling_claims(pl.DataFrame([{"model": "linear", "sweep": "noise", **slopes}]))

    def test_an_error_that_grows_no_faster_than_the_bound_holds(self):
        found = self.judged(0.98, 0.9)
        assert found["verdict"][0] == "holds"
        assert found["claim"][0] == "Error of FedIter-HT in linear regression against noise σ²"

    def test_an_error_that_may_grow_no_faster_holds_within_the_interval(self):
        assert self.judged(1.05, 0.95)["verdict"][0] == "holds within the interval"

    def test_an_error_that_grows_faster_does_not_hold(self):
        assert self.judged(1.3, 1.2)["verdict"][0].startswith("does not hold because the error")


@pytest.mark.parametrize("judge", [split_claims, message_claims, scaling_claims])
def test_nothing_measured_is_an_empty_table_with_columns(judge):
    table = judge(pl.DataFrame())
    assert table.height == 0
    assert table.columns == ["experiment", "claim", "paper", "ours", "verdict"]


class TestInAReproduction:
    @pytest.fixture
    def reproduced(self, tmp_path, monkeypatch):
        """A function that reproduces a tiny experiment with studies, and what it measured."""
        scaling = pl.DataFrame(
            {
                "model": "linear",
                "sweep": "noise",
                "factor": [1.0, 2.0, 4.0],
                "error": [0.1, 0.2, 0.4],
            }
        )
        measured = []
        for name, table in (("messages", messages()), ("splits", splits()), ("scaling", scaling)):

            def measure(*, quick, processes, name=name, table=table):
                measured.append((name, quick))
                return table

            monkeypatch.setattr(reproduction, f"measure_{name}", measure)
        path = tmp_path / "tiny.toml"
        path.write_text(TINY)

        def work(**options):
            store = Store(tmp_path / "runs")
            return reproduce([str(path)], store, lambda doing: None, quick=True, **options)

        return work, measured

    def test_experiments_at_once_give_the_tables_of_one_after_the_other(self, tmp_path):
        names = [str(tmp_path / f"{name}.toml") for name in ("one", "other")]
        for name in names:
            own = TINY.replace('name = "', f'name = "{Path(name).stem}-')
            Path(name).write_text(own)
        at_once, after = (
            reproduce(names, Store(tmp_path / kind), lambda doing: None, quick=True, means=means)
            for kind, means in (("at once", Means(at_once=True)), ("after", Means()))
        )
        assert at_once.claims.equals(after.claims)
        assert at_once.results.drop("seconds").equals(after.results.drop("seconds"))

    def test_studies_are_judged_after_the_experiments(self, reproduced):
        work, _ = reproduced
        listed = work(studies=True).claims["experiment"].unique(maintain_order=True).to_list()
        assert listed == [
            "tiny",
            "Bandwidth",
            "Non-IID rows and local steps",
            "Rates of the corollaries",
        ]

    def test_a_finished_study_is_not_measured_again(self, reproduced):
        work, measured = reproduced
        work(studies=True)
        work(studies=True)
        assert measured == [("messages", True), ("splits", True), ("scaling", True)]

    def test_without_studies_nothing_is_measured(self, reproduced):
        work, measured = reproduced
        tables = work()
        assert measured == []
        assert tables.claims["experiment"].unique().to_list() == ["tiny"]
        assert tables.scaling.is_empty()
