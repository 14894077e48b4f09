"""Lengths of encoded vectors, worked out on a device, against the encoding itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsparse.requests.wire import vectors as wire

torch = pytest.importorskip("torch")
from fedsparse.compute.on_device.device_sizes import encoded_sizes  # noqa: E402

VALUES = st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.5, 0.1, -0.0, np.nan, np.inf, 1e300])


def lengths(rows):
    """Of the encodings themselves."""
    return [len(wire.encode(row)) for row in rows]


@given(rows=st.integers(1, 300).flatmap(lambda n: st.lists(
    st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=4)))  # fmt: skip
def test_lengths_are_those_of_the_encoding(rows):
    values = torch.tensor(rows, dtype=torch.float64)
    positions = torch.arange(values.shape[1])
    assert encoded_sizes(values, positions, values.shape[1]).tolist() == lengths(rows)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.4, 0.6, 1.0])
def test_lengths_of_long_vectors_are_those_of_the_encoding(share):
    random = np.random.default_rng(0)
    rows = random.standard_normal((6, 20_000)) * (random.random((6, 20_000)) < share)
    rows[0, 10_000:] = 0.0  # a long gap at the end, and one before the last entry
    rows[1, 5:19_999] = 0.0
    found = encoded_sizes(torch.from_numpy(rows), torch.arange(20_000), 20_000)
    assert found.tolist() == lengths(rows)


def test_entries_may_stand_anywhere_in_their_vector():
    random = np.random.default_rng(1)
    places = np.sort(random.choice(5_000, 40, replace=False))
    own = random.standard_normal((3, 40)) * (random.random((3, 40)) < 0.5)
    whole = np.zeros((3, 5_000))
    whole[:, places] = own
    found = encoded_sizes(torch.from_numpy(own), torch.from_numpy(places), 5_000)
    assert found.tolist() == lengths(whole)
