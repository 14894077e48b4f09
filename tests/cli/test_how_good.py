"""How good, how sure: intervals, the headline and a user's threshold through the command line."""

import json
import sys

import numpy as np
import pytest

from fedsparse.cli import main
from tests.cli.builders import ROLES, patients

QUICK = ("--sparsity", 2, "--stability", 0, "--held-out", "all")


@pytest.fixture
def fit(monkeypatch, capsys, tmp_path):
    """Fit a table in this process; gives exit code, output and messages."""

    def call(frame, *arguments, roles=ROLES):
        table = tmp_path / "patients.csv"
        frame.write_csv(table)
        told = ["fit", table, *roles, *arguments, "--out", tmp_path / "fit"]
        monkeypatch.setattr(sys, "argv", ["fedsparse", *map(str, told)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def test_every_metric_has_its_interval_in_table_file_and_json(fit, tmp_path):
    code, shown, _ = fit(patients(), *QUICK)
    assert code == 0
    assert "with 95 % intervals" in shown
    held_out = json.loads((tmp_path / "fit" / "model.json").read_text())["held_out"]
    assert held_out["rows"] == 80
    assert held_out["metrics"].keys() == held_out["intervals"].keys()
    assert not held_out["no_better_than_guessing"]
    low, high = held_out["intervals"]["AUC"]
    assert f"({low:.3f} to {high:.3f})" in shown
    _, told, _ = fit(patients(), *QUICK, "--json", "--overwrite")
    scores = json.loads(told)["evaluation"]["scores"]
    assert all(score["intervals"].keys() == score["metrics"].keys() for score in scores)


def test_of_labels_in_random_order_it_says_that_the_model_guesses(fit, tmp_path):
    frame = patients()
    labels = np.random.default_rng(3).permutation(frame["relapse"].to_numpy())
    _, shown, _ = fit(frame.with_columns(relapse=labels), *QUICK)
    assert "no better than guessing" in shown
    assert "predict relapse" not in shown
    assert "no better than guessing" in (tmp_path / "fit" / "report.html").read_text("utf-8")


def test_sensitivity_and_specificity_are_told_at_the_users_threshold(fit):
    code, shown, _ = fit(patients(), *QUICK, "--threshold", 0.3)
    assert code == 0
    assert "from a probability of 0.300 on" in shown
    assert "sensitivity" in shown


def test_numbers_have_a_calibration_and_no_threshold(fit):
    roles = ("--target", "days", "--site", "hospital", "--drop", "relapse")
    code, shown, _ = fit(patients(), *QUICK, roles=roles)
    assert code == 0
    assert "Calibration: slope" in shown


NUMBERS = ("--target", "days", "--site", "hospital", "--drop", "relapse")
WRONG = {
    "above 1": (ROLES, ("--threshold", 1.5), "--threshold must be a number from 0 to 1, not 1.5"),
    "not a number": (ROLES, ("--threshold", "high"), "--threshold"),
    "nothing to judge on": (
        ROLES, ("--threshold", 0.5, "--held-out", "none"), "--held-out none holds out none",
    ),
    "numbers": (NUMBERS, ("--threshold", 0.5), "--threshold is for classes"),
}  # fmt: skip


@pytest.mark.parametrize(("roles", "asked", "sentence"), WRONG.values(), ids=WRONG)
def test_a_threshold_that_means_nothing_is_refused(roles, asked, sentence, fit):
    code, _, told = fit(patients(), "--sparsity", 2, "--stability", 0, *asked, roles=roles)
    assert code == 2
    assert sentence in told
    assert "Traceback" not in told


def test_a_threshold_below_0_is_refused(fit):
    code, _, told = fit(patients(), "--threshold=-0.1")
    assert code == 2
    assert "--threshold" in told


def test_other_seeds_tell_how_sure_the_number_of_features_is(fit, tmp_path):
    quick = ("--stability", 0, "--held-out", "none", "--rounds", 20)
    _, alone, _ = fit(patients(), *quick)
    code, shown, _ = fit(patients(), *quick, "--other-seeds", 3, "--overwrite")
    assert code == 0
    assert "of 3 other seeds would choose" in shown
    found = json.loads((tmp_path / "fit" / "fit.json").read_text())
    assert len(found["selection"]["other_seeds"]) == 3
    told = [line for line in alone.splitlines() if "chosen by" in line]
    assert told == [line for line in shown.splitlines() if "chosen by" in line]


def test_other_seeds_need_a_number_to_choose(fit):
    code, _, told = fit(patients(), "--sparsity", 2, "--other-seeds", 3)
    assert code == 2
    assert "--other-seeds is for the folds of --sparsity cv" in told


def test_intervals_of_one_fold_cannot_be_asked_for(fit):
    code, _, told = fit(patients(), "--folds", 1)
    assert code == 2
    assert "No such option" in told
    assert "--folds" in told
