"""One row added between two trainings: what is told of all rows, less what was told before.

Both times the site has many rows and tells sums of all of them. The difference is the new patient.
"""

from contextlib import closing

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.federation.payloads import Setup
from fedsparse.federation.sites.ledger import Ledger
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.requests.wire.answer_bytes import decode_answer
from tests.federation.asking import asked

NAMES = ("age", "dose", "bmi")
LENS = Lens(fs.SquaredError())
SETUP = Setup(
    {
        "columns": [{"name": name, "kind": "number"} for name in NAMES],
        "target": "days",
        "task": "regression",
    },
    0,
    ("bari",),
).to_bytes()
POLICY = Policy(open_sums=True, smallest_samples=20)

_random = np.random.default_rng(1)
PATIENTS = _random.normal(50.0, 9.0, (61, len(NAMES)))
DAYS = _random.normal(200.0, 30.0, 61)


def table_of(rows):
    columns = dict(zip(NAMES, PATIENTS[:rows].T, strict=True))
    return NamedTable(pl.DataFrame({**columns, "days": DAYS[:rows]}), "days")


def sums_told(folder, table, policy, accepted=None):
    """Sums of columns and of the target that a server gets in one training."""
    with closing(Ledger(folder, "bari", "server")) as ledger:
        ledger.open_table(table, policy, accepted)
        request = fs.ColumnSums(with_target=True)
        (own,) = asked(Site("bari", table, policy, 1, ledger), request, SETUP, LENS).answers
    answer = decode_answer(own[0], request, (len(NAMES),))
    return {name: own[1] * np.ravel(getattr(part, "rows", part)) for name, part in answer.items()}


def new_patient(before, after):
    """What the sums of all rows tell of the one that was added."""
    return {name: after[name] - before[name] for name in after}


def test_two_tables_that_differ_in_a_row_tell_that_row(tmp_path):
    """Two ledgers that know nothing of each other: the defence is off."""
    before = sums_told(tmp_path / "one", table_of(60), POLICY)
    after = sums_told(tmp_path / "other", table_of(61), POLICY)
    stolen = np.concatenate(list(new_patient(before, after).values()))
    for secret in (*PATIENTS[60], DAYS[60]):
        assert np.abs(stolen - secret).min() < 1e-10


def test_a_site_does_not_answer_on_both(tmp_path):
    sums_told(tmp_path, table_of(60), POLICY)
    with pytest.raises(OptionError, match="differs in 1 row from one on which 1 answer was given"):
        sums_told(tmp_path, table_of(61), POLICY)


def test_nor_row_by_row(tmp_path):
    sums_told(tmp_path, table_of(41), POLICY)
    sums_told(tmp_path, table_of(61), POLICY)  # twenty more, as many as the policy asks for
    with pytest.raises(OptionError, match="differs in 1 row"):
        sums_told(tmp_path, table_of(60), POLICY)


def test_an_administrator_can_decide_otherwise_and_the_ledger_keeps_it(tmp_path):
    sums_told(tmp_path, table_of(60), POLICY)
    with pytest.raises(OptionError) as caught:
        sums_told(tmp_path, table_of(61), POLICY)
    digits = str(caught.value).rpartition("--accept-table ")[2]
    assert sums_told(tmp_path, table_of(61), POLICY, accepted=digits)
    assert b'"event":"accepted"' in (tmp_path / "ledger.jsonl").read_bytes()
