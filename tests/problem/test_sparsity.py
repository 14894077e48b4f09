"""The projections against definitions short enough to be obviously right."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import fedsparse as fs

LARGEST = np.finfo(float).max
SMALLEST_NORMAL = np.finfo(float).tiny
SMALLEST = np.nextafter(0.0, 1.0)
# More entries than the selection looks at one by one, where it begins to gather candidates.
LONG = 5000

# The first call of a loop compiles it, which no deadline should count.
untimed = settings(deadline=None)

SPREAD_PROBE = """
import numpy as np
import fedsparse as fs

magnitudes = [5e-324, 1e-310, 1e-200, 1e-100, 1.0, 1e100, 1e200, 1.7e308, np.inf]
for low in magnitudes:
    for high in magnitudes:
        for tau in range(1, 7):
            fs.hard_threshold([high, high, low, low, -low, low], tau)
"""


@pytest.fixture(scope="module")
def selection_ends():
    """A compiled loop that never ends cannot be interrupted: find that out in another process."""
    try:
        subprocess.run([sys.executable, "-c", SPREAD_PROBE], check=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.fail("hard_threshold never returns on a vector with tiny and huge magnitudes")


# ---------------------------------------------------------------- definitions


def largest(x, tau):
    """H_τ by definition: sort by magnitude, then by index."""
    order = sorted(range(x.size), key=lambda index: (-abs(x[index]), index))
    result = np.zeros(x.size)
    for index in order[:tau]:
        result[index] = x[index]
    return result


def largest_with_kept(x, tau, keep):
    """Kept entries first; the others share what is left of τ."""
    rest = [index for index in range(x.size) if index not in keep]
    order = sorted(rest, key=lambda index: (-abs(x[index]), index))
    chosen = [*keep, *order[: tau - len(keep)]]
    result = np.zeros(x.size)
    result[chosen] = x[chosen]
    return result


def largest_groups(x, groups, tau, keep=()):
    """Kept groups first, then those of largest norm, then those that begin first."""
    names = list(dict.fromkeys(groups))
    norm = {name: np.linalg.norm(x[[label == name for label in groups]]) for name in names}
    rest = [name for name in names if name not in keep]
    order = sorted(rest, key=lambda name: (-norm[name], names.index(name)))
    chosen = {*keep, *order[: tau - len(keep)]}
    kept = np.array([label in chosen for label in groups])
    return np.where(kept.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)


any_magnitude = st.floats(allow_nan=False, allow_infinity=True)
few_values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-320, -LARGEST, np.inf])
vectors = arrays.arrays(np.float64, st.integers(1, 40), elements=any_magnitude | few_values)
moderate_vectors = arrays.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6))
counts = st.integers(1, 50)


def long_vector(kind):
    random = np.random.default_rng(7)
    if kind == "normal":
        return random.standard_normal(LONG)
    if kind == "three values":
        return random.choice([1.0, -2.0, 3.0], LONG)
    if kind == "all equal":
        return np.where(random.random(LONG) < 0.5, 1.5, -1.5)
    if kind == "mostly zero":
        return random.standard_normal(LONG) * (random.random(LONG) < 0.01)
    if kind == "rising":
        return np.arange(1.0, LONG + 1)
    if kind == "falling":
        return np.arange(LONG, 0.0, -1)
    if kind == "neighbouring floats":
        return 1.0 + np.finfo(float).eps * random.integers(0, 50, LONG)
    if kind == "all octaves":
        return np.ldexp(random.choice([-1.0, 1.0], LONG), random.integers(-1074, 1024, LONG))
    if kind == "one giant among ties":
        vector = np.ones(LONG)
        vector[LONG // 2] = 1e300
        return vector
    if kind == "half subnormal":
        return np.where(random.random(LONG) < 0.5, SMALLEST * random.integers(1, 9, LONG), 1.0)
    raise ValueError(kind)


LONG_KINDS = [
    "normal",
    "three values",
    "all equal",
    "mostly zero",
    "rising",
    "falling",
    "neighbouring floats",
    "all octaves",
    "one giant among ties",
    "half subnormal",
]


@pytest.mark.usefixtures("selection_ends")
class TestHardThreshold:
    @untimed
    @given(x=vectors, tau=counts)
    def test_keeps_the_largest_and_gives_ties_to_the_lower_index(self, x, tau):
        np.testing.assert_array_equal(fs.hard_threshold(x, tau), largest(x, tau))

    @untimed
    @given(x=vectors, tau=counts)
    def test_keeps_exactly_tau_or_all_there_are(self, x, tau):
        kept = np.count_nonzero(fs.hard_threshold(x, tau))
        assert kept == min(tau, np.count_nonzero(x))

    @untimed
    @given(x=vectors, tau=counts)
    def test_is_idempotent_and_leaves_its_argument_alone(self, x, tau):
        before = x.copy()
        once = fs.hard_threshold(x, tau)
        np.testing.assert_array_equal(fs.hard_threshold(once, tau), once)
        np.testing.assert_array_equal(x, before)
        assert not np.shares_memory(once, x)

    @untimed
    @given(x=arrays.arrays(np.float64, 6, elements=st.floats(-100, 100)), tau=st.integers(1, 6))
    def test_is_a_nearest_point_with_tau_entries(self, x, tau):
        distance = np.linalg.norm(x - fs.hard_threshold(x, tau))
        for support in itertools.combinations(range(6), tau):
            candidate = np.zeros(6)
            candidate[list(support)] = x[list(support)]
            assert distance <= np.linalg.norm(x - candidate) * (1 + 1e-12)

    @pytest.mark.parametrize("tau", [5, 6, 1000, 2**40, 10**30, np.int32(7)])
    def test_keeps_everything_when_tau_is_at_least_the_size(self, tau):
        x = np.array([1.0, -1.0, 5e-324, 0.0, -np.inf])
        np.testing.assert_array_equal(fs.hard_threshold(x, tau), x)

    @pytest.mark.parametrize("tau", [1, 2, 7, 2047, 2048, 2500, LONG - 1, LONG, LONG + 1])
    @pytest.mark.parametrize("kind", LONG_KINDS)
    def test_is_right_on_long_vectors(self, kind, tau):
        x = long_vector(kind)
        np.testing.assert_array_equal(fs.hard_threshold(x, tau), largest(x, tau))

    @settings(untimed, max_examples=50)
    @given(
        size=st.integers(2000, 9000),
        distinct=st.integers(1, 6),
        share=st.floats(0.0, 1.0),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_is_right_on_long_vectors_with_many_ties(self, size, distinct, share, seed):
        random = np.random.default_rng(seed)
        x = random.choice(random.standard_normal(distinct), size)
        tau = max(1, round(share * size))
        np.testing.assert_array_equal(fs.hard_threshold(x, tau), largest(x, tau))

    @pytest.mark.parametrize("size", [5, LONG])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_never_hides_nan(self, size, sign):
        x = np.arange(1.0, size + 1)
        x[0], x[-1] = np.copysign(np.nan, sign), np.inf
        result = fs.hard_threshold(x, 1)
        assert np.flatnonzero(np.isnan(result)).tolist() == [0]
        assert np.count_nonzero(result) == 1

    @pytest.mark.parametrize(
        ("x", "kept"),
        [
            ([SMALLEST, 0.0, -2 * SMALLEST], [2]),
            ([SMALLEST_NORMAL, SMALLEST_NORMAL - SMALLEST], [0]),
            ([LARGEST, -np.inf], [1]),
            ([LARGEST, -LARGEST], [0]),
            ([-np.inf, np.inf], [0]),
            ([1.0, 1.0 + np.finfo(float).eps], [1]),
            ([-0.0, 0.0, SMALLEST], [2]),
        ],
    )
    def test_tells_apart_the_ends_of_the_floating_point_range(self, x, kept):
        assert np.flatnonzero(fs.hard_threshold(x, 1)).tolist() == kept

    def test_takes_lists_integers_and_matrices(self):
        assert fs.hard_threshold([1, -3, 2], 2).tolist() == [0.0, -3.0, 2.0]
        matrix = np.array([[1.0, 4.0], [4.0, 2.0]])
        for given_matrix in (matrix, np.asfortranarray(matrix)):
            assert fs.hard_threshold(given_matrix, 1).tolist() == [[0.0, 4.0], [0.0, 0.0]]

    def test_takes_views_with_strides(self):
        x = np.array([9.0, 1.0, 9.0, -2.0, 9.0, 1.0])[1::2]
        assert fs.hard_threshold(x, 1).tolist() == [0.0, -2.0, 0.0]


@st.composite
def vectors_with_kept(draw):
    x = draw(moderate_vectors)
    keep = draw(st.lists(st.integers(0, x.size - 1), unique=True, max_size=x.size))
    return x, draw(st.integers(max(1, len(keep)), x.size + 5)), keep


@pytest.mark.usefixtures("selection_ends")
class TestTopK:
    @untimed
    @given(x=vectors, tau=counts)
    def test_is_hard_thresholding(self, x, tau):
        np.testing.assert_array_equal(fs.TopK(tau).project(x), largest(x, tau))

    @untimed
    @given(vectors_with_kept())
    def test_kept_features_stay_and_count_towards_tau(self, case):
        x, tau, keep = case
        before = x.copy()
        projected = fs.TopK(tau, keep=keep).project(x)
        np.testing.assert_array_equal(projected, largest_with_kept(x, tau, keep))
        np.testing.assert_array_equal(x, before)
        again = fs.TopK(tau, keep=keep).project(projected)
        np.testing.assert_array_equal(again, projected)

    def test_a_kept_feature_that_is_zero_uses_up_its_place(self):
        projected = fs.TopK(2, keep=[3]).project(np.array([3.0, 2.0, 1.0, 0.0]))
        assert projected.tolist() == [3.0, 0.0, 0.0, 0.0]

    def test_naming_a_kept_feature_twice_counts_once(self):
        projected = fs.TopK(2, keep=[2, 2]).project(np.array([3.0, 2.0, 1.0]))
        assert projected.tolist() == [3.0, 0.0, 1.0]

    def test_counts_entries_of_all_classes_together(self):
        x = np.array([[1.0, 5.0], [-2.0, 4.0], [3.0, 0.5]])
        assert fs.TopK(3).project(x).tolist() == [[0.0, 5.0], [0.0, 4.0], [3.0, 0.0]]
        kept = fs.TopK(3, keep=[0]).project(x)
        assert kept.tolist() == [[1.0, 5.0], [0.0, 4.0], [0.0, 0.0]]

    def test_never_hides_nan(self):
        x = np.array([np.inf, np.nan, 3.0, np.nan])
        assert np.isnan(fs.TopK(1).project(x)).any()
        assert np.isnan(fs.TopK(2, keep=[0]).project(x)).any()
        assert np.isnan(fs.TopK(1, keep=[1]).project(x)).any()


@pytest.mark.usefixtures("selection_ends")
class TestTopKPerClass:
    @untimed
    @given(
        x=arrays.arrays(
            np.float64,
            st.tuples(st.integers(1, 12), st.integers(1, 4)),
            elements=any_magnitude | few_values,
        ),
        tau=counts,
    )
    def test_thresholds_every_column_by_itself(self, x, tau):
        before = x.copy()
        projected = fs.TopKPerClass(tau).project(x)
        for column, expected in zip(projected.T, x.T, strict=True):
            np.testing.assert_array_equal(column, largest(expected, tau))
        np.testing.assert_array_equal(fs.TopKPerClass(tau).project(projected), projected)
        np.testing.assert_array_equal(x, before)

    def test_keeps_named_features_in_every_class(self):
        x = np.array([[1.0, 1.0], [3.0, 2.0], [2.0, 3.0]])
        projected = fs.TopKPerClass(2, keep=[0]).project(x)
        assert projected.tolist() == [[1.0, 1.0], [3.0, 0.0], [0.0, 3.0]]

    def test_is_topk_on_a_vector(self):
        x = np.array([1.0, -3.0, 2.0])
        for keep in ((), (0,)):
            expected = fs.TopK(2, keep).project(x)
            np.testing.assert_array_equal(fs.TopKPerClass(2, keep).project(x), expected)


@st.composite
def grouped(draw):
    x = draw(moderate_vectors)
    groups = draw(st.lists(st.sampled_from("abcd"), min_size=x.size, max_size=x.size))
    keep = draw(st.lists(st.sampled_from(sorted(set(groups))), unique=True, max_size=2))
    return x, groups, draw(st.integers(max(1, len(keep)), 6)), keep


class TestTopKGroups:
    @untimed
    @given(grouped())
    def test_keeps_whole_groups_of_largest_norm(self, case):
        x, groups, tau, keep = case
        # Integers have exact norms, so that a tie is a tie in both computations.
        x = np.round(x).clip(-1000, 1000)
        before = x.copy()
        projected = fs.TopKGroups(groups, tau, keep).project(x)
        np.testing.assert_array_equal(projected, largest_groups(x, groups, tau, keep))
        again = fs.TopKGroups(groups, tau, keep).project(projected)
        np.testing.assert_array_equal(again, projected)
        np.testing.assert_array_equal(x, before)

    def test_gives_ties_to_the_group_that_begins_first(self):
        x = np.array([3.0, 4.0, 5.0, -5.0])
        projected = fs.TopKGroups(["z", "z", "b", "a"], 2).project(x)
        assert projected.tolist() == [3.0, 4.0, 5.0, 0.0]

    def test_group_of_a_matrix_row_spans_all_classes(self):
        x = np.array([[3.0, 0.0], [0.0, 3.5], [2.0, 2.0]])
        assert fs.TopKGroups([0, 1, 0], 1).project(x).tolist() == [[3.0, 0.0], [0.0, 0.0], [2.0, 2]]

    @pytest.mark.parametrize("groups", [("a", "b", "b"), [1, 2, 2], np.array([7, 8, 8])])
    def test_labels_may_be_anything_hashable(self, groups):
        assert fs.TopKGroups(groups, 1).project(np.array([2.0, 1.0, 1.0])).tolist() == [2.0, 0, 0]

    @pytest.mark.parametrize("scale", [1e-300, SMALLEST, 1e-170, 1e160, 1e300])
    def test_compares_norms_whose_squares_leave_the_range_of_floats(self, scale):
        x = scale * np.array([1.0, 1.0, 4.0, 3.0])
        projected = fs.TopKGroups(["a", "a", "b", "c"], 1).project(x)
        np.testing.assert_array_equal(projected, [0.0, 0.0, x[2], 0.0])

    @pytest.mark.parametrize("scale", [1e-300, SMALLEST, 1.0, 1e300])
    def test_keeps_everything_when_tau_is_at_least_the_number_of_groups(self, scale):
        x = scale * np.array([1.0, 0.0, -4.0])
        np.testing.assert_array_equal(fs.TopKGroups(["a", "b", "c"], 3).project(x), x)

    def test_never_hides_nan(self):
        projected = fs.TopKGroups(["a", "a", "b"], 1).project(np.array([np.nan, 1.0, np.inf]))
        assert np.isnan(projected).any()


class TestLowRank:
    @untimed
    @given(
        x=arrays.arrays(
            np.float64, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.floats(-9, 9)
        ),
        rank=st.integers(1, 6),
    )
    def test_is_a_nearest_matrix_of_that_rank(self, x, rank):
        before = x.copy()
        projected = fs.LowRank(rank).project(x)
        singular = np.linalg.svd(x, compute_uv=False)
        assert np.linalg.matrix_rank(projected, tol=1e-9) <= rank
        # Eckart and Young: the distance is what the dropped singular values make up.
        assert np.linalg.norm(x - projected) == pytest.approx(
            np.linalg.norm(singular[rank:]), abs=1e-9
        )
        np.testing.assert_allclose(fs.LowRank(rank).project(projected), projected, atol=1e-9)
        np.testing.assert_array_equal(x, before)

    def test_keeps_named_rows_as_they_are(self):
        x = np.array([[9.0, -7.0], [3.0, 0.0], [0.0, 1.0]])
        projected = fs.LowRank(1, keep=[0]).project(x)
        np.testing.assert_allclose(projected, [[9.0, -7.0], [3.0, 0.0], [0.0, 0.0]], atol=1e-12)

    def test_keeping_every_row_keeps_everything(self):
        x = np.array([[9.0, -7.0], [3.0, 1.0]])
        np.testing.assert_array_equal(fs.LowRank(1, keep=[0, 1]).project(x), x)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_never_hides_what_is_not_finite(self, bad):
        x = np.array([[1.0, 2.0], [3.0, bad]])
        assert not np.isfinite(fs.LowRank(1).project(x)).all()

    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    def test_refuses_vectors(self, loss):
        with pytest.raises(fs.OptionError, match=r"LowRank needs a matrix.*softmax"):
            fs.LowRank(1).project(np.ones(3))
        data = fs.FederatedData.from_clients([([[1.0, 2.0], [2.0, 1.0]], [0.0, 1.0])])
        for algorithm in (fs.FedHT(fs.LowRank(1)), fs.FedIterHT(fs.LowRank(1))):
            with pytest.raises(fs.OptionError, match="LowRank needs a matrix"):
                fs.run(algorithm, data, loss=loss, rounds=1, threads=1)


NOT_COUNTS = [0, -1, 1.0, 2.5, np.nan, True, False, "3", None, np.float64(2.0), np.bool_(True)]


class TestErrors:
    @pytest.mark.parametrize("tau", NOT_COUNTS, ids=repr)
    @pytest.mark.parametrize(
        "make",
        [
            fs.TopK,
            fs.TopKPerClass,
            lambda tau: fs.TopKGroups(["a", "b"], tau),
            fs.LowRank,
            lambda tau: fs.hard_threshold([1.0, 2.0], tau),
            fs.FedHT,
            fs.FedIterHT,
            fs.DistributedIHT,
            fs.GDHT,
            fs.SVRGHT,
            fs.ScaffoldHT,
            fs.AsyncSVRGHT,
        ],
        ids=[
            "TopK",
            "TopKPerClass",
            "TopKGroups",
            "LowRank",
            "hard_threshold",
            "FedHT",
            "FedIterHT",
            "DistributedIHT",
            "GDHT",
            "SVRGHT",
            "ScaffoldHT",
            "AsyncSVRGHT",
        ],
    )
    def test_a_count_must_be_a_whole_number_of_at_least_one(self, make, tau):
        with pytest.raises(fs.OptionError, match="whole number of at least 1"):
            make(tau)

    @pytest.mark.parametrize(
        ("constraint", "x"),
        [
            (lambda: fs.TopK(1, keep=[0, 1]), np.ones(3)),
            (lambda: fs.TopK(3, keep=[0, 1]), np.ones((3, 2))),
            (lambda: fs.TopKPerClass(1, keep=[0, 1]), np.ones((3, 2))),
            (lambda: fs.TopKGroups(["a", "b", "c"], 1, keep=["a", "b"]), np.ones(3)),
        ],
    )
    def test_keep_must_not_name_more_than_may_be_kept(self, constraint, x):
        with pytest.raises(fs.OptionError, match=r"more than the . that may be kept"):
            constraint().project(x)

    @pytest.mark.parametrize("keep", [[0, 1], [0, 1, 2]])
    def test_a_run_refuses_to_keep_more_than_tau(self, keep):
        data = fs.FederatedData.from_clients([(np.eye(4), np.ones(4))])
        for algorithm in (fs.FedHT(fs.TopK(1, keep)), fs.FedIterHT(fs.TopK(1, keep))):
            with pytest.raises(fs.OptionError, match="more than the 1 that may be kept"):
                fs.run(algorithm, data, rounds=1, threads=1)

    @pytest.mark.parametrize(("keep", "named"), [([4], "4"), ([-1], "-1"), ([-2, 1], "-2")])
    @pytest.mark.parametrize("kind", [fs.TopK, fs.TopKPerClass, fs.LowRank])
    def test_keep_must_name_existing_features(self, kind, keep, named):
        with pytest.raises(fs.OptionError, match=f"feature {named}\\b"):
            kind(2, keep=keep).project(np.ones((4, 3)))

    def test_keep_must_name_features_by_whole_numbers(self):
        with pytest.raises(fs.OptionError, match="keep"):
            fs.TopK(2, keep=[0.5]).project(np.ones(4))

    def test_keep_must_name_known_groups(self):
        with pytest.raises(fs.OptionError, match="group 'z' in keep is not among the groups"):
            fs.TopKGroups(["a", "b"], 1, keep=["z"])

    @pytest.mark.parametrize("groups", [["a"], ["a", "b", "c"], []])
    def test_groups_must_name_every_feature(self, groups):
        with pytest.raises(fs.OptionError, match=f"{len(groups)} features, the data have 2"):
            fs.TopKGroups(groups, 1).project(np.ones(2))
