"""One encoding from descriptions alone, however rows are spread over sites."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.tables import Encoding, Roles, agree, describe

ROLES = Roles(target="relapse")
RELAPSE = [0, 1, 0, 1, 1]


def sites(**columns):
    """Descriptions of sites from each site's columns; the target is added."""
    return [
        describe(pl.DataFrame({**own, "relapse": RELAPSE}, strict=False), site, ROLES)
        for site, own in columns.items()
    ]


def agreed(bari, cork, **options):
    return agree(sites(Bari=bari, Cork=cork), ROLES, **options)


def refuse(descriptions, *parts, roles=ROLES, error=fs.DataError, **options):
    with pytest.raises(error) as caught:
        agree(descriptions, roles, **options)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


AGE = {"age": [61, 47, 50, 33, 71]}
OTHER_AGE = {"age": [20, 30, 40, 50, 60]}


class TestColumns:
    def test_order_is_the_first_sites(self):
        bari = {"b": [1, 2, 3, 4, 6], "a": [1, 2, 3, 4, 6]}
        cork = {"a": [1, 2, 3, 4, 6], "b": [1, 2, 3, 4, 6]}
        assert agreed(bari, cork).feature_names == ("b", "a")

    def test_levels_are_those_of_all_sites_in_order(self):
        bari = {"ward": ["eye", "ear", "ear", "ear", "eye"]}
        cork = {"ward": ["skin", "ear", "ear", "ear", "eye"]}
        assert agreed(bari, cork).feature_names == ("ward=ear", "ward=eye", "ward=skin")

    def test_levels_that_are_numbers_are_in_the_order_of_numbers(self):
        roles = Roles(target="relapse", categories=("stage",))
        frame = pl.DataFrame({"stage": [9, 10, 1, 1, 9], "relapse": RELAPSE})
        (column,) = agree([describe(frame, "Bari", roles)], roles).columns
        assert column.levels == ("1", "9", "10")

    def test_two_levels_give_two_features(self):
        ward = {"ward": ["eye", "ear", "ear", "ear", "eye"]}
        assert agreed(ward, ward).feature_names == ("ward=ear", "ward=eye")

    def test_column_without_values_at_one_site_is_what_it_is_at_others(self):
        encoding = agreed(AGE, {"age": [None] * 5}, impute="mean")
        assert encoding.columns[0].kind == "number"

    def test_kept_columns_are_told_as_features(self):
        roles = Roles(target="relapse", keep=("ward", "age"))
        frame = pl.DataFrame(
            {"x": [1, 2, 2, 3, 4], "ward": ["a", "b", "a", "b", "b"], **AGE, "relapse": RELAPSE}
        )
        assert agree([describe(frame, "Bari", roles)], roles).kept == (1, 2, 3)

    def test_encoding_survives_json(self):
        encoding = agreed(
            AGE | {"ward": list("abcab")}, AGE | {"ward": list("abcaa")}, impute="mean"
        )
        assert encoding.feature_names[0] == "age"
        assert Encoding.model_validate_json(encoding.model_dump_json()) == encoding


class TestMismatches:
    def test_all_of_them_are_told_in_one_error(self):
        usual = {**AGE, "bmi": [1, 2, 3, 4, 6], "ward": list("abcab")}
        odd = {**AGE, "BMI": [1, 2, 3, 4, 6], "ward": [1, 2, 3, 1, 2]}
        refuse(
            sites(Bari=usual, Cork=odd, Delft=usual),
            "the sites' tables do not match: ",
            'Cork lacks "bmi"',
            'only Cork has "BMI"',
            '"ward" is text at Bari and Delft and a number at Cork',
            "--drop",
            "--category",
        )

    def test_long_lists_are_cut(self):
        wide = {f"gene {number}": [1, 2, 3, 4, 6] for number in range(100)}
        refuse(sites(Bari=AGE | wide, Cork=AGE), 'Cork lacks "gene 0"', "and 90 more")

    def test_dropped_columns_may_be_missing_at_a_site(self):
        roles = Roles(target="relapse", drop=("bmi",))
        frames = [
            pl.DataFrame({**AGE, "bmi": [1, 2, 3, 4, 6], "relapse": RELAPSE}),
            pl.DataFrame({**AGE, "relapse": RELAPSE}),
        ]
        found = [describe(frame, name, roles) for frame, name in zip(frames, "ab", strict=True)]
        assert agree(found, roles).feature_names == ("age",)

    def test_dropped_column_that_no_site_has(self):
        roles = Roles(target="relapse", drop=("agee",))
        frame = pl.DataFrame({**AGE, "relapse": RELAPSE})
        refuse(
            [describe(frame, "Bari", roles)],
            'no table has a column "agee" (--drop); did you mean "age"?',
            roles=roles,
        )

    def test_targets_of_different_kinds(self):
        bari, cork = (
            describe(pl.DataFrame({**AGE, "relapse": target}), site, ROLES)
            for site, target in (("Bari", RELAPSE), ("Cork", ["no", "yes", "no", "no", "no"]))
        )
        refuse([bari, cork], "the target holds numbers at Bari and labels at Cork; use one kind")

    def test_sites_of_the_same_name(self):
        refuse(sites(Bari=AGE) * 2, 'several sites are called "Bari"')

    def test_features_of_the_same_name(self):
        columns = {"ward": list("abcab"), "ward=a": [1, 2, 3, 4, 6]}
        refuse(sites(Bari=columns), 'two features would be called "ward=a"; rename a column')

    def test_no_sites(self):
        refuse([], "there are no sites")


class TestMissingValues:
    GAPS = AGE | {"bmi": [None, 2.5, None, 4, 6], "ward": ["ear", None, "eye", "ear", "ear"]}
    FULL = AGE | {"bmi": [1, 2, 3, 4, None], "ward": ["ear", "ear", "eye", "ear", "ear"]}

    def test_are_refused_with_counts_by_column_and_site(self):
        refuse(
            sites(Bari=self.GAPS, Cork=self.FULL),
            '4 values are missing: "bmi" 3 (Bari 2 and Cork 1) and "ward" 1 (Bari 1)',
            "--impute mean",
        )

    def test_the_worst_ten_columns_are_told(self):
        gaps = {f"x{number}": [None] * (number % 4) + [1, 2, 3, 4, 6] for number in range(1, 4)}
        many = {f"{name} {copy}": values[:5] for copy in range(5) for name, values in gaps.items()}
        refuse(sites(Bari=many), "30 values are missing: ", '"x3 0" 3, ', "5 more columns;")

    def test_are_left_to_the_fit_which_knows_its_training_rows(self):
        encoding = agreed(self.GAPS, self.FULL, impute="mean")
        assert encoding.impute == "mean"
        assert all(column.fill is None for column in encoding.columns)
        assert encoding.notes == (
            "4 values of 2 columns are missing and filled with means and shares of training rows",
        )

    def test_of_columns_that_are_left_out_do_not_matter(self):
        constant = AGE | {"x": [1, None, 1, 1, 1]}
        assert agreed(constant, constant).feature_names == ("age",)

    def test_unknown_way_to_fill(self):
        refuse(sites(Bari=AGE), "impute must be one of", error=fs.OptionError, impute="median")


class TestLeftOut:
    @pytest.mark.parametrize(
        ("values", "reason", "words"),
        [
            ([7] * 5, "constant", "the same in every row"),
            (["ear"] * 5, "constant", "the same in every row"),
            ([None] * 5, "empty", "no values"),
            (["2024-03-01"] * 5, "date", "dates"),
        ],
    )
    def test_columns_that_say_nothing_are_left_out_with_a_note(self, values, reason, words):
        encoding = agreed(AGE | {"x": values}, AGE | {"x": values})
        assert encoding.feature_names == ("age",)
        assert encoding.left_out == {reason: ("x",)}
        assert encoding.column_counts == {"number": 1, reason: 1}
        assert encoding.notes[0].startswith(f'left out ({words}): "x"')

    def test_column_that_is_constant_at_each_site_only_is_kept_with_a_warning(self):
        encoding = agreed(AGE | {"unit": ["mg"] * 5}, AGE | {"unit": ["g"] * 5})
        assert encoding.feature_names == ("age", "unit=g", "unit=mg")
        assert 'the same in all rows of a site but not at all sites: "unit"' in encoding.notes[0]

    def test_text_that_is_an_identifier_at_one_site_is_one_everywhere(self):
        bari = pl.DataFrame({"n": [f"p{row}" for row in range(30)], "x": range(30)})
        cork = pl.DataFrame({"n": [f"q{row}" for row in range(5)], "x": [1, 2, 3, 4, 6]})
        found = [
            describe(frame.with_columns(relapse=pl.int_range(frame.height) % 2), site, ROLES)
            for frame, site in ((bari, "Bari"), (cork, "Cork"))
        ]
        assert agree(found, ROLES).left_out == {"identifier": ("n",)}

    def test_text_that_differs_in_nearly_all_rows_of_many_small_sites(self):
        found = sites(
            **{f"s{site}": AGE | {"n": [f"{site} {row}" for row in range(5)]} for site in range(5)}
        )
        assert agree(found, ROLES).left_out == {"identifier": ("n",)}

    def test_kept_column_that_is_left_out(self):
        roles = Roles(target="relapse", keep=("x",))
        frame = pl.DataFrame({**AGE, "x": [7] * 5, "relapse": RELAPSE})
        refuse(
            [describe(frame, "Bari", roles)],
            'column "x" cannot be kept (--keep) because it is left out (the same in every row)',
            roles=roles,
        )

    def test_nothing_is_left(self):
        refuse(sites(Bari={"x": [7] * 5}), "no column is left to learn from")

    def test_too_many_levels_at_all_sites_together(self):
        found = sites(
            **{
                f"s{site}": AGE | {"icd": [f"code {site} {row // 2}" for row in range(5)]}
                for site in range(70)
            }
        )
        refuse(found, 'column "icd" has 210 levels at all sites together, more than 200')


class TestWithheld:
    """Columns of which a site may tell no more than the name."""

    GENES = AGE | {f"g{number}": [0.5, 1.5, 2.5, 3.5, number] for number in range(7)}

    def agreed(self, *withheld, **options):
        """An encoding of as many sites, each of which withholds some genes."""
        genes = describe(pl.DataFrame({**self.GENES, "relapse": RELAPSE}), "site", ROLES)
        found = [
            genes.model_copy(update={"site": f"site {place}"}).withholding(names)
            for place, names in enumerate(withheld)
        ]
        return agree(found, **{"roles": ROLES, **options})

    def test_what_one_site_withholds_is_left_out_for_all(self):
        encoding = self.agreed({"g1"}, {"g4", "g1"}, set())
        assert encoding.feature_names == ("age", "g0", "g2", "g3", "g5", "g6")
        assert encoding.left_out == {"withheld": ("g1", "g4")}
        assert encoding.column_counts == {"number": 6, "withheld": 2}

    @pytest.mark.parametrize(
        ("withheld", "words"),
        [
            ({"g1"}, '1 column, "g1"'),
            ({"g1", "g2"}, '2 columns, "g1" and "g2"'),
            ({"g1", "g2", "g3"}, '3 columns, among them "g1" and "g2"'),
        ],
    )
    def test_one_note_counts_them_and_shows_a_few(self, withheld, words):
        assert self.agreed(withheld, set()).notes == (
            f"left out (a site may not tell some of its values): {words}",
        )

    def test_it_matches_whatever_the_others_have(self):
        found = sites(
            Bari=AGE | {"ward": list("abcab"), "bmi": [1, 2, 3, 4, 6]},
            Cork=AGE | {"ward": [1, 2, 3, 1, 2]},
        )
        shy = found[0].withholding({"ward", "bmi"})
        assert agree([shy, found[1]], ROLES).left_out == {"withheld": ("ward", "bmi")}

    def test_holes_in_it_do_not_matter(self):
        found = sites(Bari=AGE | {"bmi": [None, 2, 3, 4, 6]}, Cork=AGE | {"bmi": [1, 2, 3, 4, 6]})
        assert agree([found[0], found[1].withholding({"bmi"})], ROLES).feature_names == ("age",)

    def test_it_cannot_be_kept(self):
        with pytest.raises(fs.DataError) as caught:
            self.agreed({"g1"}, set(), roles=Roles(target="relapse", keep=("g1",)))
        assert str(caught.value) == (
            'column "g1" cannot be kept (--keep) because it is left out (a site may not tell some '
            "of its values); do not ask for it"
        )

    def test_all_columns_are_withheld(self):
        with pytest.raises(fs.DataError, match="no column is left to learn from"):
            self.agreed(set(self.GENES), set())


class TestNumberings:
    @pytest.mark.parametrize(
        ("name", "bari", "cork", "is_warned_of"),
        [
            ("case", range(1, 16), range(16, 31), True),
            ("case", range(1, 16), range(1, 16), True),
            ("patient_id", range(0, 150, 10), range(200, 350, 10), True),
            ("PatientID", range(0, 150, 10), range(200, 350, 10), True),
            ("covid", range(0, 150, 10), range(200, 350, 10), False),
            ("dose", range(0, 150, 10), range(200, 350, 10), False),
            ("case", [1, *range(1, 15)], range(1, 16), False),
            ("case", [1.5, *range(1, 15)], range(1, 16), False),
        ],
    )
    def test_whole_numbers_that_all_differ_are_kept_but_warned_of(
        self, name, bari, cork, is_warned_of
    ):
        relapse = [0, 1] * 7 + [0]
        found = [
            describe(pl.DataFrame({name: list(own), "relapse": relapse}, strict=False), site, ROLES)
            for site, own in (("Bari", bari), ("Cork", cork))
        ]
        encoding = agree(found, ROLES)
        assert encoding.feature_names == (name,)
        assert any("numbering of rows" in note for note in encoding.notes) == is_warned_of

    def test_few_rows_are_no_numbering(self):
        assert agreed({"id": [1, 2, 3, 4, 5]}, {"id": [6, 7, 8, 9, 10]}).notes == ()


class TestTask:
    @staticmethod
    def decided(*targets, task="auto"):
        found = [
            describe(
                pl.DataFrame({"age": range(len(target)), "relapse": target}),
                f"site {place}",
                ROLES,
                task=task,
            )
            for place, target in enumerate(targets)
        ]
        return agree(found, ROLES, task=task)

    @pytest.mark.parametrize(
        ("targets", "task", "classes"),
        [
            ((["no", "yes", "no", "no", "no"],), "classification", ("no", "yes")),
            (([True, False, True, True, True],), "classification", ("false", "true")),
            (([-1, 1, 1, 1, 1], [1, -1, 1, 1, 1]), "classification", ("-1", "1")),
            (([0.5, 1.5, 0.5, 1.5, 1.5],), "classification", ("0.5", "1.5")),
            (([0.5, 1.5, 2.5, 1.5, 1.5],), "regression", None),
            (([0, 1, 0, 1, 1], [0, 2, 0, 2, 2]), "regression", None),
        ],
    )
    def test_labels_and_two_numbers_are_classes(self, targets, task, classes):
        encoding = self.decided(*targets)
        assert (encoding.task, encoding.classes) == (task, classes)

    def test_few_whole_numbers_are_taken_as_numbers_with_a_note(self):
        (note,) = self.decided([1, 2, 3, 1, 2]).notes
        assert "3 different whole numbers and is taken as a number" in note
        assert "--task classification" in note

    def test_whole_numbers_are_classes_where_asked_for_in_the_order_of_numbers(self):
        encoding = self.decided([9, 10, 9, 10, 1, 1], task="classification")
        assert encoding.classes == ("1", "9", "10")

    def test_two_numbers_are_numbers_where_asked_for(self):
        assert self.decided([0, 1, 0, 1, 1], task="regression").task == "regression"
        assert self.decided([True, False] * 3, task="regression").task == "regression"

    def test_site_with_one_class_is_noted(self):
        encoding = self.decided(["no"] * 5, ["no", "yes", "no", "yes", "no"])
        (note,) = encoding.notes
        assert note.startswith('at site 0 all rows are "no"; training can go on, the other sites')

    def test_class_of_a_single_row_is_noted(self):
        assert self.decided(["no", "yes", "no", "no", "no"]).notes == (
            'only one row has the class "yes"',
        )

    def test_one_class_at_all_sites_is_refused(self):
        with pytest.raises(fs.DataError, match='every row has the target "no"'):
            self.decided(["no"] * 5, ["no"] * 5)

    def test_target_that_does_not_vary_is_refused(self):
        with pytest.raises(fs.DataError, match="every row has the target 2"):
            self.decided([2.0] * 5, task="regression")

    def test_description_for_another_task(self):
        frame = pl.DataFrame({"age": range(30), "relapse": [0.5 + row for row in range(30)]})
        refuse(
            [describe(frame, "Bari", ROLES)],
            "describes its target as numbers, not as labels",
            task="classification",
        )

    def test_description_without_a_target(self):
        (description,) = sites(Bari=AGE)
        bare = description.model_copy(update={"target": None})
        refuse([bare], 'no target is described by "Bari"')


class TestRows:
    def test_site_with_few_rows_is_refused(self):
        frame = pl.DataFrame({"age": [1, 2, 4], "relapse": [0, 1, 0]})
        few = describe(frame, "Cork", ROLES)
        refuse(
            [*sites(Bari=AGE), few],
            "Cork has 3 rows, fewer than 5; leave it out, or lower the bound with --minimum-rows 3",
        )
        assert agree([*sites(Bari=AGE), few], ROLES, minimum_rows=3).feature_names == ("age",)

    @pytest.mark.parametrize("bound", [0, -1, 2.5])
    def test_impossible_bound(self, bound):
        refuse(sites(Bari=AGE), "minimum_rows must be", error=fs.OptionError, minimum_rows=bound)


VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False))
LEVELS = st.one_of(st.none(), st.sampled_from(["ear", "eye", "skin"]))
ROWS = st.lists(st.tuples(VALUES, LEVELS, st.sampled_from([3, 3, 3, 4])), min_size=4, max_size=40)


@settings(deadline=None)
@given(rows=ROWS, owners=st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_agreement_does_not_depend_on_how_rows_are_spread_over_sites(rows, owners):
    values, levels, rare = zip(*rows, strict=True)
    frame = pl.DataFrame(
        {
            "anchor": [float(row) + 0.5 for row in range(len(rows))],
            "value": pl.Series(values, dtype=pl.Float64),
            "level": pl.Series(levels, dtype=pl.String),
            "rare": rare,
            "relapse": [row % 2 for row in range(len(rows))],
        }
    )
    owner = pl.Series(owners[: len(rows)])
    parts = [frame.filter(owner == site) for site in owner.unique().sort()]
    spread = [describe(part, f"site {place}", ROLES) for place, part in enumerate(parts)]
    options = {"impute": "mean", "minimum_rows": 1}
    one, many = (
        agree([describe(frame, "all", ROLES)], ROLES, **options),
        agree(spread, ROLES, **options),
    )
    assert many.feature_names == one.feature_names
    assert many.left_out == one.left_out
    assert (many.task, many.classes) == (one.task, one.classes)
    for mine, theirs in zip(many.columns, one.columns, strict=True):
        assert mine.levels == theirs.levels
