"""A site's side: its file, its policy, and what it says."""

import logging

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.codec import WireError, decode_answer, encode_request
from fedsparse.engines.flower.payloads import (
    Answered,
    Ask,
    Described,
    Hello,
    Refused,
    Setup,
    digest_of,
    from_bytes,
    to_bytes,
)
from fedsparse.engines.flower.policy import Policy, read_policy
from fedsparse.engines.flower.site import Site
from fedsparse.engines.flower.tables import Agreed, Table, read_table
from fedsparse.errors import DataError, OptionError

ROWS = np.random.default_rng(0).standard_normal((12, 4)).round(2)
TARGETS = ROWS[:, 0] - ROWS[:, 1]
COLUMNS = ("age", "dose", "sex", "bmi")
SETUP = Setup(fs.SquaredError(), Agreed(COLUMNS, 4, None).to_json(), 0).to_bytes()
X = np.zeros(4)


def site_with(targets=TARGETS, **policy):
    return Site("bari", Table(ROWS, targets, COLUMNS), Policy(**policy), threads=1)


def ask(site, request, setup=SETUP, run=1):
    message = Ask(encode_request(request), digest_of(setup), setup)
    return from_bytes(site.reply(to_bytes(message), run))


REFUSED = {
    "a request that is not listed": (
        {"requests": ("Describe", "Evaluate")},
        fs.Gradient(X),
        "its policy does not allow Gradient; use a method that does without",
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
    "a number too small": ("most_rounds = 0", "most_rounds: input should be greater"),
    "an unknown request": ('requests = ["Steal"]', "requests names 'Steal'; the requests are"),
}

MISTAKES = {
    "no such column": ("age,y\n1,2\n", "no column 'relapse'; name its target column"),
    "text": ("age,relapse\nold,1\n", 'column "age" is not of numbers'),
    "a gap": ("age,dose,relapse\n1,,1\n2,3,0\n", "has missing values"),
    "ragged": ("age,relapse\n1,2,3,4\n", "cannot be read as a table"),
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
        for request in (steps, fs.Curvature(X, np.array([1, 2])), fs.Evaluate(X), fs.Describe()):
            assert isinstance(ask(site, request), Answered)

    def test_caps_the_rounds_of_a_run_but_not_looks_at_the_objective(self):
        site = site_with(most_rounds=2)
        for _ in range(3):
            assert isinstance(ask(site, fs.Evaluate(X)), Answered)
        for _ in range(2):
            assert isinstance(ask(site, fs.Gradient(X)), Answered)
        assert ask(site, fs.Gradient(X)).reason == (
            "its policy allows 2 rounds in a run; train it anew"
        )
        assert isinstance(ask(site, fs.Gradient(X), run=2), Answered)

    def test_the_cap_survives_a_process_that_remembers_nothing(self):
        first = site_with(most_rounds=1)
        assert isinstance(ask(first, fs.Gradient(X)), Answered)
        second = site_with(most_rounds=1)
        second.recall(first.memory())
        assert isinstance(ask(second, fs.Gradient(X)), Refused)

    @pytest.mark.parametrize(("content", "told"), POLICY_FILES.values(), ids=POLICY_FILES)
    def test_mistakes_in_the_file_are_told(self, content, told, tmp_path):
        path = tmp_path / "policy.toml"
        path.write_text(content)
        with pytest.raises(OptionError, match=told) as caught:
            read_policy(path)
        assert str(path) in str(caught.value)


class TestPrivacy:
    def test_labels_are_told_only_where_the_loss_needs_them(self):
        site = site_with(np.array([0, 1] * 6))
        for loss, labels in (("squared", None), ("logistic", {"kind": "i", "values": [0, 1]})):
            reply = from_bytes(site.reply(to_bytes(Hello(loss)), 1))
            assert isinstance(reply, Described)
            assert reply.description["labels"] == labels

    def test_an_error_about_rows_quotes_them_in_the_own_log_only(self, caplog):
        setup = Setup(fs.Logistic(), Agreed(COLUMNS, 4, np.array([0, 7])).to_json(), 0).to_bytes()
        site = site_with(np.array([0, 7] * 6))
        with caplog.at_level(logging.ERROR, "fedsparse.federation"):
            reply = ask(site, fs.Evaluate(X), setup)
        assert reply == Refused("its rows cannot be used like that; its own log says why")
        assert "has label 7" in caplog.text

    def test_a_target_of_many_values_is_not_sent_as_labels(self):
        site = Site("bari", Table(np.ones((2000, 1)), np.arange(2000.0), ("a",)), Policy(), 1)
        assert isinstance(from_bytes(site.reply(to_bytes(Hello("softmax")), 1)), Refused)


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
        [b"", b"[]", b'{"loss":"squared"}', SETUP.replace(b"squared", b"cubic"),
         SETUP.replace(b'"identity":0', b'"identity":-1'),
         SETUP.replace(b'"width":4', b'"width":0'), SETUP.replace(b'"age"', b'"agee"')],
        ids=["nothing", "a list", "little", "a loss", "a place", "a width", "a column"],
    )  # fmt: skip
    def test_a_setup_that_makes_no_sense_is_refused(self, written):
        assert isinstance(ask(site_with(), fs.Evaluate(X), written), Refused)

    def test_the_answer_is_the_one_asked_for(self):
        reply = ask(site_with(), fs.Gradient(X))
        answer = decode_answer(reply.answer, fs.Gradient(X), (4,))
        expected = -2 * ROWS.T @ TARGETS / 12
        assert np.allclose(answer["gradient"].rows[0], expected)


class TestPayloads:
    def test_only_known_losses_travel(self):
        class Huber(fs.SquaredError):
            pass

        with pytest.raises(OptionError, match="cannot be sent to sites"):
            Setup(Huber(), {}, 0).to_bytes()

    def test_what_nobody_says_is_refused(self):
        from fedsparse.codec.frame import packed

        for header, parts in ({"say": "hello"}, []), ({"say": "answered"}, []), ({}, [b""]):
            with pytest.raises(WireError):
                from_bytes(packed(header, parts))


class TestReading:
    def test_csv_and_parquet_give_the_same_table(self, tmp_path):
        frame = pl.DataFrame({"age": [61, 47], "dose": [0.5, 0.25], "relapse": [1, 0]})
        frame.write_csv(tmp_path / "bari.csv")
        frame.write_parquet(tmp_path / "bari.parquet")
        for name in ("bari.csv", "bari.parquet"):
            table = read_table(tmp_path / name, "relapse")
            assert table.columns == ("age", "dose")
            assert table.features.tolist() == [[61.0, 0.5], [47.0, 0.25]]
            assert table.targets.tolist() == [1, 0]

    @pytest.mark.parametrize(("content", "told"), MISTAKES.values(), ids=MISTAKES)
    def test_mistakes_are_told(self, content, told, tmp_path):
        path = tmp_path / "bari.csv"
        path.write_text(content)
        with pytest.raises(DataError, match=told):
            read_table(path, "relapse")

    def test_a_file_that_is_not_there_is_told(self, tmp_path):
        with pytest.raises(DataError, match="there is no file"):
            read_table(tmp_path / "bari.csv", "relapse")
