"""Few bytes that take gigabytes at a site, days, or its disk; a hundredth of it is measured here.

Labels, classes and levels that nobody has, lenses as wide as can be, local steps without end, and
refusals that fill the ledger.
"""

import tracemalloc
from contextlib import closing

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.federation.payloads import Asks, Refused, Setup, digest_of, from_bytes, to_bytes
from fedsparse.federation.sites import ledger as ledger_module
from fedsparse.federation.sites import message_limits
from fedsparse.federation.sites import site as site_module
from fedsparse.federation.sites.ledger import Ledger
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire.frame import packed
from tests.federation.asking import message_with

FRAME = pl.DataFrame({"age": np.arange(200.0), "ward": ["ear", "eye"] * 100, "days": range(200)})
DAYS, WARDS = NamedTable(FRAME, "days"), NamedTable(FRAME, "ward")
NUMBERED = NumberedTable(sparse.csr_array(np.eye(8)), np.arange(8.0))
PLAIN = Lens(fs.SquaredError())
AGE = {"name": "age", "kind": "number"}
MANY = ["ear", "eye", *(f"{place:x}" for place in range(2_000))]
UNLIMITED = 2**62


def on_days(*requests, column=AGE):
    agreed = {"columns": [column], "target": "days", "task": "regression"}
    return message_with(requests, setup(agreed), PLAIN)


def setup(agreed):
    return Setup(agreed, 0, ("bari",)).to_bytes()


def levels():
    every = [*MANY, *(f"{place} x" for place in range(9_000))]
    return on_days(fs.ColumnSums(), column={"name": "ward", "kind": "category", "levels": every})


def classes():
    lens = Lens(fs.Softmax(l2=0.1), scaling=Scaling(np.zeros(1), np.ones(1), 1.0))
    x = np.zeros((2, len(MANY)))
    x[1, :2] = 20.0  # the two that there are, so that no row dominates
    agreed = {"columns": [AGE], "target": "ward", "task": "classification", "classes": MANY}
    return message_with([fs.Judge(x)], setup(agreed), lens)


def wide_lens():
    width = 2**20
    lens = Lens(fs.SquaredError(), scaling=Scaling(np.zeros(width), np.full(width, np.inf), 0.0))
    agreed = {"first": 0, "width": width, "task": "regression"}
    asks = from_bytes(message_with([fs.ColumnSums()], setup(agreed), lens))
    return to_bytes(Asks(asks.session, asks.requests, asks.setup, asks.lenses * 8))


def megabytes(message, table):
    """At their peak, and what the site said."""
    site = Site("bari", table, Policy(open_sums=True), 1)
    tracemalloc.start()
    try:
        said = from_bytes(site.reply(message, 1))
        return tracemalloc.get_traced_memory()[1] / 2**20, said
    finally:
        tracemalloc.stop()


BOMBS = pytest.mark.parametrize(
    ("message", "table", "limit", "hundredth"),
    [
        pytest.param(levels, DAYS, "MOST_CELLS", 2**20, id="levels"),
        pytest.param(classes, WARDS, "MOST_ANSWERED", 2**20, id="classes"),
        pytest.param(wide_lens, NUMBERED, "MOST_NUMBERS", 2**21, id="lenses"),
    ],
)


@BOMBS
def test_it_takes_much_memory_without_limits(message, table, limit, hundredth, monkeypatch):
    monkeypatch.setattr(message_limits, limit, UNLIMITED)
    assert megabytes(message(), table)[0] > 15


@BOMBS
def test_it_is_refused_before_it_takes_much(message, table, limit, hundredth, monkeypatch):
    monkeypatch.setattr(message_limits, limit, hundredth)
    taken, said = megabytes(message(), table)
    assert isinstance(said, Refused)
    assert taken < 10


def test_labels_that_nobody_has_take_much_memory_where_they_are_counted(monkeypatch):
    monkeypatch.setattr(site_module, "check_size", lambda *_: None)
    assert megabytes(on_days(fs.ColumnSums(classes=2**20)), DAYS)[0] > 15


def test_labels_are_counted_as_they_were_agreed_on():
    taken, said = megabytes(on_days(fs.ColumnSums(classes=2**33)), DAYS)
    assert "others are counted" in said.reason
    assert taken < 10


def test_local_steps_of_a_message_end():
    steps = fs.LocalSteps(np.zeros(1), steps=10_000, step_size=1e-3)
    _, said = megabytes(on_days(*[steps] * 51), DAYS)
    assert "510000 local steps in one message are too many" in said.reason


def kilobytes_of_ledger(folder):
    """After one refusal."""
    asks = from_bytes(on_days(fs.ColumnSums()))
    odd = ((PLAIN.digest, packed({"request": ["x" * 2**18]}, [])),)
    message = to_bytes(Asks(digest_of(asks.setup), odd, asks.setup, asks.lenses))
    with closing(Ledger(folder, "bari", "server")) as ledger:
        ledger.open_table(DAYS, Policy())
        Site("bari", DAYS, Policy(), 1, ledger).reply(message, 1)
    return (folder / "ledger.jsonl").stat().st_size / 2**10


def test_a_refusal_takes_as_much_of_the_ledger_as_a_request_calls_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "_MOST_KIND", UNLIMITED)
    assert kilobytes_of_ledger(tmp_path) > 2**8


def test_what_a_request_calls_itself_is_cut(tmp_path):
    assert kilobytes_of_ledger(tmp_path) < 8
