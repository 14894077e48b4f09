"""What a site says of its table: kinds of columns, sums and levels, and never a row."""

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import fedsparse as fs
from fedsparse.tables import Roles, SiteDescription, describe
from fedsparse.tables.cells import cell_findings
from tests.tables.builders import PATIENTS, changed

ROLES = Roles(target="relapse")


def described(values, **roles):
    """The description of one column beside a target."""
    frame = pl.DataFrame(
        {"x": values, "relapse": [0, 1] * (len(values) // 2) + [0] * (len(values) % 2)}
    )
    (column,) = describe(frame, "Bari", Roles(target="relapse", **roles)).columns
    return column


def refuse(frame, *parts, roles=ROLES, task="auto", error=fs.DataError):
    with pytest.raises(error) as caught:
        describe(frame, "Bari", roles, task=task)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


class TestKinds:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([1, 2, 3], "number"),
            ([0.5, None, 2.0], "number"),
            ([True, False, True], "number"),
            (["1", "2", "3"], "number"),
            (["ear", "eye", "ear"], "category"),
            (["true", "false", "unknown"], "category"),
            (["2024-03-01", "2024-03-02", None], "date"),
            (["01.03.2024", "02.03.2024", "03.03.2024"], "date"),
            (["2024-03-01 10:30", "2024-03-02T11:00:05Z", "2024-03-02 10:00"], "date"),
            ([None, None, None], "empty"),
            ([float("nan"), None, None], "empty"),
            (["", " ", None], "empty"),
            ([f"patient {number}" for number in range(30)], "identifier"),
            ([f"patient {number}" for number in range(15)], "category"),
        ],
    )
    def test_kind_of_a_column(self, values, kind):
        assert described(values).kind == kind

    @pytest.mark.parametrize(
        "dtype", [pl.Date, pl.Datetime, pl.Time, pl.Duration], ids=lambda dtype: dtype.__name__
    )
    def test_dates_of_binary_formats(self, dtype):
        assert described(pl.Series([1, 2, 3]).cast(dtype)).kind == "date"

    def test_dictionary_text_is_text(self):
        column = described(pl.Series(["ear", "eye", "ear"], dtype=pl.Categorical))
        assert column.levels == {"ear": 2, "eye": 1}

    def test_column_without_a_name_holds_row_names(self):
        frame = PATIENTS.with_columns(pl.Series("", range(12)))
        column = describe(frame, "Bari", ROLES).columns[-1]
        assert (column.kind, column.numbers, column.levels) == ("identifier", None, None)

    @pytest.mark.parametrize(
        ("values", "levels"),
        [
            ([3, 1, 1], {"1": 2, "3": 1}),
            ([1.0, 2.5, 1.0], {"1": 2, "2.5": 1}),
            ([True, False, True], {"false": 1, "true": 2}),
            (["01", "x", "1"], {"1": 2, "x": 1}),
            (["TRUE", "x", "true"], {"true": 2, "x": 1}),
        ],
    )
    def test_forced_categories_have_labels_that_do_not_depend_on_the_type(self, values, levels):
        column = described(values, categories=("x",))
        assert (column.kind, column.levels) == ("category", levels)


class TestNumbers:
    def test_summary_is_of_the_values_that_are_there(self):
        numbers = described([1.5, None, float("nan"), -2.0]).numbers
        assert (numbers.count, numbers.total) == (2, -0.5)
        assert numbers.constant is None

    def test_no_value_of_a_single_row_is_told(self):
        told = str(described([103.25, 17.5, 54.125]))
        assert not any(value in told for value in ("103.25", "17.5", "54.125"))

    def test_what_all_rows_have_is_told(self):
        assert described([2.5, None, 2.5]).numbers.constant == 2.5
        assert described([None, None]).numbers is None

    @pytest.mark.parametrize(
        ("values", "gapless"), [([3, 1, 2], True), ([1, 2, 4], False), ([1, 2, 2], False)]
    )
    def test_a_numbering_may_have_gaps(self, values, gapless):
        assert described(values).numbers.gapless is gapless

    @pytest.mark.parametrize(
        ("values", "whole", "numbering"),
        [
            ([1, 2, 4], True, True),
            ([1.0, None, 4.0], True, True),
            ([1, 2, 2], True, False),
            ([1.5, 2.0, 3.0], False, False),
        ],
    )
    def test_whole_numbers_that_all_differ_are_a_numbering(self, values, whole, numbering):
        numbers = described(values).numbers
        assert (numbers.whole, numbers.numbering) == (whole, numbering)

    def test_missing_values_are_counted(self):
        assert described([1.5, None, float("nan"), -2.0]).missing == 2
        assert described(["ear", None, " ", "NA"]).missing == 3


class TestTarget:
    @pytest.mark.parametrize(
        ("values", "kind", "labels"),
        [
            (["no", "yes", "no"], "label", {"no": 2, "yes": 1}),
            ([True, False, True], "label", {"false": 1, "true": 2}),
            ([-1, 1, 1], "number", {"-1": 1, "1": 2}),
            ([0.5, 1.5, 1.5], "number", {"0.5": 1, "1.5": 2}),
            ([1, 2, 3], "number", {"1": 1, "2": 1, "3": 1}),
            ([0.5, 1.5, 2.5], "number", None),
            (list(range(11)), "number", None),
        ],
    )
    def test_few_labels_are_told_and_numbers_are_not(self, values, kind, labels):
        frame = pl.DataFrame({"age": range(len(values)), "relapse": values})
        target = describe(frame, "Bari", ROLES).target
        assert (target.kind, target.labels) == (kind, labels)

    def test_task_decides_what_is_told(self):
        frame = pl.DataFrame({"age": [1, 2, 3], "relapse": [1, 2, 3]})
        assert describe(frame, "Bari", ROLES, task="regression").target.labels is None
        frame = pl.DataFrame({"age": range(30), "relapse": [0.5 + row for row in range(30)]})
        assert len(describe(frame, "Bari", ROLES, task="classification").target.labels) == 30


class TestRefusals:
    def test_value_that_is_no_number_in_a_column_of_numbers(self):
        refuse(
            changed("dose", 3, "7 mg"),
            'Bari: column "dose", row 4 (the header not counted) is "7 mg", which is not a number',
            "mend it, or make the column a category with --category dose",
        )

    def test_decimal_commas(self):
        frame = PATIENTS.with_columns(pl.Series("dose", ["3", *["1,5"] * 11]))
        refuse(frame, 'column "dose", row 2', '"1,5", which has a decimal comma instead of a point')

    def test_decimal_commas_of_a_whole_file_are_one_error(self):
        numbers = pl.Series(["1,5", "2,25", "3"] * 4)
        frame = PATIENTS.with_columns(numbers.alias("dose"), numbers.alias("weight"))
        (told,) = cell_findings(frame, "Bari", ROLES, "auto")
        assert told.sentence == (
            'Bari: column "dose", row 1 (the header not counted) is "1,5", which has a decimal '
            "comma instead of a point, and so has 1 other column; write numbers with a point"
        )
        assert told.columns == ("dose", "weight")

    @pytest.mark.parametrize(
        ("column", "way_out"), [("dose", "leave it empty"), ("relapse", "remove the row")]
    )
    def test_an_endless_number_goes_unless_every_row_needs_one(self, column, way_out):
        endless = pl.Series(column, [float("inf"), *map(float, range(11))])
        refuse(PATIENTS.with_columns(endless), f"is inf; mend it or {way_out}")

    def test_long_values_are_cut(self):
        refuse(changed("dose", 3, "7 mg" * 99), "7 mg7 mg7 mg", "…")

    @pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e200])
    @pytest.mark.parametrize("column", ["dose", "relapse"])
    def test_numbers_that_are_too_large(self, column, value):
        frame = PATIENTS.with_columns(pl.Series("relapse", range(12)).cast(pl.Float64))
        values = frame[column].to_list()
        values[2] = value
        refuse(
            frame.with_columns(pl.Series(column, values)),
            f'column "{column}", row 3 (the header not counted) is {value:g}; mend it',
        )

    def test_too_many_levels(self):
        codes = [f"code {row % 250}" for row in range(1000)]
        frame = pl.DataFrame({"icd": codes, "relapse": [0, 1] * 500})
        refuse(frame, 'column "icd" has 250 levels, more than 200', "--drop icd")

    def test_forced_category_with_too_many_levels(self):
        frame = pl.DataFrame({"icd": range(250), "relapse": [0, 1] * 125})
        roles = Roles(target="relapse", categories=("icd",))
        refuse(frame, '"icd" has 250 levels', roles=roles)

    def test_missing_target(self):
        frame = PATIENTS.with_columns(
            relapse=pl.when(pl.int_range(12).is_in([4, 7])).then(None).otherwise("relapse")
        )
        refuse(
            frame,
            'Bari: the target "relapse" is missing in 2 rows (the first is row 5, the header not '
            "counted); fill or remove them",
        )

    @pytest.mark.parametrize(
        ("values", "task", "parts"),
        [
            (["5", "6", "x"], "auto", ("row 3", '"x", which is not a number', "--task")),
            (["a", "b", "c"], "regression", ("row 1", '"a", which is not a number')),
            ([f"{row}." for row in "abc"], "regression", ('"a."',)),
        ],
    )
    def test_target_that_is_partly_text(self, values, task, parts):
        frame = pl.DataFrame({"age": [1, 2, 3], "relapse": values})
        refuse(frame, *parts, task=task)

    def test_text_among_numbers_is_in_order_where_classes_are_asked_for(self):
        frame = pl.DataFrame({"age": [1, 2, 3], "stage": ["1", "2", "3+"]})
        target = describe(frame, "Bari", Roles(target="stage"), task="classification").target
        assert target.labels == {"1": 1, "2": 1, "3+": 1}

    def test_target_with_too_many_labels(self):
        frame = pl.DataFrame({"age": range(300), "relapse": [f"text {row}" for row in range(300)]})
        refuse(frame, 'the target "relapse" has 300 different labels, more than 200')

    def test_target_that_is_a_date(self):
        frame = PATIENTS.with_columns(relapse=pl.Series(range(12)).cast(pl.Date))
        refuse(frame, 'the target "relapse" is a date')

    def test_no_rows(self):
        refuse(PATIENTS.clear(), "Bari has no rows")

    def test_several_problems_are_counted(self):
        frame = changed("dose", 3, "7 mg").with_columns(age=pl.lit(float("inf")))
        refuse(frame, "(and 1 more problem; inspect the tables to see all)")


class TestRoles:
    @pytest.mark.parametrize(
        ("roles", "parts"),
        [
            (Roles(target="relaps"), ('no column "relaps" (--target)', 'mean "relapse"?')),
            (Roles(target="Relapse"), ('no column "Relapse" (--target)', 'mean "relapse"?')),
            (Roles(target="xyz"), ('it has "hospital", "age", "dose", "ward" and "relapse"',)),
            (Roles(target="relapse", site="hopsital"), ("(--site)", 'mean "hospital"?')),
            (Roles(target="relapse", keep=("aeg",)), ("(--keep)", 'mean "age"?')),
            (Roles(target="relapse", categories=("wards",)), ("(--category)", 'mean "ward"?')),
            (Roles(), ("no target is named",)),
        ],
    )
    def test_unknown_names_suggest_the_nearest(self, roles, parts):
        refuse(PATIENTS, *parts, roles=roles)

    def test_single_column_hints_at_the_separator(self):
        frame = pl.DataFrame({"age|relapse": ["61|1"]})
        refuse(
            frame, "columns are separated by comma, semicolon or tabulator", roles=Roles(target="y")
        )

    @pytest.mark.parametrize(
        ("roles", "options"),
        [
            (Roles(target="age", site="age"), "--target and --site"),
            (Roles(target="age", drop=("age",)), "--target and --drop"),
            (Roles(target="age", keep=("age",)), "--target and --keep"),
            (Roles(target="age", categories=("age",)), "--target and --category"),
            (Roles(target="age", site="ward", keep=("ward",)), "--site and --keep"),
            (Roles(target="age", drop=("ward",), keep=("ward",)), "--drop and --keep"),
        ],
    )
    def test_roles_that_contradict_each_other(self, roles, options):
        refuse(PATIENTS, f"named by both {options}; choose one", roles=roles, error=fs.OptionError)

    def test_category_may_be_kept(self):
        roles = Roles(target="relapse", categories=("ward",), keep=("ward",))
        assert describe(PATIENTS, "Bari", roles).rows == 12

    def test_columns_with_a_part_are_no_features(self):
        roles = Roles(target="relapse", site="hospital", drop=("dose", "not there"))
        description = describe(PATIENTS, "Bari", roles)
        assert [column.name for column in description.columns] == ["age", "ward"]
        assert description.dropped == ("dose",)

    def test_unknown_task(self):
        with pytest.raises(fs.OptionError, match="task must be one of 'auto'"):
            describe(PATIENTS, "Bari", ROLES, task="guess")

    def test_names_that_look_like_patterns_are_names(self):
        frame = pl.DataFrame({"^.*$": [1, 2], "*": ["a", "b"], "y": [0, 1]})
        columns = describe(frame, "Bari", Roles(target="y")).columns
        assert [(column.name, column.kind) for column in columns] == [
            ("^.*$", "number"),
            ("*", "category"),
        ]


class TestWhatLeavesASite:
    def test_description_survives_json(self):
        description = describe(PATIENTS, "Bari", Roles(target="relapse", site="hospital"))
        assert SiteDescription.model_validate_json(description.model_dump_json()) == description

    @settings(deadline=None)
    @given(
        values=st.lists(
            st.floats(-1e6, 1e6).map(lambda value: value + 0.123),
            min_size=20,
            max_size=40,
            unique=True,
        )
    )
    def test_description_holds_no_value_but_sums_and_extremes(self, values):
        names = [f"name of {value}" for value in values]
        frame = pl.DataFrame({"x": values, "name": names, "y": values})
        told = _told(json.loads(describe(frame, "Bari", Roles(target="y")).model_dump_json()))
        inner = set(values) - {min(values), max(values), sum(values)}
        assert not inner & {item for item in told if isinstance(item, float)}
        assert not set(names) & {item for item in told if isinstance(item, str)}

    def test_description_of_a_wide_table_is_small(self):
        frame = pl.DataFrame({f"gene {number}": [0.5, 1.5, 2.5] for number in range(1000)})
        frame = frame.with_columns(relapse=pl.Series([0, 1, 0]))
        assert len(describe(frame, "Bari", ROLES).model_dump_json()) < 50 * 1000

    @pytest.mark.parametrize(
        ("changes", "fault"),
        [
            ({"names": ("age",)}, "not of the same columns"),
            ({"names": ("age", "dose", "age")}, "a column is described twice"),
            ({"withheld": ("ward",)}, "a column is described twice"),
            ({"kinds": ("number", "date", "category")}, "numbers are described in contradictions"),
            ({"numbers": {"totals": (3.0, 4.0), "whole": ("ward",)}}, "numbers are described in"),
            ({"numbers": {"totals": (float("nan"), 4.0)}}, "finite number"),
            ({"levels": {}}, "categories are described in contradictions"),
            ({"missing": (0, 13, 0)}, "dose is described in contradictions"),
            ({"missing": (0, 12, 0)}, "dose is described in contradictions"),
            ({"missing": (0, 0, -1)}, "greater than or equal to 0"),
            ({"missing": (0, 0, 1)}, "ward has levels that do not add up to its rows"),
        ],
    )
    def test_descriptions_that_cannot_be_right_are_refused(self, changes, fault):
        description = describe(PATIENTS, "Bari", Roles(target="relapse", site="hospital"))
        assert description.names == ("age", "dose", "ward")
        with pytest.raises(ValidationError, match=fault):
            SiteDescription.model_validate(description.model_dump() | changes)

    def test_what_is_withheld_is_a_name(self):
        roles = Roles(target="relapse", site="hospital")
        frame = PATIENTS.with_columns(dose=0.125, case=pl.int_range(12))
        description = describe(frame, "Bari", roles)
        shy = description.withholding({"dose", "ward", "case"})
        assert (shy.names, shy.withheld) == (("age",), ("dose", "ward", "case"))
        assert shy.columns == description.columns[:1]
        assert "0.125" not in shy.model_dump_json()
        assert "eye" not in shy.model_dump_json()
        assert SiteDescription.model_validate_json(shy.model_dump_json()) == shy


def _told(item):
    """All names and values in a JSON document."""
    if isinstance(item, dict):
        return [*item, *(told for value in item.values() for told in _told(value))]
    if isinstance(item, list):
        return [told for value in item for told in _told(value)]
    return [item]
