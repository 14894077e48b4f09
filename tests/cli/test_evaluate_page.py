"""``evaluate`` writes a page for rows that a model was not learnt from."""

import re

import pytest

from tests.cli.builders import ROLES, patients
from tests.cli.commands import assert_one_line


@pytest.fixture
def model(command, tmp_path):
    patients().write_csv(tmp_path / "patients.csv")
    options = ("--sparsity", 2, "--stability", 0, "--held-out", "none", "--out", tmp_path / "out")
    assert command("fit", tmp_path / "patients.csv", *ROLES, *options)[0] == 0
    patients(seed=1).write_csv(tmp_path / "others.csv")
    return tmp_path / "out"


def test_a_page_tells_how_good_the_model_is_there(command, model, tmp_path):
    page = tmp_path / "page.html"
    others = (model, tmp_path / "others.csv", "--site", "hospital", "--out", page)
    code, out, _ = command("evaluate", *others)
    assert code == 0
    assert f"Page: {page}" in out
    html = page.read_text()
    assert "was tried on 80 rows." in html
    assert all(site in html for site in ("Bari", "Cork", "Lyon", "Oslo"))
    assert not re.search(r"(?<![\w-])--[a-z]+ ", html.partition("<script")[0].partition("<h1>")[2])
    code, _, err = command("evaluate", *others)
    assert code == 2
    assert_one_line(err, "exists already")
    assert command("evaluate", *others, "--overwrite")[0] == 0


def test_a_page_of_the_very_rows_says_so(command, model, tmp_path):
    page = tmp_path / "page.html"
    assert command("evaluate", model, tmp_path / "patients.csv", "--out", page)[0] == 0
    html = page.read_text()
    assert "the model was learnt from patients.csv" in html
    assert "had not seen" not in html
