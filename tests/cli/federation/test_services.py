"""The units for systemd are those that the page prints: sound, shut in, their commands exist."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest
import typer

from fedsparse.cli import app
from tests.cli.federation.federations import ROOT, Federation

PAGE, CHECKLIST = (
    (ROOT / "docs" / "how-to" / f"{name}.md").read_text("utf-8")
    for name in ("run-as-a-service", "before-the-first-run")
)
UNITS = dict(
    re.findall(r'^```ini title="(\S+\.service)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
)
PROGRAM = "/opt/fedsparse/bin/fedsparse"
COMMANDS = re.findall(
    rf"^sudo -u fedsparse {PROGRAM} ((?:.*\\\n)*.*)$", PAGE + CHECKLIST, re.MULTILINE
)

units = pytest.mark.parametrize("name", UNITS)
by_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze on PATH to check units with"
)


def settings_of(name):
    """The section [Service]; where a key is given twice the last counts."""
    unit = RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str
    unit.read_string(UNITS[name].replace("\\\n", " "))
    return unit["Service"]


def analyzed(folder, name, *command):
    """What systemd-analyze says of a unit, with the program that is installed here."""
    unit = folder / name
    unit.write_text(UNITS[name].replace(PROGRAM, str(Path(sys.executable).with_name("fedsparse"))))
    return subprocess.run(
        ["systemd-analyze", *command, unit], capture_output=True, text=True, timeout=60
    )


def parsed(arguments):
    """A command line, read as the program would; a wrong option raises."""
    command, words = typer.main.get_command(app), shlex.split(arguments.replace("\\\n", " "))
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command.make_context(command.name, words).params


def test_there_is_a_unit_for_the_server_and_one_for_a_site():
    assert list(UNITS) == ["fedsparse-server.service", "fedsparse-site.service"]


@by_systemd
@units
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path, name):
    done = analyzed(tmp_path, name, "verify")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@by_systemd
@units
def test_a_unit_is_shut_in_as_well_as_the_page_says(tmp_path, name):
    told = re.search(r"gives both units \*\*([\d.]+)\*\*", PAGE)[1]
    done = analyzed(tmp_path, name, "security", "--offline=yes", "--no-pager")
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit that is not installed")
    assert float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)[1]) <= float(told)


@units
def test_what_a_unit_starts_is_a_command_with_its_options(name):
    started = settings_of(name)["ExecStart"]
    assert started.startswith(f"{PROGRAM} federation ")
    assert parsed(started.removeprefix(PROGRAM))


@pytest.mark.parametrize("arguments", COMMANDS)
def test_what_pages_have_people_give_is_a_command_with_its_options(arguments):
    assert parsed(arguments)


def test_pages_show_how_to_check_train_and_watch():
    assert {shlex.split(own)[1] for own in COMMANDS} >= {"check", "inspect", "train", "watch"}


@units
def test_a_unit_writes_to_its_own_folders_only(name):
    settings = settings_of(name)
    assert settings["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in settings
    assert settings["NoNewPrivileges"] == settings["PrivateTmp"] == "true"
    own = (f"/var/lib/{settings['StateDirectory']}", f"/var/cache/{settings['CacheDirectory']}")
    assert settings["WorkingDirectory"] == own[0]
    assert settings["Environment"] == f"HOME={own[0]} NUMBA_CACHE_DIR={own[1]}"


@pytest.mark.slow
def test_a_service_that_is_stopped_has_not_failed(tmp_path):
    with Federation(tmp_path, ["bari"]) as federation:
        table = tmp_path / "bari.csv"
        table.write_text("age,outcome\n" + "".join(f"{n},{n % 3}\n" for n in range(30)))
        federation.start_site("bari", table)
        federation.wait_for_log("bari", "is connected")
        # systemd takes an end by the signal that it sent itself for a clean one, too.
        assert federation.programs.end("bari") in (0, -signal.SIGTERM)
        assert federation.programs.end("server") in (0, -signal.SIGTERM)
