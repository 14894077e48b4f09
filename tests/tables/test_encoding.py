"""Tables as arrays: exact where the encoding knows a value, an error where it does not."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.tables import EncodedColumn, Encoding, Roles, agree, describe
from tests.tables.builders import PATIENTS

ROLES = Roles(target="relapse", site="hospital")
STRICT = agree([describe(PATIENTS, "Bari", ROLES)], ROLES)
LEAVING_HOLES = agree([describe(PATIENTS, "Bari", ROLES)], ROLES, impute="mean")
FILLS = {"age": (50.0,), "dose": (1.25,), "ward": (0.5, 0.25, 0.25)}
FILLING = STRICT.model_copy(
    update={
        "columns": tuple(
            column.model_copy(update={"fill": FILLS[column.name]}) for column in STRICT.columns
        )
    }
)


def refuse(frame, *parts, encoding=STRICT, part="features"):
    with pytest.raises(fs.DataError) as caught:
        getattr(encoding, part)(frame, "new.csv")
    for words in parts:
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_stay_and_levels_become_indicators():
    features = STRICT.features(PATIENTS, "bari.csv")
    assert STRICT.feature_names == ("age", "dose", "ward=ear", "ward=eye", "ward=skin")
    assert features[:4].tolist() == [
        [61, 0.5, 1, 0, 0],
        [47, 1.5, 0, 1, 0],
        [50, 2.0, 1, 0, 0],
        [33, 0.25, 0, 0, 1],
    ]
    assert features.dtype == np.float64
    assert features.flags.c_contiguous


def test_table_of_numbers_alone_is_c_ordered_and_leaves_the_table_untouched():
    encoding = Encoding(
        columns=(EncodedColumn(name="age", kind="number", fill=(1.5,)),),
        target="relapse",
        task="regression",
    )
    frame = pl.DataFrame({"age": [3.0, None, float("nan")]})
    features = encoding.features(frame, "new.csv")
    assert features.tolist() == [[3.0], [1.5], [1.5]]
    assert features.flags.c_contiguous
    assert frame["age"][1] is None


def test_order_of_columns_and_further_columns_do_not_matter():
    shuffled = PATIENTS.select("ward", pl.lit(7).alias("new"), "dose", "age")
    expected = STRICT.features(PATIENTS, "bari.csv")
    np.testing.assert_array_equal(STRICT.features(shuffled, "new.csv"), expected)


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64, pl.UInt8, pl.String, pl.Decimal(10, 2)])
def test_type_of_numbers_does_not_matter(dtype):
    frame = PATIENTS.with_columns(pl.col("age").cast(dtype))
    assert STRICT.features(frame, "new.csv")[0, 0] == 61


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["skin", "eye", "ear"])])
def test_type_of_text_does_not_matter(dtype):
    frame = PATIENTS.with_columns(pl.col("ward").cast(dtype))
    expected = STRICT.features(PATIENTS, "bari.csv")
    np.testing.assert_array_equal(STRICT.features(frame, "new.csv"), expected)


def test_levels_that_look_like_numbers_are_found_however_they_are_stored():
    column = EncodedColumn(name="stage", kind="category", levels=("1", "2", "3+", "true"))
    encoding = Encoding(columns=(column,), target="relapse", task="regression")
    expected = [[0, 1, 0, 0], [1, 0, 0, 0]]
    for values in (["2", "1"], [2, 1], [2.0, 1.0], [" 2", "01"]):
        assert encoding.features(pl.DataFrame({"stage": values}), "x").tolist() == expected
    for values in (["TRUE", "true"], [True, True]):
        features = encoding.features(pl.DataFrame({"stage": values}), "x")
        assert features.tolist() == [[0, 0, 0, 1]] * 2


class TestMissingValues:
    FRAME = PATIENTS.with_columns(
        dose=pl.when(pl.col("age") == 47).then(None).otherwise("dose"),
        ward=pl.when(pl.col("age") == 50).then(pl.lit(" ")).otherwise("ward"),
    )

    def test_are_filled_by_columns_that_know_with_what(self):
        features = FILLING.features(self.FRAME, "new.csv")
        assert features[1, 1] == 1.25
        assert features[2, 2:].tolist() == [0.5, 0.25, 0.25]

    def test_stay_holes_for_a_fit_to_fill(self):
        features = LEAVING_HOLES.features(self.FRAME, "new.csv")
        expected = np.zeros(features.shape, dtype=bool)
        expected[1, 1] = expected[2, 2:] = True
        assert np.array_equal(np.isnan(features), expected)

    def test_are_refused_by_one_that_does_not(self):
        refuse(self.FRAME, 'new.csv: column "dose", row 2 (the header not counted) is missing')
        frame = self.FRAME.with_columns(dose=pl.lit(1.0))
        refuse(frame, 'new.csv: column "ward", row 3', "is missing", "--impute mean")

    def test_of_a_whole_column_are_filled(self):
        frame = PATIENTS.with_columns(dose=pl.lit(None), ward=pl.lit(None))
        features = FILLING.features(frame, "new.csv")
        assert (features[:, 1] == 1.25).all()


class TestRefusals:
    def test_unknown_level(self):
        frame = PATIENTS.with_columns(ward=pl.lit("heart"))
        refuse(
            frame,
            'new.csv: column "ward", row 1 (the header not counted) is "heart"; '
            'known are "ear", "eye" and "skin"',
        )
        refuse(frame, '"heart"', encoding=FILLING)

    def test_text_in_a_column_of_numbers(self):
        frame = PATIENTS.with_columns(dose=pl.Series(["1", "x", *"1234567890"]))
        refuse(frame, 'new.csv: column "dose", row 2', '"x", which is not a number')

    @pytest.mark.parametrize("value", [float("inf"), -1e300])
    def test_numbers_that_are_too_large(self, value):
        refuse(PATIENTS.with_columns(dose=pl.lit(value)), 'column "dose", row 1', f"is {value:g}")

    def test_columns_that_are_not_there(self):
        frame = PATIENTS.rename({"ward": "Wards"}).drop("age")
        refuse(frame, 'new.csv has no column "age" and "ward"', "rename")
        refuse(PATIENTS.rename({"ward": "Wards"}), '("Wards" is there)')


class TestTargets:
    def test_classes_are_places(self):
        targets = STRICT.targets(PATIENTS, "bari.csv")
        assert targets[:4].tolist() == [0, 1, 0, 0]
        assert targets.dtype == np.int64

    def test_numbers_are_numbers(self):
        encoding = STRICT.model_copy(
            update={"task": "regression", "classes": None, "target": "age"}
        )
        targets = encoding.targets(PATIENTS, "bari.csv")
        assert targets[:2].tolist() == [61.0, 47.0]
        assert targets.dtype == np.float64

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (["no"] * 11 + ["maybe"], 'row 12 (the header not counted) is "maybe"; known are'),
            (["no"] * 11 + [None], "row 12 (the header not counted) is missing; fill it or remove"),
        ],
    )
    def test_unknown_and_missing_labels_are_refused(self, values, words):
        frame = PATIENTS.with_columns(pl.Series("relapse", values))
        refuse(frame, words, part="targets")

    def test_missing_numbers_are_refused(self):
        encoding = STRICT.model_copy(
            update={"task": "regression", "classes": None, "target": "age"}
        )
        refuse(
            PATIENTS.with_columns(age=pl.lit(None)), "is missing", encoding=encoding, part="targets"
        )

    def test_table_without_the_target(self):
        refuse(PATIENTS.drop("relapse"), 'has no column "relapse"', part="targets")


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e9, 1e9), st.sampled_from(["a", "b", "c", "1", "true"])),
        min_size=2,
        max_size=30,
        unique=True,
    )
)
def test_every_row_can_be_read_back_from_its_features(rows):
    numbers, levels = zip(*rows, strict=True)
    frame = pl.DataFrame(
        {
            "x": numbers,
            "level": levels,
            "anchor": range(len(rows)),
            "y": [i % 2 for i in range(len(rows))],
        }
    )
    roles = Roles(target="y", categories=("level",), keep=("anchor",))
    encoding = agree([describe(frame, "Bari", roles)], roles, minimum_rows=1)
    features = encoding.features(frame, "Bari")
    names = encoding.feature_names
    for row, (number, level) in enumerate(rows):
        if "x" in names:
            assert features[row, names.index("x")] == number
        ones = [
            name for name in names if name.startswith("level=") and features[row, names.index(name)]
        ]
        assert ones in ([f"level={level}"], [])


def test_wide_tables_are_encoded_without_a_loop_over_cells():
    frame = pl.DataFrame(np.random.default_rng(0).standard_normal((50, 5000)))
    frame = frame.with_columns(relapse=pl.Series([0, 1] * 25))
    roles = Roles(target="relapse")
    encoding = agree([describe(frame, "Bari", roles)], roles)
    assert encoding.features(frame, "Bari").shape == (50, 5000)
