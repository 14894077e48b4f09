"""Clusters of text documents, which the paper splits over clients, and a map of them.

Straight on tf-idf rows, k-means tends to find clusters of a single odd document. Rows are therefore
first reduced to a few directions and brought to length 1, so that documents meet by topic and not
by length.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedsparse.arrays import AnyArray, Int64Array
from fedsparse.checks import check_count
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.checking import as_features, as_targets, check_finite
from fedsparse.research.data.partition import seeded_generator
from fedsparse.threads import one_thread

if TYPE_CHECKING:
    import polars as pl

RANK = 50
"""Directions kept: several for each of some ten topics, and still a matter of seconds."""

STARTS = 10
"""k-means runs from so many random starts; the tightest clusters win."""

PERPLEXITY = 30.0
"""How many neighbours t-SNE heeds, roughly; fewer where there are few rows."""


def text_clusters(features: Any, *, count: int = 10, seed: int = 0) -> Int64Array:
    """Cluster documents by k-means on the normalized rows of a truncated SVD.

    Parameters
    ----------
    features
        One row per document, usually a CSR matrix of tf-idf weights. Documents without words are
        kept, as points at the origin.
    count
        Number of clusters.
    seed
        Same seed, same clusters.

    Returns
    -------
    Int64Array
        The cluster of each row. Cluster 0 is the largest, the last one the smallest.

    Examples
    --------
    >>> text_clusters([[1, 0, 0], [0, 2, 1], [3, 0, 0], [0, 4, 2], [5, 0, 0]], count=2).tolist()
    [0, 1, 0, 1, 0]
    """
    check_count("count", count)
    block = _checked(features)
    if count > block.shape[0]:
        raise OptionError(
            f"count is {count}, but there are only {block.shape[0]} rows; lower count"
        )
    return _by_decreasing_size(_k_means(_reduced(block, seed), count, seed))


def cluster_map(
    features: Any, labels: ArrayLike, *, points: int = 3000, seed: int = 0
) -> "pl.DataFrame":
    """Place a sample of documents in the plane, near to similar ones: the paper's Figures 1 and 2.

    This is t-SNE on the same reduced rows that `text_clusters` sees.

    Parameters
    ----------
    features
        One row per document, as in `text_clusters`.
    labels
        The cluster of each row.
    points
        Rows to draw at random; all of them, if there are no more than that.
    seed
        Same seed, same map.

    Returns
    -------
    polars.DataFrame
        A row per point, in the order of the rows, with the columns ``x``, ``y`` and ``cluster``.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((12, 5))
    >>> cluster_map(rows, [0] * 6 + [1] * 6, points=8).columns
    ['x', 'y', 'cluster']
    """
    import polars as pl

    check_count("points", points)
    block = _checked(features)
    clusters = as_targets(labels, block.shape[0], "the table", "cluster labels")
    chosen = _sample(block.shape[0], points, seed)
    places = _t_sne(_reduced(block, seed)[chosen], seed)
    return pl.DataFrame({"x": places[:, 0], "y": places[:, 1], "cluster": clusters[chosen]})


def _checked(features: Any) -> Any:
    block = as_features(features, "the table")
    check_finite(block, np.empty(0), lambda row: ("the table", row))
    if block.shape[1] < 2:
        raise DataError(f"the table has {block.shape[1]} column(s); clusters need at least 2")
    return block


def _sample(rows: int, points: int, seed: int) -> Int64Array:
    return np.sort(seeded_generator(seed).permutation(rows)[:points])


def _reduced(block: Any, seed: int) -> AnyArray:
    """Rows on the leading right singular vectors, brought to length 1; zero rows stay zero."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    svd = TruncatedSVD(min(RANK, *block.shape), random_state=_random_state(seed))
    # Rows that are all alike have no variance, of which it would like to know the explained part.
    with one_thread(), np.errstate(divide="ignore", invalid="ignore"):
        reduced: AnyArray = normalize(svd.fit_transform(block))
    return reduced


def _k_means(rows: AnyArray, count: int, seed: int) -> Int64Array:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    k_means = KMeans(count, n_init=STARTS, random_state=_random_state(seed))
    try:
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            return np.asarray(k_means.fit_predict(rows), dtype=np.int64)
    except ConvergenceWarning:
        raise DataError(
            f"the table has fewer than {count} rows that differ in direction, too few for "
            f"{count} clusters; lower count"
        ) from None


def _by_decreasing_size(labels: Int64Array) -> Int64Array:
    order = np.argsort(-np.bincount(labels), kind="stable")
    return np.argsort(order)[labels]


def _t_sne(rows: AnyArray, seed: int) -> AnyArray:
    from sklearn.manifold import TSNE

    distinct = np.unique(rows, axis=0).shape[0]
    if distinct < 3:
        raise DataError(
            f"a map needs 3 rows that differ in direction, but the {rows.shape[0]} drawn have only "
            f"{distinct}; give more rows or raise points"
        )
    perplexity = min(PERPLEXITY, (rows.shape[0] - 1) / 3)
    t_sne = TSNE(perplexity=perplexity, init="pca", random_state=_random_state(seed), n_jobs=1)
    with one_thread():
        return np.asarray(t_sne.fit_transform(rows), dtype=np.float64)


def _random_state(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seeded_generator(seed).bit_generator)
