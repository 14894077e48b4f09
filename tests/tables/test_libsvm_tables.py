"""LIBSVM files as sites: features keep their numbers, however wide each file is."""

import bz2

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs
from fedsparse.tables import Roles, inspect_tables, load_tables
from tests.tables.builders import written

BARI = "1 1:0.5 3:2\n-1 2:1\n1 3:1\n-1 1:4\n1 1:1\n"
CORK = "-1 2:1\n1 5:7\n1 1:1\n-1 4:1\n1 1:3\n"
QUERIES = "".join(
    f"{target} qid:{site} {row + 1}:1.5\n"
    for row, (target, site) in enumerate([(1, 7), (0, 7), (1, 7), (1, 9), (0, 9), (0, 9)])
)


def files(folder, suffix=".libsvm"):
    return [written(folder, BARI, f"bari{suffix}"), written(folder, CORK, f"cork{suffix}")]


def refuse(paths, *parts, roles=None, error=fs.DataError, **options):
    with pytest.raises(error) as caught:
        load_tables(paths, roles or Roles(), **options)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("suffix", [".libsvm", ".svm", ".svmlight", ".txt"])
def test_files_of_sites_get_the_width_of_the_widest(tmp_path, suffix):
    loaded = load_tables(files(tmp_path, suffix), Roles())
    assert isinstance(loaded.features, sparse.csr_array)
    assert loaded.names == ("1", "2", "3", "4", "5")
    assert loaded.features.toarray()[[0, 6]].tolist() == [[0.5, 0, 2, 0, 0], [0, 0, 0, 0, 7]]
    assert loaded.sites.tolist() == ["bari"] * 5 + ["cork"] * 5
    assert (loaded.task, loaded.classes) == ("classification", ("-1", "1"))
    assert loaded.targets.tolist() == [1, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    assert loaded.encoding.columns == ()
    assert loaded.encoding.column_counts == {"number": 5}


def test_compressed_files(tmp_path):
    path = written(tmp_path, bz2.compress(BARI.encode()), "bari.txt.bz2")
    assert load_tables(path, Roles()).names == ("1", "2", "3")


def test_text_table_with_the_suffix_txt_is_a_table(tmp_path):
    path = written(tmp_path, "age\trelapse\n" + "61\t1\n47\t0\n" * 3, "bari.txt")
    assert load_tables(path, Roles(target="relapse")).names == ("age",)


def test_number_zero_in_one_file_makes_all_files_begin_with_it(tmp_path):
    paths = files(tmp_path)
    written(tmp_path, CORK.replace("2:1", "0:9 2:1"), "cork.libsvm")
    loaded = load_tables(paths, Roles())
    assert loaded.names == ("0", "1", "2", "3", "4", "5")
    assert loaded.features.toarray()[0].tolist() == [0, 0.5, 0, 2, 0, 0]


def test_query_numbers_as_sites(tmp_path):
    loaded = load_tables(written(tmp_path, QUERIES, "all.svm"), Roles(site="qid"), minimum_rows=3)
    assert loaded.sites.tolist() == ["7"] * 3 + ["9"] * 3
    assert loaded.features.shape == (6, 6)


def test_one_file_without_sites(tmp_path):
    loaded = load_tables(written(tmp_path, QUERIES, "all.svm"), Roles())
    assert set(loaded.sites) == {"all rows"}


def test_numbers_are_a_regression(tmp_path):
    path = written(tmp_path, BARI.replace("-1 ", "0.25 "), "bari.svm")
    loaded = load_tables(path, Roles(), task="regression")
    assert loaded.targets.tolist() == [1, 0.25, 1, 0.25, 1]
    assert loaded.classes is None


def test_kept_features_are_numbers(tmp_path):
    assert load_tables(files(tmp_path), Roles(keep=("3", "5"))).encoding.kept == (2, 4)
    refuse(
        files(tmp_path), "no feature 9 (--keep); the numbers are 1 to 5", roles=Roles(keep=("9",))
    )


def test_fingerprint_changes_with_the_data(tmp_path):
    first = load_tables(files(tmp_path), Roles()).fingerprint
    assert load_tables(files(tmp_path, ".svm"), Roles()).fingerprint == first
    paths = files(tmp_path)
    written(tmp_path, CORK.replace("5:7", "5:8"), "cork.libsvm")
    assert load_tables(paths, Roles()).fingerprint != first


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (Roles(target="relapse"), 'leave --target "relapse" out'),
        (Roles(site="hospital"), "use --site qid"),
        (Roles(drop=("3",)), "--drop needs a table with names"),
        (Roles(categories=("3",)), "--category needs a table with names"),
    ],
)
def test_roles_that_need_names_are_refused(tmp_path, roles, words):
    refuse(written(tmp_path, BARI, "bari.svm"), words, roles=roles, error=fs.OptionError)


def test_row_without_a_query_number(tmp_path):
    path = written(tmp_path, "# remark\n" + QUERIES + "1 2:3\n", "all.svm")
    refuse(path, "all.svm, line 8 has no query number such as qid:3", roles=Roles(site="qid"))


def test_missing_file_suggests_the_nearest(tmp_path):
    files(tmp_path)
    refuse(tmp_path / "bar.libsvm", 'did you mean "bari.libsvm"?')


def test_one_class_and_few_rows(tmp_path):
    path = written(tmp_path, "1 1:2\n1 2:1\n", "bari.svm")
    refuse(path, "the table has 2 rows, fewer than 5; give more")
    refuse(path, "every row has the target 1; it must vary", minimum_rows=1)


def test_inspection_shows_sites_and_features(tmp_path):
    inspection = inspect_tables(files(tmp_path), Roles())
    assert [(site.name, site.rows) for site in inspection.sites] == [("bari", 5), ("cork", 5)]
    assert inspection.sites[0].target.labels == {"-1": 2, "1": 3}
    assert inspection.columns["number"].count == inspection.features == 5
    assert inspection.findings == ()


def test_inspection_of_a_malformed_file(tmp_path):
    (finding,) = inspect_tables(written(tmp_path, "1 x\n", "bari.svm"), Roles()).findings
    assert finding.severity == "error"
    assert "bari.svm, line 1: 'x' is not a feature number" in finding.sentence


def test_wide_sparse_files_are_never_dense(tmp_path):
    random = np.random.default_rng(0)
    for site in ("bari", "cork"):
        rows = [
            f"{row % 2} "
            + " ".join(f"{n}:1.5" for n in sorted(random.choice(10**6, 20, False) + 1))
            for row in range(50)
        ]
        written(tmp_path, "\n".join(rows), f"{site}.svm")
    loaded = load_tables(sorted(tmp_path.glob("*.svm")), Roles())
    assert loaded.features.nnz == 2000
    assert loaded.features.indices.dtype == np.int32
