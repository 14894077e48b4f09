"""Whatever is killed whenever, a run that goes on ends in the same bits."""

import random

import pytest

from fedsparse.federation.demonstration import SITES, write_tables
from tests.cli.federation.federations import Federation, assert_same_fit, fitted_under_masks
from tests.cli.federation.killings import Kill, assert_replayed, trained_through

pytestmark = pytest.mark.slow

ANALYSIS = {"sparsity": 5, "held_out": "fifth", "stability": 1, "impute": "mean"}
VICTIMS = ("train", "server", "cork")
"""A serverapp too, in `benchmarks.killing`: Flower takes a minute to notice that one is gone."""


def test_whatever_is_killed_whenever_the_run_ends_in_the_same_bits(tmp_path):
    draw = random.Random(12)
    kills = [Kill(victim, draw.randint(1, 3)) for victim in VICTIMS]
    tables = write_tables(tmp_path / "tables")
    with Federation(tmp_path, SITES, is_secure=True) as federation:
        for name, table in tables.items():
            federation.start_site(name, table)
        run = trained_through(kills, federation, tables, "killed", **ANALYSIS)
        assert_same_fit(run.summary, fitted_under_masks(list(tables.values()), **ANALYSIS))
        assert_replayed(run)
