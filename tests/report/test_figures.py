"""Figures of the reproduction, made from tables alone."""

import io
import json

import numpy as np
import polars as pl
import pytest

from fedsparse.errors import DataError, OptionError
from fedsparse.report.figures import figures, save_picture
from fedsparse.report.final_runs import final_history, method_looks
from fedsparse.report.network import Network
from tests.report.study import made_up_results, made_up_run, made_up_tables


@pytest.fixture(scope="module")
def drawn():
    return {name: chart.to_dict() for name, chart in figures(made_up_tables()).items()}


def titles_of(figure):
    return [panel["title"]["text"] for panel in figure["concat"]]


def x_titles_of(figure):
    return [panel["layer"][-1]["encoding"]["x"]["title"] for panel in figure["concat"]]


def data_of(figure, layer):
    text = figure["datasets"][layer["data"]["name"]]
    return pl.read_csv(io.StringIO(text))


class TestWhichAreDrawn:
    def test_all_that_the_tables_have_rows_for(self, drawn):
        assert list(drawn) == [
            "figure-1-e2006-clusters",
            "figure-3-simulation-1",
            "figure-3-e2006",
            "figure-3-mnist",
            "figure-4-simulations",
            "figure-5-real-data",
            "figure-6-network-time",
            "figure-8-bytes",
            "figure-9-adaptive-and-fedsplice",
            "figure-7-theory-scaling",
        ]

    def test_missing_experiments_and_tables_are_left_out(self):
        nothing = {name: pl.DataFrame() for name in ("clusters", "claims", "scaling", "slopes")}
        drawn = figures(made_up_tables(["mnist"], **nothing))
        assert "figure-4-simulations" not in drawn
        assert titles_of(drawn["figure-5-real-data"].to_dict()) == ["MNIST", "MNIST"]
        assert [name for name in drawn if name[7] in "127"] == []

    def test_a_grid_without_final_runs_is_drawn_alone(self):
        results = made_up_results("simulation-1").filter(pl.col("stage") == "grid")
        tables = made_up_tables(results=results, clusters=pl.DataFrame(), scaling=pl.DataFrame())
        assert list(figures(tables)) == ["figure-3-simulation-1"]

    def test_pictures_can_be_saved(self, tmp_path):
        drawn = figures(made_up_tables(["e2006"]))
        for name in ("figure-1-e2006-clusters", "figure-3-e2006", "figure-6-network-time"):
            files = save_picture(drawn[name], tmp_path / name)
            assert all(file.stat().st_size > 10_000 for file in files)


class TestStandIns:
    def test_are_marked_wherever_the_experiment_is_named(self, drawn):
        assert "E2006 (stand-in)" in drawn["figure-1-e2006-clusters"]["title"]["text"]
        assert "E2006 (stand-in)" in drawn["figure-3-e2006"]["title"]["text"]
        for name in (
            "figure-5-real-data",
            "figure-6-network-time",
            "figure-8-bytes",
            "figure-9-adaptive-and-fedsplice",
        ):
            assert "E2006 (stand-in)" in titles_of(drawn[name])
            assert "E2006" not in titles_of(drawn[name])

    def test_others_are_not(self, drawn):
        assert drawn["figure-3-mnist"]["title"]["text"].startswith("MNIST:")

    def test_are_not_marked_twice(self):
        experiments = made_up_tables().experiments.with_columns(title=pl.lit("RCV1 (stand-in)"))
        assert made_up_tables(experiments=experiments).title("e2006") == "RCV1 (stand-in)"


def panels_of_grid(figure):
    return [panel for row in figure["vconcat"] for panel in row["hconcat"]]


def lines_of_grid(figure):
    """The table behind each panel; what parts have in common is stored with the whole."""
    return [
        data_of(figure, next(part for part in (panel["layer"][0], panel, row) if "data" in part))
        for row in figure["vconcat"]
        for panel in row["hconcat"]
    ]


class TestGrid:
    def test_a_row_per_algorithm_and_a_panel_per_number_of_local_steps(self, drawn):
        rows = drawn["figure-3-mnist"]["vconcat"]
        titles = [[panel["title"]["text"] for panel in row["hconcat"]] for row in rows]
        assert titles == [["Fed-HT, K = 3"], ["FedIter-HT, K = 3", "FedIter-HT, K = 10"]]

    def test_what_has_no_panel_is_told_in_words_with_the_rule(self, drawn):
        assert drawn["figure-3-mnist"]["title"]["subtitle"] == [
            "diverged: f is no finite number, or above 1,000 f(0)",
            "no panel: Fed-HT, K = 10: every γ diverged",
        ]

    def test_no_panel_is_empty(self, drawn):
        tables = lines_of_grid(drawn["figure-3-simulation-1"])
        assert len(tables) == 3
        assert all(table.height > 1 for table in tables)

    def test_a_colour_per_step_size_in_order(self, drawn):
        for panel in panels_of_grid(drawn["figure-3-simulation-1"]):
            color = panel["layer"][0]["encoding"]["color"]
            assert color["scale"]["domain"] == ["0.01", "0.1"]

    def test_settings_that_ended_high_or_diverged_are_told_in_words_not_drawn(self, drawn):
        figure = drawn["figure-3-simulation-1"]
        panels = panels_of_grid(figure)
        assert [panel["title"]["subtitle"] for panel in panels] == [
            ["γ = 0.1 diverged"],
            ["γ = 0.1 ended above f(0)"],
            ["γ = 0.1 ended above f(0)"],
        ]
        for table in lines_of_grid(figure):
            assert table["step"].unique().to_list() == [0.01]

    def test_step_sizes_side_by_side_are_told_as_a_range(self):
        sizes = {0.01: "drawn", 0.1: "high", 0.3: "high", 0.6: "diverged", 1.0: "diverged"}
        runs = [
            made_up_run("mnist", "FedIter-HT", "grid", steps=3, step_size=size) for size in sizes
        ]
        grid = pl.concat(
            run.with_columns(
                diverged=pl.lit(sizes[size] == "diverged"),
                objective=pl.col("objective").sort(descending=sizes[size] == "drawn"),
            )
            for size, run in zip(sizes, runs, strict=True)
        )
        figure = figures(made_up_tables(results=grid))["figure-3-mnist"].to_dict()
        (panel,) = panels_of_grid(figure)
        assert panel["title"]["subtitle"] == [
            "γ ≥ 0.6 diverged",
            "γ = 0.1 to 0.3 ended above f(0)",
        ]

    def test_all_panels_share_their_axes(self, drawn):
        panels = panels_of_grid(drawn["figure-3-simulation-1"])
        scales = [
            json.dumps([panel["layer"][0]["encoding"][axis]["scale"] for axis in "xy"])
            for panel in panels
        ]
        assert len(set(scales)) == 1
        assert '"type": "log"' in scales[0]


class TestComparisons:
    def test_rounds_above_and_iterations_below(self, drawn):
        figure = drawn["figure-5-real-data"]
        rounds, iterations = "Communication rounds", "Local iterations of each client"
        assert figure["columns"] == 2
        assert x_titles_of(figure) == [rounds, rounds, iterations, iterations]

    def test_the_papers_figures_have_the_papers_three(self, drawn):
        for name in ("figure-4-simulations", "figure-5-real-data"):
            for panel in drawn[name]["concat"]:
                domain = panel["layer"][-1]["encoding"]["color"]["scale"]["domain"]
                assert domain == ["Distributed-IHT", "Fed-HT", "FedIter-HT"]

    def test_what_is_not_the_papers_has_a_figure_of_its_own(self, drawn):
        figure = drawn["figure-9-adaptive-and-fedsplice"]
        assert titles_of(figure) == ["Simulation I", "E2006 (stand-in)", "MNIST"]
        assert figure["concat"][0]["layer"][-1]["encoding"]["color"]["scale"]["domain"] == [
            *("Distributed-IHT, adaptive", "Fed-HT, adaptive", "FedIter-HT, adaptive"),
            "FedSplice",
        ]

    def test_real_data_are_drawn_above_the_lowest_f_on_a_logarithmic_axis(self, drawn):
        figure = drawn["figure-5-real-data"]
        assert figure["title"]["subtitle"][1] == "f*: the lowest f on a seed, found by FedSplice"
        line = figure["concat"][1]["layer"][-1]
        assert line["encoding"]["y"]["title"] == "f(x) − f*"
        assert line["encoding"]["y"]["scale"]["type"] == "log"
        shown = data_of(figure, line).filter(method="Fed-HT", round=3)["objective"][0]
        gaps = [
            100 * (np.exp(-0.16 * 3) - np.exp(-3.0 * (4 + seed))) * (1 + 0.1 * seed) + 0.5
            for seed in range(3)
        ]
        assert shown == pytest.approx(np.median(gaps), rel=1e-5)

    def test_a_line_that_gets_to_the_lowest_f_leaves_the_picture(self, drawn):
        figure = drawn["figure-9-adaptive-and-fedsplice"]
        line = figure["concat"][0]["layer"][-1]
        low = line["encoding"]["y"]["scale"]["domain"][0]
        last = data_of(figure, line).filter(method="FedSplice")["objective"][-1]
        assert 0 < last < low
        assert line["mark"]["clip"]

    def test_another_method_that_got_lower_is_named(self):
        is_best = (pl.col("algorithm") == "Fed-HT") & (pl.col("server") == "adaptive")
        results = made_up_results("mnist").with_columns(
            objective=pl.when(is_best).then(0.01 * pl.col("objective")).otherwise("objective")
        )
        figure = figures(made_up_tables(results=results))["figure-5-real-data"].to_dict()
        assert figure["title"]["subtitle"][1].endswith("; on MNIST by Fed-HT, adaptive")

    def test_a_run_that_is_done_keeps_what_it_had(self):
        history = final_history(made_up_tables(), "mnist").filter(method="FedSplice")
        assert history["round"].to_list() == list(range(7))
        ends = [100 * np.exp(-3.0 * (4 + seed)) * (1 + 0.1 * seed) + 0.5 for seed in range(3)]
        assert history["objective"][-1] == pytest.approx(np.median(ends))

    def test_line_is_the_median_and_band_the_range_of_seeds(self):
        start = final_history(made_up_tables(), "mnist").row(0, named=True)
        assert start["low"] == 101.0
        assert start["objective"] == pytest.approx(111.0)
        assert start["high"] == pytest.approx(121.0)

    def test_a_line_ends_where_the_first_of_its_runs_diverged(self):
        is_broken_off = (pl.col("seed") == 2) & (pl.col("stage") == "final")
        results = made_up_results("mnist").with_columns(diverged=is_broken_off)
        results = results.filter(~pl.col("diverged") | (pl.col("round") < 5))
        assert final_history(made_up_tables(results=results), "mnist")["round"].max() == 4

    def test_methods_look_the_same_where_some_are_missing(self):
        results = pl.concat(
            [
                made_up_results("simulation-1"),
                made_up_results("mnist").filter(pl.col("algorithm") == "FedIter-HT"),
            ]
        )
        looks = method_looks(made_up_tables(results=results))
        assert looks["FedIter-HT"].hue == "#009E73"
        assert looks["FedIter-HT"].dash != looks["FedIter-HT, adaptive"].dash


class TestNetwork:
    def test_time_adds_delay_transfer_and_computing(self):
        network = Network(delay=100, bandwidth=8)
        assert network.seconds(rounds=10, megabytes=3, computing=0.5) == pytest.approx(4.5)

    def test_figure_counts_the_bytes_of_one_client(self, drawn):
        line = drawn["figure-6-network-time"]["concat"][0]["layer"][-1]
        assert "datum.megabytes / 10 * 8 / 10.0" in line["transform"][0]["calculate"]
        assert line["encoding"]["x"]["scale"]["type"] == "log"

    @pytest.mark.parametrize("wrong", [{"delay": -1}, {"bandwidth": 0}, {"bandwidth": "fast"}])
    def test_impossible_networks(self, wrong):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            Network(**wrong)


class TestScaling:
    def test_a_panel_per_model_and_sweep_with_its_slope(self, drawn):
        figure = drawn["figure-7-theory-scaling"]
        rows = [row["concat"] for row in figure["vconcat"]]
        assert [[len(panel["layer"]) for panel in row] for row in rows] == [[3, 3], [3, 3]]
        assert rows[0][0]["title"]["subtitle"] == "slope −1.02 (−1.12 to −0.92), theory −1.00"

    def test_both_axes_are_logarithmic(self, drawn):
        dots = drawn["figure-7-theory-scaling"]["vconcat"][0]["concat"][0]["layer"][0]
        assert [dots["encoding"][axis]["scale"]["type"] for axis in "xy"] == ["log", "log"]


class TestWrongTables:
    def test_a_missing_column_is_named(self):
        with pytest.raises(DataError, match="'results' lacks the column 'objective'"):
            made_up_tables(results=made_up_results("mnist").drop("objective"))

    def test_an_unknown_algorithm_is_named(self):
        results = made_up_results("mnist").with_columns(algorithm=pl.lit("FedMagic"))
        with pytest.raises(DataError, match="'FedMagic' in its column 'algorithm'"):
            made_up_tables(results=results)

    def test_an_experiment_that_is_not_described_is_named(self):
        with pytest.raises(DataError, match="no row for 'simulation-2'"):
            made_up_tables(["simulation-2"])
