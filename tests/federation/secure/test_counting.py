"""What sites tell of their tables under secure sums: names and kinds each, counts of all."""

import numpy as np
import polars as pl
import pytest

from fedsparse.cli.inspect import print_inspection
from fedsparse.errors import FederationError
from fedsparse.federation.payloads import (
    Asks,
    Count,
    Described,
    Hello,
    Masked,
    MaskedAsks,
    Refused,
    from_bytes,
    to_bytes,
)
from fedsparse.federation.secure.site_masking import MaskedAnswer
from fedsparse.federation.server import mailbox
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.server.inspection import LEFT_OUT, inspect_sites
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.training import DryRun, Training
from fedsparse.federation.sites.ledger import entry_of
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.questions import AnsweredQuestions
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.summary import FitSummary
from fedsparse.requests.wire.frame import unpacked
from tests.federation.federated_tables import KINDS, NAMES, clients_of, grid_of
from tests.federation.grids import TARGET, table_of
from tests.federation.secure_sites import ROSTER, masking_of, secure_site

ROWS = 20
OPEN = Policy(open_sums=True)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def frame_of(place, *, classes=("no", "yes"), **others):
    """Numbers, some of them missing, a category and classes."""
    random = np.random.default_rng(place)
    age = random.standard_normal(ROWS).tolist()
    age[: place + 1] = [None] * (place + 1)
    columns = {
        "age": age,
        "dose": random.standard_normal(ROWS),
        "ward": ["ear", "eye", "skin", "nose"][place % 2 : place % 2 + 2] * (ROWS // 2),
        TARGET: random.permutation([*classes] * ROWS)[:ROWS],
    }
    return pl.DataFrame({**columns, **others}, strict=False)


def tables_of(**others):
    """One for each site; ``others`` are functions from a site's place to a column."""
    return [
        NamedTable(frame_of(place, **{name: own(place) for name, own in others.items()}), TARGET)
        for place in range(len(NAMES))
    ]


def secure(tables, policy=OPEN):
    """Sites that hide their counts, by name."""
    return {
        name: secure_site(name, table, policy) for name, table in zip(NAMES, tables, strict=True)
    }


def engine_of(sites, roster=None, grid=None, **terms):
    conduct = Conduct(sites=len(sites), round_seconds=30.0, longest_wait=60.0)
    grid = grid_of(sites) if grid is None else grid
    return FlowerEngine(grid, Terms(minimum_rows=2, **terms), conduct, roster)


def secure_engine(tables, **terms):
    return engine_of(secure(tables), ROSTER, **terms)


def open_engine(tables, **terms):
    sites = {name: Site(name, own, OPEN, 1) for name, own in zip(NAMES, tables, strict=True)}
    return engine_of(sites, **terms)


def few(differing, rest=0.0):
    """A column that is the same in all rows but some."""
    return [*range(1, differing + 1), *[rest] * (ROWS - differing)]


def hello(**wishes):
    return to_bytes(Hello({"minimum_rows": 2, **wishes}))


class TestSchemas:
    def test_a_site_says_hello_with_the_same_bytes_whatever_its_rows_hold(self):
        masking = masking_of("bari")
        replies = set()
        for place, often in [(0, 5), (1, 10), (2, 15)]:
            wards = ["eye"] * often + ["ear"] * (ROWS - often)
            table = NamedTable(frame_of(place, ward=wards), TARGET)
            replies.add(Site("bari", table, Policy(), 1, masking=masking).reply(hello(), run=1))
        assert len(replies) == 1

    def test_no_count_is_among_what_it_tells(self):
        site = secure_site("bari", tables_of()[0], Policy())
        told = from_bytes(site.reply(hello(), run=1)).told
        assert told["description"] == {
            "site": "bari",
            "names": ["age", "dose", "ward"],
            "kinds": ["number", "number", "category"],
            "levels": {"ward": ["ear", "eye"]},
            "withheld": [],
            "dropped": [],
            "target": {"kind": "label", "labels": ["no", "yes"]},
            "numbered": None,
        }

    def test_everything_up_to_the_agreement_is_of_the_same_form_whatever_rows_hold(self):
        """Headers and lengths; what differs is keys, signatures and what is under masks."""
        forms = [self.forms_of(frame_of(seed)) for seed in (0, 2)]
        assert forms[0] == forms[1]
        assert [header["say"] for header, _ in forms[0]] == [
            "described", "prepared", "masked", "opened",
        ]  # fmt: skip

    def forms_of(self, frame):
        sites = secure([NamedTable(frame, TARGET)] * len(NAMES))
        said = []

        def kept(message):
            said.append(sites["bari"].reply(message, run=1))
            return said[-1]

        engine_of(sites, ROSTER, grid_of(sites, bari=kept), impute="mean")
        return [_form(reply) for reply in said]

    def test_a_rare_level_keeps_its_name_at_home(self):
        rare = {"ward": [*["ear"] * (ROWS - 2), "moon", "moon"]}
        site = secure_site("bari", NamedTable(frame_of(0, **rare), TARGET), OPEN)
        reply = site.reply(hello(), run=1)
        assert b"moon" not in reply
        assert from_bytes(reply).told["description"]["withheld"] == ["ward"]

    def test_a_site_that_tells_counts_all_the_same_is_found_out(self):
        sites = secure(tables_of())
        grid = grid_of(sites, bari=lambda message: _with_counts(sites["bari"], message))
        with pytest.raises(FederationError, match="bari describes its table in another way"):
            engine_of(sites, ROSTER, grid, impute="mean")


def _form(reply):
    header, parts = unpacked(reply)
    if header["say"] == "described":
        header["told"]["introduction"] = None
    return header, [len(part) for part in parts]


def _with_counts(site, message):
    if isinstance(from_bytes(message), Hello):
        told = from_bytes(site.reply(hello(open_sums=True), run=1)).told
        keys = from_bytes(site.reply(message, run=1)).told["introduction"]
        return to_bytes(Described({**told, "introduction": keys}))
    return site.reply(message, run=1)


class TestAgreement:
    @pytest.mark.parametrize("storage", ["dense", "csr"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_encoding_is_that_of_open_sums(self, kind, storage):
        tables = [table_of(*own) for own in clients_of(kind, storage)]
        task = "regression" if KINDS[kind] is None else "classification"
        secured, opened = (own(tables, task=task) for own in (secure_engine, open_engine))
        assert secured.encoding == opened.encoding
        assert secured.counts.rows == sum(member.rows for member in opened.members)

    @pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
    def test_holes_and_categories_are_as_with_open_sums(self, classes):
        tables = [NamedTable(frame_of(place, classes=classes), TARGET) for place in range(5)]
        secured, opened = (own(tables, impute="mean") for own in (secure_engine, open_engine))
        assert secured.encoding == opened.encoding
        assert "15 values of 1 column are missing" in secured.encoding.notes[0]
        assert secured.counts.levels["ward"] == {"ear": 30, "eye": 50, "skin": 20}

    def test_missing_values_are_told_of_all_sites_together(self):
        with pytest.raises(FederationError, match='15 values are missing: "age" 15; fill'):
            secure_engine(tables_of())

    def test_columns_that_do_not_match_are_told_by_site(self):
        tables = tables_of()
        tables[1] = NamedTable(tables[1].frame.drop("dose"), TARGET)
        with pytest.raises(FederationError, match='bari lacks "dose"'):
            secure_engine(tables, impute="mean")

    def test_a_class_of_one_row_of_all_sites_is_told(self):
        tables = tables_of()
        labels = ["maybe", *["no", "yes"] * ROWS][:ROWS]
        tables[2] = NamedTable(frame_of(2, **{TARGET: labels}), TARGET)
        encoding = secure_engine(tables, impute="mean").encoding
        assert 'only one row has the class "maybe"' in encoding.notes

    def test_other_counts_are_another_fingerprint(self):
        tables = tables_of()
        changed = [*tables[:-1], NamedTable(tables[-1].frame.head(ROWS - 4), TARGET)]
        prints = [
            secure_engine(own, impute="mean").fingerprint() for own in (tables, tables, changed)
        ]
        assert prints[0] == prints[1] != prints[2]


class TestColumnsOfNumbers:
    def test_few_rows_of_each_site_are_many_of_all(self):
        tables = tables_of(gene=lambda place: few(2))
        assert "gene" in secure_engine(tables, impute="mean").encoding.feature_names
        assert "gene" in open_engine(tables, impute="mean").encoding.left_out["withheld"]

    @pytest.mark.parametrize(
        "column",
        [
            lambda place: few(2 if place < 2 else 0),
            lambda place: [*few(2)[:2], *[None] * (ROWS - 2)] if place < 2 else [None] * ROWS,
        ],
        ids=["the others are the same", "the others have no value"],
    )
    def test_few_rows_of_all_sites_are_left_out(self, column):
        encoding = secure_engine(tables_of(gene=column), impute="mean").encoding
        assert encoding.left_out["withheld"] == ("gene",)

    def test_the_strictest_policy_counts(self):
        tables = tables_of(gene=lambda place: few(2))
        sites = secure(tables)
        strict = Policy(smallest_samples=11)  # ten rows of all sites differ
        sites["cork"] = secure_site("cork", tables[2], strict)
        encoding = engine_of(sites, ROSTER, impute="mean", drop=("ward",)).encoding
        assert encoding.left_out["withheld"] == ("gene",)

    def test_the_same_in_all_rows_of_each_site_is_left_out_without_telling_what(self):
        tables = tables_of(country=lambda place: [float(place)] * ROWS)
        encoding = secure_engine(tables, impute="mean").encoding
        assert encoding.left_out["uniform"] == ("country",)

    def test_a_numbering_of_rows_is_told(self):
        tables = tables_of(case=lambda place: list(range(ROWS)))
        notes = secure_engine(tables, impute="mean").encoding.notes
        assert any('look like a numbering of rows: "case"' in note for note in notes)


class TestRows:
    def test_a_site_with_too_few_rows_says_so_itself_and_not_how_many(self):
        site = secure_site("bari", tables_of()[0], Policy())
        reply = from_bytes(site.reply(hello(minimum_rows=ROWS + 1), run=1))
        assert reply == Refused(
            "bari: it has fewer than 21 rows; train without it, or lower the bound with "
            "--minimum-rows"
        )

    def test_a_server_does_not_find_out_how_many_by_asking_again(self):
        site = secure_site("bari", tables_of()[0], Policy())
        replies = [
            from_bytes(site.reply(hello(minimum_rows=bound), run=1)) for bound in range(1, 40)
        ]
        assert not any(
            isinstance(reply, Refused) and "fewer than" in reply.reason for reply in replies
        )
        assert "bounds on rows already" in replies[-1].reason


class TestSitesRefuse:
    @pytest.mark.parametrize(
        "counted",
        [
            {"numbers": ["salary"]},
            {"numbers": ["ward"]},
            {"levels": {"age": ["61"]}},
            {"levels": {"rare": ["moon"]}},
        ],
    )
    def test_to_count_what_they_did_not_describe(self, counted):
        tables = tables_of(rare=lambda place: [*["sun"] * (ROWS - 2), "moon", "moon"])
        sites = secure(tables)
        grid = grid_of(sites)
        engine_of(sites, ROSTER, grid, impute="mean")
        asked = next(own for own in map(from_bytes, grid.sent[2]) if isinstance(own, Count))
        wishes, _ = asked.read()
        sites["bari"]._masking = _AnyMasking()
        forged = Count(Count.written(wishes, counted), asked.masked)
        reply = from_bytes(sites["bari"].reply(to_bytes(forged), run=1))
        assert reply == Refused("the server counts what the site did not describe")

    def test_to_count_the_same_with_one_site_less(self):
        sites = secure(tables_of())
        engine_of(sites, ROSTER, impute="mean")
        del sites["espoo"]
        with pytest.raises(FederationError, match="answered the same question before when espoo"):
            engine_of(sites, ROSTER, impute="mean")

    def test_to_count_one_column_with_one_site_less(self):
        sites = secure(tables_of())
        engine_of(sites, ROSTER, impute="mean")
        del sites["espoo"]
        with pytest.raises(FederationError, match="answered the same question before when espoo"):
            engine_of(sites, ROSTER, drop=("age", "ward"))

    def test_what_they_counted_outlives_them(self, tmp_path):
        tables = tables_of()

        def started(names):
            return {
                name: secure_site(name, own, OPEN, AnsweredQuestions(tmp_path / name))
                for name, own in zip(names, tables, strict=False)
            }

        engine_of(started(NAMES), ROSTER, impute="mean")
        with pytest.raises(FederationError, match="answered the same question before"):
            engine_of(started(NAMES[:4]), ROSTER, impute="mean")

    def test_to_tell_openly_what_only_all_sites_may_be_told_of(self):
        sites = secure(tables_of(gene=lambda place: few(2)))
        grid = grid_of(sites)
        engine = engine_of(sites, ROSTER, grid, impute="mean")
        setup = engine.members[1].setup
        asks = Asks(engine.members[1].session, (), setup)
        masked = Asks(asks.session, (), setup, masked=MaskedAsks(9, (("bari", b""),), (), ()))
        sites["bari"].reply(to_bytes(masked), run=1)  # its rows are ready for masked asks
        reply = from_bytes(sites["bari"].reply(to_bytes(asks), run=1))
        assert reply == Refused("the server uses columns of which its policy lets it tell nothing")


class _AnyMasking:
    """Lets every message through to what the site itself checks."""

    def has_keys(self, run):
        return True

    def mask(self, run, number, packages, asks):
        return self


class TestDryRuns:
    @pytest.fixture(autouse=True)
    def _roster(self, monkeypatch):
        monkeypatch.setattr(DryRun, "known_sites", lambda self: ROSTER)

    def inspected(self, sites, folder=None, **options):
        dry_run = DryRun(
            sites=len(NAMES), longest_wait=0.5, round_seconds=0.3, minimum_rows=2,
            out=None if folder is None else str(folder), **options,
        )  # fmt: skip
        return inspect_sites(grid_of(sites), dry_run)

    def test_counts_are_told_of_all_sites_and_of_none(self):
        found = self.inspected(secure(tables_of()), impute="mean")
        assert not found.errors
        assert [site.rows for site in found.sites] == [None] * 5
        assert found.together.rows == 5 * ROWS
        assert sum(found.together.target.labels.values()) == 5 * ROWS
        assert found.missing == {"age": 15}
        assert found.features == 5

    def test_a_terminal_shows_what_is_told(self, capsys):
        print_inspection(self.inspected(secure(tables_of()), impute="mean"))
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["bari", "not", "told", "no,", "yes"] in lines
        (together,) = (line for line in lines if line[:2] == ["all", "sites"])
        assert together[2:4] == ["100", "no:"]

    def test_a_column_that_few_rows_of_all_differ_in_is_listed(self, tmp_path):
        tables = tables_of(gene=lambda place: few(2 if place < 2 else 0))
        self.inspected(secure(tables), tmp_path, impute="mean")
        lines = (tmp_path / LEFT_OUT).read_text().splitlines()
        assert lines == [
            "column,reason,site",
            "gene,few rows of all sites differ in it,all sites",
        ]

    def test_nothing_is_counted_before_all_are_there(self):
        sites = secure(tables_of())
        espoo = sites.pop("espoo")
        found = self.inspected(sites)
        assert found.together is None
        assert "5 sites were expected and 4 came" in found.errors[0].sentence
        assert found.findings[-1].sentence.startswith("rows are counted once all sites are there")
        assert not self.inspected({**sites, "espoo": espoo}, impute="mean").errors

    def test_a_site_without_a_key_is_named(self):
        tables = tables_of()
        sites = secure(tables)
        sites["bari"] = Site("bari", tables[1], OPEN, 1)
        found = self.inspected(sites)
        assert "bari would refuse: it has no key of its own" in found.errors[0].sentence

    def test_training_after_it_is_no_other_question(self):
        sites = secure(tables_of())
        assert not self.inspected(sites, impute="mean").errors
        assert engine_of(sites, ROSTER, impute="mean").counts.rows == 5 * ROWS


class TestAbsence:
    def test_a_site_that_falls_silent_when_it_is_to_count_is_counted_without(self):
        sites = secure(tables_of())

        def silent(message):
            is_count = isinstance(from_bytes(message), Count)
            return None if is_count else sites["espoo"].reply(message, run=1)

        conduct = Conduct(sites=5, min_sites=3, round_seconds=0.5, longest_wait=5.0)
        terms = Terms(minimum_rows=2, impute="mean")
        engine = FlowerEngine(grid_of(sites, espoo=silent), terms, conduct, ROSTER)
        assert engine.counts.rows == 4 * ROWS
        assert engine.encoding == secure_engine(tables_of(), impute="mean").encoding.model_copy(
            update={"notes": engine.encoding.notes}
        )


class TestWhatIsKept:
    def test_a_report_tells_rows_of_all_sites_and_of_none(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Training, "known_sites", lambda self: ROSTER)
        training = Training(
            sites=5, sparsity=2, held_out="none", stability=0, rounds=3, impute="mean",
            round_seconds=30.0, longest_wait=60.0, out=str(tmp_path),
        )  # fmt: skip
        train(grid_of(secure(tables_of())), training)
        summary = FitSummary.load(tmp_path / "fit.json")
        assert [(site.rows, site.classes) for site in summary.sites] == [(None, None)] * 5
        assert summary.together.rows == sum(summary.together.classes.values()) == 5 * ROWS
        assert "not told" in (tmp_path / "report.html").read_text()

    def test_the_ledger_has_what_was_counted(self):
        sites = secure(tables_of())
        grid = grid_of(sites)
        engine_of(sites, ROSTER, grid, impute="mean")
        count = next(own for own in map(from_bytes, grid.sent[1]) if isinstance(own, Count))
        masked = Masked(MaskedAnswer(b"", b"", b""))
        entry = entry_of(count, masked, {})
        assert (entry.event, entry.told["asked"], entry.answers) == ("answered", {"Count": 1}, 1)
