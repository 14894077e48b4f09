"""A server that lies to sites gets nothing, or the one sum that it may have."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.secure.statements import answered, survived
from tests.federation.secure.federation import (
    NAMES,
    RUN,
    Federation,
    contribution,
    plain_sum,
    refusal,
)
from tests.federation.secure_sites import key_of

FOUR = NAMES[:4]


def refused_epoch(**changes):
    federation = Federation()
    epoch = federation.epoch(**changes)
    return refusal(federation.sites["aachen"].prepare, epoch)


def members():
    return list(Federation().epoch().members)


# ---------------------------------------------------------------- epochs


def test_a_key_that_a_site_did_not_sign_is_refused():
    own = members()
    own[2] = replace(own[2], signature=own[1].signature)
    assert "cork is not signed by the one in the roster" in refused_epoch(members=tuple(own))


def test_a_key_that_the_server_made_is_refused():
    own = members()
    own[2] = replace(own[2], public=own[1].public)
    assert "cork is not signed by the one in the roster" in refused_epoch(members=tuple(own))


def test_a_site_named_twice_is_refused():
    own = members()
    assert "names a site twice" in refused_epoch(members=(*own[:4], own[3]))


def test_an_epoch_without_the_site_itself_is_refused():
    assert "or this one not at all" in refused_epoch(members=tuple(members()[1:]))


def test_two_sites_do_not_hide_each_other():
    found = refused_epoch(members=tuple(members()[:2]), threshold=2)
    assert "three sites are needed" in found


@pytest.mark.parametrize("threshold", [0, 1, 2, 6])
def test_a_threshold_at_or_below_half_or_beyond_all_is_refused(threshold):
    assert "a threshold above half of them" in refused_epoch(threshold=threshold)


def test_a_threshold_of_exactly_half_is_refused():
    """Two halves could open two sums."""
    found = refused_epoch(members=tuple(members()[:4]), threshold=2)
    assert "a threshold above half of them" in found


def test_keys_of_another_run_are_refused():
    federation = Federation()
    own = [site.introduction(RUN) for site in federation.sites.values()]
    own[3] = federation.sites["delft"].introduction(RUN + 1)
    epoch = federation.epoch(members=tuple(own))
    found = refusal(federation.sites["aachen"].prepare, epoch)
    assert found == "the key of delft is of another run"


def test_a_point_that_nobody_can_agree_with_is_refused_though_it_is_signed():
    own = members()
    public = bytes(32)
    signature = key_of("cork").sign(own[2].to_sign(RUN, "cork", public))
    own[2] = replace(own[2], public=public, signature=signature)
    assert refused_epoch(members=tuple(own)) == "the key of cork is none"


# ---------------------------------------------------------------- questions


def asked(change):
    """What a site says to an exchange whose packages were changed."""
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    exchange = federation.exchange(epoch, change(packages, federation))
    return refusal(federation.masker, exchange, "aachen")


def test_mask_keys_that_a_site_did_not_sign_are_refused():
    def change(packages, _):
        cork, delft = packages["cork"], packages["delft"]
        return packages | {"cork": replace(cork, public=delft.public)}

    assert "the mask key of cork is not signed" in asked(change)


def test_a_commitment_that_a_site_did_not_sign_is_refused():
    """The seed of a private mask could be another one otherwise."""

    def change(packages, _):
        return packages | {"cork": replace(packages["cork"], commitment=bytes(32))}

    assert "the mask key of cork is not signed" in asked(change)


def test_the_package_of_another_site_is_refused():
    def change(packages, _):
        return packages | {"cork": packages["delft"]}

    assert "the mask key of cork is not signed" in asked(change)


def test_packages_of_another_epoch_are_refused():
    """Mask keys made for five sites do not serve three of them."""

    def change(packages, federation):
        federation.prepared(federation.epoch())
        return packages

    assert "is not signed by the key in the roster" in asked(change)


def test_a_package_of_an_earlier_exchange_is_refused():
    federation = Federation()
    first = federation.started()
    federation.opened(first)
    packages = first.next_packages | {"cork": first.packages["cork"]}
    found = refusal(federation.masker, federation.exchange(first.epoch, packages, 1), "aachen")
    assert "the mask key of cork is not signed" in found


def test_an_own_key_of_an_earlier_process_is_refused():
    """It is signed by the site's own long-term key, and made for this epoch and exchange."""
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    own = packages["aachen"]
    stale = replace(
        own,
        public=packages["bari"].public,
        signature=key_of("aachen").sign(
            own.to_sign(epoch.digest, 0, "aachen", packages["bari"].public, own.commitment)
        ),
    )
    exchange = federation.exchange(epoch, packages | {"aachen": stale})
    found = refusal(federation.masker, exchange, "aachen")
    assert found == "the server does not use the key that this site handed out"


@pytest.mark.parametrize("names", [NAMES[:2], NAMES[1:]], ids=["two", "without itself"])
def test_a_sum_of_too_few_or_without_the_site_is_refused(names):
    found = asked(lambda packages, _: {name: packages[name] for name in names})
    assert "would not hide this one" in found


def test_sites_in_another_order_are_refused():
    found = asked(lambda packages, _: {name: packages[name] for name in NAMES[::-1]})
    assert found == "the server names sites that are not in the epoch"


def test_an_exchange_is_not_replayed_with_another_question():
    federation = Federation()
    exchange = federation.started()
    found = refusal(federation.masker, exchange, "aachen", b"the gradient elsewhere")
    assert found == "the server asks something else in exchange 0, which was answered"


def test_an_exchange_is_not_replayed_with_other_sites():
    federation = Federation()
    exchange = federation.started()
    fewer = {name: exchange.packages[name] for name in FOUR}
    found = refusal(federation.masker, federation.exchange(exchange.epoch, fewer), "aachen")
    assert "asks something else" in found


def test_keys_are_used_once():
    federation = Federation()
    first = federation.started()
    second = federation.exchange(first.epoch, first.next_packages, 1)
    federation.answer(second)
    assert "exchange 0 were used or never made" in refusal(federation.masker, first, "aachen")
    third = federation.exchange(first.epoch, {}, 2)
    assert refusal(federation.masker, third, "aachen") is not None


def test_two_that_wait_for_the_same_numbers_do_not_both_mask_them():
    """The second finds the keys gone, whatever it was asked."""
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    one = federation.masker(federation.exchange(epoch, packages), "aachen")
    other = federation.masker(federation.exchange(epoch, packages, asks=b"another"), "aachen")
    one.masked(contribution("aachen"))
    with pytest.raises(KeyError):
        other.masked(contribution("aachen"))


def test_an_epoch_that_was_left_is_not_entered_again():
    """Its first keys would be made twice, and shares of both sealed under the same key."""
    federation = Federation()
    first = federation.epoch()
    packages = federation.prepared(first)
    federation.prepared(federation.epoch())
    assert federation.prepared(first) == packages
    found = refusal(federation.masker, federation.exchange(first, packages), "aachen")
    assert found is not None


# ---------------------------------------------------------------- survivors


def opening(federation, exchange, survivors, signatures, name="aachen"):
    own = federation.sites[name]
    return refusal(own.open, RUN, exchange.number, survivors, signatures)


def signatures_of(federation, exchange, survivors, names):
    return {
        name: federation.sites[name].sign_survivors(RUN, exchange.number, survivors)
        for name in names
    }


def test_a_sum_over_fewer_than_the_threshold_or_three_is_not_opened():
    federation = Federation()
    exchange = federation.started()
    for survivors in (NAMES[:2], NAMES[:1], ()):
        assert "is not opened" in opening(federation, exchange, survivors, exchange.signatures)
        own = federation.sites["aachen"]
        assert "is not opened" in refusal(own.sign_survivors, RUN, 0, survivors)


@pytest.mark.parametrize(
    "survivors",
    [("aachen", "aachen", "bari", "cork"), NAMES[::-1], (*FOUR, "york")],
    ids=["twice", "another order", "a stranger"],
)
def test_survivors_must_be_those_who_take_part_in_their_order(survivors):
    federation = Federation()
    exchange = federation.started()
    assert "is not opened" in opening(federation, exchange, survivors, exchange.signatures)


def test_survivors_nobody_signed_are_refused():
    federation = Federation()
    exchange = federation.started()
    assert "0 sites signed" in opening(federation, exchange, FOUR, {})
    assert "0 sites signed" in opening(federation, exchange, FOUR, exchange.signatures)


def test_too_few_or_forged_signatures_are_refused():
    federation = Federation()
    exchange = federation.started()
    signatures = signatures_of(federation, exchange, FOUR, ("bari", "cork"))
    forged = signatures | {"delft": signatures["cork"]}
    assert "2 sites signed" in opening(federation, exchange, FOUR, forged)


def test_a_signature_of_who_did_not_survive_does_not_count():
    federation = Federation()
    exchange = federation.started()
    signatures = signatures_of(federation, exchange, FOUR, ("bari", "cork"))
    signatures["espoo"] = key_of("espoo").sign(survived(exchange.question, FOUR))
    assert "2 sites signed" in opening(federation, exchange, FOUR, signatures)


def test_signatures_of_another_exchange_are_refused():
    federation = Federation()
    first = federation.started()
    federation.opened(first)
    second = federation.exchange(first.epoch, first.next_packages, 1)
    federation.answer(second)
    assert "0 sites signed" in opening(federation, second, NAMES, first.signatures)


def test_an_exchange_that_is_over_is_not_opened_again():
    federation = Federation()
    first = federation.started()
    second = federation.exchange(first.epoch, first.next_packages, 1)
    federation.answer(second)
    found = opening(federation, first, NAMES, first.signatures)
    assert found == "exchange 0 is not the one that was answered last"


def test_survivors_are_not_shrunk_after_opening():
    federation = Federation()
    exchange = federation.started()
    federation.opened(exchange)
    own = federation.sites["aachen"]
    found = refusal(own.sign_survivors, RUN, 0, FOUR)
    assert found == "the sum was opened for other survivors already"
    signatures = {name: key_of(name).sign(survived(exchange.question, FOUR)) for name in FOUR}
    assert "for other survivors already" in opening(federation, exchange, FOUR, signatures)


def test_who_signed_one_set_opens_no_other():
    federation = Federation()
    exchange = federation.started()
    signatures_of(federation, exchange, FOUR, ["aachen"])
    found = opening(federation, exchange, NAMES, exchange.signatures)
    assert found == "this site signed that others survived"
    own = federation.sites["aachen"]
    assert "other survivors than before" in refusal(own.sign_survivors, RUN, 0, NAMES[:3])


def test_both_kinds_of_a_sites_share_are_never_told():
    """Of every site one of two: the private mask's if it is said to have answered."""
    federation = Federation()
    exchange = federation.started()
    signatures = signatures_of(federation, exchange, FOUR, FOUR)
    own = federation.sites["aachen"]
    told = own.open(RUN, 0, FOUR, signatures)
    both = own._unsealed(RUN, 0, "espoo", exchange.packages["espoo"].sealed[0])
    assert told["espoo"] == both[1]
    assert opening(federation, exchange, NAMES, exchange.signatures) is not None


def test_a_share_that_was_tampered_with_is_not_told():
    """It does not open, and the others still give the secret."""
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    own = packages["cork"]
    spoilt = (bytes([own.sealed[0][0] ^ 1]) + own.sealed[0][1:], *own.sealed[1:])
    exchange = federation.exchange(epoch, packages | {"cork": replace(own, sealed=spoilt)})
    federation.answer(exchange)
    shares = federation.shares(exchange, exchange.signatures)
    assert "cork" not in shares["aachen"]
    assert exchange.opened(shares).to_bytes() == plain_sum(NAMES)


def test_a_share_sealed_for_one_site_does_not_open_at_another():
    federation = Federation()
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    own = packages["cork"]
    swapped = replace(own, sealed=(own.sealed[1], own.sealed[0], *own.sealed[2:]))
    exchange = federation.exchange(epoch, packages | {"cork": swapped})
    federation.answer(exchange)
    shares = federation.shares(exchange, exchange.signatures)
    assert "cork" not in shares["aachen"]
    assert "cork" not in shares["bari"]


# ---------------------------------------------------------------- two sums


def certified(names, threshold, colluding, chosen):
    """Sets of survivors that enough sites sign if every honest one signs the set chosen for it.

    All have signed that they answered, which stands for the whole set.
    """
    sets = {names}
    for told in set(chosen.values()) - {None, names}:
        signers = {name for name, own in chosen.items() if own == told} | set(colluding)
        if len(signers & set(told)) >= threshold:
            sets.add(told)
    return sets


def sums_opened(names, threshold, colluding, told):
    """Sets whose sum can be opened if every honest site was told to open a set (or none)."""
    kinds = {
        name: (
            sum(own is not None and name in own for own in told.values()) + len(colluding),
            sum(own is not None and name not in own for own in told.values()) + len(colluding),
        )
        for name in names
    }
    found = set()
    for size in range(1, len(names) + 1):
        for chosen in combinations(names, size):
            if all(kinds[name][0 if name in chosen else 1] >= threshold for name in names):
                found.add(chosen)
    return found


def everything_a_server_can_open(names, threshold, colluding=()):
    """All families of sums that some way of telling sites sets of survivors opens.

    Every honest site signs at most one set, and opens at most one: the one that it signed, or any
    certified one if it signed none. All ways are tried, for two sets and the whole one: a third
    certified set would need a further threshold of signers.
    """
    honest = [name for name in names if name not in colluding]
    proper = [
        chosen
        for size in range(max(3, threshold), len(names))
        for chosen in combinations(names, size)
    ]
    families = set()
    for pair in combinations(proper, min(2, len(proper))):
        for signed in product((None, *pair), repeat=len(honest)):
            chosen = dict(zip(honest, signed, strict=True))
            sets = certified(names, threshold, colluding, chosen)
            if len(sets) < 2 and any(signed):
                continue  # nothing came of it
            options = [
                [own for own in (chosen[name],) if own in sets] or [None]
                if chosen[name]
                else [None, *sets]
                for name in honest
            ]
            for told in product(*options):
                own = dict(zip(honest, told, strict=True))
                families.add(frozenset(sums_opened(names, threshold, colluding, own)))
    return families


@pytest.mark.parametrize("count", [3, 4, 5])
def test_whatever_a_server_tells_whom_it_opens_one_sum_of_three_or_more(count):
    names = NAMES[:count]
    families = everything_a_server_can_open(names, count // 2 + 1)
    assert frozenset() in families
    for family in families - {frozenset()}:
        (only,) = family
        assert len(only) >= 3


def test_a_site_that_helps_the_server_opens_two_sums_if_the_threshold_is_low():
    """Two sums need 2 t ≤ n + c of the n sites with c colluding: 3 of 5 hold against none."""
    assert any(len(own) > 1 for own in everything_a_server_can_open(NAMES, 3, NAMES[:1]))


def test_a_higher_threshold_holds_against_sites_that_help_the_server():
    """4 of 5 against two of them: 8 > 5 + 2."""
    for colluding in (NAMES[:1], NAMES[:2]):
        for family in everything_a_server_can_open(NAMES, 4, colluding):
            assert len(family) <= 1


def test_sites_behave_as_the_search_supposes():
    """Real sites: two sets of survivors told to two groups; one opens, the other cannot."""
    for group in combinations(NAMES, 3):
        federation = Federation(threshold=3)
        exchange = federation.started()
        others = [name for name in NAMES if name not in group]
        left_out = others[0]
        fewer = tuple(name for name in NAMES if name != left_out)
        whole = federation.shares(exchange, exchange.signatures, others)
        signatures = signatures_of(federation, exchange, fewer, group)
        for name in others:
            assert refusal(federation.sites[name].open, RUN, 0, fewer, signatures) is not None
        with pytest.raises(FederationError, match="could not be taken off"):
            exchange.opened(whole)
        del exchange.masked[left_out]
        shares = federation.shares(exchange, signatures, group)
        assert exchange.opened(shares).to_bytes() == plain_sum(fewer)


def test_two_questions_under_one_number_open_one_sum_at_most():
    """Three sites are asked one thing and two another; the two are too few to have it opened."""
    federation = Federation(threshold=3)
    epoch = federation.epoch()
    packages = federation.prepared(epoch)
    one = federation.exchange(epoch, packages)
    other = federation.exchange(epoch, packages, asks=b"another")
    federation.answer(one, NAMES[:3])
    federation.answer(other, NAMES[3:])
    assert "2 sites signed" in opening(federation, other, NAMES, other.signatures, "espoo")
    assert "is not opened" in opening(federation, other, NAMES[3:], other.signatures, "espoo")
    assert federation.opened(one) == plain_sum(NAMES[:3])


def test_what_is_signed_cannot_be_read_as_something_else():
    question = bytes(32)
    assert answered(question) != survived(question, ())
    assert survived(question, ("ab", "c")) != survived(question, ("a", "bc"))
