"""The split study: the same rows in other hands, and ratios of what comes of it."""

import numpy as np
import polars as pl
import pytest

from fedsparse.research.theory import split_study
from fedsparse.research.theory.split_study import (
    SPLITS,
    digits_rows,
    measure_splits,
    planted_rows,
    ratio_of,
)


def in_order(features):
    return features[np.lexsort(features.T)]


class TestRows:
    @pytest.mark.parametrize("split", SPLITS)
    def test_a_split_deals_the_same_rows(self, split):
        rows = planted_rows(0, samples=200)
        data = rows.dealt(split, seed=3)
        assert len(data) == split_study.CLIENTS
        assert np.array_equal(in_order(data.features), in_order(rows.features))

    def test_splits_are_ordered_from_alike_to_unlike(self):
        rows = digits_rows()
        most_common = [
            np.mean([np.bincount(part.targets.astype(int)).max() / part.targets.size for part in p])
            for p in (
                [data.client(place) for place in range(len(data))]
                for data in (rows.dealt(split, seed=0) for split in SPLITS)
            )
        ]
        assert most_common == sorted(most_common)
        assert most_common[0] < 0.2 < 0.4 < most_common[-1]

    def test_categories_of_planted_rows_are_tenths_of_the_targets(self):
        rows = planted_rows(0, samples=200)
        highest = [rows.targets[rows.categories == place].max() for place in range(10)]
        lowest = [rows.targets[rows.categories == place].min() for place in range(10)]
        assert np.bincount(rows.categories).tolist() == [20] * 10
        assert all(high < low for high, low in zip(highest[:-1], lowest[1:], strict=True))


class TestRatio:
    def table(self, tops, bottoms):
        return pl.concat(
            pl.DataFrame({"repetition": range(len(values)), "split": name, "error": values})
            for name, values in (("top", tops), ("bottom", bottoms))
        )

    def ratio(self, tops, bottoms):
        table = self.table(tops, bottoms)
        return ratio_of(table, "error", {"split": "top"}, {"split": "bottom"})

    def test_is_paired_by_repetition(self):
        found = self.ratio([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
        assert (found.middle, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))

    def test_interval_is_students_of_the_logarithms(self):
        found = self.ratio([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
        margin = 4.302653 * np.log(2) / np.sqrt(3)  # t of 2 degrees of freedom, 97.5 %
        assert found.middle == pytest.approx(2.0)
        assert found.low == pytest.approx(np.exp(np.log(2) - margin))
        assert found.high == pytest.approx(np.exp(np.log(2) + margin))

    def test_counts_how_often_it_is_below_one(self):
        found = self.ratio([0.5, 1.0, 2.0], [1.0, 1.0, 1.0])
        assert (found.below, found.count) == (1, 3)

    def test_divergence_is_an_infinite_ratio(self):
        found = self.ratio([np.inf, 1.0], [1.0, 2.0])
        assert (found.middle, found.below, found.count) == (np.inf, 1, 2)


@pytest.fixture(scope="module")
def measurements():
    return measure_splits(quick=True)


@pytest.mark.slow
class TestQuickStudy:
    def test_a_single_step_of_fed_ht_is_the_same_whoever_holds_the_rows(self, measurements):
        one_step = measurements.filter(local_steps=1, problem="planted", algorithm="Fed-HT")
        for _, same in one_step.group_by("repetition"):
            assert same.height == len(SPLITS)
            assert np.ptp(same["error"].to_numpy()) < 1e-9 * same["error"][0]

    def test_the_most_unequal_split_has_the_largest_dissimilarity(self, measurements):
        *others, unequal = (
            measurements.filter(problem="planted", split=split)["dissimilarity"].mean()
            for split in SPLITS
        )
        assert unequal > max(others)

    def test_an_error_is_told_where_the_truth_is_known(self, measurements):
        is_known = measurements["error"].is_not_null()
        assert (is_known == (measurements["problem"] == "planted")).all()
        assert measurements["objective"].is_not_null().all()
