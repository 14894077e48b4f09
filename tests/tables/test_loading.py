"""From files to arrays: one file with sites in it, one file per site, or no sites."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.tables import Roles, load_tables
from tests.tables.builders import PATIENTS, WRITERS, changed, written

ROLES = Roles(target="relapse", site="hospital")
PLAIN = Roles(target="relapse")


def two_files(folder, suffix=".csv", bari=PATIENTS, cork=PATIENTS):
    """A file per hospital, without the column that names it."""
    return [
        written(folder, frame.filter(hospital=site).drop("hospital"), f"{site.lower()}{suffix}")
        for site, frame in (("Bari", bari), ("Cork", cork))
    ]


def refuse(paths, *parts, roles=PLAIN, error=fs.DataError, **options):
    with pytest.raises(error) as caught:
        load_tables(paths, roles, **options)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


class TestSites:
    def test_one_file_with_a_site_column(self, tmp_path):
        shuffled = PATIENTS.sample(12, with_replacement=False, shuffle=True, seed=1)
        loaded = load_tables(written(tmp_path, shuffled), ROLES)
        assert loaded.sites.tolist() == shuffled["hospital"].to_list()
        assert loaded.features[:, 0].tolist() == shuffled["age"].to_list()
        assert loaded.names == ("age", "dose", "ward=ear", "ward=eye", "ward=skin")
        assert (loaded.task, loaded.classes) == ("classification", ("no", "yes"))
        assert loaded.targets.tolist() == [int(label == "yes") for label in shuffled["relapse"]]
        assert loaded.encoding.column_counts == {"number": 2, "category": 1}
        assert loaded.source == str(tmp_path / "bari.csv")

    def test_one_file_per_site(self, tmp_path):
        loaded = load_tables(two_files(tmp_path), PLAIN)
        assert loaded.sites.tolist() == ["bari"] * 6 + ["cork"] * 6
        together = load_tables(written(tmp_path, PATIENTS, "all.csv"), ROLES)
        np.testing.assert_array_equal(loaded.features, together.features)
        np.testing.assert_array_equal(loaded.targets, together.targets)
        assert loaded.source == f"{tmp_path / 'bari.csv'}, {tmp_path / 'cork.csv'}"

    def test_one_file_without_sites(self, tmp_path):
        loaded = load_tables(
            [written(tmp_path, PATIENTS)], Roles(target="dose", drop=("hospital",))
        )
        assert set(loaded.sites) == {"all rows"}
        assert (loaded.task, loaded.classes) == ("regression", None)
        assert loaded.targets.tolist() == PATIENTS["dose"].to_list()

    def test_files_go_into_federated_data(self, tmp_path):
        loaded = load_tables(two_files(tmp_path), PLAIN)
        data = fs.FederatedData.from_table(loaded.features, loaded.targets, loaded.sites)
        assert data.names == ("bari", "cork")

    def test_sites_that_are_numbers(self, tmp_path):
        frame = PATIENTS.with_columns(hospital=pl.Series([10] * 6 + [9] * 6))
        assert set(load_tables(written(tmp_path, frame), ROLES).sites) == {"9", "10"}

    def test_level_known_to_one_site_only_is_a_feature_of_all(self, tmp_path):
        loaded = load_tables(two_files(tmp_path), PLAIN)
        assert loaded.features[6:, loaded.names.index("ward=skin")].tolist() == [0.0] * 6


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_arrays(tmp_path, suffix):
    loaded = load_tables(written(tmp_path, PATIENTS, f"all{suffix}"), ROLES)
    plain = load_tables(written(tmp_path, PATIENTS, "plain.csv"), ROLES)
    assert loaded.fingerprint == plain.fingerprint


class TestFingerprint:
    def test_it_is_a_digest_of_the_data_alone(self, tmp_path):
        first = load_tables(written(tmp_path, PATIENTS), ROLES).fingerprint
        again = load_tables(written(tmp_path, PATIENTS, "copy.parquet"), ROLES).fingerprint
        assert first == again
        assert len(first) == 64

    @pytest.mark.parametrize(
        "frame",
        [
            changed("age", 0, 62),
            changed("relapse", 0, "yes"),
            changed("hospital", 0, "Cork"),
            PATIENTS.rename({"age": "years"}),
        ],
        ids=["feature", "target", "site", "name"],
    )
    def test_any_change_changes_it(self, tmp_path, frame):
        first = load_tables(written(tmp_path, PATIENTS), ROLES).fingerprint
        assert load_tables(written(tmp_path, frame, "new.csv"), ROLES).fingerprint != first


class TestRefusals:
    def test_site_column_and_several_files(self, tmp_path):
        refuse(
            two_files(tmp_path),
            '--site "hospital" needs all rows in one file, and there are 2',
            roles=ROLES,
            error=fs.OptionError,
        )

    def test_files_that_stand_for_the_same_site(self, tmp_path):
        paths = [written(tmp_path, PATIENTS, name) for name in ("bari.csv", "bari.parquet")]
        refuse(paths, 'both stand for the site "bari"; rename one', error=fs.OptionError)

    def test_no_file(self):
        refuse([], "no file is named", error=fs.OptionError)

    def test_unknown_options(self, tmp_path):
        path = written(tmp_path, PATIENTS)
        refuse(path, "task must be one of", error=fs.OptionError, task="guess")
        refuse(path, "impute must be one of", error=fs.OptionError, impute="zero")
        refuse(path, "minimum_rows must be", error=fs.OptionError, minimum_rows=0)

    def test_row_is_counted_in_the_file_even_if_sites_are_mixed(self, tmp_path):
        refuse(
            written(tmp_path, changed("dose", 8, "2 mg")),
            'bari.csv: column "dose", row 9 (the header not counted) is "2 mg"',
            "--category dose",
            roles=ROLES,
        )

    def test_missing_targets_are_counted_by_site(self, tmp_path):
        gaps = pl.when(pl.int_range(12).is_in([4, 7, 9])).then(None).otherwise("relapse")
        refuse(
            written(tmp_path, PATIENTS.with_columns(relapse=gaps)),
            'bari.csv: the target "relapse" is missing in 3 rows (Cork 2 and Bari 1; the first is '
            "row 5, the header not counted); fill or remove them",
            roles=ROLES,
        )

    def test_missing_sites(self, tmp_path):
        refuse(
            written(tmp_path, changed("hospital", 6, None)),
            'bari.csv: the site "hospital" is missing in 1 row (the first is row 7, the header',
            roles=ROLES,
        )

    def test_missing_values_are_counted_by_site(self, tmp_path):
        path = written(tmp_path, changed("dose", 8, None))
        refuse(path, '1 value is missing: "dose" 1 (Cork 1)', "--impute mean", roles=ROLES)
        loaded = load_tables(path, ROLES, impute="mean")
        assert np.argwhere(np.isnan(loaded.features)).tolist() == [[8, 1]]

    def test_column_that_a_site_lacks(self, tmp_path):
        bari, cork = two_files(tmp_path)
        written(tmp_path, pl.read_csv(cork).drop("dose"), "cork.csv")
        refuse([bari, cork], 'the sites\' tables do not match: cork lacks "dose"')

    def test_small_site(self, tmp_path):
        path = written(tmp_path, PATIENTS.head(9))
        refuse(path, "Cork has 3 rows, fewer than 5", "--minimum-rows 3", roles=ROLES)
        assert len(load_tables(path, ROLES, minimum_rows=3).targets) == 9

    def test_first_of_several_problems(self, tmp_path):
        path = written(tmp_path, changed("dose", 8, "2 mg").head(9))
        refuse(path, "2 mg", "(and 1 more problem; inspect the tables to see all)", roles=ROLES)

    def test_libsvm_text_beside_a_table(self, tmp_path):
        paths = [written(tmp_path, PATIENTS), written(tmp_path, "1 1:2\n", "cork.svm")]
        refuse(paths, "cork.svm is LIBSVM text", "is not; give all sites' files the same format")


def test_notes_tell_what_was_decided(tmp_path):
    frame = PATIENTS.with_columns(unit=pl.lit("mg"), number=pl.int_range(1, 13))
    loaded = load_tables(written(tmp_path, frame), ROLES)
    assert loaded.notes == ('left out (the same in every row): "unit"',)
    counts = {"number": 3, "category": 1, "constant": 1}
    assert loaded.encoding.column_counts == counts


def test_kept_columns_are_told_as_features(tmp_path):
    roles = ROLES.model_copy(update={"keep": ("dose",)})
    assert load_tables(written(tmp_path, PATIENTS), roles).encoding.kept == (1,)
