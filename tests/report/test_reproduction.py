"""The page of the reproduction, made from tables alone."""

import re

import polars as pl
import pytest

from fedsparse.report.reproduction_page import reproduction_page
from fedsparse.report.reproduction_tables import outcomes_table, samples_table
from tests.report.study import made_up_results, made_up_tables


@pytest.fixture(scope="module")
def html():
    return reproduction_page(made_up_tables(), settings={"Seeds": "0, 1, 2"}).html()


def markup_of(html):
    return re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.DOTALL)


def headings_of(page):
    return [section.heading for section in page.sections]


class TestPage:
    def test_claims_come_first_then_experiments_then_details(self, html):
        assert re.findall("<h2>(.*?)</h2>", markup_of(html)) == [
            "What became of the claims",
            "Simulation I",
            "E2006 (stand-in)",
            "MNIST",
            "Time on a network",
            "Table 2: samples on each client",
            "Clusters of the text data",
            "Theory: how errors scale",
            "Settings",
        ]

    def test_verdicts_are_told_by_words_mark_and_colour(self, html):
        assert '<td class="verdict fails">✗ does not hold</td>' in html
        assert '<td class="verdict holds">✓ holds</td>' in html
        assert '<td class="verdict partly">◐ holds with a tie</td>' in html

    def test_stand_ins_are_marked_and_explained(self, html):
        markup = markup_of(html)
        assert "Stand-in: invented reports." in markup
        assert (
            re.findall(r'<th scope="row">E2006[^<]*<', markup)
            == ['<th scope="row">E2006 (stand-in)<'] * 3
        )

    def test_texts_cannot_break_the_page(self, html):
        assert "lowest &lt;objective&gt;" in html
        assert "lowest <objective>" not in html

    def test_stays_small(self, html):
        assert len(html) < 3_000_000

    def test_what_has_no_rows_has_no_section(self):
        nothing = {name: pl.DataFrame() for name in ("clusters", "claims", "scaling", "slopes")}
        page = reproduction_page(made_up_tables(["mnist"], **nothing))
        assert headings_of(page) == [
            "MNIST",
            "Time on a network",
            "Table 2: samples on each client",
        ]

    def test_without_final_runs_there_is_still_a_page(self):
        results = made_up_results("mnist").filter(pl.col("stage") == "grid")
        assert "Time on a network" not in headings_of(
            reproduction_page(made_up_tables(results=results))
        )


class TestTables:
    def test_samples_are_shown_beside_the_paper_s(self):
        table = samples_table(made_up_tables())
        assert table.select("Experiment", "Samples per client", "The paper's").rows() == [
            ("Simulation I", "100.0 ± 0.0", "–"),
            ("E2006 (stand-in)", "330.8 ± 9.4", "33.8 ± 9.1"),
            ("MNIST", "600.0 ± 0.0", "600.0 ± 0.0"),
        ]

    def test_chosen_settings_are_told(self):
        table = outcomes_table(made_up_tables(), "mnist")
        assert table.select("Method", "K", "γ").rows()[-3:] == [
            ("FedIter-HT", "10", "0.01"),
            ("FedIter-HT, adaptive", "10", "auto"),
            ("FedSplice", "–", "–"),
        ]

    def test_divergence_is_counted(self):
        is_unlucky = (pl.col("algorithm") == "Fed-HT") & (pl.col("seed") == 1)
        results = made_up_results("mnist").with_columns(diverged=is_unlucky)
        table = outcomes_table(made_up_tables(results=results), "mnist")
        assert table["Diverged"].to_list() == ["0 of 3"] * 2 + ["1 of 3"] * 2 + ["0 of 3"] * 3
        assert "diverged" not in table["Final objective"].to_list()

    def test_times_are_those_of_reaching_the_reference(self, html):
        # Distributed-IHT takes all 12 rounds of 150 ms; a client sends 10 kB a round, 8 ms.
        assert ">2.0 s (1.0×)</td>" in html
        assert 'data-reference data-rounds="12" data-megabytes="0.12" data-computing="0.12"' in html
