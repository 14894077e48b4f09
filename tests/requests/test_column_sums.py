"""Column sums and squares, against NumPy on all rows in one place."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from tests.builders import STORAGES, answers_of

WIDTH = 5


def table(seed, storage="dense", *, weighted=False, offset=0.0, dtype=np.float64):
    """Rows of four clients, in their order; zeros among the values."""
    random = np.random.default_rng(seed)
    rows = 40
    Z = (random.standard_normal((rows, WIDTH)) + offset) * (random.random((rows, WIDTH)) < 0.6)
    Z = Z.astype(dtype)
    y = random.standard_normal(rows)
    weights = random.random(rows) + 0.1 if weighted else None
    convert = sparse.csr_array if storage == "csr" else np.asarray
    data = fs.FederatedData.from_table(convert(Z), y, np.sort(random.integers(0, 4, rows)), weights)
    return data, Z.astype(float), y, np.ones(rows) if weights is None else weights


@given(
    seed=st.integers(0, 10**6),
    storage=st.sampled_from(STORAGES),
    weighted=st.booleans(),
    offset=st.sampled_from([0.0, 1e4]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@settings(max_examples=60, deadline=None)
def test_sums_and_squares_are_those_of_all_rows(seed, storage, weighted, offset, dtype):
    data, Z, y, weights = table(seed, storage, weighted=weighted, offset=offset, dtype=dtype)
    sums = answers_of(fs.ColumnSums(with_target=True), data, fs.SquaredError())
    assert float(sums.total("rows")) == pytest.approx(40)
    assert sums.weight == pytest.approx(weights.sum())
    assert float(sums.total("target")) == pytest.approx(weights @ y)
    np.testing.assert_allclose(sums.total("total"), weights @ Z, rtol=1e-12, atol=1e-12)
    stored = np.count_nonzero(Z) if storage == "csr" else Z.size
    assert float(sums.total("stored")) == pytest.approx(stored)
    centre = weights @ Z / weights.sum()
    squares = answers_of(fs.ColumnSquares(centre), data, fs.SquaredError()).total("squares")
    expected = weights @ (Z - centre) ** 2
    np.testing.assert_allclose(squares, expected, rtol=1e-9, atol=1e-9)


def test_nothing_cancels_about_the_mean():
    """A column of 10⁸ ± 1 has a variance of 1."""
    Z = 1e8 + np.tile([[1.0], [-1.0]], (10, 1))
    data = fs.FederatedData.from_table(Z, np.zeros(20), np.arange(20) % 3)
    squares = answers_of(fs.ColumnSquares(np.array([1e8])), data, fs.SquaredError())
    assert squares.total("squares").tolist() == [20.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_holes_add_nothing_and_are_not_counted(weighted):
    data, Z, _, weights = table(1, weighted=weighted)
    is_missing = np.random.default_rng(2).random(Z.shape) < 0.3
    holed = replace(data, features=np.where(is_missing, np.nan, Z))
    sums = answers_of(fs.ColumnSums(with_holes=True), holed, fs.SquaredError())
    known = np.where(is_missing, 0.0, Z)
    np.testing.assert_allclose(sums.total("total"), weights @ known)
    np.testing.assert_allclose(sums.total("known"), weights @ ~is_missing)
    centre = sums.total("total") / sums.total("known")
    squares = answers_of(fs.ColumnSquares(centre), holed, fs.SquaredError()).total("squares")
    deviations = np.where(is_missing, 0.0, Z - centre)
    np.testing.assert_allclose(squares, weights @ deviations**2)


def test_a_column_that_nobody_knows_adds_up_to_nothing():
    data, Z, _, _ = table(1)
    Z[:, 2] = np.nan
    sums = answers_of(fs.ColumnSums(with_holes=True), replace(data, features=Z), fs.SquaredError())
    assert sums.total("known")[2] == 0.0
    assert sums.total("total")[2] == 0.0


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("loss", "classes"), [("logistic", 2), ("softmax", 3)])
def test_labels_are_counted(loss, classes, storage):
    data, Z, _, _ = table(3, storage)
    labels = np.random.default_rng(0).integers(0, classes, 40)
    convert = sparse.csr_array if storage == "csr" else np.asarray
    sites = np.repeat(np.arange(4), data.counts)
    labelled = fs.FederatedData.from_table(convert(Z), labels, sites)
    sums = answers_of(fs.ColumnSums(classes=classes), labelled, loss)
    assert sums.total("labels").tolist() == np.bincount(labels, minlength=classes).tolist()


def test_what_is_not_asked_for_is_not_told():
    data, _, _, _ = table(0)
    sums = answers_of(fs.ColumnSums(), data, fs.SquaredError())
    assert float(sums.total("target")) == 0.0
    assert "known" not in sums.sums
    assert "labels" not in sums.sums
