"""A site's side: its file, its policy, and what it says."""

import json
import logging
import zlib

import numpy as np
import polars as pl
import pytest
from flwr.app import Context, Message, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.errors import DataError, OptionError
from fedsparse.federation.app import client
from fedsparse.federation.messages import MESSAGE_TYPE, content_of, payload_of
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Described,
    Hello,
    Refused,
    Setup,
    TellMe,
    digest_of,
    from_bytes,
    lens_from_bytes,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.sites.policy import Policy, read_policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable, open_table
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire.answer_bytes import decode_answer
from fedsparse.requests.wire.frame import packed
from fedsparse.requests.wire.request_bytes import encode_request
from fedsparse.requests.wire.vectors import WireError
from tests.federation.asking import asked, message_with

ROWS = np.random.default_rng(0).standard_normal((12, 4)).round(2)
TARGETS = ROWS[:, 0] - ROWS[:, 1]
TARGET = "outcome"
COLUMNS = ("age", "dose", "sex", "bmi")
X = np.zeros(4)


def agreed_on(**changes):
    columns = [{"name": name, "kind": "number"} for name in COLUMNS]
    return {"columns": columns, "target": TARGET, "task": "regression"} | changes


def setup(identity=0, **changes):
    return Setup(agreed_on(**changes), identity, ("bari", "cork", "delft")).to_bytes()


SETUP = setup()
GOOD = {"agreed": agreed_on(), "identity": 0, "names": ["bari"]}
LENS = Lens(fs.SquaredError())
GOOD_LENS = {"loss": "squared", "l2": 0.0, "rows": Rows().to_json()}


def site_with(targets=TARGETS, columns=None, **policy):
    numbers = dict(zip(COLUMNS, ROWS.T, strict=True))
    frame = pl.DataFrame({**numbers, **(columns or {}), TARGET: targets})
    return Site("bari", NamedTable(frame, TARGET), Policy(open_sums=True, **policy), threads=1)


def with_half_a_character():
    """A message whose header has an escape that `packed` would not write."""
    header = {"say": "ask", "session": "", "of": ["\ud800"], "lenses": 0, "setup": False}
    written = json.dumps({**header, "sizes": [0]}).encode()
    content = bytes([1]) + len(written).to_bytes(4, "little") + written
    return content + zlib.crc32(content).to_bytes(4, "little")


def described(site, **wishes):
    return from_bytes(site.reply(to_bytes(Hello({"open_sums": True, **wishes})), 1))


def ask(site, request, setup=SETUP, run=1, lens=LENS):
    return asked(site, request, setup, lens, run)


REFUSED = {
    "a request that is not listed": (
        {"requests": ("Smoothness", "Evaluate")},
        fs.Gradient(X),
        "its policy does not allow Gradient; train with --dense no",
    ),
    "mini-batches of few rows": (
        {"smallest_samples": 5},
        fs.LocalSteps(X, steps=1, step_size=0.1, batch_size=4),
        "mini-batches of 4 rows reveal fewer than the 5",
    ),
    "curvature on few features": (
        {"smallest_support": 3},
        fs.Curvature(X, np.array([1, 2])),
        "curvature on 2 features reveals more than its policy allows",
    ),
    "local steps without end": (
        {"most_local_steps": 100},
        fs.LocalSteps(X, steps=101, step_size=0.1),
        "its policy allows 100 local steps and not 101",
    ),
    "fewer rows than allowed": (
        {"smallest_samples": 13},
        fs.Evaluate(X),
        "it has fewer rows than the 13 its policy asks for",
    ),
}

POLICY_FILES = {
    "not TOML": ("requests = [", "is not a TOML file"),
    "an unknown rule": ("smallest_sample = 5", "smallest_sample: extra inputs"),
    "a number that is none": ('smallest_samples = "few"', "smallest_samples: input should be"),
    "a number too small": ("most_answers = 0", "most_answers: input should be greater"),
    "an unknown request": ('requests = ["Steal"]', "requests names 'Steal'; the requests are"),
}


class TestPolicy:
    @pytest.mark.parametrize(("policy", "request_", "told"), REFUSED.values(), ids=REFUSED)
    def test_refuses_and_says_why(self, policy, request_, told):
        reply = ask(site_with(**policy), request_)
        assert isinstance(reply, Refused)
        assert told in reply.reason

    def test_allows_what_it_does_not_forbid(self):
        site = site_with(smallest_samples=5, smallest_support=2)
        steps = fs.LocalSteps(X, steps=1, step_size=0.1, batch_size=5)
        for request in (steps, fs.Curvature(X, np.array([1, 2])), fs.Evaluate(X), fs.Smoothness()):
            assert isinstance(ask(site, request), Answered)

    @pytest.mark.parametrize(
        ("budget", "told"),
        [
            ("most_answers", "its policy allows 3 answers on a table, and 3 are given"),
            ("most_answers_per_month", "its policy allows 3 answers within 30 days, and 3 are"),
        ],
    )
    def test_counts_everything_that_is_answered_whatever_the_run(self, budget, told):
        site = site_with(**{budget: 3})
        assert isinstance(described(site), Described)
        assert isinstance(ask(site, fs.Evaluate(X)), Answered)
        assert isinstance(ask(site, fs.Gradient(X), run=2), Answered)
        assert ask(site, fs.Evaluate(X), run=3).reason.startswith(told)
        assert told in described(site).reason

    def test_every_request_of_a_message_counts_and_none_is_answered_if_all_are_too_many(self):
        site = site_with(most_answers=3)
        four, three = (message_with([fs.Evaluate(X)] * count, SETUP, LENS) for count in (4, 3))
        assert isinstance(from_bytes(site.reply(four, 1)), Refused)
        assert isinstance(from_bytes(site.reply(three, 1)), Answered)
        assert isinstance(ask(site, fs.Evaluate(X)), Refused)

    def test_what_is_refused_does_not_count(self):
        site = site_with(most_answers=1, requests=("Evaluate",))
        for _ in range(3):
            assert isinstance(ask(site, fs.Gradient(X)), Refused)
        assert isinstance(ask(site, fs.Evaluate(X)), Answered)

    @pytest.mark.parametrize(("content", "told"), POLICY_FILES.values(), ids=POLICY_FILES)
    def test_mistakes_in_the_file_are_told(self, content, told, tmp_path):
        path = tmp_path / "policy.toml"
        path.write_text(content)
        with pytest.raises(OptionError, match=told) as caught:
            read_policy(path)
        assert str(path) in str(caught.value)


SIXES = ["a"] * 6 + ["b"] * 6
NINES = [1000.0 + 9 * place for place in range(12)]


class TestPrivacy:
    def test_labels_are_told_only_where_classes_are_learnt(self):
        site = site_with(np.array([0, 1] * 6))
        for task, labels in (("regression", None), ("auto", {"0": 6, "1": 6})):
            reply = described(site, task=task)
            assert isinstance(reply, Described)
            assert reply.told["description"]["target"]["labels"] == labels

    def test_neither_cells_nor_extremes_are_told(self):
        told = str(described(site_with()).told)
        for number in {*ROWS.ravel().tolist(), *TARGETS.tolist()}:
            assert repr(number) not in told

    @pytest.mark.parametrize(
        ("columns", "name", "secret"),
        [
            ({"ward": ["eye", *["ear"] * 11]}, "ward", "eye"),
            ({"dose 2": [0.5, *[None] * 11]}, "dose 2", "0.5"),
        ],
        ids=["a level", "values"],
    )
    def test_of_a_column_that_few_rows_have_some_value_of_only_the_name_is_told(
        self, columns, name, secret
    ):
        told = described(site_with(columns=columns)).told["description"]
        assert told["withheld"] == [name]
        assert name not in told["names"]
        assert secret not in str(told)
        generous = described(site_with(columns=columns, smallest_samples=1)).told["description"]
        assert name in generous["names"]
        assert generous["withheld"] == []

    @pytest.mark.parametrize(
        ("targets", "labels"),
        [(["yes", *["no"] * 11], {"no": 11, "yes": 0}), ([1, *[0] * 11], {"0": 11, "1": 0})],
        ids=["a label", "one of two numbers"],
    )
    def test_how_many_rows_have_a_label_is_not_told_if_they_are_few(self, targets, labels):
        told = described(site_with(targets)).told["description"]
        assert told["target"]["labels"] == labels
        generous = described(site_with(targets, smallest_samples=1)).told["description"]
        assert sorted(generous["target"]["labels"].values()) == [1, 11]

    def test_a_server_cannot_have_values_told_as_categories(self):
        told = described(site_with(), categories=["age"], dry_run=True).told
        assert (
            'its column "age" holds numbers; have it started with --category' in told["problems"][0]
        )
        for number in ROWS[:, 0].tolist():
            assert repr(number) not in str(told)

    def test_few_whole_numbers_are_not_told_as_labels_unless_asked(self):
        site = site_with([1, 2, 3, 4] * 3)
        assert described(site).told["description"]["target"]["labels"] is None
        asked = described(site, task="classification").told["description"]["target"]["labels"]
        assert asked == {"1": 0, "2": 0, "3": 0, "4": 0}

    def test_columns_that_a_site_does_not_offer_are_neither_told_nor_used(self, tmp_path):
        frame = pl.DataFrame({"age": ROWS[:, 0], "name": SIXES, "pay": NINES, TARGET: TARGETS})
        frame.write_csv(tmp_path / "bari.csv")
        table = open_table(tmp_path / "bari.csv", TARGET, drop=("name", "pay"))
        site = Site("bari", table, Policy(open_sums=True), threads=1)
        told = described(site).told["description"]
        assert told["names"] == ["age"]
        assert "pay" not in str(told)
        assert "pay" not in described(site, categories=["wage"]).reason
        stolen = setup(columns=[{"name": "pay", "kind": "number"}])
        reply = ask(site, fs.ColumnSums(), stolen)
        assert reply == Refused("the server uses columns that it does not offer")

    @pytest.mark.parametrize(
        ("columns", "used", "named"),
        [
            ({"ward": ["eye", *["ear"] * 11]}, {"levels": ["ear", "eye"]}, "ward"),
            ({"ill": [True, *[False] * 11]}, {}, "ill"),
            ({"load": [812.5, *[0.0] * 11]}, {}, "load"),
            ({"dose 2": [0.5, *[None] * 11]}, {}, "dose 2"),
        ],
        ids=["a rare level", "a rare truth", "a rare number", "few values"],
    )
    def test_a_setup_cannot_have_told_what_the_policy_forbids(self, columns, used, named):
        kind = "category" if "levels" in used else "number"
        wanted = setup(columns=[{"name": named, "kind": kind, **used}])
        reply = ask(site_with(columns=columns), fs.ColumnSums(), wanted)
        assert reply == Refused("the server uses columns of which its policy lets it tell nothing")

    @pytest.mark.parametrize("fill", [1e9, -1e9])
    def test_a_hole_is_filled_with_the_sites_own_mean(self, fill):
        """Whatever the server says, and it is not told that there is one."""
        site = site_with(columns={"dose 2": [None, *range(11)]})
        wanted = setup(columns=[{"name": "dose 2", "kind": "number"}], impute="mean")

        def filled_with(value):
            scaling = Scaling(np.zeros(1), np.ones(1), 0.0, fill=np.array([value]))
            return Lens(fs.SquaredError(), scaling=scaling)

        one, other = (
            ask(site, fs.Gradient(np.zeros(1)), wanted, lens=filled_with(value))
            for value in (fill, 5.0)
        )
        assert one.answers == other.answers

    def test_half_a_character_is_refused_and_the_site_lives_on(self):
        """It could not be repeated in a reply."""
        site = site_with()
        refused = from_bytes(site.reply(with_half_a_character(), 1))
        assert "half of a character" in refused.reason
        assert isinstance(described(site), Described)

    def test_a_server_of_another_major_release_is_refused(self):
        refused = from_bytes(site_with().reply(to_bytes(Hello({"new": 1}, release="2.0.0")), 1))
        assert "bari: the server has fedsparse 2.0.0, and this side has" in refused.reason

    def test_a_site_lives_on_whatever_a_reply_cannot_be_written_for(self, monkeypatch):
        site = site_with()
        reply = Described({"site": "\ud800"})
        with monkeypatch.context() as patch:
            patch.setattr(site, "_reply", lambda *_: reply)
            refused = from_bytes(site.reply(to_bytes(Hello({})), 1))
        assert "it failed (UnicodeEncodeError)" in refused.reason
        assert isinstance(described(site), Described)

    def test_a_setup_does_not_fill_holes(self):
        """Lenses do, and they are looked at."""
        site = site_with(columns={"dose 2": [None, *range(11)]})
        wanted = setup(columns=[{"name": "dose 2", "kind": "number", "fill": [1e9]}])
        reply = ask(site, fs.ColumnSums(), wanted)
        assert reply == Refused("the server fills holes before it says what with")

    def test_rows_are_not_cut_into_single_ones(self):
        lens = Lens(fs.SquaredError(), Rows().part(3, of=1000))
        reply = ask(site_with(), fs.Gradient(X), lens=lens)
        assert reply == Refused("its policy lets rows be cut into 10 parts; use fewer folds")

    @pytest.mark.parametrize(
        ("rows", "request_", "is_told"),
        [
            (Rows().part(1, of=2), fs.Gradient(X), True),
            (Rows().part(2, of=3), fs.Gradient(X), False),
            (Rows().part(2, of=3), fs.ColumnSums(), False),
            (Rows().part(5, of=6), fs.Evaluate(X), True),
            (Rows().part(5, of=6).part(0, of=2), fs.Evaluate(X), False),
        ],
        ids=["six rows", "four rows", "sums of four", "judged on two", "judged on one"],
    )
    def test_few_rows_are_not_learnt_from_and_a_single_one_not_judged_on(
        self, rows, request_, is_told
    ):
        """Of twelve rows; too few count as none, and the site stays."""
        lens = Lens(fs.SquaredError(), rows)
        (answer,) = ask(site_with(), request_, lens=lens).answers
        assert (answer is not None) == is_told

    @pytest.mark.parametrize(
        ("parts", "kind"),
        [(30, Refused), (6, type(None)), (4, tuple)],
        ids=["a row each", "two rows each", "three rows each"],
    )
    def test_a_site_alone_is_not_judged_on_fewer_than_three_rows(self, parts, kind):
        request = JudgeAlone(
            sparsity=1, keep=X, part=0, parts=parts, part_seed=0, precision=None,
            standardize=True, intercept=True, rounds=5, seed=0, centre=0.0,
        )  # fmt: skip
        reply = ask(site_with(), request)
        assert isinstance(reply if kind is Refused else reply.answers[0], kind)

    def test_the_first_of_consecutive_numbers_cannot_be_worked_out(self):
        site = site_with(columns={"case": range(4711, 4723)})
        numbers = described(site).told["description"]["numbers"]
        assert "case" in numbers["numbering"]
        assert "case" not in numbers["gapless"]

    def test_an_error_about_rows_quotes_them_in_the_own_log_only(self, caplog):
        site = site_with(columns={"dose 2": ["7 mg", *["5"] * 11]})
        with caplog.at_level(logging.ERROR, "fedsparse.federation"):
            reply = described(site)
        assert reply == Refused("bari: its rows cannot be used like that; its own log says why")
        assert 'is "7 mg", which is not a number' in caplog.text


class TestRobustness:
    @settings(max_examples=200)
    @given(st.binary(max_size=60))
    def test_whatever_is_sent_there_is_a_reply(self, message):
        assert isinstance(from_bytes(site_with().reply(message, 1)), Refused)

    def test_a_failure_of_ours_is_told_without_details(self, monkeypatch):
        monkeypatch.setattr(fs.Evaluate, "answer", lambda *_: 1 / 0)
        assert ask(site_with(), fs.Evaluate(X)).reason == (
            "it failed (ZeroDivisionError); its own log says where"
        )

    @pytest.mark.parametrize(
        "written",
        [b"", b"[]", packed({"identity": 0}, []), packed({**GOOD, "loss": "squared"}, []),
         packed({**GOOD, "identity": -1}, []), packed({**GOOD, "agreed": {}}, []),
         setup(columns=[{"name": "agee", "kind": "number"}]), setup(target="dose")],
        ids=["nothing", "a list", "little", "too much", "a place", "an encoding", "a column",
             "a target"],
    )  # fmt: skip
    def test_a_setup_that_makes_no_sense_is_refused(self, written):
        assert isinstance(ask(site_with(), fs.Evaluate(X), written), Refused)

    @pytest.mark.parametrize(
        "written",
        [b"", b"[]", packed({"loss": "squared"}, []), packed({**GOOD_LENS, "loss": "cubic"}, []),
         packed({**GOOD_LENS, "l2": -1.0}, []), packed({**GOOD_LENS, "rows": "all"}, []),
         packed({**GOOD_LENS, "scaling": {"width": 4}}, []),
         packed({**GOOD_LENS, "scaling": {"width": 10**12, "intercept": 1, "offset": 0}},
                [b"", b""])],
        ids=["nothing", "a list", "little", "a loss", "a weight", "rows", "half a scaling",
             "a huge width"],
    )  # fmt: skip
    def test_a_lens_that_makes_no_sense_is_refused(self, written):
        with pytest.raises(WireError):
            lens_from_bytes(written)
        requests = ((LENS.digest, encode_request(fs.Evaluate(X))),)
        message = to_bytes(Asks(digest_of(SETUP), requests, SETUP, (written,)))
        assert isinstance(from_bytes(site_with().reply(message, 1)), Refused)

    @pytest.mark.parametrize(
        "lens",
        [
            Lens(fs.SquaredError(), scaling=Scaling(np.zeros(3), np.ones(3), 1.0)),
            Lens(fs.Logistic()),
            Lens(fs.Softmax()),
        ],
        ids=["another width", "classes", "many classes"],
    )
    def test_a_lens_that_does_not_suit_the_table_is_refused(self, lens):
        columns = 4 if lens.scaling is None else 4 + (lens.scaling.intercept != 0)
        assert isinstance(ask(site_with(), fs.Evaluate(np.zeros(columns)), lens=lens), Refused)

    def test_the_answer_is_the_one_asked_for(self):
        reply = ask(site_with(), fs.Gradient(X))
        ((written, mass),) = reply.answers
        answer = decode_answer(written, fs.Gradient(X), (4,))
        expected = -2 * ROWS.T @ TARGETS / 12
        assert np.allclose(answer["gradient"].rows[0], expected)
        assert mass == 12.0

    def test_the_answer_is_on_scaled_rows(self):
        scaling = Scaling(ROWS.mean(axis=0), ROWS.std(axis=0), 3.0, offset=0.5)
        lens = Lens(fs.SquaredError(), scaling=scaling)
        reply = ask(site_with(), fs.Gradient(np.zeros(5)), lens=lens)
        answer = decode_answer(reply.answers[0][0], fs.Gradient(np.zeros(5)), (5,))
        scaled = np.column_stack([(ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0), np.full(12, 3.0)])
        expected = -2 * scaled.T @ (TARGETS - 0.5) / 12
        assert np.allclose(answer["gradient"].rows[0], expected)

    def test_the_answer_is_on_the_rows_of_the_lens_and_none_where_it_shows_none(self):
        rows = Rows()
        shown = {
            place: ask(
                site_with(),
                fs.ColumnSums(),
                lens=Lens(fs.SquaredError(), rows.part(place, of=2, seed=0, by_class=False)),
            ).answers[0][1]
            for place in range(2)
        }
        assert sum(shown.values()) == 12.0
        nobody = Lens(fs.SquaredError(), rows.without(0))
        assert ask(site_with(), fs.Gradient(X), lens=nobody) == Answered((None,))

    def test_a_site_that_does_not_know_a_setup_or_a_lens_asks(self):
        site = site_with()
        requests = ((LENS.digest, encode_request(fs.Evaluate(X))),)
        bare = to_bytes(Asks(digest_of(SETUP), requests))
        assert from_bytes(site.reply(bare, 1)) == TellMe((LENS.digest,))
        with_lens = to_bytes(Asks(digest_of(SETUP), requests, None, (lens_to_bytes(LENS),)))
        assert from_bytes(site.reply(with_lens, 1)) == TellMe((LENS.digest,))  # of which width?
        with_setup = to_bytes(Asks(digest_of(SETUP), requests, SETUP))
        assert from_bytes(site.reply(with_setup, 1)) == TellMe((LENS.digest,))
        assert isinstance(from_bytes(site.reply(with_lens, 1)), Answered)
        assert isinstance(from_bytes(site.reply(bare, 1)), Answered)

    def test_setup_and_lenses_survive_a_process_that_remembers_nothing(self):
        first, second = site_with(), site_with()
        told = ask(first, fs.Gradient(X))
        second.recall(first.memory())
        bare = to_bytes(Asks(digest_of(SETUP), ((LENS.digest, encode_request(fs.Gradient(X))),)))
        assert from_bytes(second.reply(bare, 1)) == told


class TestPayloads:
    def test_only_known_losses_travel(self):
        class Huber(fs.SquaredError):
            pass

        with pytest.raises(OptionError, match="cannot be sent to sites"):
            lens_to_bytes(Lens(Huber()))

    def test_pooled_rows_do_not_travel(self):
        with pytest.raises(OptionError, match="rows of sites cannot be pooled"):
            lens_to_bytes(Lens(fs.SquaredError(), is_pooled=True))

    def test_what_nobody_says_is_refused(self):
        nonsense = [
            ({"say": "hello"}, []),
            ({"say": "answered"}, []),
            ({"say": "answered", "masses": [None, "0x1p0"]}, []),
            ({"say": "answered", "masses": ["much"]}, [b""]),
            ({"say": "ask", "session": "", "of": ["lens"], "lenses": 1, "setup": False}, [b""]),
            ({"say": "ask", "session": "", "of": [], "lenses": -1, "setup": True}, []),
            ({"say": "tell me"}, []),
            ({}, [b""]),
        ]
        for header, parts in nonsense:
            with pytest.raises(WireError):
                from_bytes(packed(header, parts))


class TestReading:
    def test_csv_and_parquet_give_the_same_table(self, tmp_path):
        frame = pl.DataFrame({"age": [61, 47], "dose": [0.5, 0.25], "relapse": [1, 0]})
        frame.write_csv(tmp_path / "bari.csv")
        frame.write_parquet(tmp_path / "bari.parquet")
        for name in ("bari.csv", "bari.parquet"):
            table = open_table(tmp_path / name, "relapse")
            assert table.frame.equals(frame)

    def test_libsvm_text_has_numbered_features(self, tmp_path):
        path = tmp_path / "bari.libsvm"
        path.write_text("1 2:0.5\n0 1:3\n")
        table = open_table(path, None)
        assert isinstance(table, NumberedTable)
        assert table.features.toarray().tolist() == [[0, 0, 0.5], [0, 3, 0]]
        with pytest.raises(OptionError, match="leave --target, --drop and --category out"):
            open_table(path, "relapse")

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"target": "relaps"}, 'no column "relaps" .*did you mean "relapse"'),
            ({"target": None}, "no target is named"),
            ({"target": "relapse", "drop": ("bmi",)}, r'no column "bmi" \(--drop\)'),
        ],
        ids=["misspelt", "no target", "drop"],
    )
    def test_mistakes_are_told(self, options, told, tmp_path):
        path = tmp_path / "bari.csv"
        path.write_text("age,relapse\n61,1\n47,0\n")
        with pytest.raises(DataError, match=told):
            open_table(path, **options)

    def test_a_file_that_is_not_there_is_told(self, tmp_path):
        with pytest.raises(DataError, match="there is no file"):
            open_table(tmp_path / "bari.csv", "relapse")


def test_flowers_own_node_does_not_send_errors_that_quote_rows(tmp_path):
    path = tmp_path / "bari.libsvm"
    path.write_text("1 2:0.5\n0 1:HIV\n")
    config = {"data": str(path)}
    context = Context(run_id=1, node_id=2, node_config=config, state=RecordDict(), run_config={})
    message = Message(content_of(to_bytes(Hello({"open_sums": True}))), 2, MESSAGE_TYPE)
    reply = client(message, context)
    assert from_bytes(payload_of(reply)) == Refused(
        "its table, policy or ledger cannot be used; its own log says why"
    )
