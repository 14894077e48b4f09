"""A dry run at sites that live in this process: all that would go wrong, at once."""

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from fedsparse.federation.server import mailbox
from fedsparse.federation.server.inspection import LEFT_OUT, inspect_sites, read_inspection
from fedsparse.federation.server.training import DryRun
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from tests.federation.grids import TARGET, Nodes, answering, site_named

ROWS = 12


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def columns_of(**others):
    """Columns in which all is well, but for ``others``; None takes one away."""
    random = np.random.default_rng(1)
    columns = {
        "age": random.standard_normal(ROWS).tolist(),
        "dose": random.standard_normal(ROWS).tolist(),
        "ward": ["ear", "eye"] * (ROWS // 2),
        TARGET: random.standard_normal(ROWS).tolist(),
    }
    return {name: own for name, own in {**columns, **others}.items() if own is not None}


def site_with(name, policy=None, **columns):
    frame = pl.DataFrame(columns_of(**columns), strict=False)
    return Site(name, NamedTable(frame, TARGET), policy or Policy(open_sums=True), 1)


def inspected(*sites, expected=None, **options):
    grid = Nodes({place: answering(site) for place, site in enumerate(sites, 1)})
    dry_run = DryRun(
        open_sums=True,
        sites=expected or len(sites),
        longest_wait=0.5,
        round_seconds=0.3,
        **options,
    )
    return inspect_sites(grid, dry_run)


def sentences(found, severity="error"):
    return [own.sentence for own in found.findings if own.severity == severity]


JUNK = [*map(str, range(ROWS - 1)), "6 mg"]


def test_tables_in_order_are_told_so():
    found = inspected(site_with("bari"), site_with("cork"))
    assert not found.findings
    assert (found.features, found.task) == (4, "regression")
    assert {kind: own.count for kind, own in found.columns.items()} == {"number": 2, "category": 1}


def test_everything_wrong_at_all_sites_is_told_at_once():
    found = inspected(
        site_with("bari", dose=JUNK, ward=[None] * 2 + ["ear"] * 5 + ["eye"] * 5),
        site_with("cork", age=None),
        site_with("delft", Policy(open_sums=True, smallest_samples=20)),
        expected=4,
    )
    wrong = "\n".join(sentences(found))
    assert "bari would refuse: its rows cannot be used like that; its own log says why" in wrong
    assert 'cork lacks "age"' in wrong
    assert '2 values are missing: "ward" 2 (bari 2)' in wrong
    assert "delft: it has fewer rows than the 20 its policy asks for" in wrong
    assert "4 sites were expected and 2 came: bari, cork; start the others" in wrong
    assert found.features is None


def test_a_site_that_refuses_says_all_its_reasons():
    site = site_with("bari", Policy(open_sums=True, smallest_samples=20), dose=JUNK)
    (sentence,) = sentences(inspected(site, category=("street",)))
    assert "fewer rows than the 20" in sentence
    assert 'its table has no column "street" (--category)' in sentence
    assert "its rows cannot be used" in sentence


def test_cells_and_row_numbers_stay_at_the_site(caplog):
    found = inspected(site_with("bari", dose=JUNK), site_with("cork"))
    assert "6 mg" not in found.model_dump_json()
    assert "row 12" not in found.model_dump_json()
    assert 'column "dose", row 12 (the header not counted) is "6 mg"' in caplog.text


def test_faulty_columns_hide_nothing_of_the_others():
    found = inspected(site_with("bari", dose=JUNK), site_with("cork"))
    assert len(sentences(found)) == 1  # and not that bari lacks "dose"
    assert found.columns["unusable"].examples == ("dose",)


def test_a_target_that_cannot_be_used_is_told_by_its_site_alone():
    found = inspected(site_with("bari", **{TARGET: JUNK}), site_with("cork"))
    assert sentences(found) == [
        "bari would refuse: its rows cannot be used like that; its own log says why"
    ]


def test_what_a_policy_does_not_answer_is_a_warning():
    policy = Policy(
        open_sums=True,
        requests=tuple(set(Policy(open_sums=True).requests) - {"Slopes"}),
        most_answers=9,
    )
    warnings = sentences(inspected(site_with("bari", policy)), "warning")
    assert warnings == [
        "bari: its policy does not allow Slopes; train with --method FedIterHT",
        "bari: its policy allows 9 more answers; each model of an analysis takes some",
    ]


def test_every_column_left_out_is_in_a_file_with_reason_and_site(tmp_path):
    lonely = [1.0] * (ROWS - 1) + [2.0]
    found = inspected(
        site_with("bari", dose=lonely, unit=["mg"] * ROWS),
        site_with("cork", dose=JUNK, unit=["mg"] * ROWS, size=[1.5, 2.5] * (ROWS // 2)),
        drop=("ward",),
        out=str(tmp_path),
    )
    assert (tmp_path / LEFT_OUT).read_text().splitlines() == [
        "column,reason,site",
        "unit,the same in every row,all sites",
        "dose,few rows of the site have some value or level,bari",
        "dose,it has cells that cannot be used,cork",
        "size,the site lacks it and others have it,bari",
        "ward,dropped by --drop,all sites",
    ]
    assert read_inspection(tmp_path) == found


def test_columns_of_different_kinds_are_named_too(tmp_path):
    inspected(site_with("bari"), site_with("cork", dose=["a", "b"] * 6), out=str(tmp_path))
    assert "dose,it is not of one kind,all sites" in (tmp_path / LEFT_OUT).read_text()


def test_numbered_features_are_inspected_too():
    random = np.random.default_rng(2)
    rows = sparse.csr_array(random.standard_normal((ROWS, 6)))
    sites = [site_named(name, rows, random.standard_normal(ROWS)) for name in ("bari", "cork")]
    assert inspected(*sites).columns["number"].count == 6
    refused = sentences(inspected(*sites, drop=("age",)))
    assert refused[0].startswith("bari would refuse: its features have numbers, no names")


def test_nobody_there_is_one_problem():
    assert sentences(inspected(expected=2)) == [
        "2 sites were expected and 0 came: none; start the others, or lower --sites"
    ]
