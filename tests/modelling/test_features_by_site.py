"""What a page may tell of the features at single sites."""

import polars as pl

from fedsparse.modelling.features_by_site import features_by_site
from fedsparse.modelling.model import Feature
from fedsparse.tables import Roles, describe

AGE = Feature(name="age", column="age", coefficients=(0.1,), mean=50.0, scale=9.0)
EAR = Feature(name="ward=ear", column="ward", level="ear", coefficients=(1.0,), mean=0.5, scale=0.5)


def site(name, missing=0, ears=10):
    ages = [40.0] * (20 - missing) + [None] * missing
    wards = ["ear"] * ears + ["eye"] * (20 - ears)
    frame = pl.DataFrame({"age": ages, "ward": wards, "relapse": [0, 1] * 10})
    return describe(frame, name, Roles(target="relapse"))


def facts(feature, *sites):
    (found,) = features_by_site([feature], sites)
    return found


def test_means_and_shares_are_those_of_the_site():
    assert [own.mean for own in facts(AGE, site("Bari"), site("Cork")).at_sites] == [40.0, 40.0]
    found = facts(EAR, site("Bari", ears=5), site("Cork"))
    assert [own.mean for own in found.at_sites] == [0.25, 0.5]
    assert found.is_share


def test_nothing_is_said_of_few_rows():
    few_values = facts(AGE, site("Bari", missing=16), site("Cork")).at_sites[0]
    assert (few_values.mean, few_values.missing) == (None, None)
    assert facts(EAR, site("Bari", ears=3), site("Cork")).at_sites[0].mean is None
    assert facts(EAR, site("Bari", ears=17), site("Cork")).at_sites[0].mean is None
    assert facts(AGE, site("Bari", missing=3), site("Cork")).at_sites[0].missing is None


def test_the_sum_does_not_tell_what_a_single_site_keeps_to_itself():
    assert facts(AGE, site("Bari", missing=3), site("Cork")).missing is None
    assert facts(AGE, site("Bari", missing=3), site("Cork", missing=2)).missing == 5
    assert facts(AGE, site("Bari", missing=6), site("Cork")).missing == 6
