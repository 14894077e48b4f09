"""Starting run after run, each with a budget of its own.

A budget that is counted by run, or forgotten when the site is started again, is none: the first
version gave 15 answers over 5 runs to a policy of 3.
"""

from contextlib import closing

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.federation.payloads import Answered, Setup
from fedsparse.federation.sites.ledger import Ledger
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from tests.federation.asking import asked

RUNS, EACH = 5, 3
LENS = Lens(fs.SquaredError())
AGREED = {"columns": [{"name": "age", "kind": "number"}], "target": "days", "task": "regression"}
TABLE = NamedTable(pl.DataFrame({"age": np.arange(20.0), "days": np.arange(20.0) ** 2}), "days")


def answers_over_runs(folder, policy, restarts):
    """How many of the server's questions are answered; the site may be started anew each run."""

    def answers(site, run):
        setup = Setup(
            AGREED, run, tuple("abcdefgh")[:RUNS]
        ).to_bytes()  # another place in another federation, too
        replies = [asked(site, fs.Gradient(np.ones(1)), setup, LENS, run) for _ in range(EACH)]
        return sum(isinstance(reply, Answered) for reply in replies)

    given, runs = 0, iter(range(RUNS))
    for _ in range(RUNS if restarts else 1):
        with closing(Ledger(folder, "bari", "server")) as ledger:
            ledger.open_table(TABLE, policy)
            site = Site("bari", TABLE, policy, 1, ledger)
            given += sum(answers(site, next(runs)) for _ in range(1 if restarts else RUNS))
    return given


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "started anew"])
def test_a_budget_holds_over_runs_and_restarts(restarts, tmp_path):
    without = answers_over_runs(tmp_path / "without", Policy(open_sums=True), restarts)
    assert without == RUNS * EACH
    assert (
        answers_over_runs(tmp_path / "with", Policy(open_sums=True, most_answers=EACH), restarts)
        == EACH
    )


def test_so_does_that_of_a_month_whatever_the_table(tmp_path):
    policy = Policy(open_sums=True, most_answers_per_month=EACH)
    assert answers_over_runs(tmp_path, policy, restarts=True) == EACH
