"""Reading files: every format gives the same table, every fault one clear sentence."""

import bz2
import gzip
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.tables import read_table
from tests.tables.builders import PATIENTS, WRITERS, written


def refuse(path, *parts):
    with pytest.raises(fs.DataError) as caught:
        read_table(path)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_table(tmp_path, suffix):
    assert read_table(written(tmp_path, PATIENTS, f"bari{suffix}")).equals(PATIENTS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_without_a_name_keeps_none(tmp_path, suffix):
    frame = PATIENTS.with_columns(pl.Series("", range(PATIENTS.height)))
    assert read_table(written(tmp_path, frame, f"bari{suffix}")).columns == frame.columns


def test_content_decides_where_the_suffix_is_wrong(tmp_path):
    parquet = written(tmp_path, PATIENTS, "bari.parquet")
    assert read_table(parquet.rename(tmp_path / "bari.csv")).equals(PATIENTS)


def test_text_files_may_be_compressed_and_have_capital_suffixes(tmp_path):
    path = written(tmp_path, bz2.compress(PATIENTS.write_csv().encode()), "BARI.CSV.BZ2")
    assert read_table(path).equals(PATIENTS)


class TestText:
    @pytest.mark.parametrize("separator", [",", ";", "\t"])
    @pytest.mark.parametrize("name", ["bari.csv", "bari.tsv", "bari.txt"])
    def test_separator_is_found(self, tmp_path, separator, name):
        path = written(tmp_path, PATIENTS.write_csv(separator=separator), name)
        assert read_table(path).equals(PATIENTS)

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_long_files_are_read_piece_by_piece(self, tmp_path, monkeypatch, end):
        monkeypatch.setattr("fedsparse.tables.delimited._BLOCK", 10)
        frame = PATIENTS.with_columns(age=pl.Series([*range(11), None]))
        path = written(tmp_path, frame.write_csv().replace("\n", end))
        assert read_table(path).equals(frame)

    def test_quotation_marks_around_names_change_nothing(self, tmp_path):
        path = written(tmp_path, '"age","dose, in mg"\n61,0.5\n47, 2\n')
        assert read_table(path).rows() == [(61, 0.5), (47, 2.0)]

    def test_commas_in_names_do_not_mislead(self, tmp_path):
        path = written(tmp_path, "age, at entry, in years;ward, now\n61;ear\n47;eye\n")
        assert read_table(path).columns == ["age, at entry, in years", "ward, now"]

    @pytest.mark.parametrize(
        "marker", ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", ".", " NA "]
    )
    def test_markers_of_missing_values(self, tmp_path, marker):
        path = written(tmp_path, f"age,ward\n61,ear\n{marker},{marker}\n")
        assert read_table(path).rows() == [(61, "ear"), (None, None)]

    @pytest.mark.parametrize("quote", ["", '"'])
    def test_what_is_not_a_number_in_capitals_is_missing_too(self, tmp_path, quote):
        path = written(tmp_path, f"age,dose\n{quote}61{quote},0.5\nNAN,NAN\n")
        assert read_table(path).rows() == [(61, 0.5), (None, None)]

    def test_byte_order_mark_is_no_part_of_the_first_name(self, tmp_path):
        assert read_table(written(tmp_path, b"\xef\xbb\xbfage\n61\n")).columns == ["age"]

    def test_blanks_around_names_and_values_do_not_matter(self, tmp_path):
        frame = read_table(written(tmp_path, "age , ward\n 61, ear\n47 ,ear \n"))
        assert frame.columns == ["age", "ward"]
        assert frame.rows() == [(61, "ear"), (47, "ear")]

    def test_windows_line_ends_and_a_missing_last_one(self, tmp_path):
        frame = read_table(written(tmp_path, "age,ward\r\n61,ear\r\n47,eye"))
        assert frame.rows() == [(61, "ear"), (47, "eye")]

    def test_quoted_values_may_hold_separators_quotes_and_line_ends(self, tmp_path):
        path = written(tmp_path, '"age","ward"\n61,"ear, nose"\n47,"the ""new"" one,\nupstairs"\n')
        assert read_table(path)["ward"].to_list() == ["ear, nose", 'the "new" one,\nupstairs']

    def test_mark_within_a_value_is_part_of_it(self, tmp_path):
        path = written(tmp_path, 'size,dose\n5" wide,NA\n6" wide,2\n8,3\n')
        assert read_table(path).rows() == [('5" wide', None), ('6" wide', 2), ("8", 3)]

    @pytest.mark.parametrize(
        ("values", "dtype"),
        [
            (["1", "2"], pl.Int64),
            (["1", "2.5"], pl.Float64),
            (["1.0", "+2"], pl.Int64),
            (["1e5", "-.5"], pl.Float64),
            (["9" * 60, "1"], pl.Float64),
            (["true", "FALSE"], pl.Boolean),
            (["true", "1"], pl.String),
            (["1", "7 mg"], pl.String),
        ],
    )
    def test_whole_column_decides_its_type(self, tmp_path, values, dtype):
        path = written(tmp_path, "\n".join(["dose", *values]))
        assert read_table(path).dtypes == [dtype]

    def test_late_value_that_is_no_number_is_no_parser_error(self, tmp_path):
        path = written(tmp_path, "dose\n" + "5\n" * 20_000 + "unknown\n")
        assert read_table(path)["dose"][-1] == "unknown"

    def test_header_may_be_long(self, tmp_path):
        frame = pl.DataFrame({f"{number:050}": [number] for number in range(5000)})
        assert read_table(written(tmp_path, frame)).equals(frame)

    @settings(deadline=None)
    @given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
    def test_numbers_survive_being_written(self, tmp_path_factory, values):
        path = written(tmp_path_factory.mktemp("numbers"), pl.DataFrame({"dose": values}))
        assert read_table(path)["dose"].to_list() == values


class TestBadFiles:
    def test_missing_file_suggests_the_nearest(self, tmp_path):
        written(tmp_path, "age\n1\n", "patients.csv")
        refuse(tmp_path / "patient.csv", "there is no file", 'did you mean "patients.csv"?')
        refuse(tmp_path / "no" / "such.csv", "there is no file", "check its name and folder")

    def test_folder(self, tmp_path):
        refuse(tmp_path, "is a folder; name the files in it")

    @pytest.mark.parametrize("name", ["bari.xlsx", "bari", "bari.csv.zip"])
    def test_unknown_suffix(self, tmp_path, name):
        refuse(written(tmp_path, "age\n1\n", name), "unknown suffix", ".csv", ".parquet")

    @pytest.mark.parametrize("name", ["bari.csv", "bari.parquet", "bari.arrow"])
    def test_empty_file(self, tmp_path, name):
        refuse(written(tmp_path, b"", name), f"{name} is empty")

    def test_nothing_but_line_ends(self, tmp_path):
        refuse(written(tmp_path, "\n\n"), "bari.csv is empty")

    @pytest.mark.parametrize("content", ["age,ward\n", "age,ward", "age,ward\n\n\n"])
    def test_header_without_rows(self, tmp_path, content):
        refuse(written(tmp_path, content), "has a header but no rows")

    def test_binary_table_without_rows(self, tmp_path):
        refuse(written(tmp_path, PATIENTS.clear(), "bari.parquet"), "has columns but no rows")

    def test_names_that_occur_twice_are_named(self, tmp_path):
        path = written(tmp_path, "age,ward, age,ward,dose\n1,2,3,4,5\n")
        refuse(path, 'several columns named "age" and "ward"')

    @pytest.mark.parametrize(
        ("rows", "line", "what"),
        [
            ("1,2\n3,4,5\n6,7\n", 3, "has 3 values"),
            ("1,2\n3\n", 3, "has 1 value"),
            ("1,2\n\n3,4\n", 3, "is empty"),
            ('1,"2\n2"\n3\n', 4, "has 1 value"),
        ],
    )
    def test_row_of_another_length_is_named_by_its_line(self, tmp_path, rows, line, what):
        path = written(tmp_path, f"age,ward\n{rows}")
        refuse(path, f"bari.csv, line {line}: the row {what}, the header has 2 names")

    def test_row_names_without_a_header_as_r_writes_them(self, tmp_path):
        path = written(tmp_path, '"age";"ward"\n"1";61;"ear"\n"2";47;"eye"\n')
        refuse(path, "every row has one value more than the header has names", "col.names=NA")

    @pytest.mark.parametrize("row", ['1,"ear', '1,"ear"x'])
    def test_quotation_marks_that_do_not_pair_up(self, tmp_path, row):
        refuse(written(tmp_path, f"age,ward\n{row}\n2,eye\n"), "quotation marks do not pair up")

    @pytest.mark.parametrize(
        ("content", "place"),
        [
            (
                "age,ward\n61,Nürnberg\n".encode("latin-1"),
                "bari.csv, line 2: the text is not",
            ),
            ("ältere,ward\n61,ear\n".encode("latin-1"), "line 1"),
            ("age,ward\n61,ear\n".encode("utf-16"), "not UTF-8"),
            ("age,ward\n61,ear\n".encode("utf-16-le"), "not UTF-8"),
        ],
    )
    def test_text_that_is_not_utf8(self, tmp_path, content, place):
        refuse(written(tmp_path, content), place, "CSV UTF-8")

    @pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
    def test_binary_file_that_ends_too_early(self, tmp_path, suffix, kept):
        path = written(tmp_path, PATIENTS, f"bari{suffix}")
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        refuse(path, "is damaged or not what its suffix says")

    def test_text_with_a_binary_suffix(self, tmp_path):
        refuse(written(tmp_path, "age\n1\n", "bari.parquet"), "not what its suffix says")

    def test_compressed_file_that_ends_too_early(self, tmp_path):
        content = gzip.compress(PATIENTS.write_csv().encode())
        refuse(written(tmp_path, content[:-20], "bari.csv.gz"), "damaged or incomplete")

    @pytest.mark.parametrize(
        "column",
        [[[1, 2], [3]], [{"a": 1}, {"a": 2}], [b"1", b"2"]],
        ids=["list", "struct", "bytes"],
    )
    def test_nested_columns_are_refused_by_name(self, tmp_path, column):
        path = written(tmp_path, pl.DataFrame({"age": [1, 2], "scan": column}), "bari.parquet")
        refuse(path, 'column "scan" holds', "one number or text per row")

    def test_file_that_may_not_be_read(self, tmp_path):
        path = written(tmp_path, "age\n1\n")
        path.chmod(0)
        try:
            open(path).close()
        except PermissionError:
            refuse(path, "cannot be read", "name a file that you may read")
        else:
            pytest.skip("the superuser may read anything")


def test_messages_name_the_file_as_it_was_given(tmp_path, monkeypatch):
    written(tmp_path, "age,age\n1,2\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fs.DataError, match=re.escape("bari.csv has several columns")):
        read_table("bari.csv")


def test_a_table_of_numbers_is_parsed_once_as_numbers_and_never_as_text(tmp_path, monkeypatch):
    """Asked for no columns, polars 1 reads all, and polars 2 none of the rows."""
    path = written(tmp_path, "a,b\n1,2\n3,4\n")
    monkeypatch.setattr(pl, "read_csv", lambda *_, **__: pytest.fail("parsed as text"))
    assert read_table(path).rows() == [(1, 2), (3, 4)]
