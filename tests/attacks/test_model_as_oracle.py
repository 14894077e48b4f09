"""The model at the end of a run as a question: do all rows have one of these values?

A model that takes a column for a category of some levels, and has a feature that does not exist,
fails in one of two ways. If the reply says which, halving the levels gives every value that the
column has, those of columns that a policy withholds among them.
"""

from contextlib import closing

import numpy as np
import polars as pl
import pytest

from fedsparse.federation.payloads import Finished, Noted, Refused, from_bytes, to_bytes
from fedsparse.federation.sites.ledger import Ledger, read_ledger
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_page import write_site_page
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.model import Feature, Model
from fedsparse.tables.encoding import EncodedColumn

DIAGNOSES = ["healthy"] * 39 + ["kuru"]
KNOWN = ("flu", "gout", "healthy", "kuru", "measles", "mumps", "scurvy", "typhus")


class Oracle:
    def __init__(self, site):
        self._site, self._runs = site, 0

    def are_all_in(self, levels):
        self._runs += 1
        none_such = Feature(name="\0", column="\0", coefficients=(1.0,), mean=0.0, scale=1.0)
        column = EncodedColumn(name="diagnosis", kind="category", levels=levels)
        model = Model(
            task="regression",
            target="days",
            intercepts=(0.0,),
            features=(none_such,),
            columns=(column,),
            settings={},
            fingerprint="",
            versions={},
        )
        message = to_bytes(Finished(model.model_dump_json().encode()))
        return isinstance(from_bytes(self._site.reply(message, self._runs)), Refused)

    def values(self, suspects=KNOWN):
        """Which of the diagnoses some row has."""
        if self.are_all_in(tuple(own for own in KNOWN if own not in suspects)):
            return []
        half = len(suspects) // 2
        if half == 0:
            return list(suspects)
        return self.values(suspects[:half]) + self.values(suspects[half:])


@pytest.fixture
def oracle(tmp_path):
    days = np.random.default_rng(0).standard_normal(len(DIAGNOSES))
    table = NamedTable(pl.DataFrame({"diagnosis": DIAGNOSES, "days": days}), "days")
    with closing(Ledger(tmp_path / "ledger", "bari", "server")) as ledger:
        ledger.open_table(table, Policy())
        yield Oracle(Site("bari", table, Policy(), 1, ledger))


def telling_what_went_wrong(self, model, run):
    folder, about = self._ledger.folder, {"policy": self._policy, "table": self._table}
    own = Model.model_validate_json(model)
    write_site_page(folder, self.name, run, read_ledger(folder), model=own, **about)
    return Noted()


def test_it_tells_a_rare_diagnosis_where_the_reply_says_what_went_wrong(oracle, monkeypatch):
    monkeypatch.setattr(Site, "_finish", telling_what_went_wrong)
    assert oracle.values() == ["healthy", "kuru"]


def test_the_reply_is_the_same_whatever_the_model_does(oracle):
    assert oracle.values() == list(KNOWN)


def test_one_model_a_run_is_looked_at(oracle, caplog):
    oracle.are_all_in(KNOWN)
    before = len(caplog.records)
    oracle._runs = 0
    oracle.are_all_in(("flu",))
    assert len(caplog.records) == before
