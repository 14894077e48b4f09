"""Files and values that nobody meant to give, through the command line."""

import os
import subprocess

import pytest

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
        assert inspected.returncode == 2
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


class TestNumbersThatAreTooLarge:
    @pytest.mark.parametrize("task", ["auto", "regression", "classification"])
    @pytest.mark.parametrize("value", ["-Infinity", "inf", "-1e300"])
    def test_in_a_target(self, command, tmp_path, task, value):
        path = tmp_path / "table.csv"
        rows = "".join(f"{number % 5},{number / 3}\n" for number in range(30))
        path.write_text(f"age,days\n1,{value}\n{rows}")
        arguments = (path, "--target", "days", "--task", task)
        code, out, _ = command("inspect", *arguments)
        assert code == 2
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
        assert command("inspect", path)[0] == 2
