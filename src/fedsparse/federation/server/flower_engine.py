"""The engine that reaches sites over Flower."""

import hashlib
import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.serverapp import Grid

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.compute.stacks import Stack
from fedsparse.engines.engine import Ask, weights_of
from fedsparse.engines.lens import Lens
from fedsparse.errors import FederationError
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Refused,
    Setup,
    TellMe,
    digest_of,
    from_bytes,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.server.agreement import Terms, agree
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.mailbox import Failure, Mailbox, pauses
from fedsparse.federation.server.roll_call import roll_call
from fedsparse.federation.server.transcript import SitesEngine
from fedsparse.modelling.fitting import loss_for
from fedsparse.requests import (
    Answers,
    ColumnSquares,
    ColumnSums,
    Fields,
    Request,
    Smoothness,
    SmoothnessAbove,
)
from fedsparse.requests.wire.answer_bytes import decode_answer, stack_answers
from fedsparse.requests.wire.request_bytes import encode_request
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables import SiteDescription
from fedsparse.tables.cells import LARGEST
from fedsparse.tables.sentences import joined

log = logging.getLogger("fedsparse.federation")

LARGEST_MESSAGE = 2**28
"""Bytes of content in a message; more asks than that travel in several."""

Replies = dict[int, tuple[Fields, float] | None]
"""A site's answers by the place of their ask, with what its rows weigh; None: it has no rows."""

_COUNTED = (
    "answers", "missed", "unscaled", "bytes_down", "bytes_up", "socket_down", "socket_up",
    "excluded", "is_absent",
)  # fmt: skip
"""What is known of a site when a run goes on later."""

_WORTH_DELIVERING = 3
"""Rounds' time-outs after which a message to a site that hangs is forgotten."""


@dataclass(eq=False)
class Member:
    """A site as the server sees it.

    Attributes
    ----------
    name, node, place
        Who it is.
    description
        What it told of its table.
    setup, session
        What it must know, and the digest that stands for it.
    knows_setup, knows_lenses
        What it has been told.
    answers, missed
        Exchanges in which it answered or did not; questions about f, l_i, sums of columns or
        metrics alone do not count.
    unscaled
        Exchanges about sums of columns in which it did not answer.
    pending
        Messages it has not replied to, each with the number of the question and when it was sent.
    is_absent
        Whether it failed to answer in time; its next reply shows that it is back.
    excluded
        Why it is asked no more, if so.
    bytes_down, bytes_up
        Payloads sent and received.
    socket_down, socket_up
        What crossed the site's sockets up to its last answer, by its own count; None if it has
        none.
    """

    name: str
    node: int
    place: int
    description: SiteDescription
    setup: bytes = b""
    session: str = ""
    knows_setup: bool = False
    knows_lenses: set[str] = field(default_factory=set)
    answers: int = 0
    missed: int = 0
    unscaled: int = 0
    pending: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_absent: bool = False
    excluded: str | None = None
    bytes_down: int = 0
    bytes_up: int = 0
    socket_down: int | None = None
    socket_up: int | None = None

    def add_crossed(self, down: int, up: int) -> None:
        """Count what a site says crossed its sockets."""
        self.socket_down = (self.socket_down or 0) + down
        self.socket_up = (self.socket_up or 0) + up


class FlowerEngine(SitesEngine):
    """Carries requests to sites that Flower's grid reaches.

    Clients are the sites in the order of their names, so that results do not depend on who came
    first: they are those of `LocalEngine` on the same rows, bit for bit. Made, it knows who is
    there and what their tables have in common.

    Parameters
    ----------
    grid
        Flower's, as a `ServerApp` gets it.
    terms
        On which terms tables are put together.
    conduct
        What to do about sites that are late, absent or wrong.

    Attributes
    ----------
    names
        Of the sites.
    encoding
        How all sites' tables become arrays.
    members
        The sites and how they did.
    """

    def __init__(self, grid: Grid, terms: Terms, conduct: Conduct) -> None:
        self._conduct = conduct
        # Flower must not drop a message before we do: it does not take well to questions about it.
        self._mailbox = Mailbox(grid, 2 * _WORTH_DELIVERING * conduct.round_seconds)
        self._numbers = itertools.count(1)  # shared by all views of the engine
        self._questions = 0
        told = roll_call(self._mailbox, terms.wishes, conduct)
        self.encoding = agree(list(told.values()), terms)
        self.members = [
            Member(own.description.site, node, place, own.description)
            for place, (node, own) in enumerate(told.items())
        ]
        self.names = tuple(member.name for member in self.members)
        self.width = len(self.encoding.feature_names)
        self.is_sparse = not self.encoding.columns
        self.has_holes = self.encoding.impute is not None
        classes = self.encoding.classes
        self.lens = Lens(loss_for(None if classes is None else len(classes), 1.0))
        agreed = self.encoding.model_dump(mode="json", exclude={"left_out", "notes", "kept"})
        for member in self.members:
            member.setup = Setup(agreed, member.place).to_bytes()
            member.session = digest_of(member.setup)

    @property
    def classes(self) -> AnyArray | None:
        """Places of the classes in the encoding, None for regression."""
        classes = self.encoding.classes
        return None if classes is None else np.arange(len(classes))

    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """The sums of what sites answered; too few answers raise a FederationError."""
        answers: list[Answers] = []
        for batch in _batches(asks, self.width * max(1, len(self.encoding.classes or ()))):
            answers += self._exchange(batch)
        return answers

    def _exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """One message to every site that is asked something."""
        self._questions = next(self._numbers)
        began = time.monotonic()
        question = _Question(asks, self)
        asked = [member for member in self.members if question.places_of(member)]
        answers = self._collect(question, asked)
        self._exclude_not_finite(question, answers)
        self._check_enough(question, asked, answers)
        for member in asked:
            if question.is_round:
                member.answers += member.place in answers
                member.missed += member.place not in answers
            if question.is_of_columns:
                member.unscaled += member.place not in answers
        seconds = time.monotonic() - began
        log.info(
            "%s: %d of %d sites answered in %.1f s",
            question.listed, len(answers), len(asked), seconds,
        )  # fmt: skip
        return [question.sums(place, answers, seconds) for place in range(len(asks))]

    def fingerprint(self) -> str:
        """A digest of what the sites told about their tables."""
        told = [self.encoding.model_dump_json()]
        told += [member.description.model_dump_json() for member in self.members]
        return hashlib.blake2b("\0".join(told).encode(), digest_size=16).hexdigest()

    @property
    def exchanges(self) -> int:
        """Messages to every site and back so far."""
        return self._questions

    def standing(self) -> dict[str, dict[str, int | str | None]]:
        """What was counted of every site."""
        return {
            member.name: {name: getattr(member, name) for name in _COUNTED}
            for member in self.members
        }

    def recall(self, sites: Mapping[str, Mapping[str, int | str | None]]) -> None:
        """Go on counting from there."""
        for member in self.members:
            for name in _COUNTED:
                setattr(member, name, sites[member.name][name])

    def go_on(self) -> None:
        """Ask all sites again: those that were left out before may have been seen to."""
        for member in self.members:
            member.excluded, member.is_absent = None, False

    def close(self) -> None:
        """Look for replies no more; the grid is Flower's."""
        self._mailbox.close()

    def _collect(self, question: "_Question", asked: Sequence[Member]) -> dict[int, Replies]:
        """Answers by place: all, or those that came in time."""
        answers: dict[int, Replies] = {}
        began = time.monotonic()
        has_told = False
        for _ in pauses():
            missing = [m for m in asked if m.excluded is None and m.place not in answers]
            self._post(question, missing)
            self._read(question, answers)
            missing = [m for m in missing if m.excluded is None and m.place not in answers]
            waited = time.monotonic() - began
            if not missing:
                return answers
            if all(member.is_absent for member in missing) or waited > self._conduct.round_seconds:
                self._mark_absent(missing)
                is_enough = len(answers) >= min(self._conduct.fewest, len(asked))
                if is_enough and self._conduct.if_absent == "continue":
                    return answers
                if waited > self._conduct.longest_wait:
                    return answers
                if not has_told:
                    names = joined([member.name for member in missing])
                    left = self._conduct.longest_wait - waited
                    log.info("waiting for %s, at most %.0f s more", names, left)
                    has_told = True
        raise AssertionError  # pauses never end

    def _post(self, question: "_Question", missing: Sequence[Member]) -> None:
        """Ask those who are not at work on an earlier message, as far as one can tell."""
        now = time.monotonic()
        patience = self._conduct.round_seconds
        free = [m for m in missing if all(now - at > patience for _, at in m.pending.values())]
        payloads = {member.node: question.message_to(member) for member in free}
        sent = self._mailbox.post(payloads, str(self._questions))
        for member in free:
            if member.node in sent:
                member.pending[sent[member.node]] = (self._questions, now)
                member.bytes_down += len(payloads[member.node])

    def _waiting(self) -> dict[str, Member]:
        """Messages that may still be replied to; Flower drops others."""
        oldest = time.monotonic() - _WORTH_DELIVERING * self._conduct.round_seconds
        for member in self.members:
            recent = {own: sent for own, sent in member.pending.items() if sent[1] > oldest}
            member.pending = recent
        return {own: member for member in self.members for own in member.pending}

    def _read(self, question: "_Question", answers: dict[int, Replies]) -> None:
        """Take in replies to this question, and note who replied to an earlier one."""
        waiting = self._waiting()
        for identity, reply in self._mailbox.replies(waiting).items():
            if identity not in waiting:
                continue  # it was given up, and now it came
            member = waiting[identity]
            number, _ = member.pending.pop(identity)
            if isinstance(reply, Failure):
                self._mark_absent([member], reply.reason)
                continue
            member.bytes_up += len(reply)
            if member.is_absent:
                log.info("%s is back", member.name)
                member.is_absent = False
            if number == self._questions and member.place not in answers:
                self._take(question, member, reply, answers)

    def _take(
        self, question: "_Question", member: Member, reply: bytes, answers: dict[int, Replies]
    ) -> None:
        try:
            said = from_bytes(reply)
            match said:
                case Answered(own, crossed):
                    answers[member.place] = question.decoded(member, own)
                    member.knows_setup = True
                    member.knows_lenses |= question.lenses_of(member)
                    if crossed is not None:
                        member.add_crossed(*crossed)
                case TellMe(lenses):
                    member.knows_setup = False
                    member.knows_lenses -= set(lenses)
                case Refused(reason):
                    self._exclude(member, reason)
                case _:
                    raise WireError("It said something that only a server says.")
        except WireError as error:
            self._exclude(member, f"its answer cannot be used: {error}")

    def _exclude_not_finite(self, question: "_Question", answers: dict[int, Replies]) -> None:
        """Leave out sites whose answers are not numbers, unless all are: then the run diverged.

        One of several runs in lockstep may diverge at one site: that is its own affair, and no
        reason to leave the site out of the others.
        """
        poisoned = [place for place, own in answers.items() if question.is_poisoned(own)]
        if len(poisoned) == len(answers):
            return
        for place in poisoned:
            del answers[place]
            self._exclude(self.members[place], "its answer holds NaN or infinity")

    def _exclude(self, member: Member, reason: str) -> None:
        log.warning("%s takes no further part: %s", member.name, reason)
        member.excluded = reason

    def _mark_absent(self, members: Sequence[Member], reason: str | None = None) -> None:
        told = reason or f"no answer within {self._conduct.round_seconds:g} s"
        for member in members:
            if not member.is_absent:
                log.warning("%s is absent: %s", member.name, told)
                member.is_absent = True

    def _check_enough(
        self, question: "_Question", asked: Sequence[Member], answers: dict[int, Replies]
    ) -> None:
        fewest = min(self._conduct.fewest, len(asked))
        if len(answers) >= fewest:
            return
        reasons = [
            f"{member.name} ({member.excluded or 'absent'})"
            for member in asked
            if member.excluded is not None or member.is_absent
        ]
        raise FederationError(
            f"{len(answers)} of the {fewest} sites needed answered {question.listed}; without an "
            f"answer: {', '.join(reasons)}; see to them and resume, or lower --min-sites"
        )


class _Question:
    """The asks of an exchange, as each site gets them."""

    def __init__(self, asks: Sequence[Ask], engine: FlowerEngine) -> None:
        self._asks = asks
        self._members = len(engine.members)
        self._shapes = [engine.through(ask.lens).shape for ask in asks]
        self._encoded = [encode_request(ask.request) for ask in asks]
        self._lenses = {ask.lens.digest: ask.lens for ask in asks}
        counts = Counter(type(ask.request).__name__ for ask in asks)
        self.listed = ", ".join(
            f"{count} × {name}" if count > 1 else name for name, count in counts.items()
        )
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

    def message_to(self, member: Member) -> bytes:
        """All asks for a site, with what it may not know."""
        places = self.places_of(member)
        unknown = sorted(self.lenses_of(member) - member.knows_lenses)
        return to_bytes(
            Asks(
                member.session,
                tuple((self._asks[place].lens.digest, self._encoded[place]) for place in places),
                None if member.knows_setup else member.setup,
                tuple(lens_to_bytes(self._lenses[digest]) for digest in unknown),
            )
        )

    def decoded(self, member: Member, answers: Sequence[tuple[bytes, float] | None]) -> "Replies":
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
            if not 0.0 < mass <= member.description.rows:
                raise WireError("It claims other rows than it described.")
            request = self._asks[place].request
            answer = decode_answer(written, request, self._shapes[place])
            if not _are_plausible(request, answer, mass):
                raise WireError("Its sums cannot be those of its rows.")
            found[place] = (answer, mass)
        return found

    def is_poisoned(self, answers: "Replies") -> bool:
        """Whether a site's answers cannot come of a run that diverges.

        None of them is finite, or one to a question that has nothing to do with a model's x.
        """
        told = {place: own[0] for place, own in answers.items() if own is not None}
        bad = [place for place, answer in told.items() if not _is_finite(answer)]
        never = (ColumnSums, ColumnSquares, Smoothness, SmoothnessAbove)
        return bool(bad) and (
            len(bad) == len(told) or any(isinstance(self._asks[own].request, never) for own in bad)
        )

    def sums(self, place: int, answers: dict[int, "Replies"], seconds: float) -> Answers:
        """The weighted sums of one ask, over sites in order."""
        ask = self._asks[place]
        told = {who: own[place] for who, own in sorted(answers.items()) if place in own}
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


def _batches(asks: Sequence[Ask], width: int) -> Iterator[list[Ask]]:
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
    up = sum(8 * math.prod(own or (1,)) for own in request.answer_shapes((width,)).values())
    return max(up, sum(8 * vector.size for vector in request.vectors()))


def _are_plausible(request: Request, answer: Fields, mass: float) -> bool:
    """Whether rows that weigh so much can have these sums of columns.

    A single wrong one would spoil the scales of all. What is not finite is looked for elsewhere.
    """
    if not isinstance(request, ColumnSums | ColumnSquares):
        return True
    own = {name: mass * _numbers(field) for name, field in answer.items()}
    with np.errstate(invalid="ignore"):
        if isinstance(request, ColumnSquares):
            return _lie_within(own["squares"], 0.0, (2.0 * LARGEST) ** 2 * mass)
        rows, most, slack = float(own["rows"][0]), LARGEST * mass, 1.0 + 1e-9
        bounds = {
            "rows": (mass / slack, slack * mass),  # over a network all rows weigh the same
            "stored": (0.0, slack * rows * own["total"].size),
            "target": (-most, most),
            "total": (-most, most),
            "known": (0.0, slack * mass),
            "labels": (0.0, slack * rows),
        }
        return all(
            _lie_within(own[name], *limits) for name, limits in bounds.items() if name in own
        )


def _numbers(field: Stack | FloatArray) -> FloatArray:
    return next(field.each()) if isinstance(field, Stack) else field


def _lie_within(numbers: FloatArray, least: float, most: float) -> bool:
    """Whether no number lies outside; one that is not finite is not judged here."""
    return not bool(((numbers < least) | (numbers > most)).any())


def _is_finite(answer: Fields) -> bool:
    return all(
        field.is_finite() if isinstance(field, Stack) else bool(np.isfinite(field).all())
        for field in answer.values()
    )
