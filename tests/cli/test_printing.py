"""Tables on terminals of any width: text may be folded, a number is shown whole or below."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from fedsparse.cli import printing
from tests.cli.builders import patients
from tests.cli.commands import COMMAND

HEADINGS = ["feature", "per SD basal-like", "per SD HER2-enriched", "per SD B", "found again"]
ROWS = [
    ["a_gene_of_a_very_long_name", "1.10", "-0.000562", "-0.209", "100%"],
    ["TP53", "-12345", "2.17e+09", "0.00", "18 %"],
]
NUMBERS = {cell for row in ROWS for cell in row[1:]}


def printed(monkeypatch, width, *arguments, **options):
    """What a terminal of a width shows."""
    shown = io.StringIO()
    terminal = Console(
        file=shown, force_terminal=True, width=width, color_system=None, highlight=False
    )
    monkeypatch.setattr(printing, "_console", lambda: terminal)
    printing.print_table(*arguments, **options)
    return shown.getvalue()


def on_terminal(width, *arguments):
    """Run the command on a terminal of a width; gives its exit code and what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(
        [COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while block := _read(ours):
            shown += block
    os.close(ours)
    text = shown.decode().replace("\r", "")
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def _read(terminal):
    try:
        return os.read(terminal, 2**16)
    except OSError:  # nobody is at the other end any more
        return b""


@pytest.mark.parametrize("width", range(34, 130, 4))
def test_no_number_is_cut_and_no_line_is_too_long(monkeypatch, width):
    shown = printed(monkeypatch, width, "2 of 19 features", HEADINGS, ROWS)
    assert all(number in shown for number in NUMBERS)
    assert all(len(line) <= width for line in shown.splitlines())
    assert "…" not in shown


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_table_below_has_the_names(monkeypatch, width):
    rows = [["Bari", "together", *map(str, range(1000, 1016))]]
    headings = ["site", "learnt", *(f"m{place}" for place in range(16))]
    shown = printed(monkeypatch, width, "", headings, rows, text=2)
    assert shown.count("Bari") == shown.count("together") == shown.count("site") > 1
    assert all(str(number) in shown for number in range(1000, 1016))


def test_a_cell_of_many_words_is_folded_between_them(monkeypatch):
    words = ", ".join(f"class {letter}: 1,{letter * 3}" for letter in "123456")
    shown = printed(monkeypatch, 50, "Sites", ["site", "rows", "target"], [["Bari", "7", words]])
    assert all(word in shown for word in words.split())


def test_where_there_is_room_there_is_one_table(monkeypatch):
    shown = printed(monkeypatch, 130, "2 of 19 features", HEADINGS, ROWS)
    assert shown.count("feature ") == 1


def test_a_pipe_is_as_wide_as_the_table(monkeypatch, capsys):
    headings = ["feature", *(f"per SD class {place}" for place in range(40))]
    printing.print_table("Many", headings, [["age", *["-0.123"] * 40]])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.count("-0.123") == 40 for line in lines)


@pytest.mark.parametrize("width", [60, 80])
def test_a_fit_of_several_classes(tmp_path, width):
    frame = patients()
    quarters = np.digitize(frame["days"], np.quantile(frame["days"], [0.25, 0.5, 0.75]))
    names = np.array(["luminal A", "luminal B", "basal-like", "HER2-enriched"])
    frame.drop("relapse", "days").with_columns(pl.Series("type", names[quarters])).write_csv(
        tmp_path / "four.csv"
    )
    roles = ("--target", "type", "--site", "hospital", "--sparsity", 3, "--stability", 2)
    options = ("--held-out", "fifth", "--out", tmp_path / "out")
    code, shown = on_terminal(width, "fit", tmp_path / "four.csv", *roles, *options)
    assert code == 0
    assert "…" not in shown
    assert len(re.findall(r"^ *marker_4 .* \d+%\s*$", shown, re.MULTILINE)) == 1
    tables = [line for line in shown.splitlines() if "━" not in line and "/out/" not in line]
    assert all(len(line) <= width for line in tables)
