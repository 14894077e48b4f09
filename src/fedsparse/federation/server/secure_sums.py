"""Exchanges whose answers only their sum is known of: keys, masked answers, shares."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedsparse.engines.engine import FEWEST_IN_A_SUM, Ask, check_adds_up
from fedsparse.errors import FederationError
from fedsparse.federation.payloads import Setup
from fedsparse.federation.secure.statements import Epoch, Package, Signers
from fedsparse.federation.secure.unmasking import SecureExchange, default_threshold
from fedsparse.federation.server.agreement import schemas_of
from fedsparse.federation.server.correspondence import Correspondence
from fedsparse.federation.server.member import Member
from fedsparse.federation.server.stages import (
    Counting,
    Keys,
    MaskedQuestion,
    MaskedStage,
    Opening,
    Preparing,
    Signing,
)
from fedsparse.federation.sites.site_tables import Told, Wishes
from fedsparse.requests import Answers, ColumnSquares, ColumnSums
from fedsparse.requests.fixed_sums import Integers
from fedsparse.tables.counting import Counts, countable
from fedsparse.tables.merging import match

_NONCE_BYTES = 16
_MOST_STARTS = 10
_ALWAYS_ANEW = (
    f"a site told another key {_MOST_STARTS} times, as if it were started anew each time; see to "
    "it and resume"
)


class SecureSums:
    """Holds exchanges with sites that hide their answers from the server.

    Parameters
    ----------
    roster
        Keys of all sites.
    letters
        Reach them.
    """

    def __init__(self, roster: Signers, letters: Correspondence) -> None:
        self._roster = roster
        self._letters = letters
        self._epoch: Epoch | None = None
        self._number = 0
        self._packages: dict[str, Package] = {}
        self._told: bytes | None = None

    def exchange(
        self, asks: Sequence[Ask], shapes: Sequence[tuple[int, ...]], began: float
    ) -> list[Answers]:
        """The sums of what sites answered; too few answers raise a FederationError."""
        for ask in asks:
            check_adds_up(ask)
        members, common = len(self._letters.members), self._common()
        question, answered = self._asked(
            lambda keys: MaskedQuestion(asks, shapes, members, keys, common), began
        )
        absent = members - len(answered)
        seconds = time.monotonic() - began
        answers, sizes = question.opened, question.exchange.layout.sizes
        for ask, own in zip(asks, answers, strict=True):
            _check_written(ask, own)
        return [
            replace(own, asked=own.count + absent, bytes_up=len(answered) * size, seconds=seconds)
            for own, size in zip(answers, sizes, strict=True)
        ]

    def _common(self) -> bytes:
        """What all sites must have been told alike: with other bytes masks would not cancel."""
        if self._told is None:
            self._told = Setup.from_bytes(self._letters.members[0].setup).common
        return self._told

    def count(self, told: Sequence[Told], wishes: Wishes) -> Counts:
        """Count what sites have in common over all of them; nobody tells its own counts."""
        schemas = schemas_of(told)
        counted = countable(schemas, match(schemas))
        began = time.monotonic()
        counting, _ = self._asked(lambda keys: Counting(counted, wishes, keys), began)
        (answers,) = counting.opened
        return Counts(counted, answers.sums)

    def _asked(
        self, ask: Callable[[Keys], MaskedStage], began: float
    ) -> tuple[MaskedStage, dict[int, Member]]:
        """Have something answered under masks and open the sum; gives those who answered, too.

        Where sites were started anew meanwhile, and are needed, all of it begins once more: what
        was masked for the first time is never opened.
        """
        for _ in range(_MOST_STARTS):
            answered = self._tried(ask, began)
            if answered is not None:
                return answered
        raise FederationError(_ALWAYS_ANEW)

    def _tried(
        self, ask: Callable[[Keys], MaskedStage], began: float
    ) -> tuple[MaskedStage, dict[int, Member]] | None:
        """One try; None if it takes those who were started anew."""
        epoch = self._prepared()
        stage = ask((self._roster, epoch, self._number, self._packages))
        asked = [member for member in self._letters.members if member.name in self._packages]
        self._number += 1
        self._packages = {}
        answered = self._letters.collect(stage, asked)
        exchange = stage.exchange
        conduct = self._letters.conduct
        fewest = max(FEWEST_IN_A_SUM, epoch.threshold, conduct.fewest)
        if exchange.started_anew and (conduct.if_absent == "wait" or len(answered) < fewest):
            return None
        self._letters.check_enough(stage, asked, answered, fewest)
        survivors = [member for member in asked if member.place in answered]
        total = self._opened(exchange, survivors)
        if total is None:
            return None
        stage.opened = exchange.layout.decode(total)
        self._packages = _in_order(exchange.next_packages, epoch)
        self._letters.note_answers(stage, asked, answered, began)
        return stage, answered

    def _prepared(self) -> Epoch:
        """An epoch in which all sites that are there have keys for the next exchange."""
        while True:
            present = [m for m in self._letters.members if m.excluded is None]
            ready = [member for member in present if member.name in self._packages]
            waited_for = [member for member in present if not member.is_absent]
            if self._epoch is not None and ready and len(ready) == len(waited_for):
                absent = [member for member in present if member.is_absent]
                self._letters.knock(Preparing(self._epoch, self._roster), absent)
                return self._epoch
            self._begin_epoch(present)

    def _begin_epoch(self, members: Sequence[Member]) -> None:
        """Have sites hand out keys, again if some were started anew meanwhile."""
        for _ in range(_MOST_STARTS):
            introductions = tuple(m.introduction for m in members if m.introduction is not None)
            threshold = default_threshold(len(introductions))
            epoch = Epoch(secrets.token_bytes(_NONCE_BYTES), introductions, threshold)
            stage = Preparing(epoch, self._roster)
            replied = self._letters.collect(stage, members)
            fewest = max(FEWEST_IN_A_SUM, threshold, self._letters.conduct.fewest)
            self._letters.check_enough(stage, members, replied, fewest)
            if not stage.has_changed:
                self._epoch, self._number = epoch, 0
                self._packages = _in_order(stage.packages, epoch)
                return
        raise FederationError(_ALWAYS_ANEW)

    def _opened(self, exchange: SecureExchange, survivors: Sequence[Member]) -> Integers | None:
        """The sum; agreed on beforehand by those who answered if others did not.

        None if too few can help to open it because others were started anew.
        """
        signatures: Mapping[str, bytes] = exchange.signatures
        if not exchange.is_whole:
            signing = Signing(exchange)
            if not self._has_enough(signing, survivors):
                return None
            signatures = signing.signatures
        opening = Opening(exchange, signatures)
        if not self._has_enough(opening, survivors):
            return None
        others = [member for member in survivors if member.name not in opening.shares]
        try:
            return exchange.opened(opening.shares)
        except FederationError:
            if not others:
                raise
        self._letters.collect(opening, others)  # some share was wrong
        return exchange.opened(opening.shares)

    def _has_enough(self, stage: Signing | Opening, survivors: Sequence[Member]) -> bool:
        """Whether as many as the threshold reply; if not, some must have been started anew."""
        threshold = stage.exchange.epoch.threshold
        replied = self._letters.collect(stage, survivors, enough=threshold)
        if len(replied) < threshold and stage.exchange.started_anew:
            return False
        self._letters.check_enough(stage, survivors, replied, threshold)
        return True


def _in_order(packages: Mapping[str, Package], epoch: Epoch) -> dict[str, Package]:
    """Packages as they stand in an epoch, whoever replied first."""
    return {name: packages[name] for name in epoch.names if name in packages}


def _check_written(ask: Ask, answers: Answers) -> None:
    """Say what is wrong where numbers are too large to add up, and no run has diverged."""
    if isinstance(ask.request, ColumnSums | ColumnSquares) and not answers.is_finite():
        raise FederationError(
            "some site's columns have numbers too large to be added up under masks; its log names "
            "them: use other units there, or leave them out with --drop"
        )
