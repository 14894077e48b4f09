"""Gene tables at three hospitals: what inspecting tells, and what training makes of them."""

import csv
import json

import pytest

from fedsparse.federation.server.transcript import TRANSCRIPT
from tests.cli.commands import assert_one_line, fedsparse
from tests.cli.federation.federations import Federation
from tests.cli.federation.gene_tables import FLOOR, GENES, SITES, TARGET, write_gene_tables

FEWEST = 5


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    root = tmp_path_factory.mktemp("hospitals")
    with Federation(root, SITES, is_secure=True) as running:
        running.tables = write_gene_tables(root)
        for name, table in running.tables.items():
            running.start_site(name, table, target=TARGET)
        yield running


def inspect(federation, *options, out="inspected"):
    return fedsparse(
        "federation", "inspect", federation.folder.root, "--sites", len(SITES),
        "--port", federation.port, "--out", federation.root / out, *options, cwd=federation.root,
    )  # fmt: skip


def left_out(federation, out="inspected"):
    """Lines of the file by column."""
    lines = {}
    with open(federation.root / out / "left-out.csv", newline="") as file:
        for line in csv.DictReader(file):
            lines.setdefault(line["column"], []).append((line["reason"], line["site"]))
    return lines


def differing(path):
    """How many rows of a table do not have the floor, of genes that most rows have there."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    floors = {gene: sum(row[gene] == str(FLOOR) for row in rows) for gene in rows[0]}
    return {gene: len(rows) - own for gene, own in floors.items() if 2 * own > len(rows)}


def few_differ(tables):
    """Genes that have the floor in all rows of all tables but a few."""
    counts = [differing(table) for table in tables]
    shared = set.intersection(*map(set, counts))
    return {gene for gene in shared if 0 < sum(own[gene] for own in counts) < FEWEST}


def one_differs(tables):
    """Genes that have the floor in all rows of some table but one."""
    return {gene for table in tables for gene, count in differing(table).items() if count == 1}


@pytest.mark.slow
class TestGeneTables:
    def test_inspecting_tells_what_would_go_wrong_and_the_way_out(self, hospitals):
        done = inspect(hospitals)
        assert done.returncode == 1, done.stderr
        assert "1 to mend before a model can be fitted." in done.stdout
        assert "or fill means with --impute mean" in done.stdout
        told = json.loads((hospitals.root / "inspected" / "inspection.json").read_text())
        assert [site["rows"] for site in told["sites"]] == [None, None, None]
        assert told["together"]["rows"] == 38 + 20 + 12
        assert sum(told["together"]["target"]["labels"].values()) == 70

    def test_inspecting_prints_json_for_scripts(self, hospitals):
        done = inspect(hospitals, "--json", out="json")
        assert done.returncode == 1, done.stderr
        told = json.loads(done.stdout)
        assert told == json.loads((hospitals.root / "json" / "inspection.json").read_text())
        assert "is here" in done.stderr

    def test_inspecting_names_every_column_that_is_left_out(self, hospitals):
        done = inspect(hospitals, "--impute", "mean", out="filled")
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads((hospitals.root / "filled" / "inspection.json").read_text())
        lines = left_out(hospitals, "filled")
        assert told["features"] == GENES + 1 + 2 - len(lines.keys() - {"patient"})
        assert f"Ready: {told['features']:,} features" in done.stdout
        few = ("few rows of all sites differ in it", "all sites")
        withheld = {gene for gene, own in lines.items() if few in own}
        alone = one_differs(hospitals.tables.values())
        assert withheld == few_differ(hospitals.tables.values()) - alone
        assert alone <= lines.keys()
        assert all(site in {*SITES, "all sites"} for own in lines.values() for _, site in own)

    def test_training_fills_holes_counts_what_is_withheld_and_ends_with_a_model(self, hospitals):
        run = hospitals.train(sites=3, sparsity=5, impute="mean", held_out="none", stability=0)
        assert run.finish() == 0, run.text
        assert len(run.model.features) == 5
        count = sum(
            any(reason.startswith("few rows") for reason, _ in own)
            for own in left_out(hospitals, "filled").values()
        )
        note = f"left out (a site may not tell some of its values): {count:,} columns"
        assert note in run.text
        assert any(own.startswith(note) for own in run.summary.notes)

    def test_training_without_filling_holes_names_the_way_out_in_a_sentence(self, hospitals):
        run = hospitals.train(sites=3, sparsity=5, out="holes")
        assert run.finish() == 2
        assert_one_line(run.lines[-1], "or fill means with --impute mean")


def test_a_site_tells_all_that_is_wrong_with_its_table_when_it_starts(tmp_path):
    rows = [f"6{row},5,{row % 2}" for row in range(8)]
    rows[2], rows[5], rows[6] = "62,6 mg,1", "old,5,1", "66,5,"
    (tmp_path / "bari.csv").write_text("\n".join(["age,dose,relapse", *rows]) + "\n")
    done = fedsparse(
        "federation", "site", "--data", tmp_path / "bari.csv", "--target", "relapse",
        "--server", "127.0.0.1:1", "--insecure", "--patience", 1, cwd=tmp_path,
    )  # fmt: skip
    assert 'bari: the target "relapse" is missing in 1 row (the first is row 7' in done.stdout
    assert 'bari: column "age", row 6 (the header not counted) is "old"' in done.stdout
    assert 'bari: column "dose", row 3 (the header not counted) is "6 mg"' in done.stdout
    assert "bari would refuse to train, because of 3 problems; mend them" in done.stdout


def test_a_site_is_told_of_all_its_wrong_options_at_once(tmp_path):
    (tmp_path / "bari.csv").write_text("age,dose,relapse\n" + "61,0.5,1\n" * 8)
    done = fedsparse(
        "federation", "site", "--data", tmp_path / "bari.csv", "--target", "relaps",
        "--drop", "name", "--drop", "street", "--server", "127.0.0.1:1", "--insecure",
    )  # fmt: skip
    assert done.returncode == 2
    assert 'has no column "relaps" (--target); did you mean "relapse"?' in done.stderr
    assert 'has no column "name" and "street" (--drop); leave it out' in done.stderr


def test_inspecting_does_not_write_among_the_results_of_a_training_run(tmp_path):
    (tmp_path / TRANSCRIPT).touch()
    done = fedsparse("federation", "inspect", "--sites", 2, "--insecure", "--out", tmp_path)
    assert done.returncode == 2
    assert "holds a training run; choose another folder with --out" in done.stderr
