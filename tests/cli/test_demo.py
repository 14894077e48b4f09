"""The demo through the installed command, as a user meets it."""

import os
import signal
import subprocess
import time

import pytest

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
    def test_ends_with_table_and_paths(self, shown, folder):
        assert shown.stdout.count("extrapolated") >= 3
        assert "Distributed-IHT" in shown.stdout
        assert f"Page:    {folder / 'demo.html'}" in shown.stdout
        assert f"Picture: {folder / 'demo.png'}" in shown.stdout

    def test_writes_page_and_picture_and_leaves_nothing_else(self, shown, folder):
        assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "demo.png"]
        assert "fedsparse demo --rounds 3 --seed 1" in (folder / "demo.html").read_text("utf-8")

    def test_no_bar_when_there_is_no_terminal(self, shown):
        assert shown.stderr == ""


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
        assert_one_line(errors, "stopped")
        assert os.listdir(folder) == []


def test_version():
    assert fedsparse("--version").stdout == f"fedsparse {__version__}\n"


def test_without_a_command_it_explains_itself():
    done = fedsparse()
    assert done.returncode == 0
    assert "demo" in done.stdout
