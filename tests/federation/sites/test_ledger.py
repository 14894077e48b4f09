"""A site's ledger: nothing leaves that is not in it, and nobody changes it unnoticed."""

import errno
import os
import stat
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
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
    to_bytes,
)
from fedsparse.federation.sites.chained_file import ChainedFile, read_chain, sealed
from fedsparse.federation.sites.ledger import LEDGER, Ledger, read_ledger
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable
from fedsparse.federation.sites.table_digests import RowDigests, table_digest
from fedsparse.problem.rows import Rows
from fedsparse.requests.wire.request_bytes import encode_request
from tests.federation.asking import asked, message_with

ROWS = np.random.default_rng(0).standard_normal((12, 2)).round(2)
TARGETS = ROWS[:, 0] - ROWS[:, 1]
X = np.zeros(2)
LENS = Lens(fs.SquaredError(l2=0.5), Rows().but_part(1, of=2, seed=3))
SETUP = Setup(
    {
        "columns": [{"name": name, "kind": "number"} for name in ("age", "dose")],
        "target": "outcome",
        "task": "regression",
    },
    0,
    ("bari",),
).to_bytes()
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def table_of(rows=ROWS, targets=TARGETS):
    return NamedTable(pl.DataFrame({"age": rows[:, 0], "dose": rows[:, 1], "outcome": targets}),
                      "outcome")  # fmt: skip


class Opened:
    """A site with a ledger, for as long as a ``with`` lasts."""

    def __init__(self, folder, table=None, accepted=None, **policy):
        self.table, self.policy = table or table_of(), Policy(open_sums=True, **policy)
        self.ledger = Ledger(folder, "bari", "server.example.org:8443")
        try:
            self.ledger.open_table(self.table, self.policy, accepted)
        except BaseException:
            self.ledger.close()
            raise

    def __enter__(self):
        return Site("bari", self.table, self.policy, 1, self.ledger)

    def __exit__(self, *_):
        self.ledger.close()


def ask(site, request=None, run=1):
    return asked(site, request or fs.Evaluate(X), SETUP, LENS, run)


def events(folder):
    return [record.event for record in read_ledger(folder)]


class TestRecords:
    def test_all_that_is_asked_answered_and_refused_is_entered(self, tmp_path):
        with Opened(tmp_path, requests=("Evaluate", "Slopes")) as site:
            site.reply(to_bytes(Hello({"open_sums": True})), 7)
            requests = [fs.Evaluate(X), fs.Slopes(X), fs.Evaluate(X)]
            left = site.reply(message_with(requests, SETUP, LENS), 8)
            ask(site, fs.Gradient(X), run=9)
        opened, described, answered, refused = read_ledger(tmp_path)
        assert opened.told["rows"] == 12
        assert opened.told["policy"]["requests"] == ["Evaluate", "Slopes"]
        assert (described.event, described.told["run"]) == ("described", "7")
        assert answered.told["asked"] == {"Evaluate": 2, "Slopes": 1}
        assert answered.told["server"] == "server.example.org:8443"
        assert answered.told["left"] == len(left)
        assert answered.told["sums"] == "open"
        assert answered.told["lenses"] == {
            LENS.digest: {
                "loss": "squared", "l2": 0.5, "rows": LENS.rows.to_json(), "scaled": False,
            }
        }  # fmt: skip
        assert refused.told["asked"] == {"Gradient": 1}
        assert refused.told["reason"] == "its policy does not allow Gradient; train with --dense no"

    def test_what_a_lens_shows_is_said_once(self, tmp_path):
        with Opened(tmp_path) as site:
            ask(site)
            ask(site)
        first, second = read_ledger(tmp_path)[1:]
        assert first.told["through"] == second.told["through"] == [LENS.digest]
        assert "lenses" not in second.told

    def test_a_message_that_nobody_can_read_is_entered_as_refused(self, tmp_path):
        with Opened(tmp_path) as site:
            site.reply(b"\x1b[2J", 1)
        assert events(tmp_path) == ["opened", "refused"]

    def test_a_site_that_asks_back_tells_nothing_and_enters_nothing(self, tmp_path):
        with Opened(tmp_path) as site:
            bare = Asks(digest_of(SETUP), ((LENS.digest, encode_request(fs.Evaluate(X))),))
            assert isinstance(from_bytes(site.reply(to_bytes(bare), 1)), TellMe)
        assert events(tmp_path) == ["opened"]

    def test_withheld_columns_are_named_here(self, tmp_path):
        frame = table_of().frame.with_columns(ward=pl.Series(["eye", *["ear"] * 11]))
        with Opened(tmp_path, NamedTable(frame, "outcome")) as site:
            site.reply(to_bytes(Hello({"open_sums": True})), 1)
        told = read_ledger(tmp_path)[-1].told
        assert (told["withheld"], told["such as"]) == (1, ["ward"])

    def test_nobody_else_on_the_machine_can_read_it(self, tmp_path):
        with Opened(tmp_path / "ledger"):
            pass
        assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o700
        for name in (LEDGER, "rows.key"):
            assert stat.S_IMODE((tmp_path / "ledger" / name).stat().st_mode) == 0o600

    def test_a_start_with_the_same_table_and_policy_is_no_news(self, tmp_path):
        for _ in range(2):
            with Opened(tmp_path):
                pass
        with Opened(tmp_path, most_answers=9):
            pass
        assert events(tmp_path) == ["opened", "opened"]

    def test_two_processes_do_not_write_to_one(self, tmp_path):
        with Opened(tmp_path), pytest.raises(OptionError, match="another process writes to"):
            Opened(tmp_path)


class TestDisk:
    @pytest.mark.parametrize("call", ["pwrite", "fsync"])
    @pytest.mark.parametrize("message", ["hello", "asks"])
    def test_nothing_leaves_while_the_disk_is_full_and_it_answers_again(
        self, call, message, tmp_path, monkeypatch
    ):
        def full(*_):
            raise FULL

        sent, kind = {
            "hello": (to_bytes(Hello({"open_sums": True})), Described),
            "asks": (message_with([fs.Evaluate(X)], SETUP, LENS), Answered),
        }[message]
        with Opened(tmp_path) as site:
            with monkeypatch.context() as patched:
                patched.setattr(os, call, full)
                refused = from_bytes(site.reply(sent, 1))
            assert isinstance(refused, Refused)
            assert refused.reason.removeprefix("bari: ") == (
                "its ledger cannot be written (No space left on device); once it can be, the site "
                "answers again"
            )
            assert events(tmp_path) == ["opened"]
            assert isinstance(from_bytes(site.reply(sent, 1)), kind)
        assert len(events(tmp_path)) == 2
        assert read_chain((tmp_path / LEDGER).read_bytes()).torn == 0

    def test_half_a_line_that_a_full_disk_took_is_written_over(self, tmp_path, monkeypatch):
        real = os.pwrite

        def half(file, content, offset):
            real(file, content[: len(content) // 2], offset)
            raise FULL

        def stuck(*_):
            raise FULL

        with Opened(tmp_path) as site:
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwrite", half)
                patched.setattr(os, "ftruncate", stuck)
                assert isinstance(ask(site), Refused)
            assert read_chain((tmp_path / LEDGER).read_bytes()).torn > 0
            assert isinstance(ask(site), Answered)
        assert events(tmp_path) == ["opened", "answered"]

    @pytest.mark.parametrize("harm", ["removed", "changed"])
    def test_nothing_leaves_when_the_file_is_tampered_with_meanwhile(self, harm, tmp_path):
        with Opened(tmp_path) as site:
            if harm == "removed":
                (tmp_path / LEDGER).unlink()
            else:
                with open(tmp_path / LEDGER, "ab") as file:
                    file.write(b"{}\n")
            assert f"{LEDGER} was {harm}" in ask(site).reason

    def test_a_line_torn_by_a_crash_does_not_count_and_is_told(self, tmp_path):
        with Opened(tmp_path) as site:
            ask(site)
        with open(tmp_path / LEDGER, "ab") as file:
            file.write(b'{"number":3,"at":"2026')
        with Opened(tmp_path, most_answers=2) as site:
            assert isinstance(ask(site), Answered)
            assert isinstance(ask(site), Refused)
        records = read_ledger(tmp_path)
        assert [own.event for own in records] == [
            "opened", "answered", "opened", "answered", "refused",
        ]  # fmt: skip
        assert records[2].told["torn"] == 22


def ledger_of(lines):
    written, before = [], None
    for number in range(1, lines + 1):
        line, before = sealed(
            number,
            datetime(2026, 11, 18, tzinfo=UTC),
            "refused",
            {"reason": f"no {number}"},
            before,
        )
        written.append(line)
    return written


LINES = ledger_of(5)
CONTENT = b"".join(LINES)


class TestChain:
    @given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
    def test_a_changed_byte_is_found_wherever_it_is(self, place, change):
        changed = bytearray(CONTENT)
        changed[place] ^= change
        chain = read_chain(bytes(changed))
        line = CONTENT[:place].count(b"\n") + 1
        assert chain.broken == line
        assert len(chain.records) == line - 1

    @given(st.integers(0, len(CONTENT)))
    def test_of_a_file_cut_anywhere_whole_records_are_left(self, end):
        chain = read_chain(CONTENT[:end])
        assert chain.broken is None
        whole = sum(end >= len(b"".join(LINES[:count])) - 1 for count in range(1, 6))
        assert len(chain.records) == whole
        assert chain.length + chain.torn == end

    @given(st.permutations(range(5)).filter(lambda order: order != list(range(5))))
    def test_lines_in_another_order_are_found(self, order):
        assert read_chain(b"".join(LINES[place] for place in order)).broken is not None

    @given(st.integers(0, 3))
    def test_a_line_that_is_gone_is_found(self, gone):
        left = LINES[:gone] + LINES[gone + 1 :]
        assert read_chain(b"".join(left)).broken == gone + 1

    @given(st.binary(max_size=200))
    def test_whatever_a_file_holds_it_can_be_read(self, content):
        assert read_chain(content).records == ()

    def test_writing_goes_on_after_a_last_line_without_its_end(self, tmp_path):
        path = tmp_path / LEDGER
        path.write_bytes(CONTENT[:-1])
        file = ChainedFile(path)
        file.append("refused", {})
        file.close()
        chain = read_chain(path.read_bytes())
        assert (len(chain.records), chain.broken, chain.torn) == (6, None, 0)

    def test_a_site_does_not_start_with_a_broken_one_and_says_the_line(self, tmp_path):
        with Opened(tmp_path) as site:
            ask(site)
        path = tmp_path / LEDGER
        path.write_bytes(path.read_bytes().replace(b'"rows":12', b'"rows":13'))
        with pytest.raises(OptionError, match=r"line 1 of .*ledger.jsonl is not the one") as caught:
            Opened(tmp_path)
        assert "knows of no answer given before" in str(caught.value)

    def test_nor_with_another_key(self, tmp_path):
        with Opened(tmp_path):
            pass
        (tmp_path / "rows.key").unlink()
        with pytest.raises(OptionError, match=r"rows.key is not the key that .* was begun with"):
            Opened(tmp_path)


class TestBudgets:
    def test_they_outlive_runs_and_restarts(self, tmp_path):
        answered = 0
        for run in range(5):
            with Opened(tmp_path, most_answers=3) as site:
                answered += sum(isinstance(ask(site, run=run), Answered) for _ in range(2))
        assert answered == 3

    def test_each_table_has_its_own_and_a_month_is_for_all(self, tmp_path):
        other = table_of(ROWS[::-1] * 2)
        with Opened(tmp_path, most_answers=2, most_answers_per_month=3) as site:
            ask(site)
            ask(site)
            assert "2 answers on a table" in ask(site).reason
        with Opened(tmp_path, other, most_answers=2, most_answers_per_month=3) as site:
            assert isinstance(ask(site), Answered)
            assert "3 answers within 30 days" in ask(site).reason

    @pytest.mark.parametrize(("days", "kind"), [(29, Refused), (31, Answered)])
    def test_a_month_ends(self, days, kind, tmp_path):
        with Opened(tmp_path, most_answers_per_month=1) as site:
            ask(site)
        lines, before = [], None
        for record in read_ledger(tmp_path):
            at = datetime.now(UTC) - timedelta(days=days)
            line, before = sealed(record.number, at, record.event, record.told, before)
            lines.append(line)
        (tmp_path / LEDGER).write_bytes(b"".join(lines))
        with Opened(tmp_path, most_answers_per_month=1) as site:
            assert isinstance(ask(site), kind)

    def test_what_the_disk_did_not_take_does_not_count(self, tmp_path, monkeypatch):
        def full(*_):
            raise FULL

        with Opened(tmp_path, most_answers=1) as site:
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", full)
                assert isinstance(ask(site), Refused)
            assert isinstance(ask(site), Answered)


def changed_in(count, rows=ROWS):
    changed = rows.copy()
    changed[:count, 0] += 1
    return table_of(changed)


LIKE = {
    "a row added": table_of(np.vstack([ROWS, [[1, 2]]]), np.append(TARGETS, 0.5)),
    "a row removed": table_of(ROWS[1:], TARGETS[1:]),
    "a row changed": changed_in(1),
    "four rows changed": changed_in(4),
    "a target changed": table_of(targets=np.append(TARGETS[:-1], 9.0)),
    "a column and a row added": NamedTable(
        table_of(ROWS[1:], TARGETS[1:]).frame.with_columns(bmi=pl.lit(20.0)), "outcome"
    ),
}
UNLIKE = {
    "the same": table_of(),
    "the same in another order": table_of(ROWS[::-1], TARGETS[::-1]),
    "columns in another order": NamedTable(
        table_of().frame.select("outcome", "dose", "age"), "outcome"
    ),
    "the same as text": NamedTable(table_of().frame.cast(pl.String), "outcome"),
    "five rows changed": changed_in(5),
    "a column added": NamedTable(table_of().frame.with_columns(bmi=pl.lit(20.0)), "outcome"),
}


class TestTables:
    @pytest.mark.parametrize("table", LIKE.values(), ids=LIKE)
    def test_one_that_differs_in_few_rows_is_not_used_without_the_administrators_word(
        self, table, tmp_path
    ):
        with Opened(tmp_path) as site:
            ask(site)
        with pytest.raises(OptionError, match="on which 1 answer was given") as caught:
            Opened(tmp_path, table)
        digits = str(caught.value).rpartition("--accept-table ")[2]
        with pytest.raises(OptionError):
            Opened(tmp_path, table, accepted="01234567")
        with Opened(tmp_path, table, accepted=digits) as site:
            ask(site)
        for again in (table, table_of()):
            with Opened(tmp_path, again):  # the word was given for these two, once for all
                pass
        assert events(tmp_path).count("accepted") == 1

    @pytest.mark.parametrize("table", UNLIKE.values(), ids=UNLIKE)
    def test_others_are(self, table, tmp_path):
        with Opened(tmp_path) as site:
            ask(site)
        with Opened(tmp_path, table):
            pass

    def test_one_that_nobody_was_told_of_does_not_matter(self, tmp_path):
        with Opened(tmp_path):
            pass
        with Opened(tmp_path, changed_in(1)):
            pass

    def test_a_description_alone_counts_because_it_tells_sums(self, tmp_path):
        with Opened(tmp_path) as site:
            site.reply(to_bytes(Hello({"open_sums": True})), 1)
        with pytest.raises(OptionError, match="differs in 1 row from one on which 1 answer was"):
            Opened(tmp_path, changed_in(1))

    def test_it_is_compared_with_all_that_were_before(self, tmp_path):
        for table in (table_of(), changed_in(8)):
            with Opened(tmp_path, table) as site:
                ask(site)
        with pytest.raises(OptionError, match="differs in 2 rows"):
            Opened(tmp_path, changed_in(10))

    def test_one_whose_digests_are_lost_may_be_alike(self, tmp_path):
        with Opened(tmp_path) as site:
            ask(site)
        (lost,) = (tmp_path / "tables").iterdir()
        lost.write_bytes(bytes(8))
        with pytest.raises(OptionError, match="is missing or damaged, so it cannot be compared"):
            Opened(tmp_path, changed_in(8))

    def test_rows_of_numbered_features_are_told_apart(self):
        dense = np.array([[0, 1.0, 0], [2, 0, 3], [0, 0, 4]])
        key = b"key"

        def digests(rows, targets=(1.0, 2.0, 3.0)):
            return RowDigests.of(NumberedTable(sparse.csr_array(rows), np.array(targets)), key)

        before = digests(dense)
        assert before.rows_apart(digests(np.pad(dense, ((0, 0), (0, 2))))) == 0
        assert before.rows_apart(digests(dense, (1.0, 2.0, 4.0))) == 1
        assert before.rows_apart(digests(dense * np.array([[1], [2], [1]]))) == 1

    def test_digests_say_nothing_to_who_does_not_have_the_key(self):
        mine, yours = (RowDigests.of(table_of(), key) for key in (b"mine", b"yours"))
        assert not set(mine.rows.tolist()) & set(yours.rows.tolist())


class TestTableDigest:
    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
    def test_it_changes_with_whatever_changes(self, storage):
        before = table_digest(storage(ROWS), TARGETS, b"key")
        assert before == table_digest(storage(ROWS.copy()), TARGETS.copy(), b"key")
        wider = np.pad(ROWS, ((0, 0), (0, 1)))
        others = {
            table_digest(storage(ROWS), -5 * TARGETS, b"key"),
            table_digest(storage(ROWS), TARGETS[::-1], b"key"),
            table_digest(storage(ROWS[::-1]), TARGETS, b"key"),
            table_digest(storage(wider), TARGETS, b"key"),
            table_digest(storage(ROWS), TARGETS, b"another"),
        }
        assert len({before, *others}) == 6

    def test_its_key_is_the_sites_and_the_runs(self, tmp_path):
        keys = set()
        for folder in ("one", "other"):
            with Opened(tmp_path / folder) as site:
                keys |= {site._ledger.session_key(nonce) for nonce in (b"run 1", b"run 2")}
        assert len(keys) == 4
        with Opened(tmp_path / "one") as site:
            assert site._ledger.session_key(b"run 1") in keys
