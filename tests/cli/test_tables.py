"""From a table to a model, predictions and a report, through the command line."""

import json
import signal
import subprocess
import time

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.cli.builders import ROLES, patients
from tests.cli.commands import COMMAND, assert_one_line, fedsparse


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    patients().write_csv(path)
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit by the installed command, with everything on."""
    folder = tmp_path_factory.mktemp("fit")
    patients().write_csv(folder / "patients.csv")
    done = fedsparse("fit", folder / "patients.csv", *ROLES, "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder, done


class TestFit:
    def test_shows_the_features_and_how_good_the_model_is(self, fitted):
        _, done = fitted
        assert "80 rows at 4 sites; columns: 1 × category, 8 × number" in done.stdout
        assert "marker_4" in done.stdout
        assert "found again" in done.stdout
        assert "each alone" in done.stdout
        assert "AUC" in done.stdout
        assert "were chosen by log-loss per held-out row" in done.stdout

    def test_leaves_model_summary_and_report(self, fitted):
        folder, done = fitted
        names = sorted(path.name for path in (folder / "out").iterdir())
        assert names == ["fit.json", "model.json", "report.html"]
        assert str(folder / "out" / "report.html") in done.stdout
        model = json.loads((folder / "out" / "model.json").read_text())
        assert {"marker_1", "marker_4"} <= {feature["name"] for feature in model["features"]}
        assert "<!doctype html>" in (folder / "out" / "report.html").read_text()

    def test_needs_no_terminal(self, fitted):
        assert fitted[1].stderr == ""

    def test_json_for_scripts(self, command, table, tmp_path):
        code, out, _ = command(
            "fit", table, *ROLES, "--sparsity", 3, "--held-out", "fifth", "--stability", 0,
            "--json", "--out", tmp_path / "out",
        )  # fmt: skip
        summary = json.loads(out)
        assert code == 0
        assert len(summary["model"]["features"]) == 3
        assert summary["stability"] is None
        assert summary["evaluation"]["scores"][0]["rows"] == 16

    def test_regression_and_features_to_keep(self, command, table, tmp_path):
        code, out, _ = command(
            "fit", table, "--target", "days", "--site", "hospital", "--drop", "relapse",
            "--sparsity", 4, "--keep", "marker_0", "--stability", 0, "--out", tmp_path / "out",
        )  # fmt: skip
        assert code == 0
        assert "marker_0" in out
        assert "R²" in out

    def test_one_file_per_site(self, command, tmp_path):
        for (name,), own in patients().group_by("hospital"):
            own.drop("hospital", "days").write_parquet(tmp_path / f"{name}.parquet")
        files = sorted(tmp_path.glob("*.parquet"))
        code, out, _ = command(
            "fit", *files, "--target", "relapse", "--sparsity", "ebic", "--stability", 0,
            "--out", tmp_path / "out",
        )  # fmt: skip
        assert code == 0
        assert "80 rows at 4 sites" in out
        assert "Cork" in out

    def test_a_method_with_its_options(self, command, table, tmp_path):
        code, out, _ = command(
            "fit", table, *ROLES, "--sparsity", 3, "--method", "FedIterHT", "--local-steps", 4,
            "--server-step", "adaptive", "--held-out", "none", "--stability", 0, "--json",
            "--out", tmp_path / "out",
        )  # fmt: skip
        assert code == 0
        settings = json.loads(out)["model"]["settings"]
        assert (settings["method"], settings["local steps"]) == ("FedIterHT", "4")
        assert settings["server step"] == "adaptive"

    def test_a_method_of_ones_own(self, command, table, tmp_path):
        (tmp_path / "mine.py").write_text(
            "import fedsparse\n\nclass Own(fedsparse.FedSplice):\n    pass\n"
        )
        options = ("--sparsity", "ebic", "--held-out", "fifth", "--stability", 2, "--json")
        found = []
        for method in ("FedSplice", f"{tmp_path}/mine.py:Own"):
            code, out, err = command(
                "fit", table, *ROLES, *options, "--method", method, "--overwrite", "--out",
                tmp_path / "out",
            )  # fmt: skip
            assert code == 0, err
            found.append(json.loads(out))
        assert found[1]["model"]["features"] == found[0]["model"]["features"]
        assert found[1]["model"]["settings"]["method"] == "Own of mine.py"

    def test_missing_values_are_refused_or_filled(self, command, tmp_path):
        holes = patients().with_columns(
            pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("marker_1"))
            .alias("marker_1")
        )  # fmt: skip
        holes.write_csv(tmp_path / "holes.csv")
        arguments = ("fit", tmp_path / "holes.csv", *ROLES, "--sparsity", 3, "--stability", 0)
        code, _, err = command(*arguments, "--out", tmp_path / "a")
        assert code == 2
        assert_one_line(err, "marker_1")
        code, _, _ = command(*arguments, "--impute", "mean", "--out", tmp_path / "b")
        assert code == 0

    def test_an_interrupted_fit_leaves_what_was_there(self, table, tmp_path):
        arguments = ("fit", table, *ROLES, "--out", tmp_path / "out")
        short = ("--sparsity", 2, "--held-out", "none", "--stability", 0)
        assert fedsparse(*arguments, *short).returncode == 0
        before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        process = subprocess.Popen(
            [COMMAND, *map(str, arguments), "--overwrite", "--stability", "3000"],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert "80 rows" in process.stdout.readline()
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert_one_line(err, "stopped")
        assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before

    def test_a_saved_model_is_not_lost(self, command, table, tmp_path):
        arguments = ("fit", table, *ROLES, "--sparsity", 2, "--held-out", "none", "--stability", 0)
        assert command(*arguments, "--out", tmp_path / "out")[0] == 0
        before = (tmp_path / "out" / "model.json").read_bytes()
        code, _, err = command(*arguments, "--seed", 5, "--out", tmp_path / "out")
        assert code == 2
        assert_one_line(err, "model.json exists already")
        assert (tmp_path / "out" / "model.json").read_bytes() == before
        assert command(*arguments, "--out", tmp_path / "out", "--overwrite")[0] == 0


class TestHowSure:
    def test_intervals_are_in_the_terminal_the_file_and_the_page(self, fitted):
        folder, done = fitted
        assert "Odds ratios per SD, 95% intervals as if the features were chosen" in done.stdout
        model = json.loads((folder / "out" / "model.json").read_text())
        assert model["how_sure"]["ratio"] == "odds ratio"
        assert {"refitted", "shrunk", "after_choosing"} == set(model["features"][0]["certainty"])
        assert "How sure the coefficients are" in (folder / "out" / "report.html").read_text()

    def test_json_has_them(self, command, table, tmp_path):
        asked = ("--sparsity", 2, "--stability", 3, "--held-out", "none", "--json")
        roles = ("--target", "days", "--site", "hospital", "--drop", "relapse")
        code, out, _ = command("fit", table, *roles, *asked, "--out", tmp_path / "out")
        assert code == 0
        (first, _) = json.loads(out)["model"]["features"]
        own = first["certainty"]["after_choosing"]
        assert own["ratio"] is None
        assert own["coefficient"]["low"] < own["coefficient"]["value"]

    def test_they_are_left_out_on_request(self, command, table, tmp_path):
        asked = ("--sparsity", 2, "--stability", 0, "--held-out", "none", "--intervals", "no")
        code, out, _ = command("fit", table, *ROLES, *asked, "--out", tmp_path / "out")
        assert code == 0
        assert "intervals" not in out
        code, _, err = command("report", tmp_path / "out", "--forest", tmp_path / "forest.png")
        assert code == 2
        assert_one_line(err, "--forest has nothing to draw")

    def test_the_forest_plot_is_written_as_a_picture(self, command, fitted, tmp_path):
        folder, _ = fitted
        page, forest = tmp_path / "page.html", tmp_path / "forest.png"
        code, out, _ = command("report", folder / "out", "--out", page, "--forest", forest)
        assert code == 0
        assert f"Forest plot: {forest}" in out
        assert forest.read_bytes()[1:4] == b"PNG"

    def test_only_png_is_written(self, command, fitted, tmp_path):
        folder, _ = fitted
        code, _, err = command("report", folder / "out", "--forest", tmp_path / "forest.jpg")
        assert code == 2
        assert_one_line(err, "does not end in .png")


class TestLibsvm:
    def test_fit_predict_and_evaluate(self, command, tmp_path):
        random = np.random.default_rng(0)
        files = []
        for site in ("north", "south"):
            Z = random.standard_normal((60, 30)) * (random.random((60, 30)) < 0.3)
            y = np.where(Z[:, 4] - Z[:, 9] + 0.1 * random.standard_normal(60) > 0, 1, -1)
            files.append(tmp_path / f"{site}.svm")
            dump_svmlight_file(Z, y, str(files[-1]), zero_based=False)
        code, out, err = command(
            "fit", *files, "--sparsity", 2, "--stability", 0, "--out", tmp_path / "out"
        )
        assert code == 0, err
        model = json.loads((tmp_path / "out" / "model.json").read_text())
        assert [feature["name"] for feature in model["features"]] == ["5", "10"]
        code, out, _ = command("evaluate", tmp_path / "out" / "model.json", *files, "--json")
        scores = json.loads(out)
        assert code == 0
        assert scores["all"]["rows"] == 120
        assert scores["sites"]["north"]["metrics"]["accuracy"] > 0.75


class TestPredict:
    def test_predictions_are_those_of_the_model(self, command, fitted, tmp_path):
        folder, _ = fitted
        model, fresh = folder / "out" / "model.json", tmp_path / "fresh.csv"
        patients(seed=1).drop("relapse", "days").write_csv(fresh)
        code, out, _ = command("predict", model, fresh)
        assert code == 0
        found = pl.read_csv(out.encode())
        assert found.columns == [
            "file",
            "row",
            "predicted relapse",
            "probability of no",
            "probability of yes",
        ]
        assert found.height == 80
        assert (found["predicted relapse"] == patients(seed=1)["relapse"]).mean() > 0.7
        code, out, _ = command("predict", model, fresh, "--out", tmp_path / "predictions.csv")
        assert pl.read_csv(tmp_path / "predictions.csv").equals(found)

    def test_columns_that_say_who_it_is_come_along(self, command, fitted, tmp_path):
        fresh = tmp_path / "fresh.csv"
        patients(seed=1).write_csv(fresh)
        code, out, _ = command(
            "predict", fitted[0] / "out", fresh, "--id", "hospital", "--id", "relapse"
        )
        assert code == 0
        assert pl.read_csv(out.encode())["hospital"].equals(patients(seed=1)["hospital"])

    def test_filled_values_are_told(self, command, tmp_path):
        holes = patients().with_columns(
            pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise(pl.col("marker_4"))
            .alias("marker_4")
        )  # fmt: skip
        holes.write_csv(tmp_path / "holes.csv")
        options = ("--impute", "mean", "--sparsity", 3, "--held-out", "none", "--stability", 0)
        command("fit", tmp_path / "holes.csv", *ROLES, *options, "--out", tmp_path / "out")
        code, out, err = command("predict", tmp_path / "out", tmp_path / "holes.csv")
        assert code == 0
        assert "1 missing value in 1 row filled" in " ".join(err.split())
        assert pl.read_csv(out.encode())["filled"].to_list()[3:6] == [0, 1, 0]

    def test_predictions_already_there_are_not_lost(self, command, fitted, table, tmp_path):
        (tmp_path / "p.csv").write_text("precious")
        code, _, err = command("predict", fitted[0] / "out", table, "--out", tmp_path / "p.csv")
        assert code == 2
        assert_one_line(err, "exists already")
        assert (tmp_path / "p.csv").read_text() == "precious"

    def test_evaluation_on_the_table_it_was_learnt_from_is_called_that(self, command, fitted):
        folder, _ = fitted
        _, _, err = command("evaluate", folder / "out", folder / "patients.csv")
        assert "was learnt from patients.csv" in " ".join(err.split())

    def test_files_of_one_name_are_not_taken_for_one_site(self, command, fitted, tmp_path):
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            patients(seed=1).write_csv(tmp_path / name / "fresh.csv")
        files = (tmp_path / "one" / "fresh.csv", tmp_path / "two" / "fresh.csv")
        code, _, err = command("evaluate", fitted[0] / "out", *files)
        assert code == 2
        assert_one_line(err, "both stand for the site")

    def test_evaluation_on_new_rows_by_site(self, command, fitted, tmp_path):
        folder, _ = fitted
        fresh = tmp_path / "fresh.csv"
        patients(seed=1).write_csv(fresh)
        code, out, _ = command(
            "evaluate", folder / "out" / "model.json", fresh, "--site", "hospital"
        )
        assert code == 0
        assert "all sites" in out
        assert "Oslo" in out

    def test_a_report_is_asked_of_the_folder_and_not_of_the_model_in_it(self, command, fitted):
        folder, _ = fitted
        code, _, err = command("report", folder / "out" / "model.json")
        assert code == 2
        assert_one_line(err, "is a file; give the folder it is in")

    def test_the_report_can_be_drawn_again(self, command, fitted, tmp_path):
        folder, _ = fitted
        code, _, _ = command("report", folder / "out", "--out", tmp_path / "again.html")
        assert code == 0
        assert (tmp_path / "again.html").read_bytes() == (
            folder / "out" / "report.html"
        ).read_bytes()


class TestInspect:
    def test_a_sound_table(self, command, table):
        code, out, _ = command("inspect", table, *ROLES)
        assert code == 0
        assert "Bari" in out
        assert "marker_0" in out
        assert "Ready: 10 features to choose from, for classification." in out

    def test_every_problem_at_once(self, command, tmp_path):
        frame = patients().with_columns(
            pl.lit(1).alias("constant"),
            pl.int_range(pl.len()).alias("patient_id"),
            pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("high")).otherwise(
                pl.col("marker_2").cast(pl.String)
            ).alias("marker_2"),
            pl.when(pl.int_range(pl.len()) < 4).then(None).otherwise(pl.col("marker_3"))
            .alias("marker_3"),
        )  # fmt: skip
        frame.write_csv(tmp_path / "wrong.csv")
        code, out, _ = command("inspect", tmp_path / "wrong.csv", *ROLES)
        assert code == 1
        for part in ("constant", "patient_id", '"marker_2", row 4', "high", "marker_3"):
            assert part in out

    def test_spellings_of_one_name_are_pointed_out(self, command, tmp_path):
        patients().with_columns(
            pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("BARI")).otherwise(pl.col("hospital"))
            .alias("hospital"),
            pl.when(pl.int_range(pl.len()) == 1).then(pl.lit("Eye")).otherwise(pl.col("ward"))
            .alias("ward"),
        ).write_csv(tmp_path / "spelt.csv")  # fmt: skip
        code, out, _ = command("inspect", tmp_path / "spelt.csv", *ROLES)
        shown = " ".join(out.split())
        assert code == 1
        assert 'BARI has 1 row, fewer than 5; if it is "Bari", write it so' in shown
        assert 'column "ward" has the levels' in shown

    def test_json_for_scripts(self, command, table):
        code, out, _ = command("inspect", table, *ROLES, "--json")
        assert code == 0
        assert json.loads(out)["features"] == 10


WRONG_TABLES = {
    "target not there": ((), ("--target", "relaps", "--site", "hospital"), '"relapse"'),
    "site not there": ((), ("--target", "relapse", "--site", "hospitl"), '"hospital"'),
    "no target": ((), (), "--target"),
    "junk": (
        (
            pl.when(pl.int_range(pl.len()) == 6).then(pl.lit("12,5")).otherwise(
                pl.col("marker_2").cast(pl.String)
            ).alias("marker_2"),
        ),
        ROLES, '"12,5"',
    ),
    "site of three rows": (
        (pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("Rome")).otherwise(pl.col("hospital"))
         .alias("hospital"),), ROLES, "Rome",
    ),
    "one class in all": ((pl.lit("yes").alias("relapse"),), ROLES, "yes"),
    "sparsity of nothing": ((), (*ROLES, "--sparsity", "0"), "--sparsity"),
    "sparsity of words": ((), (*ROLES, "--sparsity", "few"), "'few'"),
    "option of no method": ((), (*ROLES, "--step-size", "1"), "--step-size means nothing"),
    "method not there": ((), (*ROLES, "--method", "mine:Own"), "mine cannot be imported"),
    "one round": ((), (*ROLES, "--rounds", "1"), "FedSplice finds nothing in 1 round"),
    "seed too large": ((), (*ROLES, "--seed", 2**63), "--seed must be a whole number from 0 to"),
    "keep not there": ((), (*ROLES, "--keep", "marker_99"), '"marker_99"'),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_what_cannot_be_fitted_is_told_in_one_line(command, tmp_path, name):
    changes, roles, part = WRONG_TABLES[name]
    patients().with_columns(*changes).write_csv(tmp_path / "patients.csv")
    code, _, err = command("fit", tmp_path / "patients.csv", *roles, "--out", tmp_path / "out")
    assert code == 2
    assert_one_line(err.splitlines()[-1] + "\n", part)
    assert not (tmp_path / "out" / "model.json").exists()


def test_many_columns_to_keep_at_small_sites(command, tmp_path):
    frame = patients(rows=32).with_columns(
        pl.Series("ward", [f"ward {number % 7}" for number in range(32)])
    )
    frame.write_csv(tmp_path / "small.csv")
    options = ("--keep", "ward", "--sparsity", 8, "--stability", 0, "--out", tmp_path / "out")
    code, out, _ = command("fit", tmp_path / "small.csv", *ROLES, *options)
    assert code == 0
    assert "ward=ward 6" in out


def test_three_classes_keep_their_feature_names(command, tmp_path):
    frame = patients()
    thirds = np.digitize(frame["days"], np.quantile(frame["days"], [1 / 3, 2 / 3]))
    frame = frame.with_columns(pl.Series("stay", np.array(["short", "middle", "long"])[thirds]))
    frame.drop("relapse", "days").write_csv(tmp_path / "three.csv")
    roles = ("--target", "stay", "--site", "hospital", "--sparsity", 2, "--stability", 0)
    code, out, _ = command("fit", tmp_path / "three.csv", *roles, "--out", tmp_path / "out")
    assert code == 0
    assert "marker_4" in out
    assert "per SD short" in out


def test_duplicate_column_names_are_refused(command, tmp_path):
    (tmp_path / "twice.csv").write_text("age,age,relapse\n" + "1,2,yes\n3,4,no\n" * 5)
    code, _, err = command(
        "fit", tmp_path / "twice.csv", "--target", "relapse", "--out", tmp_path / "out"
    )
    assert code == 2
    assert_one_line(err, "age")


def test_a_missing_table_is_named(command, tmp_path):
    code, _, err = command(
        "fit", tmp_path / "nowhere.csv", "--target", "y", "--out", tmp_path / "out"
    )
    assert code == 2
    assert_one_line(err, "nowhere.csv")


PER_CLASS = """
import fedsparse as fs


class Own(fs.FedSplice):
    def __post_init__(self):
        own = self.sparsity
        if isinstance(own, (fs.TopK, fs.TopKRows)):
            own = fs.TopKPerClass(own.sparsity, keep=own.keep)
        object.__setattr__(self, "sparsity", own)
        super().__post_init__()
"""


def test_how_many_features_a_class_has_is_told_where_classes_do_not_share_them(command, tmp_path):
    frame = patients(rows=120)
    thirds = np.digitize(frame["days"], np.quantile(frame["days"], [1 / 3, 2 / 3]))
    frame = frame.with_columns(pl.Series("stay", np.array(["short", "middle", "long"])[thirds]))
    frame.drop("relapse", "days").write_csv(tmp_path / "three.csv")
    (tmp_path / "own.py").write_text(PER_CLASS)
    roles = ("--target", "stay", "--site", "hospital", "--stability", 0, "--held-out", "none")
    code, out, _ = command(
        "fit", tmp_path / "three.csv", *roles, "--method", f"{tmp_path}/own.py:Own", "--out",
        tmp_path / "out",
    )  # fmt: skip
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    used = np.array([feature["coefficients"] for feature in model["features"]]) != 0
    assert code == 0
    assert 0 < used.sum(axis=0).max() < len(used)
    assert f"features predict stay, at most {used.sum(axis=0).max()} of each class" in out
    assert "of each class were chosen by log-loss per held-out row" in out
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"at most {used.sum(axis=0).max()} of each class" in page


def test_why_so_many_features_and_what_rounds_are(command, tmp_path):
    random = np.random.default_rng(3)
    X = random.standard_normal((100, 20))
    noisy = X[:, 0] + 0.3 * X[:, 1] + 0.15 * X[:, 2] + random.standard_normal(100)
    columns = {f"marker_{place}": X[:, place] for place in range(20)}
    pl.DataFrame({**columns, "days": noisy}).write_csv(tmp_path / "days.csv")
    options = ("--stability", 0, "--held-out", "none", "--out", tmp_path / "out")
    code, out, _ = command("fit", tmp_path / "days.csv", "--target", "days", *options)
    fit = json.loads((tmp_path / "out" / "fit.json").read_text())
    chosen = fit["selection"]
    assert code == 0
    assert chosen["chosen"] < chosen["best"]
    assert (
        f"chosen by squared error per held-out row: {chosen['best']} have the lowest, and "
        f"{chosen['chosen']} are the fewest within one standard error of it."
    ) in out
    assert (
        f"Rounds: {fit['history'][-1]['round']} for the model, {chosen['rounds']} to choose the "
        f"number of features, {fit['exchanges']} for everything together; in a round every site "
        "answers once."
    ) in out


class TestWrongModels:
    @pytest.mark.parametrize(
        ("change", "part"),
        [
            (lambda text: text.replace('"marker_4"', '"marker_5"'), "was changed"),
            (lambda text: text.replace('"format_version": 1', '"format_version": 9'), "newer"),
            (lambda text: text[:200], "no whole JSON"),
        ],
    )
    def test_a_changed_model_is_refused(self, command, fitted, tmp_path, table, change, part):
        model = tmp_path / "model.json"
        model.write_text(change((fitted[0] / "out" / "model.json").read_text()))
        code, _, err = command("predict", model, table)
        assert code == 2
        assert_one_line(err, part)

    def test_a_table_without_a_needed_column_is_refused(self, command, fitted, tmp_path):
        patients().drop("marker_4").write_csv(tmp_path / "less.csv")
        code, _, err = command("predict", fitted[0] / "out" / "model.json", tmp_path / "less.csv")
        assert code == 2
        assert_one_line(err, '"marker_4"')

    def test_more_columns_are_refused_only_if_asked_for(self, command, fitted, table):
        model = fitted[0] / "out" / "model.json"
        assert command("predict", model, table)[0] == 0
        code, _, err = command("predict", model, table, "--strict")
        assert code == 2
        assert_one_line(err, "does not use")


def test_shell_completion_is_offered(command):
    code, out, _ = command("--help")
    assert code == 0
    assert "--install-completion" in out
    assert out.index("fit") < out.index("reproduce")
