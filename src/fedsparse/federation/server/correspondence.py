"""What is said to sites and what they reply, with patience for those that are late or absent."""

import itertools
import logging
import time
from collections.abc import Container, Sequence, Sized

from fedsparse.errors import FederationError
from fedsparse.federation.payloads import Refused, from_bytes
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.mailbox import Failure, Mailbox, pauses
from fedsparse.federation.server.member import Member
from fedsparse.federation.server.stages import Stage
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables.sentences import joined

log = logging.getLogger("fedsparse.federation")

_KNOCK = 0
"""Number of what is said without waiting for a reply."""

EVERY = 5.0
"""Seconds between two lines on sites that are at work."""

WORTH_DELIVERING = 3
"""Rounds' time-outs after which a message to a site that hangs is forgotten."""


class Correspondence:
    """Says something to sites and hears what they reply.

    Parameters
    ----------
    mailbox
        Flower's messages.
    members
        The sites.
    conduct
        What to do about sites that are late, absent or wrong.
    """

    def __init__(self, mailbox: Mailbox, members: Sequence[Member], conduct: Conduct) -> None:
        self._mailbox = mailbox
        self._numbers = itertools.count(1)
        self.members = members
        self.conduct = conduct

    def note_answers(
        self, question: Stage, asked: Sequence[Member], answered: Container[int], began: float
    ) -> None:
        """Count who answered, and say so."""
        for member in asked:
            if question.is_round:
                member.answers += member.place in answered
                member.missed += member.place not in answered
            if question.is_of_columns:
                member.unscaled += member.place not in answered
        log.info(
            "%s: %d of %d sites answered in %.1f s",
            question.listed, sum(member.place in answered for member in asked), len(asked),
            time.monotonic() - began,
        )  # fmt: skip

    def collect(
        self,
        stage: Stage,
        asked: Sequence[Member],
        enough: int | None = None,
        longest: float | None = None,
    ) -> dict[int, Member]:
        """Say something to sites; gives those who replied, by place.

        Parameters
        ----------
        stage
            What is said, and what is made of replies.
        asked
            To whom.
        enough
            Replies after which others are not waited for; by default all are, for a time.
        longest
            Seconds after which nobody is waited for; by default as the conduct says.
        """
        number = next(self._numbers)
        answered: dict[int, Member] = {}
        began = said = time.monotonic()
        has_told = False
        fewest = min(self.conduct.fewest if enough is None else enough, len(asked))
        for _ in pauses():
            self._post(stage, number, _missing(stage, asked, answered))
            self._read(stage, number, answered)
            missing = _missing(stage, asked, answered)
            waited = time.monotonic() - began
            if not missing or (enough is not None and len(answered) >= enough):
                return answered
            if all(member.is_absent for member in missing) or waited > self.conduct.round_seconds:
                self._mark_absent(missing)
                if len(answered) >= fewest and self.conduct.if_absent == "continue":
                    return answered
                if waited > (self.conduct.longest_wait if longest is None else longest):
                    return answered
                if not has_told:
                    names = joined([member.name for member in missing])
                    left = self.conduct.longest_wait - waited
                    log.info("waiting for %s, at most %.0f s more", names, left)
                    has_told = True
            elif time.monotonic() - said >= EVERY:
                names = joined([member.name for member in missing])
                log.info("%s: waiting for %s, for %.0f s now", stage.listed, names, waited)
                said = time.monotonic()
        raise AssertionError  # pauses never end

    def knock(self, stage: Stage, members: Sequence[Member]) -> None:
        """Say something to sites that are absent; whatever they reply shows that they are back."""
        self._post(stage, _KNOCK, members)

    def _post(self, stage: Stage, number: int, missing: Sequence[Member]) -> None:
        """Ask those who are not at work on an earlier message, as far as one can tell."""
        now = time.monotonic()
        patience = self.conduct.round_seconds
        free = [m for m in missing if all(now - at > patience for _, at in m.pending.values())]
        payloads = {member.node: stage.message_to(member) for member in free}
        sent = self._mailbox.post(payloads, str(number))
        for member in free:
            if member.node in sent:
                member.pending[sent[member.node]] = (number, now)
                member.bytes_down += len(payloads[member.node])

    def _waiting(self) -> dict[str, Member]:
        """Messages that may still be replied to; Flower drops others."""
        oldest = time.monotonic() - WORTH_DELIVERING * self.conduct.round_seconds
        for member in self.members:
            recent = {own: sent for own, sent in member.pending.items() if sent[1] > oldest}
            member.pending = recent
        return {own: member for member in self.members for own in member.pending}

    def _read(self, stage: Stage, number: int, answered: dict[int, Member]) -> None:
        """Take in replies to what was said, and note who replied to something earlier."""
        waiting = self._waiting()
        for identity, reply in self._mailbox.replies(waiting).items():
            if identity not in waiting:
                continue  # it was given up, and now it came
            member = waiting[identity]
            said_in, _ = member.pending.pop(identity)
            if isinstance(reply, Failure):
                self._mark_absent([member], reply.reason)
                continue
            member.bytes_up += len(reply)
            if member.is_absent:
                log.info("%s is back", member.name)
                member.is_absent = False
            if said_in == number and member.place not in answered:
                self._take(stage, member, reply, answered)

    def _take(
        self, stage: Stage, member: Member, reply: bytes, answered: dict[int, Member]
    ) -> None:
        try:
            said = from_bytes(reply)
            if isinstance(said, Refused):
                self.exclude(member, said.reason)
            elif stage.take(member, said):
                answered[member.place] = member
        except (WireError, FederationError) as error:
            self.exclude(member, f"its answer cannot be used: {error}")

    def exclude(self, member: Member, reason: str) -> None:
        """Ask a site no more."""
        log.warning("%s takes no further part: %s", member.name, reason)
        member.excluded = reason

    def _mark_absent(self, members: Sequence[Member], reason: str | None = None) -> None:
        told = reason or f"no answer within {self.conduct.round_seconds:g} s"
        for member in members:
            if not member.is_absent:
                log.warning("%s is absent: %s", member.name, told)
                member.is_absent = True

    def check_enough(
        self, stage: Stage, asked: Sequence[Member], answers: Sized, fewest: int
    ) -> None:
        """A FederationError if fewer sites replied than are needed."""
        if len(answers) >= fewest:
            return
        reasons = [
            f"{member.name} ({member.excluded or 'absent'})"
            for member in asked
            if member.excluded is not None or member.is_absent
        ]
        way_out = ", or lower --min-sites" if fewest <= self.conduct.fewest else ""
        raise FederationError(
            f"{len(answers)} of the {fewest} sites needed answered {stage.listed}; without an "
            f"answer: {', '.join(reasons)}; see to them and resume{way_out}"
        )


def _missing(stage: Stage, asked: Sequence[Member], answered: Container[int]) -> list[Member]:
    """Those whose reply may still come."""
    return [
        member
        for member in asked
        if member.excluded is None and member.place not in answered and not stage.has_lost(member)
    ]
