"""Counts and survival at sites, all of it as processes: the bits of one process."""

import polars as pl
import pytest

from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.tables_in_one_place import analyse
from fedsparse.tables import Roles, load_tables
from tests.cli.federation.federations import Federation, assert_same_fit
from tests.cli.federation.killings import assert_replayed
from tests.cli.outcome_tables import fallers, survivors

pytestmark = pytest.mark.slow

SITES = ("Bari", "Cork", "Lyon", "Oslo")
OUTCOMES = {
    "counts": (fallers, Roles(target="falls", exposure="days")),
    "survival": (survivors, Roles(target="months", event="died")),
}
ANALYSIS = {"sparsity": 2, "held_out": "fifth", "stability": 1, "dense": "no"}


@pytest.mark.parametrize(("task", "is_secure"), [("counts", False), ("survival", True)])
def test_the_analysis_is_that_of_one_process_bit_for_bit(task, is_secure, tmp_path):
    draw, roles = OUTCOMES[task]
    frame = draw(rows=240)
    tables = []
    with Federation(tmp_path, SITES, is_secure=is_secure) as federation:
        options = [part for option, name in roles.outcome.items() for part in (option, name)]
        for site in SITES:
            tables.append(tmp_path / f"{site}.csv")
            frame.filter(pl.col("hospital") == site).drop("hospital").write_csv(tables[-1])
            federation.start_site(site, tables[-1], *options, target=None)
        run = federation.train(sites=4, task=task, **ANALYSIS)
        assert run.finish() == 0, run.text
    loaded = load_tables(tables, roles, task=task)
    sums = "fixed" if is_secure else "float"
    assert_same_fit(run.summary, analyse(loaded, FitSpecification(**ANALYSIS), sums=sums))
    assert run.model.task == task
    assert (run.model.event, run.model.exposure) == (roles.event, roles.exposure)
    assert_replayed(run)
