"""Sums under masks: right for whoever is left at every stage, or not opened at all."""

from itertools import product

import numpy as np
import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.secure.statements import Package
from fedsparse.federation.secure.unmasking import default_threshold, shares_from_bytes
from fedsparse.requests.fixed_sums import Integers
from fedsparse.requests.wire.vectors import WireError
from tests.federation.secure.federation import LAYOUT, NAMES, RUN, Federation, plain_sum

STAGES = ("no keys", "keys", "answer", "signature", "shares")
"""What a site did last before it was killed."""


def reached(stages, stage):
    """Sites that did something."""
    return [name for name, own in stages.items() if STAGES.index(own) >= STAGES.index(stage)]


def sum_with(federation, stages):
    """An exchange in which every site is killed after a stage of its own."""
    epoch = federation.epoch()
    exchange = federation.exchange(epoch, federation.prepared(epoch, reached(stages, "keys")))
    federation.answer(exchange, reached(stages, "answer"))
    return federation.opened(exchange, reached(stages, "signature"), reached(stages, "shares"))


def can_be_opened(stages, threshold):
    takes_part, answered = reached(stages, "keys"), reached(stages, "answer")
    is_agreed = takes_part == answered or len(reached(stages, "signature")) >= threshold
    return (
        len(answered) >= max(3, threshold)
        and is_agreed
        and len(reached(stages, "shares")) >= threshold
    )


@pytest.mark.parametrize("names", [NAMES[:3], NAMES[:4]], ids=["three", "four"])
def test_whoever_is_killed_when_the_sum_is_that_of_those_who_answered(names):
    """Every site at every stage, all combinations: 125 with three sites, 625 with four."""
    threshold = default_threshold(len(names))
    for own in product(STAGES, repeat=len(names)):
        stages = dict(zip(names, own, strict=True))
        if not reached(stages, "keys"):
            continue  # there is nobody to ask
        federation = Federation(names)
        if can_be_opened(stages, threshold):
            assert sum_with(federation, stages) == plain_sum(reached(stages, "answer")), stages
        else:
            with pytest.raises(FederationError):
                sum_with(federation, stages)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("killed", [("aachen",), ("cork", "espoo")], ids=["one", "two"])
def test_five_sites_go_on_without_two_killed_at_any_stage(stage, killed):
    stages = {name: stage if name in killed else "shares" for name in NAMES}
    found = sum_with(Federation(threshold=3), stages)
    assert found == plain_sum(reached(stages, "answer"))


def test_fifty_random_runs_never_give_a_wrong_sum():
    random = np.random.default_rng(5)
    opened = 0
    for _ in range(50):
        count = int(random.integers(3, 9))
        names = tuple(f"site {place}" for place in range(count))
        drawn = random.choice(STAGES, size=count, p=(0.05, 0.1, 0.05, 0.1, 0.7))
        stages = dict(zip(names, map(str, drawn), strict=True))
        federation = Federation(names)
        if can_be_opened(stages, federation.threshold):
            assert sum_with(federation, stages) == plain_sum(reached(stages, "answer"))
            opened += 1
        else:
            with pytest.raises(FederationError):
                sum_with(federation, stages)
    assert opened >= 15


def test_keys_of_the_next_exchange_ride_with_the_answer():
    federation = Federation()
    exchange = federation.started()
    for number in range(1, 4):
        assert federation.opened(exchange) == plain_sum(NAMES)
        exchange = federation.exchange(exchange.epoch, exchange.next_packages, number)
        federation.answer(exchange)


def test_a_site_that_missed_an_exchange_comes_back_in_a_new_epoch():
    federation = Federation()
    epoch = federation.epoch()
    first = federation.exchange(epoch, federation.prepared(epoch))
    federation.answer(first, NAMES[:4])
    assert federation.opened(first) == plain_sum(NAMES[:4])
    second = federation.exchange(epoch, first.next_packages, 1)
    federation.answer(second, NAMES[:4])
    assert federation.opened(second) == plain_sum(NAMES[:4])
    assert federation.opened(federation.started()) == plain_sum(NAMES)


def test_a_site_that_was_started_anew_joins_no_epoch_of_its_earlier_key():
    federation = Federation()
    epoch = federation.epoch()
    federation.restart("cork")
    assert federation.sites["cork"].prepare(epoch) is None
    assert federation.opened(federation.started()) == plain_sum(NAMES)


def test_a_site_that_was_started_anew_cannot_answer_with_keys_it_forgot():
    federation = Federation()
    epoch = federation.epoch()
    exchange = federation.exchange(epoch, federation.prepared(epoch))
    federation.restart("cork")
    with pytest.raises(FederationError, match="no keys were exchanged for this run"):
        federation.answer(exchange, ["cork"])


def test_what_is_asked_again_is_answered_again_with_the_same_bytes():
    """A reply may get lost on the way; another one under the same keys would give numbers away."""
    federation = Federation()
    epoch = federation.epoch()
    assert federation.sites["bari"].prepare(epoch) == federation.sites["bari"].prepare(epoch)
    exchange = federation.started()
    assert federation.masker(exchange, "bari").integers == exchange.masked["bari"].to_bytes()
    shares = [federation.shares(exchange, exchange.signatures) for _ in range(2)]
    assert shares[0] == shares[1]


def test_runs_at_the_same_time_do_not_meet():
    """Another run of the same sites has keys of its own."""
    federation = Federation()
    exchange = federation.started()
    members = tuple(site.introduction(RUN + 1) for site in federation.sites.values())
    other = federation.epoch(members=members)
    federation.prepared(other)
    assert federation.opened(exchange) == plain_sum(NAMES)


def test_a_run_that_begins_epochs_anew_pushes_no_other_run_out():
    """A site remembers a number of runs; the one it heard of last is the last to be forgotten."""
    federation = Federation()
    exchange = federation.started()
    for run in range(100, 115):
        members = tuple(site.introduction(run) for site in federation.sites.values())
        for _ in range(2):
            federation.prepared(federation.epoch(members=members))
    assert federation.opened(exchange) == plain_sum(NAMES)


def test_masked_answers_of_one_site_look_like_noise():
    """What a site adds is not seen in what it sends: zeros and their like come out even."""
    federation = Federation()
    words = np.concatenate(
        [
            np.frombuffer(federation.started().masked["aachen"].to_bytes(), dtype=np.uint8)
            for _ in range(40)
        ]
    )
    bits = np.unpackbits(words)
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_a_masked_answer_of_the_wrong_length_is_refused():
    federation = Federation()
    exchange = federation.started()
    with pytest.raises(WireError, match="bytes instead of"):
        exchange.take("bari", bytes(8), b"", b"")


def test_a_masked_answer_must_be_signed_for_this_question():
    federation = Federation()
    exchange = federation.started()
    own = exchange.masked["bari"].to_bytes()
    with pytest.raises(WireError, match="not signed for this question"):
        exchange.take("bari", own, exchange.signatures["cork"], b"")


def test_keys_for_the_next_exchange_must_be_the_sites_own():
    federation = Federation()
    exchange = federation.started()
    own, package = exchange.masked["bari"].to_bytes(), exchange.next_packages["cork"].to_bytes()
    with pytest.raises(WireError, match="the mask key of bari is not signed"):
        exchange.take("bari", own, exchange.signatures["bari"], package)
    with pytest.raises(WireError, match="wrong length"):
        exchange.take("bari", own, exchange.signatures["bari"], package[:-1])


def test_shares_of_the_wrong_length_are_refused():
    with pytest.raises(WireError, match="wrong length"):
        shares_from_bytes([bytes(65)], ["aachen"])
    with pytest.raises(WireError, match="wrong length"):
        shares_from_bytes([bytes(66)], ["aachen", "bari"])
    assert shares_from_bytes([b"", bytes(66)], ["aachen", "bari"]) == {"bari": bytes(66)}


def with_shares_of(federation, exchange, liar, wrong):
    shares = federation.shares(exchange, exchange.signatures)
    shares[liar] = dict.fromkeys(shares[liar], wrong)
    return shares


def test_wrong_shares_of_one_site_change_nothing_if_enough_others_tell():
    federation = Federation()
    for liar in NAMES:
        exchange = federation.started()
        shares = with_shares_of(federation, exchange, liar, bytes(65) + b"\1")
        assert exchange.opened(shares).to_bytes() == plain_sum(NAMES)


def test_one_liar_among_many_sites_is_got_round_wherever_it_stands():
    """Of 20 sites' shares 11 are needed: there are too many choices to try them in turn."""
    names = tuple(f"site {place:02}" for place in range(20))
    federation = Federation(names)
    exchange = federation.started()
    shares = with_shares_of(federation, exchange, names[0], bytes(66))
    assert exchange.opened(shares).to_bytes() == plain_sum(names)


def test_wrong_shares_are_found_out_if_no_others_are_left():
    federation = Federation()
    exchange = federation.started()
    shares = with_shares_of(federation, exchange, "bari", bytes(66))
    few = {name: shares[name] for name in ("aachen", "bari", "cork")}
    with pytest.raises(FederationError, match=r"the masks of aachen could not .* 3 right ones"):
        exchange.opened(few)


def test_a_site_that_seals_nonsense_ends_the_sum_and_is_named():
    """Others cannot see into its shares of the private mask; the sum is not opened wrongly."""
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    own = packages["delft"]
    sealed = tuple(bytes(len(each)) for each in own.sealed)
    packages["delft"] = Package(own.public, own.commitment, own.signature, sealed)
    exchange = federation.exchange(epoch, packages)
    federation.answer(exchange)
    with pytest.raises(FederationError, match="the masks of delft could not be taken off"):
        federation.opened(exchange)


def test_sums_have_as_many_numbers_as_were_asked_for():
    federation = Federation()
    total = Integers.from_bytes(federation.opened(federation.started()), LAYOUT.counts)
    (answers,) = LAYOUT.decode(total)
    assert answers.count == 5
    np.testing.assert_array_equal(answers.total("gradient"), [11111.0, -22222.0])
