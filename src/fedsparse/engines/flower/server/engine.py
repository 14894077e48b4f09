"""The engine that reaches sites over Flower."""

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.serverapp import Grid

from fedsparse.arrays import Int64Array
from fedsparse.codec import WireError, decode_answer, encode_request, stack_answers
from fedsparse.data.moments import Moments, merged
from fedsparse.engines.base import Engine
from fedsparse.engines.flower.payloads import (
    Answered,
    Ask,
    Refused,
    Setup,
    SetupNeeded,
    digest_of,
    from_bytes,
    to_bytes,
)
from fedsparse.engines.flower.server.agreement import Terms, agree
from fedsparse.engines.flower.server.conduct import Conduct
from fedsparse.engines.flower.server.mailbox import Failure, Mailbox, pauses
from fedsparse.engines.flower.server.roll_call import roll_call
from fedsparse.errors import FederationError
from fedsparse.fitting import Scaling
from fedsparse.losses import Loss, coefficient_shape
from fedsparse.requests import ColumnMoments, Fields, Request
from fedsparse.stacks import Stack
from fedsparse.tables import SiteDescription
from fedsparse.tables.cells import LARGEST
from fedsparse.tables.sentences import joined

log = logging.getLogger("fedsparse.federation")

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
    knows_setup
        Whether it has been told.
    answers, missed
        Rounds in which it answered or did not; questions about f, l_i or moments are no rounds.
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
    answers: int = 0
    missed: int = 0
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


class FlowerEngine(Engine):
    """Carries requests to sites that Flower's grid reaches.

    Clients are the sites in the order of their names, so that results do not depend on who came
    first: they are those of `LocalEngine` on the same rows, bit for bit. Made, it knows who is
    there and what their tables have in common; `set_up` says what to do with them.

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
    notes
        What a reader of the model should know, in sentences.
    """

    def __init__(self, grid: Grid, terms: Terms, conduct: Conduct) -> None:
        self._conduct = conduct
        # Flower must not drop a message before we do: it does not take well to questions about it.
        self._mailbox = Mailbox(grid, 2 * _WORTH_DELIVERING * conduct.round_seconds)
        self._questions = 0
        told = roll_call(self._mailbox, terms.wishes, conduct)
        self.encoding = agree(list(told.values()), terms)
        self.members = [
            Member(own.description.site, node, place, own.description)
            for place, (node, own) in enumerate(told.items())
        ]
        self.names = tuple(member.name for member in self.members)
        self.masses = np.array([float(member.description.rows) for member in self.members])
        self.notes: tuple[str, ...] = self.encoding.notes

    def set_up(self, loss: Loss, scaling: Scaling | None = None) -> None:
        """Say how sites are to answer from now on.

        Parameters
        ----------
        loss
            What is minimized.
        scaling
            How sites scale their features; None: not at all.
        """
        self.loss = loss
        classes = self.encoding.classes
        self.classes = None if classes is None else np.arange(len(classes))
        width = len(self.encoding.feature_names)
        has_intercept = scaling is not None and scaling.intercept != 0.0
        self.shape = coefficient_shape(width + has_intercept, self.classes, loss)
        for member in self.members:
            member.setup = self.setup_for(loss, scaling, member.place).to_bytes()
            member.session = digest_of(member.setup)
            member.knows_setup = False

    def setup_for(self, loss: Loss, scaling: Scaling | None, place: int = 0) -> Setup:
        """What the site at a place must know to answer."""
        agreed = self.encoding.model_dump(mode="json", exclude={"left_out", "notes", "kept"})
        return Setup(loss, agreed, place, scaling)

    def moments(self, *, with_target: bool) -> Moments:
        """Means and variances of all sites' features, as they are; takes a round."""
        request = ColumnMoments(with_target)
        answers = self._answers(request, self.members)
        found: list[Moments] = []
        missing: list[str] = []
        for member in self.members:
            own = request.each(answers[member.place]) if member.place in answers else []
            if own and not _are_plausible(own[0], member.description.rows):
                self._exclude(member, "its means and variances cannot be right")
                own = []
            found += own
            missing += [] if own else [member.name]
        self._check_enough(request, self.members, len(found))
        if missing:
            self.notes += (f"Features were scaled without {joined(missing)}.",)
        return merged(found)

    def ask(self, request: Request, which: Int64Array) -> Fields:
        """The answers of the sites at places ``which``, which must all come."""
        fields, answered = self.gather(request, which)
        if answered.size < which.size:
            missing = [self.names[place] for place in which if place not in answered]
            raise FederationError(f"{', '.join(missing)} did not answer; try again when they do")
        return fields

    def gather(self, request: Request, which: Int64Array) -> tuple[Fields, Int64Array]:
        """The answers that came, and from whom; too few raise a FederationError."""
        asked = [self.members[place] for place in which]
        answers = self._answers(request, asked)
        self._exclude_not_finite(answers)
        places = sorted(answers)
        self._check_enough(request, asked, len(places))
        return stack_answers([answers[place] for place in places]), np.array(places)

    def fingerprint(self) -> str:
        """A digest of what the sites told about their tables."""
        told = [self.encoding.model_dump_json()]
        told += [member.description.model_dump_json() for member in self.members]
        return hashlib.blake2b("\0".join(told).encode(), digest_size=16).hexdigest()

    def close(self) -> None:
        """Look for replies no more; the grid is Flower's."""
        self._mailbox.close()

    def _answers(self, request: Request, asked: Sequence[Member]) -> dict[int, Fields]:
        """What came of a question, by place."""
        self._questions += 1
        began = time.monotonic()
        answers = self._collect(request, asked)
        if request.is_round:
            for member in asked:
                member.answers += member.place in answers
                member.missed += member.place not in answers
        log.info(
            "%s: %d of %d sites answered in %.1f s",
            type(request).__name__, len(answers), len(asked), time.monotonic() - began,
        )  # fmt: skip
        return answers

    def _collect(self, request: Request, asked: Sequence[Member]) -> dict[int, Fields]:
        """Answers by place: all, or those that came in time."""
        encoded = encode_request(request)
        answers: dict[int, Fields] = {}
        began = time.monotonic()
        has_told = False
        for _ in pauses():
            missing = [m for m in asked if m.excluded is None and m.place not in answers]
            self._post(encoded, missing)
            self._read(request, answers)
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

    def _post(self, encoded: bytes, missing: Sequence[Member]) -> None:
        """Ask those who are not at work on an earlier message, as far as one can tell."""
        now = time.monotonic()
        patience = self._conduct.round_seconds
        free = [m for m in missing if all(now - at > patience for _, at in m.pending.values())]
        payloads = {}
        for member in free:
            setup = None if member.knows_setup else member.setup
            payloads[member.node] = to_bytes(Ask(encoded, member.session, setup))
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

    def _read(self, request: Request, answers: dict[int, Fields]) -> None:
        """Take in replies to this question, and note who replied to an earlier one."""
        waiting = self._waiting()
        for identity, reply in self._mailbox.replies(waiting).items():
            if identity not in waiting:
                continue  # it was given up, and now it came
            member = waiting[identity]
            question, _ = member.pending.pop(identity)
            if isinstance(reply, Failure):
                self._mark_absent([member], reply.reason)
                continue
            member.bytes_up += len(reply)
            if member.is_absent:
                log.info("%s is back", member.name)
                member.is_absent = False
            if question == self._questions and member.place not in answers:
                self._take(request, member, reply, answers)

    def _take(
        self, request: Request, member: Member, reply: bytes, answers: dict[int, Fields]
    ) -> None:
        try:
            said = from_bytes(reply)
            match said:
                case Answered(answer, crossed):
                    answers[member.place] = decode_answer(answer, request, self.shape)
                    member.knows_setup = True
                    if crossed is not None:
                        member.add_crossed(*crossed)
                case SetupNeeded():
                    member.knows_setup = False
                case Refused(reason):
                    self._exclude(member, reason)
                case _:
                    raise WireError("It said something that only a server says.")
        except WireError as error:
            self._exclude(member, f"its answer cannot be used: {error}")

    def _exclude_not_finite(self, answers: dict[int, Fields]) -> None:
        """Leave out sites whose answers are not numbers, unless all are: then the run diverged."""
        poisoned = [place for place, answer in answers.items() if not _is_finite(answer)]
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

    def _check_enough(self, request: Request, asked: Sequence[Member], count: int) -> None:
        fewest = min(self._conduct.fewest, len(asked))
        if count >= fewest:
            return
        reasons = [
            f"{member.name} ({member.excluded or 'absent'})"
            for member in asked
            if member.excluded is not None or member.is_absent
        ]
        again = "train again" if isinstance(request, ColumnMoments) else "resume"
        raise FederationError(
            f"{count} of the {fewest} sites needed answered {type(request).__name__}; without an "
            f"answer: {', '.join(reasons)}; see to them and {again}, or lower --min-sites"
        )


def _are_plausible(moments: Moments, rows: int) -> bool:
    """Whether a table of so many rows can have these moments."""
    numbers = np.concatenate([[moments.target], moments.mean, np.sqrt(np.abs(moments.variance))])
    are_bounded = bool((np.abs(numbers) <= LARGEST).all())
    return are_bounded and moments.mass == rows and bool((moments.variance >= 0.0).all())


def _is_finite(answer: Fields) -> bool:
    return all(
        field.is_finite() if isinstance(field, Stack) else bool(np.isfinite(field).all())
        for field in answer.values()
    )
