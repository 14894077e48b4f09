"""Charts, picture and page made from a table of runs."""

import io
import json
import os
import re
import struct

import polars as pl
import pytest

from fedsparse import files
from fedsparse.report import convergence_charts
from fedsparse.report.closing_table import closing_table, rounds_to_reach
from fedsparse.report.convergence_charts import MEGABYTES, ROUNDS
from fedsparse.report.page import Page, Section
from fedsparse.report.parts import Paragraph, SettingsList, Table, comparison
from fedsparse.report.pictures import save_picture, save_png
from fedsparse.report.style import looks, methods_in
from tests.report.runs import METHODS, made_up_history


def spec_of(history, axis):
    return convergence_charts.convergence_chart(history, axis).to_dict()


def encoding_of(history, axis):
    return spec_of(history, axis)["layer"][-1]["encoding"]


def points_of(history):
    (points,) = spec_of(history, ROUNDS)["datasets"].values()
    return pl.read_csv(io.StringIO(points))


def page_of(history, title="A run", settings=None):
    closing = Table(closing_table(history, reference=METHODS[0]))
    return Page(
        title,
        "Three methods.",
        [
            Section("", comparison(history, (ROUNDS, MEGABYTES), looks(methods_in(history)))),
            Section("Where each method ended", [closing, Paragraph("A note.", is_hint=True)]),
            Section("Settings", [SettingsList(settings or {"Seed": "0"})]),
        ],
    )


def with_band(history, factor=1.5):
    return history.with_columns(low=pl.col("objective") / factor, high=pl.col("objective") * factor)


class TestCharts:
    @pytest.mark.parametrize("axis", [ROUNDS, MEGABYTES])
    def test_objectives_over_decades_are_on_a_log_axis(self, axis):
        assert encoding_of(made_up_history(), axis)["y"]["scale"]["type"] == "log"

    def test_objectives_close_together_are_on_a_linear_axis(self):
        history = made_up_history().with_columns(objective=2 + pl.col("objective") / 1000)
        assert encoding_of(history, ROUNDS)["y"]["scale"]["type"] == "linear"

    def test_bytes_are_on_a_log_axis_rounds_are_not(self):
        history = made_up_history()
        assert encoding_of(history, MEGABYTES)["x"]["scale"]["type"] == "log"
        assert encoding_of(history, ROUNDS)["x"]["scale"]["type"] == "linear"

    def test_start_is_shown_against_rounds_but_has_no_place_on_a_log_axis_of_bytes(self):
        lines = [spec_of(made_up_history(), axis)["layer"][-1] for axis in (ROUNDS, MEGABYTES)]
        assert points_of(made_up_history())["round"].min() == 0
        assert "transform" not in lines[0]
        assert lines[1]["transform"] == [{"filter": "datum.round > 0"}]

    def test_megabytes_are_those_of_both_ways(self):
        points = points_of(made_up_history())
        assert points.filter(pl.col("round") == 2)["megabytes"].to_list() == [1.94] * 3

    def test_several_runs_get_a_band(self):
        marks = [
            layer["mark"]["type"]
            for layer in spec_of(with_band(made_up_history()), ROUNDS)["layer"]
        ]
        assert marks == ["area", "line"]
        assert len(spec_of(with_band(made_up_history(), factor=1), ROUNDS)["layer"]) == 1

    def test_a_wild_run_does_not_squeeze_the_others(self):
        history = made_up_history()
        wild = history.with_columns(objective=pl.col("objective") * 10.0 ** pl.col("round"))
        start = history["objective"][0]
        domain = encoding_of(pl.concat([history, wild]), ROUNDS)["y"]["scale"]["domain"]
        assert domain[1] == 2 * start

    def test_blown_up_objectives_are_left_out(self):
        history = made_up_history().with_columns(
            objective=pl.when(pl.col("round") > 5).then(float("inf")).otherwise("objective")
        )
        assert points_of(history)["round"].max() == 5

    def test_long_runs_are_thinned_but_keep_both_ends(self):
        points = points_of(made_up_history(rounds=5001))
        rounds = points.filter(pl.col("method") == METHODS[0])["round"]
        assert rounds.len() <= convergence_charts.POINTS_PER_METHOD + 1
        assert (rounds.min(), rounds.max()) == (0, 5001)

    def test_variants_share_a_hue_and_differ_in_dash(self):
        plain, extrapolated, other = looks(METHODS).values()
        assert plain.hue == extrapolated.hue != other.hue
        assert plain.dash != extrapolated.dash
        assert plain.dash == other.dash


class TestClosingTable:
    def test_methods_in_the_order_they_ran_with_totals(self):
        table = closing_table(made_up_history(), reference=METHODS[0])
        assert table["Method"].to_list() == list(METHODS)
        assert table.row(0)[:5] == (METHODS[0], "20", "200", "3.40", "16.00")

    def test_rounds_to_match_the_reference(self):
        history = made_up_history()
        table = closing_table(history, reference=METHODS[0])
        assert table["Rounds to match"].to_list() == ["20", "8", "5"]
        assert closing_table(history, reference=METHODS[2])["Rounds to match"][0] == "–"

    def test_divergence_is_told(self):
        table = closing_table(made_up_history(), reference=METHODS[0], diverged=[METHODS[2]])
        assert table["Final objective"].to_list()[2] == "diverged"

    def test_never_reached(self):
        assert rounds_to_reach(made_up_history(), 1.0) is None


class TestPicture:
    def test_is_a_png_of_useful_size(self, tmp_path):
        chart = convergence_charts.side_by_side(made_up_history(), (ROUNDS, MEGABYTES))
        save_png(chart, tmp_path / "run.png")
        content = (tmp_path / "run.png").read_bytes()
        assert content.startswith(b"\x89PNG\r\n")
        width, height = struct.unpack(">II", content[16:24])
        assert width > 1500
        assert height > 700
        assert len(content) > 20_000

    def test_one_chart_becomes_a_png_and_an_svg(self, tmp_path):
        chart = convergence_charts.convergence_chart(made_up_history(), ROUNDS)
        save_picture(chart, tmp_path / "K=0.5")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["K=0.5.png", "K=0.5.svg"]
        assert "Communication rounds" in (tmp_path / "K=0.5.svg").read_text("utf-8")


class TestPage:
    def test_fetches_nothing(self):
        html = page_of(made_up_history()).html()
        markup = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.DOTALL)
        assert re.findall(r"src=|href=|@import|url\(|<script", markup) == []

    def test_holds_the_charts_and_their_shared_data_once(self):
        html = page_of(made_up_history()).html()
        held = json.loads(re.search(r'<script type="application/json">(.*?)</script>', html)[1])
        assert [chart["width"] for chart in held["charts"]] == ["container", "container"]
        assert len(held["datasets"]) == 1

    def test_shows_table_note_and_settings(self):
        html = page_of(made_up_history()).html()
        assert '<th scope="row">Fed-HT</th><td data-label="Rounds">20</td>' in html
        assert "A note." in html
        assert "<dt>Seed</dt><dd>0</dd>" in html

    def test_what_a_table_does_not_know_is_a_dash(self):
        table = Table(pl.DataFrame({"Site": ["Bari", "Cork"], "Sent by it": ["9 kB", None]}))
        html = Page("", "", [Section("", [table])]).html()
        assert '<th scope="row">Cork</th><td>–</td>' in html

    def test_names_cannot_break_the_page(self):
        hostile = "</script><b>"
        html = page_of(
            made_up_history(methods=(hostile, *METHODS)), title=hostile, settings={hostile: hostile}
        ).html()
        assert hostile not in html

    def test_failed_write_leaves_the_old_page(self, tmp_path, monkeypatch):
        def fail(*_):
            raise OSError(28, "No space left on device")

        path = tmp_path / "page.html"
        path.write_text("old")
        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space left on device") as caught:
            page_of(made_up_history()).save(path)
        assert caught.value.filename == str(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


class TestFiles:
    def test_replaces_a_file_whole(self, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(b"something long")
        files.write_atomically(path, b"short")
        assert path.read_bytes() == b"short"
        assert list(tmp_path.iterdir()) == [path]

    def test_new_file_has_the_usual_permissions(self, tmp_path):
        (tmp_path / "plain").touch()
        files.write_atomically(tmp_path / "written", b"")
        assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_missing_folder_is_named(self, tmp_path):
        path = tmp_path / "nowhere" / "file"
        with pytest.raises(FileNotFoundError) as caught:
            files.write_atomically(path, b"")
        assert caught.value.filename == str(path)

    def test_folder_under_a_file_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        folder = tmp_path / "file" / "folder"
        with pytest.raises(NotADirectoryError) as caught:
            files.ready_folder(folder)
        assert caught.value.filename == str(folder)

    def test_file_in_place_of_the_folder(self, tmp_path):
        (tmp_path / "file").write_text("kept")
        with pytest.raises(FileExistsError):
            files.ready_folder(tmp_path / "file")
        assert (tmp_path / "file").read_text() == "kept"
