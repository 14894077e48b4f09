"""Numbers told level by level are a histogram, and a target's labels are its values."""

import numpy as np
import polars as pl

from fedsparse.federation.payloads import Described, Hello, Refused, from_bytes, to_bytes
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable

AGES = [30, 41, 52, 63] * 5
DAYS = np.random.default_rng(0).uniform(0.0, 900.0, len(AGES)).round(2)


def told(declared, /, **wishes):
    frame = pl.DataFrame({"age": AGES, "dose": DAYS[::-1], "days": DAYS})
    site = Site("bari", NamedTable(frame, "days", declared), Policy(open_sums=True), threads=1)
    return from_bytes(site.reply(to_bytes(Hello({"open_sums": True, **wishes})), 1))


def test_ages_are_counted_where_the_site_takes_them_for_categories():
    said = told(("age",), categories=["age"])
    assert isinstance(said, Described)
    levels = said.told["description"]["levels"]["age"]
    assert levels == {"30": 5, "41": 5, "52": 5, "63": 5}


def test_ages_are_not_counted_by_default():
    said = told((), categories=["age"])
    assert isinstance(said, Refused)
    assert "have it started with --category age" in said.reason
    dry = told((), categories=["age"], dry_run=True)
    assert dry.told["description"]["levels"] == {}


def test_every_target_is_told_where_the_site_takes_them_for_classes():
    said = told(("days",), task="classification")
    labels = said.told["description"]["target"]["labels"]
    assert sorted(map(float, labels)) == sorted(DAYS)


def test_no_target_is_told_by_default():
    said = told((), task="classification")
    assert isinstance(said, Refused)
    assert "have it started with --category days" in said.reason
    dry = told((), task="classification", dry_run=True)
    assert dry.told["description"]["target"]["labels"] is None
