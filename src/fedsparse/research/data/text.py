"""The paper's text collections, in LIBSVM's form: RCV1 and E2006-tfidf."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsparse.errors import DataError
from fedsparse.research.data.sources import Source
from fedsparse.tables.dataset import Dataset
from fedsparse.tables.folders import in_data_folder
from fedsparse.tables.svmlight import load_svmlight

COLLECTION = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
"""LIBSVM's data sets. It publishes no checksums, so sizes and labels are checked instead."""

RCV1_SAMPLES, RCV1_WIDTH = 20_242, 47_236
E2006_SAMPLES, E2006_WIDTH = 3_308, 150_360

RCV1_UNION = "rcv1/rcv1v2_subsets_union.binary.bz2"
RCV1_UNION_SAMPLES = 23_749
FILM_REVIEWS = "imdb-rating/imdb_rating.bz2"


def load_rcv1() -> Dataset:
    """Load RCV1: newswire stories as tf-idf vectors, labelled by topic.

    The file is LIBSVM's ``rcv1_train.binary``, 20,242 × 47,236. It is looked for in the folder
    FEDSPARSE_DATA, also as ``rcv1/rcv1_train.binary.bz2``, then in the cache, and is downloaded if
    it is in neither. If FEDSPARSE_DATA holds other documents of the corpus instead, as
    ``rcv1/rcv1v2_subsets_union.binary.bz2``, as many of them stand in, drawn with a fixed seed.

    Returns
    -------
    Dataset
        CSR features and labels −1 and 1 for ``loss="logistic"``.

    Examples
    --------
    >>> load_rcv1()  # doctest: +SKIP
    Dataset(RCV1, 20242 rows, 47236 features, CSR float64)
    """
    source = Source("rcv1", "rcv1_train.binary.bz2", f"{COLLECTION}/binary")
    union = in_data_folder(RCV1_UNION)
    if union is not None and source.in_data_folder() is None:
        return _drawn_from_union(union)
    with source.obtained() as path:
        return replace(_load_rcv1_file(path, RCV1_SAMPLES), name="RCV1")


def load_e2006() -> Dataset:
    """Load E2006-tfidf: companies' yearly reports, with the volatility of their stock.

    The file is LIBSVM's ``E2006.test``, 3,308 × 150,360, the one the paper uses. It is looked for
    in the folder FEDSPARSE_DATA, also as ``e2006/E2006.test.bz2``, then in the cache, and is
    downloaded if it is in neither. If FEDSPARSE_DATA holds film reviews of the same size instead,
    as ``imdb-rating/imdb_rating.bz2``, they stand in.

    Returns
    -------
    Dataset
        CSR features and real targets for ``loss="squared"``.

    Examples
    --------
    >>> load_e2006()  # doctest: +SKIP
    Dataset(E2006-tfidf, 3308 rows, 150360 features, CSR float64)
    """
    source = Source("e2006", "E2006.test.bz2", f"{COLLECTION}/regression")
    reviews = in_data_folder(FILM_REVIEWS)
    if reviews is not None and source.in_data_folder() is None:
        return replace(
            _load_e2006_file(reviews),
            name="E2006-tfidf",
            stand_in="film reviews from IMDb of the same size, the target being a rating 1 to 10",
        )
    with source.obtained() as path:
        return replace(_load_e2006_file(path), name="E2006-tfidf")


def _drawn_from_union(path: Path) -> Dataset:
    union = _load_rcv1_file(path, RCV1_UNION_SAMPLES)
    random = np.random.Generator(np.random.PCG64(0))
    rows = np.sort(random.choice(union.samples, RCV1_SAMPLES, replace=False))
    return Dataset(
        "RCV1",
        union.features[rows],
        union.targets[rows],
        stand_in=f"{RCV1_SAMPLES:,} other documents of the same corpus, drawn with a fixed seed",
    )


def _load_rcv1_file(path: Path, samples: int) -> Dataset:
    dataset = load_svmlight(path, width=RCV1_WIDTH, zero_based=False)
    _check_samples(dataset, samples, path)
    labels = np.unique(dataset.targets)
    if labels.tolist() != [-1.0, 1.0]:
        raise DataError(
            f"{path} has labels other than −1 and 1, or only one of them; get the file once more"
        )
    return dataset


def _load_e2006_file(path: Path) -> Dataset:
    dataset = load_svmlight(path, width=E2006_WIDTH, zero_based=False)
    _check_samples(dataset, E2006_SAMPLES, path)
    return dataset


def _check_samples(dataset: Dataset, samples: int, path: Path) -> None:
    if dataset.samples != samples:
        raise DataError(f"{path} has {dataset.samples} rows, not {samples}; get the file once more")
