"""The same question over all sites and over all but one: the difference is that one's answer.

Masks do not help: both are sums that a server may have. Sites remember what they
answered with whom.
"""

from dataclasses import replace

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.errors import FederationError
from fedsparse.federation.secure.site_masking import SiteMasking
from fedsparse.federation.sites.questions import AnsweredQuestions, Question
from fedsparse.problem.rows import Rows
from tests.attacks.lying_server import (
    LyingServer,
    five_sites,
    gradient_at,
    own_gradient,
    sites_of,
)
from tests.federation.federated_tables import NAMES, WIDTH, clients_of

AT_ZERO = gradient_at(np.zeros(WIDTH))
LAST = NAMES[-1]
BUT_LAST = NAMES[:-1]


class Forgetful(AnsweredQuestions):
    """Allows everything: the defence switched off."""

    def __init__(self, name):
        super().__init__(None)

    def check(self, questions, names, **options):
        pass


class ForgetfulOfBeginnings(AnsweredQuestions):
    """Remembers sums that it helped to open, and no others."""

    def __init__(self, name):
        super().__init__(None)

    def begin(self, questions, names):
        pass


def by_which(server):
    return server.sum_of(AT_ZERO, which=(0, 1, 2, 3))


def by_lens(server):
    return server.sum_of(AT_ZERO, lens=replace(server.lens, rows=Rows().without(4)))


def by_participants(server):
    return server.sum_of(AT_ZERO, names=BUT_LAST)


def by_survivors(server):
    return server.sum_of(AT_ZERO, survivors=BUT_LAST)


def by_another_run(server):
    sites = {name: server.sites[name] for name in BUT_LAST}
    return LyingServer(sites, run=2).sum_of(AT_ZERO)


WAYS = pytest.mark.parametrize(
    "without_last", [by_which, by_lens, by_participants, by_survivors, by_another_run]
)


def difference(sites, without_last):
    server = LyingServer(sites)
    whole = server.sum_of(AT_ZERO).total("gradient")
    return whole - without_last(server).total("gradient")


def expected():
    return own_gradient(clients_of("numbers")[-1], np.zeros(WIDTH))


@WAYS
def test_the_difference_would_be_one_sites_gradient(without_last):
    found = difference(five_sites(questions=Forgetful), without_last)
    np.testing.assert_allclose(found, expected(), rtol=1e-9)


@WAYS
def test_sites_refuse_the_second_sum(without_last):
    with pytest.raises(FederationError, match="same question before"):
        difference(five_sites(), without_last)


@WAYS
def test_sites_refuse_it_the_other_way_round(without_last):
    server = LyingServer(five_sites())
    without_last(server)
    with pytest.raises(FederationError, match="same question before"):
        server.sum_of(AT_ZERO)


def test_sites_remember_when_they_are_started_anew(tmp_path):
    def started():
        return five_sites(questions=lambda name: AnsweredQuestions(tmp_path / f"{name}.txt"))

    LyingServer(started()).sum_of(AT_ZERO)
    with pytest.raises(FederationError, match="same question before"):
        LyingServer(started(), run=2).sum_of(AT_ZERO, names=BUT_LAST)


ONES = np.ones(WIDTH)
SOME = np.arange(4)
STEPS = fs.LocalSteps(np.zeros(WIDTH), steps=2, step_size=0.01)
LED = fs.CorrectedSteps(
    np.zeros(WIDTH), steps=2, step_size=0.01, snapshot=ONES, gradient=np.zeros(WIDTH)
)
ANOTHER_WAY = {
    "in other units": (
        fs.Curvature(np.zeros(WIDTH), SOME, units=ONES),
        fs.Curvature(np.zeros(WIDTH), SOME, units=2.0 * ONES),
    ),
    "only in part": (
        fs.Curvature(np.zeros(WIDTH), SOME),
        fs.Curvature(np.zeros(WIDTH), SOME, known=SOME[:1], only_second=True),
    ),
    "without the diagonal": (
        fs.Slopes(np.zeros(WIDTH)), fs.Slopes(np.zeros(WIDTH), with_diagonal=False),
    ),
    "steps, and f beside them": (STEPS, replace(STEPS, with_objective=True)),
    "steps, and how far they went": (STEPS, replace(STEPS, with_distance=True)),
    "steps with a snapshot that full gradients do not need": (STEPS, replace(STEPS, snapshot=ONES)),
    "steps under another seed": (STEPS, replace(STEPS, seed=7, round=3)),
    "led steps, and the gradient beside them": (LED, replace(LED, with_gradient=True)),
    "led steps, and f beside them": (LED, replace(LED, with_objective=True)),
    "f with the ℓ2 term": (
        fs.Evaluate(np.zeros(WIDTH), is_penalized=False), fs.Evaluate(np.zeros(WIDTH)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second"), ANOTHER_WAY.values(), ids=ANOTHER_WAY)
def test_the_same_question_written_another_way_is_the_same(first, second):
    server = LyingServer(five_sites())
    server.sum_of(first)
    with pytest.raises(FederationError, match="same question before"):
        server.sum_of(second, names=BUT_LAST)


def test_the_same_sum_may_be_asked_for_again():
    server = LyingServer(five_sites())
    one, other = (server.sum_of(AT_ZERO).total("gradient") for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_other_questions_may_be_asked_of_fewer():
    """A site may drop out, and training goes on."""
    server = LyingServer(five_sites())
    server.sum_of(AT_ZERO)
    server.sum_of(gradient_at(np.ones(WIDTH)), survivors=BUT_LAST)


def in_one_exchange(**options):
    """All and all but one asked in the same message."""
    ways = [("samples", None), ("samples", (0, 1, 2, 3))]
    whole, fewer = LyingServer(five_sites(**options)).sums_of(AT_ZERO, ways)
    return whole.total("gradient") - fewer.total("gradient")


def test_two_sums_of_one_exchange_would_single_one_out():
    np.testing.assert_allclose(in_one_exchange(questions=Forgetful), expected(), rtol=1e-9)


def test_sites_compare_the_questions_of_one_exchange():
    with pytest.raises(FederationError, match="same question before"):
        in_one_exchange()


SEVEN = ("aachen", "bari", "cork", "delft", "espoo", "faro", "graz")
THREE_SETS = (SEVEN[:6], SEVEN[:3], SEVEN[3:])
"""Any two differ by three or more; the last two less the first is the last site alone."""


def three_sums(questions):
    clients = clients_of("numbers", sites=7)
    server = LyingServer(sites_of(clients, SEVEN, questions=questions))
    six, three, four = (
        server.sum_of(AT_ZERO, names=names).total("gradient") for names in THREE_SETS
    )
    return three + four - six


def test_three_sums_that_differ_by_many_would_single_one_out():
    found = three_sums(Forgetful)
    truth = own_gradient(clients_of("numbers", sites=7)[-1], np.zeros(WIDTH))
    np.testing.assert_allclose(found, truth, rtol=1e-9)


def test_sites_answer_a_question_with_one_set_of_sites_ever():
    with pytest.raises(FederationError, match="same question before"):
        three_sums(lambda name: AnsweredQuestions(None))


FOURTEEN = tuple(f"site {place:02}" for place in range(14))


def opened_by_bystanders(questions):
    """Four sites are asked, and opened by five others; then three of them, and by another five.

    Those who are in both sums are never asked for shares, and those who are have not met before.
    """
    clients = clients_of("numbers", sites=14)
    server = LyingServer(sites_of(clients, FOURTEEN, questions=questions))
    sums = []
    for helpers, which in ((FOURTEEN[4:9], (0, 1, 2, 3)), (FOURTEEN[9:], (0, 1, 2))):
        names = FOURTEEN[:4] + helpers
        (own,) = server.sums_of(AT_ZERO, [("samples", which)], names=names, openers=helpers)
        sums.append(own.total("gradient"))
    return sums[0] - sums[1]


def test_sums_that_only_bystanders_open_would_single_one_out():
    truth = own_gradient(clients_of("numbers", sites=14)[3], np.zeros(WIDTH))
    np.testing.assert_allclose(opened_by_bystanders(ForgetfulOfBeginnings), truth, rtol=1e-9)


def test_sites_remember_what_bystanders_may_have_opened():
    with pytest.raises(FederationError, match="same question before"):
        opened_by_bystanders(lambda name: AnsweredQuestions(None))


def test_a_site_that_drops_out_of_some_that_were_asked_does_not_end_the_exchange():
    """What was begun with it is opened without it, once."""
    server = LyingServer(five_sites())
    ways = [("samples", (0, 1, 2, 3))]
    (own,) = server.sums_of(AT_ZERO, ways, survivors=NAMES[1:])
    assert own.count == 3


def test_sums_without_a_site_in_common_are_both_told():
    """Their differences and sums are over as many sites as they are."""
    known = AnsweredQuestions(None)
    known.record([Question("17", frozenset(), frozenset(SEVEN[:3]))], SEVEN)
    known.check([Question("17", frozenset(), frozenset(SEVEN[3:]))], SEVEN)


def opened_by_those_left_out():
    """Four of seven are added up, and opened by one of them and the three others.

    The other three of the four never learn that it was opened, and are in a second sum.
    """
    server = LyingServer(sites_of(clients_of("numbers", sites=7), SEVEN))
    four = server.sum_of(AT_ZERO, survivors=SEVEN[:4], openers=(SEVEN[0], *SEVEN[4:]))
    three = server.sum_of(AT_ZERO, names=SEVEN[1:4])
    return four.total("gradient") - three.total("gradient")


def test_sums_that_those_left_out_open_would_single_one_out(monkeypatch):
    monkeypatch.setattr(
        SiteMasking, "_checked", lambda self, run, *_: self._membership(run).current
    )
    truth = own_gradient(clients_of("numbers", sites=7)[0], np.zeros(WIDTH))
    np.testing.assert_allclose(opened_by_those_left_out(), truth, rtol=1e-9)


def test_sites_that_are_left_out_of_a_sum_do_not_open_it():
    with pytest.raises(FederationError, match="does not open a sum without itself"):
        opened_by_those_left_out()


def test_sites_refuse_the_same_question_with_another_penalty():
    """What is told without the ℓ2 term follows from what is told with it."""
    server = LyingServer(five_sites())
    server.sum_of(AT_ZERO)
    loss = replace(server.lens.loss, l2=server.lens.loss.l2 + 1e-9)
    with pytest.raises(FederationError, match="same question before"):
        server.sum_of(AT_ZERO, lens=replace(server.lens, loss=loss), survivors=BUT_LAST)


@pytest.mark.xfail(strict=True, reason="sites tell questions apart by their bits alone")
def test_sites_refuse_nearly_the_same_question():
    """A lying server moves x by next to nothing, and asks all but one."""
    server = LyingServer(five_sites())
    whole = server.sum_of(AT_ZERO).total("gradient")
    nearly = gradient_at(np.full(WIDTH, 1e-13))
    try:
        fewer = server.sum_of(nearly, survivors=BUT_LAST).total("gradient")
    except FederationError:
        return
    assert not np.allclose(whole - fewer, expected(), rtol=1e-6)
