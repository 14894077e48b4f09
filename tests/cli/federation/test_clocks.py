"""A site whose clock is wrong is told so, and not that its key is."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.federation.federations import TARGET, Federation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("clocks"), ["bari"]) as running:
        running.wait_for_log("server", "may connect: bari")
        yield running


@pytest.mark.parametrize("seconds", [47, -400], ids=["ahead", "behind"])
def test_a_clock_that_is_wrong_is_named_with_its_difference(federation, seconds):
    """The clock of a machine cannot be changed here: the site's process is told another time."""
    table = federation.root / "skewed.csv"
    table.write_text(f"age,{TARGET}\n" + "61,1.5\n47,0.5\n" * 5)
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.federation.skewed_site", str(seconds), "--data", table,
         "--target", TARGET, "--server", f"localhost:{federation.port}", "--keys",
         federation.folder.package_of("bari"), "--patience", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )  # fmt: skip
    took = time.monotonic() - started
    assert done.returncode == 2
    for pattern, output in (
        ("was not let in: the clock of this machine is {}; set", done.stdout),
        ("does not let bari in: the clock of this machine is {}", done.stderr),
    ):
        told = re.search(pattern.format(r"(\d+) s (ahead of|behind) the server's"), output)
        assert told is not None, output
        ahead = int(told[1]) * (1 if told[2] == "ahead of" else -1)
        # The server tells whole seconds, and its answer was on the way for part of the time.
        assert seconds - 1 <= ahead <= seconds + took + 1
    assert len(done.stderr.splitlines()) == 1
