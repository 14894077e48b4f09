"""What sites and columns are called reaches people as text, and does nothing to their terminal."""

import os

import numpy as np
import pytest

from tests.cli.commands import fedsparse
from tests.cli.federation.federations import TARGET, Federation, write_table

ENVIRONMENT = os.environ | {"NO_COLOR": "1"}
TITLE = "\x1b]0;all is well\x07"
FORGED = "\n14:00:00 | admin is here with 9 rows"
COLUMN = f"age{TITLE}\u202e\x9b2J"
SHOWN = r"age\x1b]0;all is well\x07\u202e\x9b2J"
OBEYED = ("\x1b", "\x07", "\x9b", "\u202e")


def assert_harmless(text):
    assert [sign for sign in OBEYED if sign in text] == []
    assert not any(line.startswith("14:00:00 | admin") for line in text.splitlines())


def table(path, random, columns=(COLUMN, "dose"), missing=False):
    rows = random.standard_normal((30, 2))
    if missing:
        rows[:9, 0] = np.nan
    return write_table(path, rows, random.standard_normal(30), list(columns))


def test_a_column_s_name_is_shown_and_not_obeyed(tmp_path):
    path = table(tmp_path / "bari.csv", np.random.default_rng(0), missing=True)
    for command in (["inspect"], ["fit", "--out", tmp_path / "out"]):
        done = fedsparse(*command, path, "--target", TARGET, env=ENVIRONMENT)
        assert SHOWN in done.stdout + done.stderr
        assert_harmless(done.stdout + done.stderr)


def test_a_wrong_option_is_shown_and_not_obeyed(tmp_path):
    path = table(tmp_path / "bari.csv", np.random.default_rng(0))
    done = fedsparse("fit", path, "--target", f"no{TITLE}", env=ENVIRONMENT)
    assert done.returncode == 2
    assert r"no\x1b]0;all is well\x07" in done.stderr
    assert_harmless(done.stderr)


@pytest.mark.slow
def test_what_a_site_says_reaches_terminals_and_logs_as_text(tmp_path):
    random = np.random.default_rng(0)
    evil = f"cork{TITLE}{FORGED}"
    with Federation(tmp_path, [], insecure=True) as federation:
        federation.start_site("bari", table(tmp_path / "bari.csv", random))
        own = table(tmp_path / "cork.csv", random, (COLUMN, f"do{TITLE}se"))
        federation.programs.start(
            "cork", "site", "--data", own, "--target", TARGET, "--server",
            f"localhost:{federation.port}", "--insecure", "--name", evil, "--ledger",
            tmp_path / "cork-ledger",
        )  # fmt: skip
        federation.wait_for_log("cork", "is connected")
        run = federation.train(sites=2, sparsity=1)
        assert run.finish() == 2
        assert r"cork\x1b]0;all is well\x07\n14:00:00 | admin is here" in run.text
        assert r'lacks "do\x1b]0;all is well\x07se"' in run.text
        assert_harmless(run.text)
        assert_harmless(federation.log("cork"))
        assert_harmless((run.out / "flower.log").read_text())
