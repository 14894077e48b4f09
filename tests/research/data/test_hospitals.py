"""Made-up hospitals: a relapse depends on what is said, and on nothing else."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from fedsparse.errors import OptionError
from fedsparse.research.data.hospitals import EFFECTS, PATIENTS, hospital_tables


@pytest.fixture(scope="module")
def many():
    """The tables of twenty seeds, one below the other."""
    return pl.concat(table for seed in range(20) for table in hospital_tables(seed).values())


def test_each_hospital_has_its_patients():
    assert {name: table.height for name, table in hospital_tables().items()} == PATIENTS


def test_a_seed_fixes_everything_and_another_changes_it():
    first, again, other = hospital_tables(3), hospital_tables(3), hospital_tables(4)
    assert all(first[name].equals(again[name]) for name in PATIENTS)
    assert not any(first[name].equals(other[name]) for name in PATIENTS)


def test_a_seed_below_zero_is_refused():
    with pytest.raises(OptionError, match="seed"):
        hospital_tables(-1)


def test_columns_have_the_effects_that_are_said(many):
    names = [*EFFECTS, "sodium", "creatinine", "gene_001"]
    whole = many.drop_nulls()
    values = whole.select(names).to_numpy()
    standardized = (values - values.mean(axis=0)) / values.std(axis=0)
    oracle = LogisticRegression(C=1e6).fit(standardized, whole["relapse"] == "yes")
    np.testing.assert_allclose(oracle.coef_[0], [*EFFECTS.values(), 0, 0, 0], atol=0.15)


def test_a_few_values_of_two_columns_are_missing(many):
    shares = {
        name: count / many.height for name, count in many.null_count().row(0, named=True).items()
    }
    holes = {name: share for name, share in shares.items() if share > 0}
    assert set(holes) == {"albumin", "sodium"}
    assert all(0.02 < share < 0.06 for share in holes.values())
