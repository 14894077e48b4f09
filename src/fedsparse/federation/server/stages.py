"""What is said to sites in one message each, and what is made of their replies."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedsparse.compute.stacks import Stack
from fedsparse.engines.engine import Ask, weights_of
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Count,
    Finished,
    Introduced,
    Masked,
    MaskedAsks,
    Note,
    Noted,
    Opened,
    Payload,
    Prepare,
    Prepared,
    Signed,
    Survivors,
    TellMe,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.secure.statements import Epoch, Introduction, Package, Signers
from fedsparse.federation.secure.unmasking import SecureExchange, shares_from_bytes
from fedsparse.federation.server.member import Member
from fedsparse.federation.server.plausibility import objection_to_answer
from fedsparse.federation.sites.site_tables import Wishes
from fedsparse.requests import (
    Answers,
    ColumnSquares,
    ColumnSums,
    Fields,
    Request,
    Smoothness,
    SmoothnessAbove,
)
from fedsparse.requests.fixed_sums import SumLayout, layout_of
from fedsparse.requests.wire.answer_bytes import decode_answer, stack_answers
from fedsparse.requests.wire.request_bytes import encode_request
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables.cells import LARGEST
from fedsparse.tables.counting import Countable

LARGEST_MESSAGE = 2**28
"""Bytes of content in a message; more asks than that travel in several."""

_NUMBER_BYTES = 24
"""Of a number, at most: as an integer under masks."""

Replies = dict[int, tuple[Fields, float] | None]
"""A site's answers by the place of their ask, with what its rows weigh; None: it has no rows."""


class Stage(ABC):
    """Something said to sites, one message each, that every one of them replies to.

    Attributes
    ----------
    listed
        What it is, for people.
    is_round, is_of_columns
        Whether a model's x, or sums of columns are asked for: who does not answer is counted.
    """

    listed: str
    is_round: bool = False
    is_of_columns: bool = False

    @abstractmethod
    def message_to(self, member: Member) -> bytes:
        """The message to a site."""

    def take(self, member: Member, said: Payload) -> bool:
        """Take in what a site replied; whether that is all that was wanted of it."""
        raise WireError("It said something that only a server says.")

    def has_lost(self, member: Member) -> bool:
        """Whether a site cannot reply any more, however long it is waited for."""
        return False


class Question(Stage):
    """The asks of an exchange, as each site gets them.

    Parameters
    ----------
    asks
        What is asked.
    shapes
        Of the coefficients that each ask is about.
    members
        How many sites there are.
    """

    def __init__(
        self, asks: Sequence[Ask], shapes: Sequence[tuple[int, ...]], members: int
    ) -> None:
        self._asks = asks
        self._members = members
        self._shapes = shapes
        self._encoded = [encode_request(ask.request) for ask in asks]
        self._lenses = {ask.lens.digest: ask.lens for ask in asks}
        counts = Counter(type(ask.request).__name__ for ask in asks)
        self.listed = ", ".join(
            f"{count} × {name}" if count > 1 else name for name, count in counts.items()
        )
        self.answers: dict[int, Replies] = {}
        self.is_round = any(ask.request.is_round for ask in asks)
        self.is_of_columns = any(
            isinstance(ask.request, ColumnSums | ColumnSquares) for ask in asks
        )

    def places_of(self, member: Member) -> list[int]:
        """Which asks are for a site."""
        return [
            place
            for place, ask in enumerate(self._asks)
            if ask.which is None or member.place in ask.which
        ]

    def lenses_of(self, member: Member) -> set[str]:
        """Digests of the lenses that a site's asks are about."""
        return {self._asks[place].lens.digest for place in self.places_of(member)}

    def asks_for(self, member: Member, masked: MaskedAsks | None = None) -> bytes:
        """All asks for a site, with what it may not know."""
        places = self.places_of(member) if masked is None else range(len(self._asks))
        lenses = {self._asks[place].lens.digest for place in places}
        unknown = sorted(lenses - member.knows_lenses)
        return to_bytes(
            Asks(
                member.session,
                tuple((self._asks[place].lens.digest, self._encoded[place]) for place in places),
                None if member.knows_setup else member.setup,
                tuple(lens_to_bytes(self._lenses[digest]) for digest in unknown),
                masked,
            )
        )

    def message_to(self, member: Member) -> bytes:
        """All asks for a site."""
        return self.asks_for(member)

    def take(self, member: Member, said: Payload) -> bool:
        """A site's answers, or that it does not know what they are about."""
        match said:
            case Answered(own, note):
                check_table(member, note)
                self.answers[member.place] = self.decoded(member, own)
                self.note_known(member, note)
                return True
            case TellMe(lenses):
                member.knows_setup = False
                member.knows_lenses -= set(lenses)
                return False
        return super().take(member, said)

    def note_known(self, member: Member, note: Note) -> None:
        """Remember what a site that answered must know by now."""
        member.knows_setup = True
        member.knows_lenses |= self.lenses_of(member)
        if note.crossed is not None:
            member.add_crossed(*note.crossed)

    def decoded(self, member: Member, answers: Sequence[tuple[bytes, float] | None]) -> Replies:
        """A site's answers by the place of their ask; those without rows are left out."""
        places = self.places_of(member)
        if len(answers) != len(places):
            raise WireError("There are not as many answers as there were requests.")
        found: Replies = {}
        for place, own in zip(places, answers, strict=True):
            if own is None:
                found[place] = None
                continue
            written, mass = own
            request, loss = self._asks[place].request, self._asks[place].lens.loss
            # What rows of counts weigh is their exposure, of which nothing is known.
            most = LARGEST if loss.outcome == "counts" else 1.0
            if not 0.0 < mass <= most * (member.rows or 0):
                raise WireError("It claims other rows than it described.")
            answer = decode_answer(written, request, self._shapes[place])
            objection = objection_to_answer(request, loss, answer, mass)
            if objection is not None:
                raise WireError(f"It cannot be that of any rows: {objection}.")
            found[place] = (answer, mass)
        return found

    def is_poisoned(self, answers: Replies) -> bool:
        """Whether a site's answers cannot come of a run that diverges.

        None of them is finite, or one to a question that has nothing to do with a model's x.
        """
        told = {place: own[0] for place, own in answers.items() if own is not None}
        bad = [place for place, answer in told.items() if not _is_finite(answer)]
        never = (ColumnSums, ColumnSquares, Smoothness, SmoothnessAbove)
        return bool(bad) and (
            len(bad) == len(told) or any(isinstance(self._asks[own].request, never) for own in bad)
        )

    def sums(self, place: int, seconds: float) -> Answers:
        """The weighted sums of one ask, over sites in order."""
        ask = self._asks[place]
        told = {who: own[place] for who, own in sorted(self.answers.items()) if place in own}
        found = {who: own for who, own in told.items() if own is not None}
        others = [
            who
            for who in (ask.which if ask.which is not None else range(self._members))
            if who not in told
        ]
        if not found:
            return Answers({}, 0.0, 0, len(others), seconds=seconds)
        places = np.array(list(found))
        masses = np.array([mass for _, mass in found.values()])
        return Answers.of(
            stack_answers([fields for fields, _ in found.values()]),
            weights_of(ask.weights, masses, places),
            asked=len(found) + len(others),
            seconds=seconds,
        )


Keys = tuple[Signers, Epoch, int, Mapping[str, Package]]
"""The roster, the epoch, the exchange's number in it, and the keys of those who take part."""


class ExchangeStage(Stage):
    """A part of an exchange under masks.

    Attributes
    ----------
    exchange
        Whose keys and asks they are.
    """

    exchange: SecureExchange

    def take(self, member: Member, said: Payload) -> bool:
        """That the site was started anew: it has forgotten its keys, and may join others later."""
        if not isinstance(said, Introduced):
            return super().take(member, said)
        _check_introduced(said.introduction, member, self.exchange.roster, self.exchange.epoch)
        member.introduction = said.introduction
        self.exchange.started_anew.add(member.name)
        return False

    def has_lost(self, member: Member) -> bool:
        """Whether a site was started anew since the exchange began."""
        return member.name in self.exchange.started_anew


class MaskedStage(ExchangeStage):
    """Something that sites answer under masks.

    Attributes
    ----------
    opened
        What the answers add up to, once that is known.
    """

    opened: Sequence[Answers] = ()

    def masked_for(self, member: Member, terms: MaskedAsks) -> MaskedAsks:
        """How a site masks its answer: with the keys of those who take part."""
        names, packages = self.exchange.participants, self.exchange.packages_for(member.name)
        return replace(terms, packages=tuple(zip(names, packages, strict=True)))

    def take(self, member: Member, said: Payload) -> bool:
        """A masked answer."""
        match said:
            case Masked(own):
                self.exchange.take(member.name, own.integers, own.signature, own.package)
                return True
            case Answered():
                raise WireError("It told its answer openly, which was not asked for.")
        return super().take(member, said)


class MaskedQuestion(MaskedStage, Question):
    """The asks of an exchange, answered under masks.

    Parameters
    ----------
    asks, shapes, members
        As for `Question`.
    keys
        Of those who take part.
    common
        Of the sites' setups.
    """

    def __init__(
        self,
        asks: Sequence[Ask],
        shapes: Sequence[tuple[int, ...]],
        members: int,
        keys: Keys,
        common: bytes,
    ) -> None:
        super().__init__(asks, shapes, members)
        self._terms = MaskedAsks(
            keys[2],
            (),
            tuple(str(ask.weights) for ask in asks),
            tuple(None if ask.which is None else tuple(ask.which.tolist()) for ask in asks),
        )
        requests = [
            (ask.lens.digest, written) for ask, written in zip(asks, self._encoded, strict=True)
        ]
        written = self._terms.asks(requests, common)
        self.exchange = SecureExchange(*keys, written, self._layout())

    def _layout(self) -> SumLayout:
        return layout_of(
            [
                (ask.request, shape, ask.lens.scaling is not None)
                for ask, shape in zip(self._asks, self._shapes, strict=True)
            ]
        )

    def places_of(self, member: Member) -> list[int]:
        """All of them: who is not asked adds zeros."""
        return list(range(len(self._asks)))

    def message_to(self, member: Member) -> bytes:
        """All asks, and the keys of those who take part."""
        return self.asks_for(member, self.masked_for(member, self._terms))

    def take(self, member: Member, said: Payload) -> bool:
        """A masked answer."""
        if not isinstance(said, Masked):
            return super().take(member, said)
        check_table(member, said.note)
        super().take(member, said)
        self.note_known(member, said.note)
        return True


class Counting(MaskedStage):
    """Sites are asked to count rows of their tables, under masks and before there is an encoding.

    Parameters
    ----------
    counted
        What is counted.
    wishes
        Under which the sites described their tables.
    keys
        Of those who take part.
    """

    listed = "counts"

    def __init__(self, counted: Countable, wishes: Wishes, keys: Keys) -> None:
        self._what = Count.written(wishes.model_dump(mode="json"), counted.model_dump(mode="json"))
        self._terms = MaskedAsks(keys[2], (), ("uniform",), (None,))
        asks = Count(self._what, self._terms).asks()
        self.exchange = SecureExchange(*keys, asks, counted.layout)

    def message_to(self, member: Member) -> bytes:
        """What is counted, and the keys of those who take part."""
        return to_bytes(Count(self._what, self.masked_for(member, self._terms)))

    def take(self, member: Member, said: Payload) -> bool:
        """Counts under masks."""
        is_all = super().take(member, said)
        if isinstance(said, Masked) and said.note.crossed is not None:
            member.add_crossed(*said.note.crossed)
        return is_all


def check_table(member: Member, note: Note) -> None:
    """Refuse answers on other rows than those that the run began with."""
    if member.table is not None and note.table != member.table:
        raise WireError("its table is not the one that the run began with; restore it and resume")
    member.table = note.table


class Finishing(Stage):
    """Sites are told which model came of a run."""

    listed = "the model"

    def __init__(self, model: bytes) -> None:
        self._model = model

    def message_to(self, member: Member) -> bytes:
        """The model."""
        return to_bytes(Finished(self._model))

    def take(self, member: Member, said: Payload) -> bool:
        """That it was heard."""
        return isinstance(said, Noted) or super().take(member, said)


class Preparing(Stage):
    """Sites are asked for keys of a new epoch."""

    listed = "keys"

    def __init__(self, epoch: Epoch, roster: Signers) -> None:
        self.epoch = epoch
        self._roster = roster
        self.packages: dict[str, Package] = {}
        self.has_changed = False

    def message_to(self, member: Member) -> bytes:
        """Who the others are."""
        return to_bytes(Prepare(self.epoch))

    def take(self, member: Member, said: Payload) -> bool:
        """Keys, or that the site has been started anew and has another one."""
        match said:
            case Prepared(package):
                own = Package.from_bytes(package, len(self.epoch.members))
                own.check(self._roster, self.epoch.digest, 0, member.name)
                self.packages[member.name] = own
                return True
            case Introduced(introduction):
                _check_introduced(introduction, member, self._roster, self.epoch)
                member.introduction = introduction
                self.has_changed = True
                return True
        return super().take(member, said)


class Signing(ExchangeStage):
    """Those who answered are asked to sign that others did not."""

    listed = "survivors"

    def __init__(self, exchange: SecureExchange) -> None:
        self.exchange = exchange
        self.signatures: dict[str, bytes] = {}

    def message_to(self, member: Member) -> bytes:
        """Who answered."""
        return to_bytes(Survivors(self.exchange.number, self.exchange.survivors))

    def take(self, member: Member, said: Payload) -> bool:
        """A signature."""
        if isinstance(said, Signed):
            self.exchange.take_signature(member.name, said.signature, self.signatures)
            return True
        return super().take(member, said)


class Opening(ExchangeStage):
    """Those who answered are asked for what opens the sum."""

    listed = "shares"

    def __init__(self, exchange: SecureExchange, signatures: Mapping[str, bytes]) -> None:
        self.exchange = exchange
        self._signatures = tuple(signatures.items())[: exchange.epoch.threshold]
        self.shares: dict[str, dict[str, bytes]] = {}

    def message_to(self, member: Member) -> bytes:
        """Who answered, and who signed that."""
        own = self.exchange
        return to_bytes(Survivors(own.number, own.survivors, self._signatures))

    def take(self, member: Member, said: Payload) -> bool:
        """Shares."""
        if isinstance(said, Opened):
            names = self.exchange.participants
            self.shares[member.name] = shares_from_bytes(said.shares, names)
            return True
        return super().take(member, said)


def _check_introduced(
    introduction: Introduction, member: Member, roster: Signers, epoch: Epoch
) -> None:
    introduction.check(roster)
    if introduction.name != member.name or introduction.run != epoch.run:
        raise WireError("It introduced itself as somebody else.")


def batches(asks: Sequence[Ask], width: int) -> Iterator[list[Ask]]:
    """Asks cut where the answers to them would pass what a message may hold."""
    batch: list[Ask] = []
    size = 0
    for ask in asks:
        own = _largest_answer(ask.request, width)
        if batch and size + own > LARGEST_MESSAGE:
            yield batch
            batch, size = [], 0
        batch.append(ask)
        size += own
    yield batch


def _largest_answer(request: Request, width: int) -> int:
    """Bytes of an answer, or of the request, if nothing is zero."""
    up = sum(
        _NUMBER_BYTES * math.prod(own or (1,)) for own in request.answer_shapes((width,)).values()
    )
    return max(up, sum(8 * vector.size for vector in request.vectors()))


def _is_finite(answer: Fields) -> bool:
    return all(
        field.is_finite() if isinstance(field, Stack) else bool(np.isfinite(field).all())
        for field in answer.values()
    )
