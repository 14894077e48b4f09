"""Second derivatives in a few bits: what arrives is H up to half a step, whatever the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.compute.asked_entries import AskedEntries, ClientMatrix
from fedsparse.compute.matrices import AskedMatrices, RoundedStack
from fedsparse.compute.rounded_matrix import as_rounded
from fedsparse.compute.workers import Workers
from fedsparse.requests.wire.matrix_bytes import (
    matrices_from_bytes,
    matrices_length,
    matrices_to_bytes,
)
from fedsparse.requests.wire.stack_sizes import stack_bytes
from tests.builders import STORAGES, clients_for, federate, fields_of

SINGLE = 2e-7
"""Share of √(H_jj H_kk) by which a centre in float32 may be wrong."""


def matrix_of(Z, weights):
    """A client's matrix, worked out here."""
    every = np.arange(Z.shape[1])
    return ClientMatrix(every, (Z * weights[:, None]).T @ Z, weights.sum(), weights @ Z)


def asked_of(size, *, known=(), bits=8, units=None):
    is_known = np.isin(np.arange(size), known)
    return AskedEntries(is_known, np.ones(size) if units is None else units, bits)


def decoded(told, asked, weight=1.0):
    total = np.zeros((asked.size, asked.size))
    told.add_to(total, weight, asked)
    return total


def rows_of(seed, rows=30, width=12, kind="usual"):
    draw = np.random.default_rng(seed)
    Z = draw.standard_normal((rows, width))
    if kind == "off centre":
        Z += 5.0 * draw.standard_normal(width)
    if kind == "constant columns":
        Z[:, ::2] = draw.standard_normal(Z[:, ::2].shape[1])
    if kind == "empty columns":
        Z[:, ::3] = 0.0
    if kind == "sparse":
        Z *= draw.random(Z.shape) < 0.1
    if kind == "scales":
        Z *= 10.0 ** draw.uniform(-6, 6, width)
    return Z, draw.uniform(0.1, 1.0, rows) / rows


KINDS = ("usual", "off centre", "constant columns", "empty columns", "sparse", "scales")


def oracle_bound(own, told, asked):
    """Half a step of what is told of both features, and what float32 leaves out."""
    hessian = own.hessian / asked.units / asked.units[:, None]
    spread, roots = np.zeros(asked.size), np.sqrt(np.diag(hessian))
    spread[told.held] = told.spread
    both = np.sqrt(spread)
    half = told.step * (0.5 + 1 / 512)
    return half * np.outer(both, both) + 4 * SINGLE * np.outer(roots, roots) + 1e-12


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 40), known=st.integers(0, 12))
def test_what_is_told_is_the_matrix_up_to_half_a_step(kind, bits, seed, rows, known):
    Z, weights = rows_of(seed, rows, kind=kind)
    own = matrix_of(Z, weights)
    roots = np.sqrt(np.diag(own.hessian))
    units = np.exp2(np.rint(np.log2(np.where(roots > 0, roots, 1.0))))
    asked = asked_of(12, known=np.arange(known), bits=bits, units=units)
    told = as_rounded(own, asked)
    error = np.abs(decoded(told, asked) - np.triu(own.hessian / units / units[:, None]))
    assert (error <= oracle_bound(own, told, asked))[asked.mask].all()
    assert not decoded(told, asked)[~asked.mask].any()
    assert told.step <= (1.0 + 1e-6) / (2 ** (bits - 1) - 1)


def test_constant_columns_do_not_make_the_others_coarse():
    """Their spread is an error of rounding, and so are correlations between them."""
    for seed in range(200):
        Z, weights = rows_of(seed, kind="constant columns")
        own, asked = matrix_of(Z, weights), asked_of(12)
        assert as_rounded(own, asked).step < 0.0079


@pytest.mark.parametrize(("kind", "is_listed"), [("usual", False), ("sparse", True)])
def test_where_most_entries_are_0_the_others_are_listed(kind, is_listed):
    Z, weights = rows_of(0, 4, 40, kind)
    told = as_rounded(matrix_of(Z, weights), asked_of(40))
    assert (told.pairs is not None) == is_listed
    if is_listed:
        assert not told.mean.size
        assert told.codes.size == np.count_nonzero(np.triu(Z.T @ Z, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [8, 16])
def test_both_sides_have_the_same_bits(kind, bits):
    Z, weights = rows_of(3, kind=kind)
    with_mass, without = matrix_of(Z, weights), matrix_of(Z, weights)
    without = ClientMatrix(without.held, without.hessian, 0.0, np.zeros(12))
    for own in (with_mass, without):
        asked = asked_of(12, known=[1, 4], bits=bits)
        told = as_rounded(own, asked)
        message = matrices_to_bytes([told], [asked])
        assert matrices_length([told], [asked]) == len(message)
        (arrived,) = matrices_from_bytes(message, [asked])
        assert decoded(arrived, asked).tobytes() == decoded(told, asked).tobytes()


@pytest.mark.parametrize("bits", [8, 16])
def test_errors_of_many_clients_cancel_and_are_as_large_as_is_said(bits):
    asked, clients = asked_of(12, bits=bits), []
    for seed in range(400):
        clients.append([matrix_of(*rows_of(seed, kind="off centre"))])
    stack = AskedMatrices((asked,), is_short=True).stack(clients)
    assert isinstance(stack, RoundedStack)
    ones = np.ones(400)
    others = AskedMatrices((asked,), is_short=True).stack(clients, Workers(3))
    assert others.total(ones).tobytes() == stack.total(ones).tobytes()
    assert stack_bytes(others) == stack_bytes(stack)
    exact = sum(own.hessian for (own,) in clients)[asked.mask]
    error = stack.total(ones) - exact
    spread = np.sqrt(stack.variances(ones))
    allowed = np.sqrt(np.outer(spread, spread))[asked.mask]
    scaled = error[allowed > 0] / allowed[allowed > 0]
    assert 0.4 < np.sqrt(np.mean(scaled**2)) < 1.2
    assert np.abs(scaled).max() < 5.0
    single = max(abs(e) for e in (stack.total(np.eye(400)[0]) - clients[0][0].hessian[asked.mask]))
    assert np.abs(error).max() < 40 * single  # and not 400 times
    for told, (own,) in zip(stack.each(), clients, strict=True):
        assert np.array_equal(told, own.hessian[asked.mask])


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e150])
def test_features_of_any_size_are_told_in_their_units(size):
    Z, weights = rows_of(1)
    units = np.full(12, 2.0 ** np.rint(np.log2(size)))
    one, other = asked_of(12), asked_of(12, units=units)
    plain = decoded(as_rounded(matrix_of(Z, weights), one), one)
    scaled = decoded(as_rounded(matrix_of(Z * units, weights), other), other)
    np.testing.assert_allclose(scaled, plain, rtol=0, atol=0.01)


@pytest.mark.parametrize("unit", [1e-300, 1e-20, 1e20, 1e300])
def test_absurd_units_tell_nothing_more_and_are_no_error(unit):
    Z, weights = rows_of(1)
    with np.errstate(all="raise"):
        told = as_rounded(matrix_of(Z, weights), asked_of(12, units=np.full(12, unit)))
    assert told.codes.dtype == np.int8
    assert told.is_finite() == (unit != 1e-300 and unit != 1e-20)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_dense_and_csr_rows_tell_the_same_up_to_rounding(loss):
    x, support = np.linspace(-1, 1, 24), np.arange(0, 24, 2)
    request = fs.Curvature(x, support, units=np.ones(24))
    sums = []
    for storage in STORAGES:
        told = fields_of(request, federate(clients_for(loss), storage), request_loss(loss))
        exact = list(told["hessian"].each())
        sums.append(
            (
                told["hessian"].total(np.ones(4)),
                np.sqrt(told["hessian"].variances(np.ones(4))),
                exact,
            )
        )
    (one, spread, first), (other, _, second) = sums
    scale = np.sqrt(np.outer(spread, spread))[np.triu_indices(12)]
    assert (np.abs(one - other) <= 8.0 * scale + 1e-6).all()
    for left, right in zip(first, second, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)


def request_loss(loss):
    return fs.SquaredError() if loss == "squared" else fs.Logistic(0.05)
