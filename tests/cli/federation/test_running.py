"""Running a federation: who is here, what is under way, and runs that nobody follows."""

import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from fedsparse.federation.demonstration import prepare_sites
from tests.cli.commands import assert_one_line
from tests.cli.federation.federations import Federation, write_table

pytestmark = pytest.mark.slow

HERE = ("aachen", "bari")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A server that knows three sites, of which two are here."""
    root = tmp_path_factory.mktemp("running")
    random = np.random.default_rng(0)
    with Federation(root, [*HERE, "cork"]) as running:
        for name in HERE:
            rows = random.standard_normal((12, 6)).round(3)
            table = write_table(root / f"{name}.csv", rows, rows[:, 0] - rows[:, 1] + rows[:, 2])
            running.start_site(name, table)
        for name in HERE:
            running.wait_for_log(name, "is connected")
        yield running


def start(federation, **options):
    options = {
        "sparsity": 2, "sites": 2, "rounds": 300, "method": "FedIterHT", "step_size": 0.02,
        "held_out": "none", "stability": 0,
    } | options  # fmt: skip
    return federation.train(**options)


def tell(federation, command, *arguments):
    """What a command says of the federation."""
    return subprocess.run(
        [sys.executable, "-m", "fedsparse", "federation", command, federation.folder.root,
         *map(str, arguments), "--port", str(federation.port)],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip


def test_status_tells_who_is_here_and_stop_ends_what_is_under_way(federation):
    prepare_sites(federation.folder, ["delft"])  # the running server has not heard of it
    before = tell(federation, "status")
    assert before.stdout.splitlines() == [
        "3 sites may connect, 2 are here.",
        "  aachen  here",
        "  bari    here",
        "  cork    away",
        "  delft   not known to the server; restart it to let the site in",
        "No run is under way.",
    ]
    run = start(federation, out="stopped")
    run.until_answers(4)
    during = tell(federation, "status").stdout.splitlines()
    told = rf"Run (\d+) is under way since [-\d]+ [:\d]+, writing to {re.escape(str(run.out))}\."
    number = re.fullmatch(told, during[-2])[1]
    assert re.fullmatch(r"  \d\d:\d\d:\d\d \| (Evaluate|LocalSteps)\b.*", during[-1])

    done = tell(federation, "stop", number)
    assert done.stdout == (
        f"Run {number} is stopped. What it had reached is kept in {run.out}: go on with --resume.\n"
    )
    assert run.finish() == 2
    assert_one_line(run.lines[-1], f"run {number} was stopped. Go on from its transcript")
    assert tell(federation, "status").stdout == before.stdout

    waiting = start(federation, out="waiting", sites=3)
    waiting.until("waiting for more")
    assert tell(federation, "stop").stdout.endswith("is stopped. It had reached nothing yet.\n")
    assert waiting.finish() == 2
    assert "It had reached nothing yet; train once more" in waiting.lines[-1]

    none = tell(federation, "stop")
    assert none.returncode == 2
    assert_one_line(none.stderr, "no run is under way; there is nothing to stop")
    gone = tell(federation, "stop", number)
    assert gone.returncode == 2
    assert_one_line(gone.stderr, f"run {number} is not under way")


def orphan(federation, out, **options):
    """A run whose `train` was killed, and that waits for a site until the site goes on."""
    run = start(federation, out=out, **options)
    run.until_answers(4)
    federation.kill("bari", signal.SIGSTOP)
    run.kill()
    return lambda: federation.kill("bari", signal.SIGCONT)


def test_resume_follows_a_run_whose_terminal_was_lost_to_its_end(federation):
    go_on = orphan(federation, "followed", rounds=5)
    again = start(federation, out="followed", rounds=5, resume=True)
    again.until("is still writing to")
    go_on()
    assert again.finish() == 0, again.text
    assert again.text.count("learning from 2 sites") == 1  # it did not begin anew
    assert "2 of 6 features predict outcome" in again.text
    assert again.lines[-1] == f"Report: {again.out / 'report.html'}\n"


def test_resume_goes_on_where_a_run_that_nobody_followed_ended_unfinished(federation):
    go_on = orphan(federation, "continued")
    other = start(federation, out="continued", overwrite=True)
    assert other.finish() == 2
    assert_one_line(other.lines[-1], "another run is still writing to")
    again = start(federation, out="continued", resume=True)
    again.until("is still writing to")
    go_on()
    assert tell(federation, "stop").returncode == 0
    again.until("ended unfinished; going on from its transcript")
    again.until("learning from 2 sites")
    again.until_answers(2)
    again.process.send_signal(signal.SIGINT)
    assert again.finish() == 130, again.text
    assert again.text.count("ColumnSums: ") == 1  # that was the first question


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_whose_terminal_is_closed_stops(federation, number):
    run = start(federation, out="closed", overwrite=True)
    run.until_answers(4)
    run.process.send_signal(number)
    assert run.finish() == 130, run.text
    assert "Go on from its transcript with --resume" in run.lines[-2]
    assert "No run is under way." in tell(federation, "status").stdout


def test_runs_started_at_once_keep_their_own_settings(federation):
    runs = {
        sparsity: start(federation, sparsity=sparsity, rounds=2, out=f"at-once-{sparsity}")
        for sparsity in (1, 2, 3)
    }
    for sparsity, run in runs.items():
        assert run.finish() == 0, run.text
        assert len(run.model.features) == sparsity
