"""Quantiles and tails, against `scipy.stats`."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from fedsparse.modelling.distributions import (
    chi_squared_quantile,
    chi_squared_tail,
    normal_quantile,
    student_reach,
    student_tail,
)

SHARES = np.array([1e-9, 1e-4, 0.025, 0.3, 0.5, 0.975])


@pytest.mark.parametrize("freedom", [1.0, 2.5, 40.0, 1e6, np.inf])
def test_students(freedom):
    np.testing.assert_allclose(
        student_reach(SHARES, freedom), stats.t.isf(SHARES, freedom), rtol=1e-9, atol=1e-12
    )
    sizes = np.array([0.0, 0.3, 2.0, 9.0, np.nan])
    np.testing.assert_allclose(student_tail(sizes, freedom), stats.t.sf(sizes, freedom), rtol=1e-12)


@pytest.mark.parametrize("freedom", [0.4, 1.0, 7.0, 300.0])
def test_chi_squared(freedom):
    for share in (0.025, 0.5, 0.975):
        found = chi_squared_quantile(share, freedom)
        assert found == pytest.approx(stats.chi2.ppf(share, freedom), rel=1e-10)
    assert chi_squared_tail(3.3, freedom) == pytest.approx(stats.chi2.sf(3.3, freedom), rel=1e-12)


def test_normal():
    assert normal_quantile(0.975) == pytest.approx(stats.norm.ppf(0.975), rel=1e-14)


def test_a_site_starts_without_what_takes_long_to_import():
    code = (
        "import sys, fedsparse.federation.sites.connection, fedsparse.federation.sites.site; "
        "assert not {'scipy.stats', 'sklearn', 'altair'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
