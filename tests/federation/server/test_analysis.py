"""The whole analysis over Flower: that of one process, in as few messages as it can be had."""

import itertools
import logging
import re
from collections import Counter

import numpy as np
import pytest

from fedsparse.errors import DataError
from fedsparse.federation.payloads import Answered, Asks, TellMe, from_bytes, to_bytes
from fedsparse.federation.server import mailbox, stages
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.replay import replay
from fedsparse.federation.server.training import Training
from fedsparse.federation.sites.ledger import judged_in
from fedsparse.federation.sites.policy import Policy
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary
from fedsparse.requests.wire.frame import unpacked
from tests.builders import STORAGES
from tests.federation.federated_tables import (
    KINDS,
    NAMES,
    analysed,
    analysed_in_memory,
    assert_same_analysis,
    clients_of,
    engine_on,
    grid_of,
    sites_of,
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def specification_for(kind, **changes):
    """Cross-validated, judged on held-out rows, with stability; a few rounds where there is no
    second order, and a few numbers of features."""
    rounds = 15 if kind == "three classes" else 100
    usual = {"stability": 2, "rounds": rounds, "sparsities": (0, 2, 4)}
    return FitSpecification(**usual | changes)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_one_process_bit_for_bit(kind, storage):
    clients = clients_of(kind, storage)
    specification = specification_for(kind)
    grid = grid_of(sites_of(clients))
    engine = engine_on(grid, kind)
    found = analysed(engine, specification)
    expected = analysed_in_memory(clients, kind, specification)
    assert_same_analysis(found, expected)
    assert {own.method for own in found.evaluation.scores} == {"federated", "alone"}
    assert found.exchanges == expected.exchanges == engine.exchanges


@pytest.mark.parametrize("sparsity", ["ebic", 3])
def test_it_is_that_of_one_process_however_the_number_of_features_comes_about(sparsity):
    clients = clients_of("numbers")
    specification = specification_for("numbers", sparsity=sparsity)
    found = analysed(engine_on(grid_of(sites_of(clients)), "numbers"), specification)
    assert_same_analysis(found, analysed_in_memory(clients, "numbers", specification))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_one_process_where_no_feature_predicts(kind):
    draw = np.random.default_rng(1)
    clients = [(Z, draw.permutation(targets)) for Z, targets in clients_of(kind)]
    specification = specification_for(kind)
    found = analysed(engine_on(grid_of(sites_of(clients)), kind), specification)
    assert_same_analysis(found, analysed_in_memory(clients, kind, specification))
    assert (found.sparsity, found.stability) == (0, None)
    assert not found.fitted.coefficients.any()


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_the_default_analysis_takes_a_small_part_of_what_a_site_answers(kind):
    grid = grid_of(sites_of(clients_of(kind)))
    analysed(engine_on(grid, kind), FitSpecification())
    for node in grid.nodes:
        asked = Counter(
            unpacked(request)[0]["request"]
            for own in questions_to(grid, node)
            for _, request in own.requests
        )
        assert asked.total() < Policy().most_answers_per_month / 20
        assert 0 < judged_in(asked) <= Policy().most_judged / 10


def questions_to(grid, node):
    """Messages that asked a node something about its rows."""
    said = [from_bytes(payload) for payload in grid.sent[node]]
    return [own for own in said if isinstance(own, Asks)]


class TestMessages:
    def test_an_exchange_is_one_message_to_every_site_whatever_is_asked(self):
        grid = grid_of(sites_of(clients_of("two classes")))
        # Without intervals: the last steps of a site's own estimates are asked of it alone.
        specification = specification_for("two classes", intervals="no")
        found = analysed(engine_on(grid, "two classes"), specification)
        for node in grid.nodes:
            questions = questions_to(grid, node)
            assert len(questions) == found.exchanges
            assert max(len(own.requests) for own in questions) > 30  # folds in folds, and halves

    def test_setup_and_lenses_are_told_once(self):
        grid = grid_of(sites_of(clients_of("two classes")))
        analysed(engine_on(grid, "two classes"), specification_for("two classes"))
        for node in grid.nodes:
            questions = questions_to(grid, node)
            assert [own.setup is not None for own in questions[:3]] == [True, False, False]
            assert not any(own.setup for own in questions[3:])
            told = Counter(lens for own in questions for lens in own.lenses)
            asked = {digest for own in questions for digest, _ in own.requests}
            assert set(told.values()) == {1}
            assert len(told) == len(asked)

    def test_what_is_too_much_for_a_message_is_split_and_gives_the_same_bits(self, monkeypatch):
        clients = clients_of("numbers")
        specification = specification_for("numbers")
        whole = analysed(engine_on(grid_of(sites_of(clients)), "numbers"), specification)
        monkeypatch.setattr(stages, "LARGEST_MESSAGE", 2000)
        grid = grid_of(sites_of(clients))
        engine = engine_on(grid, "numbers")
        split = analysed(engine, specification)
        assert_same_analysis(split, whole)
        assert engine.exchanges > 2 * whole.exchanges
        for node in grid.nodes:
            # Some messages are about other sites alone.
            assert whole.exchanges < len(questions_to(grid, node)) <= engine.exchanges
            # What is asked about is counted, and beside it there is a header.
            assert max(len(payload) for payload in grid.sent[node][3:]) < 3 * 2000


class TestClasses:
    def test_a_fold_may_lack_a_class_at_a_site(self):
        """The second site has one row of class 1: four of its five folds have none to judge on."""
        clients = clients_of("two classes")
        clients[1][1][:] = 0.0
        clients[1][1][4] = 1.0
        specification = specification_for("two classes")
        found = analysed(engine_on(grid_of(sites_of(clients)), "two classes"), specification)
        assert_same_analysis(found, analysed_in_memory(clients, "two classes", specification))
        assert np.isfinite([point.score for point in found.selection.points]).all()

    def test_a_fold_that_lacks_a_class_at_all_sites_is_left_out_and_the_report_says_so(self):
        """One row of class 1 in all: without its fold there is nothing to tell apart."""
        clients = clients_of("two classes")
        for _, labels in clients:
            labels[:] = 0.0
        clients[0][1][4] = 1.0
        specification = specification_for("two classes")
        found = analysed(engine_on(grid_of(sites_of(clients)), "two classes"), specification)
        assert_same_analysis(found, analysed_in_memory(clients, "two classes", specification))
        assert found.notes[0] == (
            'Class "1" has 1 row at all sites together: some folds may have none to learn from, '
            "and how well it is told from others is hardly known."
        )

    def test_folds_that_all_lack_a_class_at_all_sites_end_it_with_a_sentence(self):
        """A row of each class: whichever is held out, the other is alone."""
        clients = clients_of("two classes", sites=1, rows=2)
        clients[0][1][:] = 0.0, 1.0
        engine = engine_on(grid_of(sites_of(clients)), "two classes")
        with pytest.raises(DataError) as caught:
            analysed(engine, specification_for("two classes", held_out="none", stability=0, seed=1))
        assert str(caught.value) == (
            "there are too few rows, or too few of some class, to hold some out; give the sparsity "
            "as a number"
        )

    def test_rows_that_are_all_of_one_class_end_it_with_a_sentence(self):
        clients = clients_of("two classes")
        for _, labels in clients[1:]:
            labels[:] = 1.0
        engine = engine_on(grid_of(sites_of(clients)), "two classes")
        others = engine.where(engine.lens.rows.without(0))
        with pytest.raises(DataError) as caught:
            analysed(others, specification_for("two classes"))
        assert str(caught.value) == (
            "all rows have the same label; a model needs rows of two classes"
        )


def away(site, messages):
    """A site that does not get some messages, by their number."""
    numbers = itertools.count()
    return lambda payload: None if next(numbers) in messages else site.reply(payload, 1)


class TestFaults:
    """The third site leaves, or is started anew, in the middle of cross-validation."""

    MIDDLE = range(9, 12)

    def test_waiting_for_a_site_that_comes_back_gives_the_analysis_of_all(self, caplog):
        clients = clients_of("two classes")
        specification = specification_for("two classes")
        sites = sites_of(clients)
        grid = grid_of(sites, cork=away(sites["cork"], self.MIDDLE))
        engine = engine_on(grid, "two classes", if_absent="wait", round_seconds=0.3)
        with caplog.at_level(logging.INFO, "fedsparse.federation"):
            found = analysed(engine, specification)
        assert "cork is absent: no answer within 0.3 s" in caplog.text
        assert "waiting for cork" in caplog.text
        assert "cork is back" in caplog.text
        assert_same_analysis(found, analysed_in_memory(clients, "two classes", specification))

    def test_going_on_without_a_site_ends_and_the_report_says_what_is_missing(self, tmp_path):
        sites = sites_of(clients_of("two classes"))
        grid = grid_of(sites, cork=away(sites["cork"], self.MIDDLE))
        training = Training(open_sums=True,
            sites=5, min_sites=4, stability=2, task="classification", round_seconds=0.3,
            out=str(tmp_path),
        )  # fmt: skip
        found = train(grid, training)
        assert np.isfinite(found.fitted.coefficients).all()
        assert np.isfinite([point.score for point in found.selection.points]).all()
        ends = {site.name: site.took_part for site in FitSummary.load(tmp_path / "fit.json").sites}
        assert re.fullmatch(r"to the end, \d+ answers? missing", ends.pop("cork"))
        assert set(ends.values()) == {"to the end"}
        assert "missing" in (tmp_path / "report.html").read_text()
        assert replay(tmp_path).differing == ()

    def test_a_site_that_does_not_come_back_is_no_obstacle(self):
        sites = sites_of(clients_of("two classes"))
        grid = grid_of(sites, cork=away(sites["cork"], range(9, 10_000)))
        engine = engine_on(grid, "two classes", min_sites=4, round_seconds=0.3)
        found = analysed(engine, specification_for("two classes"))
        assert np.isfinite(found.fitted.coefficients).all()
        assert engine.members[2].is_absent
        assert {own.site for own in found.evaluation.scores} >= {None, "aachen", "espoo"}

    def test_a_site_started_anew_asks_for_setup_and_lenses_and_nothing_changes(self):
        clients = clients_of("two classes")
        specification = specification_for("two classes")
        said = []
        processes = [sites_of(clients)["cork"] for _ in range(3)]

        def restarted(payload):
            """The process that answers dies after some messages, and the next knows nothing."""
            own = processes[min(len(said) // 12, 2)]
            said.append(own.reply(payload, 1))
            return said[-1]

        engine = engine_on(grid_of(sites_of(clients), cork=restarted), "two classes")
        found = analysed(engine, specification)
        assert_same_analysis(found, analysed_in_memory(clients, "two classes", specification))
        asked = [own for own in map(from_bytes, said) if isinstance(own, TellMe)]
        assert len(asked) >= 2
        assert all(own.lenses for own in asked)

    def test_a_site_that_claims_rows_it_does_not_have_is_excluded(self):
        sites = sites_of(clients_of("two classes"))

        def exaggerating(payload):
            said = from_bytes(sites["cork"].reply(payload, 1))
            if not isinstance(said, Answered):
                return to_bytes(said)
            return to_bytes(Answered(tuple(own and (own[0], own[1] + 7.0) for own in said.answers)))

        engine = engine_on(grid_of(sites, cork=exaggerating), "two classes", min_sites=4)
        found = analysed(engine, specification_for("two classes"))
        assert engine.members[2].excluded == (
            "its answer cannot be used: It claims other rows than it described."
        )
        assert {own.site for own in found.evaluation.scores} == {None, *NAMES} - {"cork"}
        assert found.evaluation.scores[0].rows == 4 * 30
