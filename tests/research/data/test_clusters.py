"""Clusters of documents and their map, on made-up topics and, where at hand, real texts."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from fedsparse import DataError, OptionError
from fedsparse.research.data.clusters import cluster_map, text_clusters
from fedsparse.research.data.partition import by_categories, samples_per_device

TOPICS = (60, 40, 25)


def documents(sizes=TOPICS, words=30, seed=0):
    """CSR documents in shuffled order, each with words of its own topic only, and their topics."""
    random = np.random.default_rng(seed)
    topics = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    weights = random.random((topics.size, len(sizes), words)) + 0.5
    weights *= np.arange(len(sizes))[None, :, None] == topics[:, None, None]
    lengths = random.uniform(0.1, 10.0, (topics.size, 1))
    return sparse.csr_array(weights.reshape(topics.size, -1) * lengths), topics


class TestTextClusters:
    def test_finds_topics_whatever_the_lengths_and_numbers_them_by_decreasing_size(self):
        features, topics = documents()
        labels = text_clusters(features, count=3)
        assert labels.dtype == np.int64
        np.testing.assert_array_equal(labels, topics)  # topics are in decreasing size

    def test_numbers_do_not_depend_on_the_seed(self):
        features, topics = documents()
        for seed in (1, 2, 2**40):
            np.testing.assert_array_equal(text_clusters(features, count=3, seed=seed), topics)

    @pytest.mark.parametrize("convert", [sparse.csr_array.toarray, sparse.coo_array])
    def test_dense_and_other_sparse_rows_cluster_alike(self, convert):
        features, topics = documents()
        np.testing.assert_array_equal(text_clusters(convert(features), count=3), topics)

    def test_is_the_same_on_repeated_calls(self):
        features = sparse.random_array((400, 300), density=0.05, rng=np.random.default_rng(0))
        first = text_clusters(features, seed=7)
        np.testing.assert_array_equal(first, text_clusters(features, seed=7))
        assert (np.diff(np.bincount(first, minlength=10)) <= 0).all()

    def test_documents_without_words_share_a_cluster(self):
        features, _ = documents()
        empty = sparse.csr_array((9, features.shape[1]))
        labels = text_clusters(sparse.vstack([features, empty], format="csr"), count=4)
        assert np.unique(labels[-9:]).tolist() == [3]
        assert np.bincount(labels).tolist() == [*TOPICS, 9]

    def test_the_callers_matrix_is_not_changed(self):
        features, _ = documents()
        before = features.copy()
        text_clusters(features, count=3)
        assert (features != before).nnz == 0

    def test_more_clusters_than_rows_are_refused(self):
        with pytest.raises(OptionError, match="count is 10, but there are only 2 rows"):
            text_clusters(np.eye(2))

    @pytest.mark.parametrize("rows", [np.ones((12, 4)), np.zeros((12, 4))])
    def test_rows_too_much_alike_are_refused(self, rows):
        with pytest.raises(DataError, match=r"fewer than 3 rows that differ.*lower count"):
            text_clusters(rows, count=3)

    def test_a_single_row_is_a_cluster(self):
        assert text_clusters([[1.0, 2.0]], count=1).tolist() == [0]

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            ([[1.0], [2.0]], r"the table has 1 column\(s\); clusters need at least 2"),
            ([[1.0, 0.0], [np.nan, 0.0]], "the table, row 1, column 0 is nan"),
            (np.empty((0, 4)), "the table has no rows"),
        ],
    )
    def test_tables_that_cannot_be_clustered_are_refused(self, features, message):
        with pytest.raises(DataError, match=message):
            text_clusters(features, count=1)

    @pytest.mark.parametrize(("option", "value"), [("count", 0), ("seed", -1), ("seed", 1.5)])
    def test_options_that_make_no_sense_are_refused(self, option, value):
        with pytest.raises(OptionError, match=f"{option} must be a whole number"):
            text_clusters(np.eye(12), **{option: value})


class TestClusterMap:
    def test_places_a_sample_of_the_rows_with_their_cluster(self):
        features, topics = documents()
        places = cluster_map(features, topics, points=80)
        assert places.schema == {"x": pl.Float64, "y": pl.Float64, "cluster": pl.Int64}
        assert places.height == 80
        assert set(places["cluster"]) == {0, 1, 2}

    def test_documents_of_a_topic_lie_together(self):
        features, topics = documents()
        places = cluster_map(features, topics)
        assert places["cluster"].to_list() == topics.tolist()  # all rows, in their order
        xy = places.select("x", "y").to_numpy()
        distances = np.linalg.norm(xy[:, None] - xy[None], axis=2)
        np.fill_diagonal(distances, np.inf)
        assert (topics[distances.argmin(axis=1)] == topics).mean() > 0.95

    def test_same_seed_same_map(self):
        features, topics = documents()
        first, again, other = (
            cluster_map(features, topics, points=60, seed=seed) for seed in (4, 4, 5)
        )
        assert first.equals(again)
        assert not first.equals(other)

    @pytest.mark.parametrize("rows", [3, 4, 10])
    def test_a_few_rows_are_enough(self, rows):
        places = cluster_map(np.eye(rows), np.arange(rows))
        assert np.isfinite(places.select("x", "y").to_numpy()).all()

    @pytest.mark.parametrize(
        "features", [np.eye(2), np.ones((30, 4)), np.zeros((30, 4)), np.ones((1, 5))]
    )
    def test_rows_too_few_or_too_much_alike_are_refused(self, features):
        with pytest.raises(DataError, match="a map needs 3 rows that differ in direction"):
            cluster_map(features, np.zeros(len(features)))

    def test_needs_a_label_per_row(self):
        with pytest.raises(DataError, match=r"3 rows .* cluster labels"):
            cluster_map(np.eye(3), [0, 1])


def test_import_of_the_package_does_not_load_scikit_learn():
    lines = (
        "import sys, fedsparse, fedsparse.research.data.clusters; "
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", lines], check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.skipif("FEDSPARSE_DATA" not in os.environ, reason="FEDSPARSE_DATA is not set")
@pytest.mark.parametrize(
    ("file", "width", "rows"),
    [
        ("rcv1/rcv1v2_subsets_union.binary.bz2", 47_236, 20_242),
        ("imdb-rating/imdb_rating.bz2", 150_360, 3_308),
    ],
)
def test_real_texts_fall_into_clusters_large_enough_for_the_split_of_the_paper(file, width, rows):
    from sklearn.datasets import load_svmlight_file

    path = Path(os.environ["FEDSPARSE_DATA"]) / file
    if not path.exists():
        pytest.skip(f"{file} is not in FEDSPARSE_DATA")
    features, _ = load_svmlight_file(str(path), n_features=width)
    chosen = np.sort(np.random.default_rng(0).permutation(features.shape[0])[:rows])
    labels = text_clusters(features[chosen])
    assert np.bincount(labels).min() >= 20
    held = samples_per_device(by_categories(labels))
    assert (held.clients, held.samples, held.mean) == (100, rows, rows / 100)
