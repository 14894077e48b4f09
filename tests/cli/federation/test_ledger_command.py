"""``fedsparse federation ledger``: what a site's administrator and an auditor see."""

import csv
import json

import pytest
from typer.testing import CliRunner

import fedsparse.cli
from fedsparse.federation.sites.chained_file import ChainedFile, read_chain
from fedsparse.federation.sites.ledger import LEDGER

TABLE = "3f9a01bc" * 4


@pytest.fixture
def folder(tmp_path):
    """A ledger with one record of each kind."""
    file = ChainedFile(tmp_path / LEDGER)
    asked = {"run": "7", "server": "localhost:8443", "table": TABLE, "left": 4321, "answers": 3}
    file.append("opened", {"table": TABLE, "rows": 412})
    file.append("accepted", {"table": TABLE, "beside": ["0" * 32]})
    file.append("described", {**asked, "withheld": 2, "such as": ["ward", "id"]})
    kinds = {"asked": {"Slopes": 2, "Evaluate": 1}, "sums": "open", "kept back": 1}
    file.append("answered", {**asked, **kinds})
    file.append("refused", {**asked, "asked": {"Gradient": 1}, "reason": "=no \x1b[31m way"})
    file.close()
    return tmp_path


def ledger(*arguments):
    return CliRunner().invoke(fedsparse.cli.app, ["federation", "ledger", *map(str, arguments)])


def test_it_is_shown_for_people(folder):
    done = ledger(folder)
    assert done.exit_code == 0
    for told in (
        "opened table 3f9a01bc with 412 rows",
        "table 3f9a01bc accepted although few rows differ from 00000000",
        "described its table, 2 columns withheld",
        "answered 2 × Slopes, Evaluate (open sums); 1 not, for none or too few rows",
        r"refused Gradient: =no \x1b[31m way",
        "4,321 B",
        "5 records, none changed",
    ):
        assert told in done.output


def test_what_a_server_wrote_does_not_reach_the_terminal_as_it_is(folder):
    assert "\x1b" not in ledger(folder).output


def test_its_file_may_be_named_instead_of_the_folder(folder):
    assert ledger(folder / LEDGER).output == ledger(folder).output


def test_verifying_says_the_last_hash_and_nothing_else(folder):
    done = ledger(folder, "--verify")
    assert done.exit_code == 0
    assert read_chain((folder / LEDGER).read_bytes()).last in done.output
    assert "opened" not in done.output


@pytest.mark.parametrize("options", [[], ["--verify"]], ids=["shown", "verified"])
def test_a_changed_record_is_named_with_exit_code_1(folder, options):
    path = folder / LEDGER
    path.write_bytes(path.read_bytes().replace(b"ward", b"wart"))
    done = ledger(folder, *options)
    assert done.exit_code == 1
    assert f"Line 3 of {path} is not the one that was written there" in done.output
    assert "2 records before it can be relied on" in done.output


def test_a_torn_last_line_is_told_and_no_fault(folder):
    with open(folder / LEDGER, "ab") as file:
        file.write(b'{"number":6')
    done = ledger(folder, "--verify")
    assert done.exit_code == 0
    assert "its 11 bytes do not count, and its answer did not leave" in done.output


def test_it_is_exported_as_a_table(folder, tmp_path):
    out = tmp_path / "ledger.csv"
    assert ledger(folder, "--export", out).exit_code == 0
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["event"] for line in lines] == [
        "opened", "accepted", "described", "answered", "refused",
    ]  # fmt: skip
    assert lines[3]["asked"] == "2 × Slopes, Evaluate"
    assert lines[4]["reason"].startswith("'=no")  # no spreadsheet takes it for a formula


def test_it_is_exported_whole(folder, tmp_path):
    out = tmp_path / "export.jsonl"
    assert ledger(folder, "--export", out).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[2]["such as"] == ["ward", "id"]
    assert lines[-1]["hash"] == read_chain((folder / LEDGER).read_bytes()).last


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ledger.txt", "is neither .csv nor .jsonl"),
        ("there.csv", "exists already; choose another"),
        (LEDGER, "is the ledger itself"),
    ],
)
def test_an_export_that_cannot_be_written_is_refused(folder, name, told):
    (folder / "there.csv").touch()
    done = ledger(folder, "--export", folder / name)
    assert told in str(done.exception)
    assert read_chain((folder / LEDGER).read_bytes()).broken is None


def test_a_ledger_that_is_not_there_is_told(tmp_path):
    assert "name the folder that the site's log calls" in str(ledger(tmp_path).exception)
