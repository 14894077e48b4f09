"""The demo through the installed command, as a user meets it."""

import os
import re
import signal
import subprocess
import time

import pytest

from fedsparse.modelling.model import Model
from fedsparse.research.data.hospitals import EFFECTS, PATIENTS
from fedsparse.version import __version__
from tests.cli.commands import COMMAND, assert_one_line, fedsparse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def shown(folder):
    done = fedsparse("demo", "--rounds", 3, "--seed", 1, "--out", folder)
    assert done.returncode == 0, done.stderr
    return done


class TestDemo:
    def test_ends_with_where_everything_is(self, shown, folder):
        assert shown.stdout.splitlines()[-4:] == [
            f"Tables:  {folder}/*.csv",
            f"Report:  {folder}/fit/report.html",
            f"Methods: {folder}/methods.html",
            f"Picture: {folder}/methods.png",
        ]

    def test_writes_that_and_leaves_nothing_else(self, shown, folder):
        hospitals = [f"{name}.csv" for name in PATIENTS]
        assert sorted(path.name for path in folder.iterdir()) == [
            *hospitals, "fit", "methods.html", "methods.png"
        ]  # fmt: skip
        assert sorted(path.name for path in (folder / "fit").iterdir()) == [
            "fit.json", "model.json", "report.html"
        ]  # fmt: skip

    def test_no_bar_when_there_is_no_terminal(self, shown):
        assert all(line.startswith("Note: ") for line in shown.stderr.splitlines())


class TestHospitals:
    def test_shows_the_chosen_columns_with_intervals(self, shown, folder):
        model = Model.load(folder / "fit")
        _, table = shown.stdout.split("Odds ratios per SD, 95% intervals", 1)
        for feature in model.features:
            assert re.search(rf"^ +{feature.name} .* to ", table, flags=re.MULTILINE)

    def test_says_which_planted_columns_were_found(self, shown, folder):
        columns = {feature.column for feature in Model.load(folder / "fit").features}
        assert f"The model has {len(columns & set(EFFECTS))} of them" in shown.stdout
        assert f"and {len(columns - set(EFFECTS)) or 'no'} other" in shown.stdout

    def test_the_command_that_it_shows_makes_the_same_model(self, shown, folder, tmp_path):
        command = shown.stdout.partition("\n")[0].removeprefix("$ ")
        command = command.replace(f"--out {folder}/fit", f"--out {tmp_path}")
        done = subprocess.run(
            f"{COMMAND.parent}/{command}", shell=True, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "model.json").read_text() == (folder / "fit/model.json").read_text()


class TestMethods:
    def test_shows_a_table_of_all_methods(self, shown):
        assert shown.stdout.count("extrapolated") >= 3
        assert "Distributed-IHT" in shown.stdout

    def test_the_page_names_the_command(self, shown, folder):
        assert "fedsparse demo --rounds 3 --seed 1" in (folder / "methods.html").read_text("utf-8")


class TestErrors:
    def test_unknown_option(self, tmp_path):
        done = fedsparse("demo", "--round", 3, "--out", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "--round")

    def test_impossible_value(self, tmp_path):
        done = fedsparse("demo", "--rounds", 0, "--out", tmp_path)
        assert done.returncode == 2
        assert_one_line(done.stderr, "--rounds")

    def test_unknown_command(self):
        done = fedsparse("demmo")
        assert done.returncode == 2
        assert_one_line(done.stderr, "demmo")

    def test_folder_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").touch()
        folder = tmp_path / "file" / "folder"
        done = fedsparse("demo", "--out", folder)
        assert done.returncode == 2
        assert_one_line(done.stderr, str(folder))
        assert done.stdout == ""

    def test_interrupt(self, tmp_path):
        folder = tmp_path / "out"
        running = subprocess.Popen(
            [COMMAND, "demo", "--rounds", "100000", "--out", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not folder.exists():  # from here on, the command is past its imports
            assert running.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 130
        assert errors.splitlines()[-1] == "fedsparse: stopped"
        assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_version():
    assert fedsparse("--version").stdout == f"fedsparse {__version__}\n"


def test_without_a_command_it_explains_itself():
    done = fedsparse()
    assert done.returncode == 0
    assert "demo" in done.stdout
