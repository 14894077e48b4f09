"""H_τ on a device against the compiled one."""

import numpy as np
import pytest

from fedsparse.problem.sparsity import TopK, hard_threshold

torch = pytest.importorskip("torch")
from fedsparse.compute.on_device.device_select import CompiledSelection, keep_largest  # noqa: E402

TIED = [[3.0, -5.0, 1.0, 3.0, -3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [2.0] * 6]


def selected(rows, kept, **options):
    found = torch.tensor(rows, dtype=torch.float64)[None].clone()
    keep_largest(found, kept, **options)
    return found[0].numpy()


@pytest.mark.parametrize("kept", range(1, 8))
def test_exactly_as_many_are_kept_and_ties_go_to_the_lower_index(kept):
    expected = [hard_threshold(row, kept) for row in TIED]
    np.testing.assert_array_equal(selected(TIED, kept), expected)


@pytest.mark.parametrize("kept", range(2, 7))
def test_entries_that_are_always_kept_count(kept):
    is_always = torch.tensor([[[False, False, True, False, False, True]]])
    expected = [TopK(kept, keep=[2, 5]).project(np.array(row)) for row in TIED]
    np.testing.assert_array_equal(selected(TIED, kept, is_always=is_always), expected)


def test_ties_go_by_the_order_of_indices_where_entries_lie_otherwise():
    order = torch.tensor([[3, 1, 0, 2]])
    rows = selected([[2.0, 2.0, 2.0, 2.0]], 2, order=order)
    assert rows.tolist() == [[0.0, 2.0, 0.0, 2.0]]


def test_what_is_no_number_is_kept_and_seen():
    rows = selected([[1.0, np.nan, np.inf, 5.0]], 2)
    np.testing.assert_array_equal(rows, [[0.0, np.nan, np.inf, 0.0]])


def test_float32_is_selected_alike():
    random = np.random.default_rng(0)
    rows = torch.from_numpy(random.standard_normal((2, 3, 50)).astype(np.float32)).round(decimals=1)
    found = rows.clone()
    keep_largest(found, 20)
    for row, own in zip(rows.reshape(-1, 50), found.reshape(-1, 50), strict=True):
        np.testing.assert_array_equal(own.numpy(), hard_threshold(row.numpy(), 20))


def test_the_compiled_selection_is_the_same_step_after_step():
    random = np.random.default_rng(1)
    select = CompiledSelection(7, np.array([4]))
    is_always = torch.zeros(1, 1, 30, dtype=torch.bool)
    is_always[..., 4] = True
    for active in (5, 5, 3):
        rows = torch.from_numpy(random.standard_normal((2, 5, 30)).round(1))[:, :active]
        expected = rows.clone()
        keep_largest(expected, 7, is_always)
        select.apply(rows)
        assert torch.equal(rows, expected)
