"""Figures of the reproduction, made from tables alone."""

import io
import json

import polars as pl
import pytest

from fedsparse.errors import DataError, OptionError
from fedsparse.report.figures import figures, save_picture
from fedsparse.report.final_runs import final_history, method_looks
from fedsparse.report.network import Network
from tests.report.study import made_up_results, made_up_tables


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
        for name in ("figure-5-real-data", "figure-6-network-time", "figure-8-bytes"):
            assert "E2006 (stand-in)" in titles_of(drawn[name])
            assert "E2006" not in titles_of(drawn[name])

    def test_others_are_not(self, drawn):
        assert drawn["figure-3-mnist"]["title"]["text"].startswith("MNIST:")

    def test_are_not_marked_twice(self):
        experiments = made_up_tables().experiments.with_columns(title=pl.lit("RCV1 (stand-in)"))
        assert made_up_tables(experiments=experiments).title("e2006") == "RCV1 (stand-in)"


class TestGrid:
    def test_a_panel_per_algorithm_and_number_of_local_steps(self, drawn):
        figure = drawn["figure-3-simulation-1"]
        assert figure["columns"] == 2
        assert titles_of(figure) == [
            "Fed-HT, K = 3",
            "Fed-HT, K = 10",
            "FedIter-HT, K = 3",
            "FedIter-HT, K = 10",
        ]

    def test_a_colour_per_step_size_in_order(self, drawn):
        color = drawn["figure-3-simulation-1"]["concat"][0]["layer"][0]["encoding"]["color"]
        assert color["scale"]["domain"] == ["0.01", "0.1"]

    def test_runs_that_diverged_are_cut_off_and_marked_where_they_ended(self, drawn):
        figure = drawn["figure-3-simulation-1"]
        lines, crosses = figure["concat"][0]["layer"]
        assert data_of(figure, crosses).rows() == [(0.1, 0, 1, 202.0)]
        assert data_of(figure, lines)["objective"].max() == 202.0
        assert figure["concat"][0]["title"]["subtitle"] == "γ = 0.1 diverged"

    def test_all_panels_share_their_axes(self, drawn):
        panels = drawn["figure-3-simulation-1"]["concat"]
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

    def test_line_is_the_median_and_band_the_range_of_seeds(self):
        start = final_history(made_up_tables(), "mnist").row(0, named=True)
        assert start["low"] == 101.0
        assert start["objective"] == pytest.approx(111.0)
        assert start["high"] == pytest.approx(121.0)

    def test_a_line_ends_where_the_first_of_its_runs_ended(self):
        results = made_up_results("mnist").filter((pl.col("seed") < 2) | (pl.col("round") < 5))
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
        assert looks["FedIter-HT"].dash != looks["FedIter-HT, extrapolated"].dash


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
