"""Inspecting shows everything that loading would stumble over, one thing after the other."""

import polars as pl
import pytest

import fedsparse as fs
from fedsparse.tables import Inspection, Roles, inspect_tables, load_tables
from tests.tables.builders import PATIENTS, changed, written

ROLES = Roles(target="relapse", site="hospital")


def sentences(inspection, severity):
    return [finding.sentence for finding in inspection.findings if finding.severity == severity]


def test_sound_table(tmp_path):
    inspection = inspect_tables(written(tmp_path, PATIENTS), ROLES)
    assert inspection.findings == ()
    assert [(site.name, site.rows) for site in inspection.sites] == [("Bari", 6), ("Cork", 6)]
    assert inspection.sites[1].target.labels == {"no": 3, "yes": 3}
    assert inspection.columns["number"].examples == ("age", "dose")
    assert inspection.columns["category"].count == 1
    assert (inspection.features, inspection.task) == (5, "classification")
    assert inspection.classes == ("no", "yes")


def test_every_problem_is_told_at_once(tmp_path):
    frame = (
        changed("dose", 2, "2 mg")
        .head(8)
        .with_columns(
            bmi=pl.Series([20.5, None, 30.5, None, 25.0, 26.0, 27.0, 21.0]),
            icd=pl.Series([float("inf"), *range(7)]),
            unit=pl.lit("mg"),
            admitted=pl.lit("2024-03-01"),
            relapse=pl.Series(["no", "yes", "no", None, "yes", "no", "no", "no"]),
        )
    )
    inspection = inspect_tables(written(tmp_path, frame), Roles(target="relapse", site="hospital"))
    errors = sentences(inspection, "error")
    for part in (
        'the target "relapse" is missing in 1 row (Bari 1; the first is row 4',
        'column "dose", row 3 (the header not counted) is "2 mg"',
        'column "icd", row 1 (the header not counted) is inf',
        "Cork has 2 rows, fewer than 5",
        '2 values are missing: "bmi" 2 (Bari 2)',
    ):
        assert any(part in sentence for sentence in errors)
    assert len(errors) == 5
    assert 'at Cork all rows are "no"' in sentences(inspection, "warning")[0]
    assert len(sentences(inspection, "note")) == 2
    assert inspection.columns["unusable"].examples == ("dose", "icd")
    assert inspection.columns["constant"].examples == ("unit",)
    assert inspection.columns["date"].examples == ("admitted",)
    assert inspection.missing == {"bmi": 2}
    assert inspection.features is None
    assert inspection.sites[0].target.labels == {"no": 3, "yes": 2}


def test_errors_come_first(tmp_path):
    frame = changed("dose", 2, "2 mg").with_columns(unit=pl.lit("mg"))
    inspection = inspect_tables(written(tmp_path, frame), ROLES)
    assert [finding.severity for finding in inspection.findings] == ["error", "note"]
    assert len(inspection.errors) == 1


def test_one_fault_is_told_once(tmp_path):
    bari = changed("dose", 2, "2 mg").head(6).drop("hospital")
    paths = [
        written(tmp_path, bari, "bari.csv"),
        written(tmp_path, PATIENTS.tail(6).drop("hospital"), "cork.csv"),
    ]
    inspection = inspect_tables(paths, Roles(target="relapse"))
    assert len(inspection.findings) == 1


def test_files_that_cannot_be_read_do_not_hide_the_others(tmp_path):
    paths = [
        written(tmp_path, "age,age\n1,2\n", "bari.csv"),
        written(tmp_path, changed("dose", 2, "2 mg"), "cork.csv"),
        tmp_path / "delft.csv",
    ]
    errors = sentences(inspect_tables(paths, Roles(target="relapse")), "error")
    expected = ("several columns named", "there is no file", '"2 mg"')
    assert len(errors) == 3
    assert all(part in sentence for part, sentence in zip(expected, errors, strict=True))


def test_nothing_that_can_be_read(tmp_path):
    inspection = inspect_tables(tmp_path / "bari.csv", ROLES)
    (error,) = inspection.findings
    assert "there is no file" in error.sentence
    assert inspection.sites == ()


@pytest.mark.parametrize("roles", [Roles(), Roles(target="relaps"), Roles(target="y", site="z")])
def test_columns_are_shown_even_if_the_target_is_not_known(tmp_path, roles):
    inspection = inspect_tables(written(tmp_path, PATIENTS), roles)
    assert inspection.columns["number"].examples == ("age", "dose")
    assert inspection.errors


def test_dropped_columns_are_counted(tmp_path):
    roles = ROLES.model_copy(update={"drop": ("dose",)})
    inspection = inspect_tables(written(tmp_path, PATIENTS), roles)
    assert inspection.columns["dropped"].examples == ("dose",)


def test_columns_with_the_same_values_are_told(tmp_path):
    frame = PATIENTS.with_columns(
        years=pl.col("age").cast(pl.Float64),
        shuffled=pl.col("age").reverse(),
        place=pl.col("ward"),
    )
    (warning,) = sentences(inspect_tables(written(tmp_path, frame), ROLES), "warning")
    assert warning == (
        'columns with the same values: "age" and "years"; "ward" and "place"; keep one of each'
    )


def test_contradictions_in_options_are_told_at_once(tmp_path):
    with pytest.raises(fs.OptionError, match="both --target and --drop"):
        inspect_tables(tmp_path / "bari.csv", Roles(target="x", drop=("x",)))


def test_inspection_survives_json(tmp_path):
    inspection = inspect_tables(written(tmp_path, changed("dose", 2, "2 mg")), ROLES)
    assert Inspection.model_validate_json(inspection.model_dump_json()) == inspection


@pytest.mark.parametrize(
    "frame",
    [
        PATIENTS,
        PATIENTS.head(9),
        changed("dose", 2, "2 mg"),
        changed("age", 2, None),
        changed("hospital", 2, None),
        changed("relapse", 2, None),
        PATIENTS.with_columns(relapse=pl.lit("no")),
        PATIENTS.select("hospital", "relapse"),
    ],
)
def test_loading_stops_exactly_where_an_inspection_finds_an_error(tmp_path, frame):
    path = written(tmp_path, frame)
    errors = sentences(inspect_tables(path, ROLES), "error")
    if not errors:
        load_tables(path, ROLES)
        return
    with pytest.raises(fs.DataError) as caught:
        load_tables(path, ROLES)
    assert str(caught.value).startswith(errors[0])


def test_an_identifier_that_stands_in_two_rows_is_told_without_its_value(tmp_path):
    twice = pl.concat([PATIENTS] * 3).with_row_index("patient")
    twice = twice.with_columns(patient=pl.format("P{}", "patient"))
    once = inspect_tables(written(tmp_path, twice), ROLES)
    assert not any("repeat" in sentence for sentence in sentences(once, "warning"))
    both = inspect_tables(written(tmp_path, pl.concat([twice, twice.head(2)])), ROLES)
    (told,) = [each for each in sentences(both, "warning") if "repeat" in each]
    assert 'nearly all values of "patient" differ, but 2 rows repeat that of another row' in told
    assert "P0" not in told


def test_numbers_with_a_decimal_comma_are_not_taken_for_identifiers(tmp_path):
    doses = [f"{row // 2},{row % 2}5" for row in range(35)]
    frame = pl.concat([PATIENTS] * 3).with_columns(dose=pl.Series([*doses, doses[0]]))
    told = inspect_tables(written(tmp_path, frame), ROLES)
    assert len(sentences(told, "error")) == 1
    assert not any("repeat" in sentence for sentence in sentences(told, "warning"))
