"""The whole analysis over Flower: that of one process, in as few messages as it can be had."""

from collections import Counter

import numpy as np
import pytest

from fedsparse.engines.flower.payloads import Asks, from_bytes
from fedsparse.engines.flower.server import engine as server_engine
from fedsparse.engines.flower.server import mailbox
from fedsparse.errors import DataError
from fedsparse.modelling.specification import FitSpecification
from tests.builders import STORAGES
from tests.engines.flower.federated_tables import (
    KINDS,
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
    second order."""
    rounds = 15 if kind == "three classes" else 100
    return FitSpecification(**{"stability": 2, "rounds": rounds} | changes)


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


def questions_to(grid, node):
    """Messages that asked a node something about its rows."""
    said = [from_bytes(payload) for payload in grid.sent[node]]
    return [own for own in said if isinstance(own, Asks)]


class TestMessages:
    def test_an_exchange_is_one_message_to_every_site_whatever_is_asked(self):
        grid = grid_of(sites_of(clients_of("two classes")))
        found = analysed(engine_on(grid, "two classes"), specification_for("two classes"))
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
        monkeypatch.setattr(server_engine, "LARGEST_MESSAGE", 2000)
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
        (note,) = found.notes
        assert note == (
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
