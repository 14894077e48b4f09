"""A site's own page of a run: plain, whole, and true."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from fedsparse.federation.sites.chained_file import Record
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site_page import site_page, write_site_page
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable
from fedsparse.modelling.model import Feature, Model
from fedsparse.tables.encoding import EncodedColumn

BEGIN = datetime(2026, 11, 18, 14, 3, tzinfo=UTC)
AGES = np.linspace(40.0, 70.0, 30)


def record(number, event, run="7", **told):
    common = {
        "run": run, "server": "server.example.org", "table": "3f9a01bc", "left": 41_200,
        "digest": "9c" * 16, "answers": 0,
    }  # fmt: skip
    return Record(number, BEGIN + timedelta(seconds=number), event, common | told, "ab" * 32)


def answered(number, sums="open", **told):
    kinds = {"asked": {"Slopes": 2, "Evaluate": 1}, "answers": 3, "sums": sums, "kept back": 0}
    return record(number, "answered", **kinds | told)


def model_of(task="regression", coefficients=(2.0,), **changes):
    feature = Feature(name="age", column="age", coefficients=coefficients, mean=55.0, scale=9.0)
    usual = {
        "task": task, "target": "days", "intercepts": (0.0,) * len(coefficients),
        "features": (feature,), "columns": (EncodedColumn(name="age", kind="number"),),
        "settings": {}, "fingerprint": "f" * 64, "versions": {},
    }  # fmt: skip
    return Model(**usual | changes)


def table_of(days):
    return NamedTable(pl.DataFrame({"age": AGES, "days": days}), "days")


def shown(records=(), model=None, table=None, policy=None):
    """The text of the page."""
    page = site_page(
        "bari", list(records), policy=policy or Policy(open_sums=True), model=model or model_of(),
        table=table or table_of(2 * AGES),
    ).html()  # fmt: skip
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S))


class TestWhatWasAsked:
    def test_it_says_how_much_of_what_left_and_when(self):
        text = shown([record(1, "described", answers=1), answered(2), answered(3)])
        assert (
            "It was given 7 answers in 3 messages, 124 kB in all, and nothing was refused" in text
        )
        assert "Slopes which way the loss falls and how it bends, summed over rows 4" in text
        assert "The first came at 14:03:01 and the last at 14:03:03 (UTC)" in text
        assert "Description 1 message, 41 kB: the server saw how the table is described" in text
        assert "Open sums 6 answers in 2 messages" in text

    def test_secure_sums_are_told_from_open_ones(self):
        text = shown([answered(1), answered(2, sums="secure")])
        assert "Open sums 3 answers in 1 message, 41 kB: the server saw" in text
        assert "Secure sums 3 answers in 1 message, 41 kB: masked" in text

    def test_it_says_what_was_refused_and_what_the_rules_kept_back(self):
        text = shown(
            [
                record(1, "described", answers=1, withheld=70, **{"such as": ["ward", "id"]}),
                answered(2, **{"kept back": 2}),
                record(3, "refused", reason="its policy does not allow Gradient; do without"),
            ]
        )
        assert "its policy does not allow Gradient; do without 1" in text
        assert "Of 70 columns nothing but the name was told" in text
        assert "“ward”, “id” and 68 more" in text
        assert "2 questions got no answer" in text

    def test_a_run_without_a_record_has_a_page_too(self):
        assert "The ledger has no record of this run" in shown()

    def test_a_long_run_points_to_the_ledger(self):
        text = shown([answered(number) for number in range(1, 51)])
        assert "10 more messages followed; the ledger has all" in text


class TestOnOwnRows:
    def test_a_model_that_suits_is_better_than_none(self):
        noise = np.random.default_rng(0).normal(0.0, 1.0, 30)
        text = shown(table=table_of(2 * AGES + noise))
        assert "On your 30 rows the model predicts better than no features at all would" in text
        assert re.search(r"R² 0\.99\d 0 share", text)

    @pytest.mark.parametrize(
        ("model", "days"),
        [
            (model_of(coefficients=(-2.0,)), 2 * AGES),
            (model_of("binary", classes=("no", "yes"), coefficients=(-0.1,)),
             np.where(AGES > 55, "yes", "no")),
            (model_of("multiclass", classes=("a", "b", "c"), coefficients=(0.1, -0.1, 0.0)),
             np.where(AGES > 60, "c", np.where(AGES > 50, "b", "a"))),
        ],
        ids=["numbers", "two classes", "three classes"],
    )  # fmt: skip
    def test_one_that_does_not_is_called_no_better(self, model, days):
        text = shown(model=model, table=table_of(days))
        assert "the model predicts no better than no features at all would" in text

    def test_numbered_features_are_tried_too(self):
        feature = Feature(name="3", column="3", coefficients=(2.0,), mean=0.0, scale=1.0)
        model = model_of(features=(feature,), columns=(), target="target")
        rows = np.zeros((30, 5))
        rows[:, 3] = AGES
        text = shown(model=model, table=NumberedTable(sparse.csr_array(rows), 2 * AGES + 1))
        assert "the model predicts better" in text

    def test_targets_that_do_not_vary_say_nothing(self):
        assert "the target does not vary" in shown(table=table_of(np.ones(30)))

    def test_a_model_of_other_columns_is_told_and_the_rest_is_there(self):
        model = model_of(columns=(EncodedColumn(name="bmi", kind="number"),))
        text = shown([answered(1)], model=model)
        assert "The model could not be tried on your rows" in text
        assert "Open sums 3 answers" in text


class TestPage:
    def test_it_lies_beside_the_ledger_and_is_of_one_run(self, tmp_path):
        path = write_site_page(
            tmp_path, "bari", 7, [answered(1), answered(2, run="8")],
            policy=Policy(open_sums=True), model=model_of(), table=table_of(2 * AGES),
        )  # fmt: skip
        assert path == tmp_path / "run-7.html"
        assert "given 3 answers in 1 message" in re.sub(r"\s+", " ", path.read_text())

    def test_it_is_small_and_fetches_and_runs_nothing(self, tmp_path):
        page = site_page(
            "bari",
            [answered(1)],
            policy=Policy(open_sums=True),
            model=model_of(),
            table=table_of(2 * AGES),
        ).html()
        assert len(page) < 20_000
        assert "<script" not in page
        assert "http" not in page

    def test_what_a_server_wrote_is_text(self):
        page = site_page(
            "bari", [record(1, "refused", reason="<script>alert(1)</script>")],
            policy=Policy(open_sums=True), model=model_of(target="<b>"), table=table_of(2 * AGES),
        ).html()  # fmt: skip
        assert "<script>" not in page
        assert "<b>" not in page
