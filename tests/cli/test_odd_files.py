"""Files and values that nobody meant to give, through the command line."""

import json
import os
import subprocess

import polars as pl
import pytest

from tests.cli.builders import ROLES, patients
from tests.cli.commands import COMMAND, assert_one_line

_SECONDS = 60


def bounded(*arguments):
    """Run the command, which is killed if it does not end."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=_SECONDS
    )


def fit_arguments(path, tmp_path):
    is_libsvm = path.suffix == ".libsvm"
    target = () if is_libsvm else ("--target", "relapse")
    return "fit", path, *target, "--out", tmp_path / "out"


class TestWhatNeedNotEnd:
    @pytest.mark.parametrize("name", ["table.csv", "table.parquet", "table.txt", "table.libsvm"])
    @pytest.mark.parametrize("kind", ["pipe nobody writes to", "endless device"])
    def test_is_refused_as_a_table(self, tmp_path, name, kind):
        path = tmp_path / name
        if kind == "endless device":
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(path)
        done = bounded(*fit_arguments(path, tmp_path))
        assert done.returncode == 2
        assert_one_line(done.stderr.splitlines()[-1] + "\n", f"{path} is a pipe or a device")
        inspected = bounded("inspect", path, *fit_arguments(path, tmp_path)[2:-2])
        assert inspected.returncode == 1
        assert "is a pipe or a device" in " ".join(inspected.stdout.split())

    @pytest.mark.parametrize(
        "arguments",
        [
            ("predict", "pipe", "table.csv"),
            ("evaluate", "pipe", "table.csv"),
            ("reproduce", "pipe"),
            ("fit", "table.csv", "--target", "age", "--method", "pipe:Own"),
        ],
    )
    def test_is_refused_wherever_a_file_is_read(self, tmp_path, arguments):
        (tmp_path / "table.csv").write_text("age\n61\n")
        pipe = tmp_path / {"reproduce": "own.toml", "fit": "own.py"}.get(arguments[0], "model.json")
        os.mkfifo(pipe)
        named = [argument.replace("pipe", str(pipe)) for argument in arguments]
        done = subprocess.run(
            [COMMAND, *named], capture_output=True, text=True, timeout=_SECONDS, cwd=tmp_path
        )
        assert done.returncode == 2
        assert "is a pipe or a device" in done.stderr.splitlines()[-1]

    def test_is_refused_as_a_summary(self, tmp_path):
        os.mkfifo(tmp_path / "fit.json")
        done = bounded("report", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "is a pipe or a device")


def said(command, *arguments):
    """What inspecting tells, on one line."""
    code, out, _ = command("inspect", *arguments)
    return code, " ".join(out.split())


def changed(tmp_path, **columns):
    """The patients with columns of text in place of theirs, as a file."""
    path = tmp_path / "patients.csv"
    texts = [pl.Series(name, values, dtype=pl.String) for name, values in columns.items()]
    patients().with_columns(texts).write_csv(path)
    return path


class TestAForgottenSite:
    @pytest.mark.parametrize("name", ["hospital", "Centre_ID", "study site", "clinic"])
    def test_is_told_with_the_option_to_add(self, command, tmp_path, name):
        path = tmp_path / "patients.csv"
        patients().rename({"hospital": name}).write_csv(path)
        arguments = (path, "--target", "relapse", "--drop", "days")
        code, shown = said(command, *arguments)
        assert code == 0
        assert f'column "{name}" with 4 levels reads like the site of each row' in shown
        assert f"add --site {name} if it is" in shown
        assert "reads like" not in said(command, *arguments, "--site", name)[1]
        assert "reads like" not in said(command, *arguments, "--drop", name)[1]

    def test_is_told_by_a_fit_and_in_its_summary(self, command, tmp_path):
        patients().write_csv(tmp_path / "patients.csv")
        arguments = ("--target", "relapse", "--drop", "days", "--sparsity", 2, "--stability", 0)
        code, _, err = command(
            "fit", tmp_path / "patients.csv", *arguments, "--out", tmp_path / "out"
        )
        assert code == 0
        assert "add --site hospital" in " ".join(err.split())
        notes = json.loads((tmp_path / "out" / "fit.json").read_text())["notes"]
        assert any("add --site hospital" in note for note in notes)

    def test_is_not_guessed_of_other_columns_nor_where_every_file_is_a_site(
        self, command, tmp_path
    ):
        files = []
        for (name,), own in patients().group_by("hospital"):
            files.append(tmp_path / f"{name}.csv")
            own.write_csv(files[-1])
        shown = said(command, *files, "--target", "relapse", "--drop", "days")[1]
        assert "reads like" not in shown
        patients().rename({"hospital": "hospital_stay"}).write_csv(tmp_path / "all.csv")
        shown = said(command, tmp_path / "all.csv", "--target", "relapse", "--drop", "days")[1]
        assert "reads like" not in shown


class TestValuesThatMeanSomethingElse:
    @pytest.mark.parametrize("value", ["-999", "9999", "-99", "999.0"])
    def test_sentinels_are_told(self, command, tmp_path, value):
        own = [value if place % 9 == 0 else str(place % 7) for place in range(80)]
        path = changed(tmp_path, marker_3=own)
        code, shown = said(command, path, *ROLES)
        assert code == 0
        number = value.removesuffix(".0")
        assert f'{number} is far from all other values of "marker_3" (9 rows)' in shown
        arguments = (*ROLES, "--sparsity", 2, "--stability", 0, "--out", tmp_path / "out")
        assert f"{number} is far from" in " ".join(command("fit", path, *arguments)[2].split())

    def test_several_sentinels_of_one_column_are_told(self, command, tmp_path):
        own = [("-77", "-99")[place % 2] if place < 6 else "1.5" for place in range(80)]
        shown = said(command, changed(tmp_path, marker_3=own), *ROLES)[1]
        assert '-99 is far from all other values of "marker_3" (3 rows)' in shown
        assert '-77 is far from all other values of "marker_3" (3 rows)' in shown

    def test_numbers_among_others_are_none(self, command, tmp_path):
        own = [str(20 * place - 700) for place in range(79)] + ["999"]
        assert "far from" not in said(command, changed(tmp_path, marker_3=own), *ROLES)[1]

    def test_digits_that_get_lost_are_told(self, command, tmp_path):
        path = changed(tmp_path, marker_3=[str(2**53 + place) for place in range(80)])
        code, shown = said(command, path, *ROLES)
        assert code == 0
        assert '"marker_3" has whole numbers beyond 2^53' in shown
        assert "--drop marker_3" in shown

    @pytest.mark.parametrize("option", ["--category", "--site"])
    def test_no_digit_of_a_label_gets_lost(self, command, tmp_path, option):
        path = changed(tmp_path, hospital=[str(2**53 + place % 4) for place in range(80)])
        roles = ("--target", "relapse", "--drop", "days", option, "hospital")
        code, out, _ = command("inspect", path, *roles, "--json")
        found = json.loads(out)
        assert code == 0
        names = [str(2**53 + place) for place in range(4)]
        if option == "--site":
            assert [site["name"] for site in found["sites"]] == names
        else:
            assert found["features"] == 2 + 8 + 4

    @pytest.mark.parametrize(
        ("roles", "column"),
        [
            (("--target", "code", "--site", "hospital", "--drop", "relapse"), "code"),
            ((*ROLES, "--category", "code"), "code"),
            (("--target", "relapse", "--site", "code"), "code"),
            ((*ROLES, "--category", "code"), "mixed"),
        ],
    )
    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_labels_that_are_read_as_one_are_told(self, command, tmp_path, roles, column, suffix):
        last = ["ear", "01", "1", "2"] if column == "mixed" else ["2", "01", "1", "2"]
        frame = patients().with_columns(pl.Series("code", last * 20, dtype=pl.String))
        path = tmp_path / f"patients.{suffix}"
        getattr(frame, f"write_{suffix}")(path)
        shown = said(command, path, *roles)[1]
        assert '"01" and "1" in column "code" are read as one label' in shown

    def test_labels_of_which_all_have_zeros_are_none(self, command, tmp_path):
        path = changed(tmp_path, ward=["01", "02"] * 40)
        assert "read as one" not in said(command, path, *ROLES, "--category", "ward")[1]

    def test_a_column_without_a_name_is_called_so(self, command, tmp_path):
        path = tmp_path / "patients.csv"
        patients().with_columns(pl.int_range(pl.len()).alias("")).write_csv(path)
        code, shown = said(command, path, *ROLES)
        assert code == 0
        assert "unnamed (no name) 1" in shown
        assert "left out (without a name, as row names are): 1 column" in shown

    def test_several_columns_without_a_name(self, command, tmp_path):
        path = tmp_path / "patients.csv"
        path.write_text(",age,,relapse\n" + "1,2,3,yes\n3,4,5,no\n" * 5)
        code, _, err = command("fit", path, "--target", "relapse", "--out", tmp_path / "out")
        assert code == 2
        assert_one_line(err, "has several columns without a name (columns 1 and 3)")


class TestNumbersThatAreTooLarge:
    @pytest.mark.parametrize("task", ["auto", "regression", "classification"])
    @pytest.mark.parametrize("value", ["-Infinity", "inf", "-1e300"])
    def test_in_a_target(self, command, tmp_path, task, value):
        path = tmp_path / "table.csv"
        rows = "".join(f"{number % 5},{number / 3}\n" for number in range(30))
        path.write_text(f"age,days\n1,{value}\n{rows}")
        arguments = (path, "--target", "days", "--task", task)
        code, out, _ = command("inspect", *arguments)
        assert code == 1
        assert 'column "days", row 1 (the header not counted) is' in " ".join(out.split())
        code, _, err = command("fit", *arguments, "--out", tmp_path / "out")
        assert code == 2
        assert_one_line(err, 'column "days", row 1')

    def test_in_a_target_of_libsvm_text(self, command, tmp_path):
        path = tmp_path / "table.libsvm"
        path.write_text("1 1:1\n-Infinity 1:1\n0 1:1\n")
        code, _, err = command("fit", path, "--out", tmp_path / "out")
        assert code == 2
        assert_one_line(err, "row 2: the target is -inf")

    @pytest.mark.parametrize("number", [2**27, 2**31 - 2, 2**31 - 1, 2**31, 2**63, 2**70])
    def test_as_a_number_of_a_feature(self, command, tmp_path, number):
        path = tmp_path / "table.libsvm"
        path.write_text(f"1 1:1\n0 2:1 {number}:1\n" + "1 1:3\n0 1:2\n" * 5)
        code, _, err = command("fit", path, "--out", tmp_path / "out")
        assert code == 2
        assert_one_line(err, f"the feature number {number} is too large")
        assert command("inspect", path)[0] == 1
