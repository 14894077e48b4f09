"""A whole column from the objective alone.

The server picks x. With a steep slope on one feature and an intercept that moves its kink to m, a
row adds to f as it lies below or above m: f at two places beside m tells how many rows lie below.
Bisection then finds every value. Each look is a sum over all rows, so that no rule about few rows
sees anything; it takes hundreds of looks, which is what a budget counts.
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
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire.answer_bytes import decode_answer
from tests.federation.asking import asked

ROWS = 40
HIGHEST = 1000
STEEP = 100.0
ONLY_THE_OBJECTIVE = ("Evaluate",)

_random = np.random.default_rng(4)
SECRET = _random.choice(HIGHEST, ROWS, replace=False)
OUTCOME = np.resize([0, 1], ROWS)
LENS = Lens(fs.Logistic(), scaling=Scaling(np.zeros(1), np.ones(1), intercept=1.0))
SETUP = Setup(
    {
        "columns": [{"name": "creatinine", "kind": "number"}],
        "target": "relapse",
        "task": "classification",
        "classes": ["0", "1"],
    },
    0,
    ("bari",),
).to_bytes()


class SpentError(Exception):
    """The site does not answer any more."""


class Attack:
    """Reads a column off from f; ``found`` are the values so far."""

    def __init__(self, site):
        self.site = site
        self.requests = 0
        self.found = []

    def run(self):
        try:
            low, high = -0.5, HIGHEST - 0.5
            self._search(low, high, self._below(low), self._below(high))
        except SpentError:
            pass
        return sorted(self.found)

    def _search(self, low, high, below_low, below_high):
        if below_low == below_high:
            return
        if high - low == 1:
            self.found += [int(high - 0.5)] * (below_high - below_low)
            return
        middle = low + (high - low) // 2
        below = self._below(middle)
        self._search(low, middle, below_low, below)
        self._search(middle, high, below, below_high)

    def _below(self, place):
        """How many rows have a value below, from the slope of f as the kink moves."""
        rise = (self._f(place + 0.1) - self._f(place - 0.1)) / 0.2
        return round(ROWS * rise / STEEP) + int((OUTCOME == 0).sum())

    def _f(self, kink):
        request = fs.Evaluate(np.array([STEEP, -STEEP * kink]), is_penalized=False)
        reply = asked(self.site, request, SETUP, LENS)
        if not isinstance(reply, Answered):
            raise SpentError(reply.reason)
        self.requests += 1
        return float(decode_answer(reply.answers[0][0], request, (2,))["objective"][0])


def attack(folder, **policy):
    table = NamedTable(pl.DataFrame({"creatinine": SECRET, "relapse": OUTCOME}), "relapse")
    rules = Policy(
        open_sums=True, requests=ONLY_THE_OBJECTIVE, smallest_weight_of_others=0.0, **policy
    )
    with closing(Ledger(folder, "bari", "server")) as ledger:
        ledger.open_table(table, rules)
        attacker = Attack(Site("bari", table, rules, 1, ledger))
        return attacker.run(), attacker.requests


def test_without_a_tight_budget_the_column_is_read_to_the_last_value(tmp_path):
    found, requests = attack(tmp_path)
    assert found == sorted(SECRET)
    assert requests < 968


@pytest.mark.parametrize("budget", ["most_answers", "most_answers_per_month"])
def test_a_budget_that_counts_looks_at_the_objective_stops_it(budget, tmp_path):
    found, requests = attack(tmp_path, **{budget: 50})
    assert requests == 50
    assert len(found) < ROWS / 4
    assert attack(tmp_path, **{budget: 50}) == ([], 0)  # nor is there more after a restart
