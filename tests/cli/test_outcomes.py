"""Counts and survival through the command line: fits, predictions, and what is refused."""

import json
import re
import sys

import numpy as np
import polars as pl
import pytest

from fedsparse.cli import main
from tests.cli.outcome_tables import changed, fallers, survivors


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command in this process; gives exit code, output and messages."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedsparse", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


COUNTS = ("--task", "counts", "--target", "falls", "--exposure", "days", "--site", "hospital")
SURVIVAL = ("--task", "survival", "--time", "months", "--event", "died", "--site", "hospital")
QUICK = ("--sparsity", 2, "--stability", 0, "--held-out", "fifth")


def written(tmp_path, frame):
    path = tmp_path / "patients.csv"
    frame.write_csv(path)
    return path


WRONG_TABLES = {
    "a time of 0": (
        SURVIVAL, changed(survivors(), 3, months=0.0),
        'column "months", row 4 (the header not counted) is 0, and a time is above 0',
    ),
    "three times of 0": (
        SURVIVAL, changed(changed(changed(survivors(), 3, months=0.0), 5, months=0.0), 8, months=0),
        "mend it or remove the row, and 2 more like it",
    ),
    "a time below 0": (
        SURVIVAL, changed(survivors(), 0, months=-2.5), "is -2.5, and a time is above 0",
    ),
    "a time that is text": (
        SURVIVAL, changed(survivors().cast({"months": pl.String}), 1, months="soon"),
        'column "months", row 2 (the header not counted) is "soon", which is not a number',
    ),
    "no time": (SURVIVAL, changed(survivors(), 2, months=None), 'the time "months" is missing'),
    "an event that is neither": (
        SURVIVAL, changed(survivors(), 5, died=2),
        'column "died", row 6 (the header not counted) is "2", and an event is 1, true or yes',
    ),
    "an event coded 1 and 2": (
        SURVIVAL, survivors().with_columns(died=pl.col("died") + 1), "recode it, and ",
    ),
    "an event not known": (SURVIVAL, changed(survivors(), 5, died=None), 'event "died" is missing'),
    "no event anywhere": (
        SURVIVAL, survivors().with_columns(died=pl.lit(0)), "no row has an event: every time is",
    ),
    "a count below 0": (
        COUNTS, changed(fallers(), 1, falls=-1), "is -1, and a count is a whole number of at least",
    ),
    "a count and a half": (
        COUNTS, changed(fallers().cast({"falls": pl.Float64}), 1, falls=1.5), "is 1.5, and a count",
    ),
    "nothing counted": (
        COUNTS, fallers().with_columns(falls=pl.lit(0)), "every count is 0; a model needs rows in",
    ),
    "an exposure of 0": (
        COUNTS, changed(fallers(), 7, days=0),
        'column "days", row 8 (the header not counted) is 0, and an exposure is above 0',
    ),
    "an exposure below 0": (COUNTS, changed(fallers(), 7, days=-3), "is -3, and an exposure is"),
    "no exposure": (COUNTS, changed(fallers(), 7, days=None), 'the exposure "days" is missing'),
    "one row of a hospital": (
        SURVIVAL, changed(survivors(), 0, hospital="Rome"), "Rome has 1 row, fewer than 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_TABLES)
def test_what_no_outcome_can_be_is_refused_in_a_sentence(wrong, command, tmp_path):
    options, frame, sentence = WRONG_TABLES[wrong]
    code, _, messages = command(
        "fit", written(tmp_path, frame), *options, "--out", tmp_path / "out"
    )
    assert code == 2
    assert sentence in messages.replace("\n", " ")
    assert "Traceback" not in messages


WRONG_OPTIONS = {
    "--exposure alone": (
        ("--target", "falls", "--exposure", "days"),
        "--exposure means nothing without --task counts",
    ),
    "--time alone": (("--time", "months"), "--time means nothing without --task survival"),
    "--event for counts": (
        ("--task", "counts", "--target", "falls", "--event", "died"),
        "--event means nothing without --task survival",
    ),
    "survival without a time": (
        ("--task", "survival", "--event", "died"),
        "--task survival needs --time, a column of times",
    ),
    "survival without an event": (
        ("--task", "survival", "--time", "months"), "--task survival needs --event",
    ),
    "survival of a target": (
        (*SURVIVAL, "--target", "died"),
        "--task survival predicts --time and --event; leave --target",
    ),
    "a column twice": (
        ("--task", "survival", "--time", "died", "--event", "died"),
        'column "died" is named by both --time and --event',
    ),
    "an event that is not there": (
        ("--task", "survival", "--time", "months", "--event", "dead"),
        'has no column "dead" (--event); did you mean',
    ),
    "an exposure to keep": (
        ("--task", "counts", "--target", "died", "--exposure", "months", "--keep", "months"),
        'column "months" is named by both --exposure and --keep',
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_OPTIONS)
@pytest.mark.parametrize("verb", ["fit", "inspect"])
def test_options_that_do_not_go_together_are_refused(verb, wrong, command, tmp_path):
    options, sentence = WRONG_OPTIONS[wrong]
    code, shown, messages = command(verb, written(tmp_path, survivors()), *options)
    is_about_the_table = (verb, wrong) == ("inspect", "an event that is not there")
    assert code == (1 if is_about_the_table else 2)
    assert sentence in (shown + messages).replace("\n", " ")


def test_a_libsvm_file_has_no_such_outcome(command, tmp_path):
    path = tmp_path / "rows.libsvm"
    path.write_text("1 1:2\n" * 9)
    code, _, messages = command("fit", path, "--task", "counts")
    assert code == 2
    assert "--task counts needs a table with names" in messages


def test_a_hospital_without_an_event_is_no_obstacle_and_is_told(command, tmp_path):
    frame = survivors().with_columns(
        died=pl.when(pl.col("hospital") == "Oslo").then(0).otherwise(pl.col("died"))
    )
    code, _, messages = command(
        "fit", written(tmp_path, frame), *SURVIVAL, *QUICK, "--out", tmp_path / "out"
    )
    assert code == 0
    assert "at Oslo no row has an event" in messages


def test_times_that_are_all_the_same_are_told(command, tmp_path):
    frame = survivors().with_columns(months=pl.lit(12.0))
    code, _, messages = command(
        "fit", written(tmp_path, frame), *SURVIVAL, *QUICK, "--out", tmp_path / "out"
    )
    assert code == 0
    assert "all times of a site are the same: only who had the event can be learnt" in messages


@pytest.mark.parametrize("words", [("no", "yes"), ("false", "true"), ("False", "TRUE"), ("0", "1")])
def test_events_may_be_written_in_several_ways(words, command, tmp_path):
    plain = survivors()
    frame = plain.with_columns(
        died=pl.when(pl.col("died") == 1).then(pl.lit(words[1])).otherwise(pl.lit(words[0]))
    )
    code, shown, _ = command("inspect", written(tmp_path, frame), *SURVIVAL, "--json")
    found = json.loads(shown)
    assert code == 0
    assert found["task"] == "survival"
    events = sum(site["target"]["labels"]["event"] for site in found["sites"])
    assert events == plain["died"].sum()


@pytest.mark.parametrize(
    ("options", "frame"), [(COUNTS, fallers()), (SURVIVAL, survivors())], ids=["counts", "survival"]
)
def test_the_columns_of_the_outcome_are_no_features(options, frame, command, tmp_path):
    code, shown, _ = command("inspect", written(tmp_path, frame), *options, "--json")
    assert code == 0
    assert json.loads(shown)["features"] == 6


def test_the_rows_that_decide_over_counts_are_found_and_predicted(command, tmp_path):
    path, out = written(tmp_path, fallers()), tmp_path / "out"
    code, shown, _ = command("fit", path, *COUNTS, *QUICK, "--out", out, "--json")
    model = json.loads((out / "model.json").read_text())
    assert code == 0
    assert model["task"] == "counts"
    assert (model["target"], model["exposure"]) == ("falls", "days")
    assert {feature["name"] for feature in model["features"]} == {"marker_1", "marker_4"}
    metrics = json.loads(shown)["evaluation"]["scores"][0]["metrics"]
    assert metrics["deviance explained"] > 0.3
    code, shown, _ = command("predict", out, path)
    rates = pl.read_csv(shown.encode())["predicted falls per days"].to_numpy()
    truth = fallers()
    assert np.corrcoef(rates, (truth["falls"] / truth["days"]).to_numpy())[0, 1] > 0.6
    code, shown, _ = command("evaluate", out, path, "--site", "hospital", "--json")
    assert json.loads(shown)["all"]["rows"] == 160


def test_the_rows_that_decide_over_survival_are_found_and_predicted(command, tmp_path):
    path, out = written(tmp_path, survivors()), tmp_path / "out"
    code, shown, _ = command("fit", path, *SURVIVAL, *QUICK, "--out", out, "--json")
    model = json.loads((out / "model.json").read_text())
    assert code == 0
    assert model["task"] == "survival"
    assert (model["target"], model["event"]) == ("months", "died")
    assert {feature["name"] for feature in model["features"]} == {"marker_1", "marker_4"}
    metrics = json.loads(shown)["evaluation"]["scores"][0]["metrics"]
    assert metrics["C-index"] > 0.65
    code, shown, _ = command("predict", out, path)
    assert pl.read_csv(shown.encode())["relative hazard"].min() > 0
    code, shown, _ = command("evaluate", out, path, "--site", "hospital", "--json")
    assert json.loads(shown)["all"]["metrics"]["events"] == survivors()["died"].sum()


def test_the_page_of_survival_speaks_of_no_intercept_and_of_an_event(command, tmp_path):
    path, out = written(tmp_path, survivors()), tmp_path / "out"
    assert command("fit", path, *SURVIVAL, *QUICK, "--out", out)[0] == 0
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", (out / "report.html").read_text()))
    assert "“died”, an event, and when it was: “months”; how it was assessed" in words
    assert "“The features that were chosen”; the model file has the baseline hazard" in words
    assert json.loads((out / "model.json").read_text())["settings"]["intercept"] == "no"


def test_a_kept_category_leaves_other_features_their_intervals(command, tmp_path):
    frame, out = survivors(), tmp_path / "out"
    sex = pl.Series("sex", ["f", "m", "m", "f", "f"] * (frame.height // 5))
    path = written(tmp_path, frame.with_columns(sex))
    options = ("--keep", "sex", "--sparsity", 4, "--stability", 0, "--held-out", "none")
    code, _, messages = command("fit", path, *SURVIVAL, *options, "--out", out)
    model = json.loads((out / "model.json").read_text())
    refitted = {
        each["name"]: each["certainty"]["refitted"] is not None for each in model["features"]
    }
    assert code == 0
    assert refitted == {"marker_1": True, "marker_4": True, "sex=f": False, "sex=m": False}
    assert "nothing is estimated for 2 features, such as sex=" in messages.replace("\n", " ")


def test_curves_of_survival_end_where_few_rows_are_left(command, tmp_path):
    path, out = written(tmp_path, survivors()), tmp_path / "out"
    assert command("fit", path, *SURVIVAL, *QUICK, "--out", out)[0] == 0
    groups = json.loads((out / "fit.json").read_text())["risk_groups"]
    assert len(groups) == 3
    assert all(group["times"] and min(group["at_risk"]) >= 10 for group in groups)
    assert "where fewer than 10 of its rows are left" in (out / "report.html").read_text()


def test_evaluating_survival_names_event_and_time_and_says_what_is_missing(command, tmp_path):
    path, out, page = written(tmp_path, survivors()), tmp_path / "out", tmp_path / "page.html"
    quick = (*QUICK[:-1], "none", "--impute", "mean")
    assert command("fit", path, *SURVIVAL, *quick, "--out", out)[0] == 0
    others = changed(survivors(seed=1), 2, marker_1=None)
    others.write_csv(tmp_path / "others.csv")
    code, shown, messages = command("evaluate", out, tmp_path / "others.csv", "--out", page)
    assert code == 0
    assert "Predictions of died by months" in shown
    filled = "others.csv: 1 missing value in 1 row filled with means, as the model learnt to"
    assert filled in messages.replace("\n", " ")
    assert filled in page.read_text()
    assert "A model of “died” on other rows" in page.read_text()
    others.with_columns(died=pl.lit(0)).write_csv(tmp_path / "censored.csv")
    code, _, messages = command("evaluate", out, tmp_path / "censored.csv")
    assert code == 0
    assert "no row has an event, so that nothing can be said" in messages.replace("\n", " ")


def test_the_table_names_ratios(command, tmp_path):
    code, shown, _ = command(
        "fit", written(tmp_path, survivors()), *SURVIVAL, *QUICK, "--out", tmp_path / "out"
    )
    assert code == 0
    assert "hazard ratio" in shown
    assert "2 of 6 features predict died by months" in shown
