"""Text files of LIBSVM: what is read, what is refused, what is kept in the cache."""

import bz2
import gzip
import lzma
import os
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import dump_svmlight_file

import fedsparse as fs
from fedsparse.tables import svmlight as libsvm
from fedsparse.tables.svmlight import load_svmlight

COMPRESSIONS = [gzip.compress, bz2.compress, lzma.compress]
ROWS = b"+1 1:0.5 4:2\n-1 2:1\n"
DENSE = [[0.5, 0.0, 0.0, 2.0], [0.0, 1.0, 0.0, 0.0]]

eighths = st.integers(-99, 99).map(lambda number: number / 8)  # few digits, so text is exact
tables = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=eighths),
        arrays(np.float64, shape[0], elements=eighths),
    )
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache that takes files of any size."""
    monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(libsvm, "CACHED_FROM", 0)
    return tmp_path / "cache"


@pytest.fixture
def unparsable(monkeypatch):
    """Make every parse an error, once called."""

    def refuse(*_):
        raise AssertionError("the text was parsed")

    return lambda: monkeypatch.setattr(libsvm, "parse_svmlight", refuse)


def written(folder, content=ROWS, name="rows.txt"):
    path = folder / name
    path.write_bytes(content)
    return path


class TestReading:
    def test_rows_become_csr_features_and_targets(self, tmp_path):
        features, targets = load_svmlight(written(tmp_path))
        assert features.toarray().tolist() == DENSE
        assert targets.tolist() == [1.0, -1.0]
        assert features.has_canonical_format
        assert features.indices.dtype == np.int32

    def test_set_is_named_after_its_file_and_is_real(self, tmp_path):
        dataset = load_svmlight(str(written(tmp_path)))
        assert (dataset.name, dataset.title, dataset.stand_in) == ("rows.txt", "rows.txt", "")

    @pytest.mark.parametrize("compress", COMPRESSIONS)
    @pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.gz"])
    def test_compression_is_told_by_content_not_by_name(self, tmp_path, compress, name):
        path = written(tmp_path, compress(ROWS), name)
        assert load_svmlight(path).features.toarray().tolist() == DENSE

    def test_comments_blank_lines_and_query_numbers_are_left_out(self, tmp_path):
        path = written(tmp_path, b"# a remark\n\n+1 qid:3 1:0.5 4:2 # 9:9\r\n\n-1 2:1")
        assert load_svmlight(path).features.toarray().tolist() == DENSE

    def test_a_row_may_be_empty(self, tmp_path):
        dataset = load_svmlight(written(tmp_path, b"1 1:2\n0\n"))
        assert dataset.features.toarray().tolist() == [[2.0], [0.0]]

    def test_number_zero_makes_a_file_zero_based(self, tmp_path):
        dataset = load_svmlight(written(tmp_path, b"1 0:5\n1 2:7\n"))
        assert dataset.features.toarray().tolist() == [[5.0, 0.0, 0.0], [0.0, 0.0, 7.0]]

    def test_base_can_be_told_where_the_file_does_not_show_it(self, tmp_path):
        dataset = load_svmlight(written(tmp_path, b"1 1:5\n"), zero_based=True)
        assert dataset.features.toarray().tolist() == [[0.0, 5.0]]

    def test_width_adds_features_no_row_has(self, tmp_path):
        assert load_svmlight(written(tmp_path), width=9).width == 9

    @settings(max_examples=40, deadline=None)
    @given(table=tables, zero_based=st.booleans())
    def test_reads_what_scikit_learn_wrote(self, table, zero_based):
        features, targets = table
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows")
            dump_svmlight_file(features, targets, path, zero_based=zero_based)
            dataset = load_svmlight(path, width=features.shape[1], zero_based=zero_based)
        np.testing.assert_array_equal(dataset.features.toarray(), features)
        np.testing.assert_array_equal(dataset.targets, targets)


class TestRefusals:
    def refuse(self, path, message, **options):
        with pytest.raises(fs.DataError, match=message) as caught:
            load_svmlight(path, **options)
        assert str(path) in str(caught.value)

    def test_missing_file(self, tmp_path):
        self.refuse(tmp_path / "nowhere.txt", "there is no file")

    def test_folder(self, tmp_path):
        self.refuse(tmp_path, "cannot be read: Is a directory")

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a remark\n", bz2.compress(b"")])
    def test_file_without_rows(self, tmp_path, content):
        self.refuse(written(tmp_path, content), "has no rows")

    def test_targets_without_features(self, tmp_path):
        path = written(tmp_path, b"1\n2\n")
        self.refuse(path, "no features")
        assert load_svmlight(path, width=2).features.nnz == 0

    @pytest.mark.parametrize("compress", COMPRESSIONS)
    @pytest.mark.parametrize("kept", [0.3, 0.9])
    def test_compressed_file_that_ends_too_early(self, tmp_path, compress, kept):
        content = compress(b"".join(b"1 %d:0.5\n" % number for number in range(1, 3000)))
        path = written(tmp_path, content[: int(kept * len(content))])
        self.refuse(path, "damaged or incomplete")

    @pytest.mark.parametrize("compress", COMPRESSIONS)
    def test_compressed_file_with_a_wrong_byte(self, tmp_path, compress):
        content = bytearray(compress(b"".join(b"1 %d:0.5\n" % n for n in range(1, 3000))))
        content[len(content) // 2] ^= 0xFF
        self.refuse(written(tmp_path, bytes(content)), "damaged or incomplete")

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            (b"spam 1:2", "the target 'spam' is not a number"),
            (b"1,2 1:2", "the target '1,2' is not a number"),
            (b"1:2 3:4", "the target '1:2' is not a number"),
            (b"\x89PNG", "the target '.PNG' is not a number"),
            (b"<" * 99, "the target '<{40}…' is not a number"),
            (b"1 1:2 x", "'x' is not a feature number, a colon and a value"),
            (b"1 1:2 2:", "'2:' is not a feature number, a colon and a value"),
            (b"1 1:2 :3", "':3' is not a feature number, a colon and a value"),
            (b"1 1.5:2", "'1.5:2' is not a feature number, a colon and a value"),
            (b"1 1:2:3", "'1:2:3' is not a feature number, a colon and a value"),
            (b"1 2:1 1:2", "the feature number of '1:2' is not above 2"),
            (b"1 qid:1 1:1 1:2", "the feature number of '1:2' is not above 1"),
            (b"1 -3:2", "the feature number of '-3:2' is not above -1"),
            (b"1 9999999999:2", "the feature number 9999999999 is too large"),
        ],
    )
    def test_malformed_line_is_named_with_its_fault(self, tmp_path, line, fault):
        path = written(tmp_path, b"# remark\n1 1:2\n" + line + b"\n1 1:2\n")
        self.refuse(path, rf"rows\.txt, line 3: {fault}; a line looks like '\+1 3:0\.5 17:1\.2'")

    def test_number_zero_in_a_one_based_file(self, tmp_path):
        path = written(tmp_path, b"1 0:3\n")
        self.refuse(path, "line 1: the feature number of '0:3' is not above 0", zero_based=False)

    def test_feature_number_above_the_width(self, tmp_path):
        self.refuse(written(tmp_path), "has 4 features, more than the width 3", width=3)

    @pytest.mark.parametrize("value", ["nan", "inf"])
    def test_values_that_are_not_finite(self, tmp_path, value):
        path = written(tmp_path, f"1 1:2\n1 2:{value}\n".encode())
        self.refuse(path, f"row 2, column 1 is {value}")
        path = written(tmp_path, f"1 1:2\n{value} 2:1\n".encode())
        self.refuse(path, f"row 2: the target is {value}")

    @pytest.mark.parametrize("width", [0, -1, 2.5])
    def test_impossible_width(self, tmp_path, width):
        with pytest.raises(fs.OptionError, match="width must be a whole number"):
            load_svmlight(written(tmp_path), width=width)


class TestCache:
    def test_second_load_does_not_parse(self, tmp_path, unparsable):
        path = written(tmp_path)
        first = load_svmlight(path, width=6)
        unparsable()
        second = load_svmlight(path, width=6)
        np.testing.assert_array_equal(second.features.toarray(), first.features.toarray())
        np.testing.assert_array_equal(second.targets, first.targets)
        assert second.features.has_canonical_format
        assert second.features.indices.dtype == np.int32

    def test_same_file_by_another_path_is_known(self, tmp_path, unparsable, monkeypatch):
        path = written(tmp_path)
        load_svmlight(path)
        unparsable()
        monkeypatch.chdir(tmp_path)
        assert load_svmlight("rows.txt").samples == 2

    def test_other_options_are_other_entries(self, tmp_path):
        path = written(tmp_path)
        assert [load_svmlight(path, width=width).width for width in (5, None, 6)] == [5, 4, 6]
        assert load_svmlight(path, zero_based=True).width == 5

    def test_changed_file_is_parsed_anew_and_replaces_its_entry(self, tmp_path, cache):
        path = written(tmp_path)
        load_svmlight(path)
        written(tmp_path, ROWS.replace(b"0.5", b"0.7"))
        os.utime(path, ns=(1, 1))  # the size is the same and the clock may be coarse
        assert load_svmlight(path).features.toarray()[0, 0] == 0.7
        assert len(list(cache.rglob("*.npz"))) == 1

    @pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "other arrays"])
    def test_damaged_entry_is_rebuilt(self, tmp_path, cache, damage, unparsable):
        path = written(tmp_path)
        load_svmlight(path)
        (entry,) = cache.rglob("*.npz")
        spoil(entry, damage)
        assert load_svmlight(path).features.toarray().tolist() == DENSE
        unparsable()
        assert load_svmlight(path).features.toarray().tolist() == DENSE

    def test_every_damaged_byte_is_noticed_or_harmless(self, tmp_path, cache):
        path = written(tmp_path)
        load_svmlight(path)
        (entry,) = cache.rglob("*.npz")
        sound = entry.read_bytes()
        for place in range(0, len(sound), 37):
            entry.write_bytes(sound[:place] + bytes([sound[place] ^ 0x10]) + sound[place + 1 :])
            features, targets = load_svmlight(path)
            assert features.toarray().tolist() == DENSE
            assert targets.tolist() == [1.0, -1.0]

    def test_folder_that_cannot_be_made_does_not_matter(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDSPARSE_CACHE", str(written(tmp_path, b"", "a file") / "cache"))
        assert load_svmlight(written(tmp_path)).samples == 2

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
    def test_folder_that_cannot_be_written_does_not_matter(self, tmp_path, cache):
        cache.mkdir(mode=0o500)
        assert load_svmlight(written(tmp_path)).samples == 2

    def test_full_disk_does_not_matter(self, tmp_path, cache):
        path = written(tmp_path)
        with files_no_larger_than(100):
            assert load_svmlight(path).samples == 2
        assert [file for file in cache.rglob("*") if file.is_file()] == []

    def test_small_files_are_not_kept(self, tmp_path, cache, monkeypatch):
        monkeypatch.setattr(libsvm, "CACHED_FROM", 1000)
        load_svmlight(written(tmp_path))
        assert not cache.exists()

    def test_files_that_are_refused_are_not_kept(self, tmp_path, cache):
        with pytest.raises(fs.DataError):
            load_svmlight(written(tmp_path, b"spam"))
        assert not cache.exists()


class files_no_larger_than:  # noqa: N801
    """Let writes beyond a size fail, as on a full disk."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


def spoil(entry: Path, damage: str) -> None:
    content = entry.read_bytes()
    if damage == "other arrays":
        np.savez(entry, spam=np.ones(3))
        return
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
    spoiled = {"empty": b"", "cut": content[:middle], "flipped": flipped, "text": b"spam"}
    entry.write_bytes(spoiled[damage])
