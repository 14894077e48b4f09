"""The paper's real sets: which file is taken, what stands in, what is refused."""

import bz2
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs
from fedsparse.research.datasets import Dataset, load_e2006, load_rcv1
from fedsparse.tables import svmlight as libsvm

needs_data = pytest.mark.skipif(
    not os.environ.get("FEDSPARSE_DATA"), reason="FEDSPARSE_DATA names no folder with real sets"
)


def rows(count, number=1):
    """As many rows as a real set has, of one feature each."""
    return b"".join(b"%+d %d:1\n" % (1 - 2 * (row % 2), number) for row in range(count))


RCV1 = rows(20_242)
UNION = rows(23_749)
E2006 = rows(3_308)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty FEDSPARSE_DATA, and nothing in the cache."""
    monkeypatch.setenv("FEDSPARSE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data"


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


class TestDataset:
    def test_unpacks_into_features_and_targets(self):
        features, targets = np.eye(2), np.array([1, 2])
        unpacked = tuple(Dataset("twins", features, targets))
        assert unpacked[0] is features
        assert unpacked[1] is targets

    def test_title_warns_of_a_stand_in(self):
        assert Dataset("RCV1", np.eye(2), np.ones(2)).title == "RCV1"
        assert Dataset("RCV1", np.eye(2), np.ones(2), "others").title == "RCV1 (stand-in)"

    def test_becomes_clients_data(self):
        dataset = Dataset("twins", sparse.csr_array(np.eye(4)), np.ones(4))
        data = fs.FederatedData.from_table(*dataset, sites=[0, 0, 1, 1])
        assert (len(data), data.samples, data.width) == (2, dataset.samples, dataset.width)


class TestRCV1:
    @pytest.mark.parametrize(
        ("place", "content"),
        [
            ("rcv1/rcv1_train.binary.bz2", bz2.compress(RCV1)),
            ("rcv1/rcv1_train.binary", RCV1),
            ("rcv1_train.binary.bz2", bz2.compress(RCV1)),
            ("rcv1_train.binary", RCV1),
        ],
    )
    def test_real_file_is_preferred_to_the_stand_in(self, folder, place, content):
        put(folder / "rcv1" / "rcv1v2_subsets_union.binary.bz2", bz2.compress(UNION))
        put(folder / place, content)
        dataset = load_rcv1()
        assert (dataset.samples, dataset.width) == (20_242, 47_236)
        assert (dataset.title, dataset.stand_in) == ("RCV1", "")
        assert np.unique(dataset.targets).tolist() == [-1.0, 1.0]

    def test_rows_of_the_stand_in_are_drawn_always_the_same(self, folder):
        numbered = b"".join(b"%+d %d:1\n" % (1 - 2 * (n % 2), n + 1) for n in range(23_749))
        put(folder / "rcv1" / "rcv1v2_subsets_union.binary.bz2", bz2.compress(numbered))
        first, second = load_rcv1(), load_rcv1()
        assert (first.samples, first.width) == (20_242, 47_236)
        assert first.title == "RCV1 (stand-in)"
        assert "other documents of the same corpus" in first.stand_in
        drawn = first.features.indices
        assert (np.diff(drawn) > 0).all()  # each row once, in the file's order
        left_out = np.setdiff1d(np.arange(23_749), drawn)
        assert left_out[:5].tolist() == [13, 21, 33, 37, 48]
        np.testing.assert_array_equal(first.targets, 1 - 2 * (drawn % 2))
        np.testing.assert_array_equal(second.features.indices, drawn)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (RCV1[:-8], "rcv1_train.binary has 20241 rows, not 20242"),
            (RCV1.replace(b"-1 ", b"2 "), "labels other than −1 and 1"),
            (RCV1.replace(b"-1 ", b"1 "), "or only one of them"),
            (rows(20_242, number=47_237), "has 47237 features, more than the width 47236"),
        ],
    )
    def test_other_contents_are_refused_and_left_alone(self, folder, content, message):
        path = folder / "rcv1" / "rcv1_train.binary"
        put(path, content)
        with pytest.raises(fs.DataError, match=message):
            load_rcv1()
        assert path.read_bytes() == content

    def test_stand_in_of_another_size_is_refused(self, folder):
        put(folder / "rcv1" / "rcv1v2_subsets_union.binary.bz2", bz2.compress(RCV1))
        with pytest.raises(fs.DataError, match="has 20242 rows, not 23749"):
            load_rcv1()


class TestE2006:
    @pytest.mark.parametrize("place", ["e2006/E2006.test.bz2", "E2006.test.bz2"])
    def test_real_file_is_preferred_to_the_stand_in(self, folder, place):
        put(folder / "imdb-rating" / "imdb_rating.bz2", bz2.compress(E2006))
        put(folder / place, bz2.compress(E2006))
        dataset = load_e2006()
        assert (dataset.samples, dataset.width) == (3_308, 150_360)
        assert (dataset.title, dataset.stand_in) == ("E2006-tfidf", "")

    def test_film_reviews_stand_in(self, folder):
        put(folder / "imdb-rating" / "imdb_rating.bz2", bz2.compress(E2006))
        dataset = load_e2006()
        assert dataset.title == "E2006-tfidf (stand-in)"
        assert "film reviews" in dataset.stand_in

    def test_another_number_of_rows_is_refused(self, folder):
        put(folder / "e2006" / "E2006.test", rows(16_087))
        with pytest.raises(fs.DataError, match=r"E2006\.test has 16087 rows, not 3308"):
            load_e2006()


@needs_data
class TestRealSets:
    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path))

    def test_second_load_of_rcv1_comes_from_the_cache(self, monkeypatch):
        first = load_rcv1()
        monkeypatch.delattr(libsvm, "parse_svmlight")
        second = load_rcv1()
        assert (first.samples, first.width) == (20_242, 47_236)
        assert np.unique(first.targets).tolist() == [-1.0, 1.0]
        # tf-idf vectors of length one
        lengths = np.sqrt(first.features.power(2).sum(axis=1))
        np.testing.assert_allclose(lengths, 1.0, atol=1e-3)
        assert (first.features != second.features).nnz == 0
        np.testing.assert_array_equal(first.targets, second.targets)

    def test_e2006_has_the_papers_size(self):
        dataset = load_e2006()
        assert (dataset.samples, dataset.width) == (3_308, 150_360)
        assert np.unique(dataset.targets).size > 5


def test_importing_fedsparse_imports_neither_scikit_learn_nor_pooch():
    script = "import sys, fedsparse; sys.exit('sklearn' in sys.modules or 'pooch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
