"""The engine that reaches sites over Flower."""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from flwr.serverapp import Grid

from fedsparse.arrays import AnyArray
from fedsparse.engines.engine import Ask
from fedsparse.engines.lens import Lens
from fedsparse.federation.payloads import Setup, digest_of
from fedsparse.federation.secure.statements import Signers
from fedsparse.federation.server.agreement import Terms, agree
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.correspondence import WORTH_DELIVERING, Correspondence
from fedsparse.federation.server.mailbox import Mailbox
from fedsparse.federation.server.member import members_of
from fedsparse.federation.server.roll_call import roll_call
from fedsparse.federation.server.secure_sums import SecureSums
from fedsparse.federation.server.stages import Finishing, Question, batches
from fedsparse.federation.server.transcript import SitesEngine
from fedsparse.modelling.fitting import loss_of
from fedsparse.requests import Answers

_COUNTED = (
    "answers", "missed", "unscaled", "bytes_down", "bytes_up", "socket_down", "socket_up",
    "excluded", "is_absent", "table",
)  # fmt: skip
"""What is known of a site when a run goes on later."""


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
    roster
        Keys of all sites, by which they hide their answers in sums; None: sums are open.

    Attributes
    ----------
    names
        Of the sites.
    encoding
        How all sites' tables become arrays.
    members
        The sites and how they did.
    counts
        What was counted of tables over all sites; None where each told its own counts.
    """

    def __init__(
        self, grid: Grid, terms: Terms, conduct: Conduct, roster: Signers | None = None
    ) -> None:
        self.conduct = conduct
        self.can_single_out = roster is None
        # Flower must not drop a message before we do: it does not take well to questions about it.
        self._mailbox = Mailbox(grid, 2 * WORTH_DELIVERING * conduct.round_seconds)
        self._counts = Counter[str]()
        wishes = terms.wishes.model_copy(update={"open_sums": roster is None})
        told = roll_call(self._mailbox, wishes, conduct)
        self.members = members_of(told, roster)
        self._letters = Correspondence(self._mailbox, self.members, conduct)
        self._secure = None if roster is None else SecureSums(roster, self._letters)
        every = list(told.values())
        self.counts = None if self._secure is None else self._secure.count(every, wishes)
        self.encoding = agree(every, terms, self.counts)
        self.names = tuple(member.name for member in self.members)
        self.width = len(self.encoding.feature_names)
        self.is_sparse = not self.encoding.columns
        self.has_holes = self.encoding.impute is not None
        self.lens = Lens(loss_of(self.encoding))
        agreed = self.encoding.model_dump(mode="json", exclude={"left_out", "notes", "kept"})
        for member in self.members:
            member.setup = Setup(agreed, member.place, self.names).to_bytes()
            member.session = digest_of(member.setup)

    @property
    def classes(self) -> AnyArray | None:
        """Places of the classes in the encoding, None for regression."""
        classes = self.encoding.classes
        return None if classes is None else np.arange(len(classes))

    def exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """The sums of what sites answered; too few answers raise a FederationError."""
        answers: list[Answers] = []
        for batch in batches(asks, self.width * max(1, len(self.encoding.classes or ()))):
            self._counts["exchanges"] += 1
            answers += self._exchange(batch)
        return answers

    def _exchange(self, asks: Sequence[Ask]) -> list[Answers]:
        """One message to every site that is asked something; with masks, a second to open them."""
        began = time.monotonic()
        shapes = [self.through(ask.lens).shape for ask in asks]
        if self._secure is not None:
            return self._secure.exchange(asks, shapes, began)
        question = Question(asks, shapes, len(self.members))
        asked = [member for member in self.members if question.places_of(member)]
        self._letters.collect(question, asked)
        self._exclude_not_finite(question)
        fewest = min(self.conduct.fewest, len(asked))
        self._letters.check_enough(question, asked, question.answers, fewest)
        self._letters.note_answers(question, asked, question.answers, began)
        seconds = time.monotonic() - began
        return [question.sums(place, seconds) for place in range(len(asks))]

    def fingerprint(self) -> str:
        """A digest of what the sites told about their tables."""
        told = [self.encoding.model_dump_json()]
        told += [member.description.model_dump_json() for member in self.members]
        if self.counts is not None:
            told.append(self.counts.to_json())
        return hashlib.blake2b("\0".join(told).encode(), digest_size=16).hexdigest()

    @property
    def exchanges(self) -> int:
        """Messages to every site and back so far."""
        return self._counts["exchanges"]

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

    def finish(self, model: bytes) -> None:
        """Tell sites which model came of the run; those that do not hear it do without."""
        present = [m for m in self.members if m.excluded is None and not m.is_absent]
        self._letters.collect(Finishing(model), present, longest=self.conduct.round_seconds)

    def close(self) -> None:
        """Look for replies no more; the grid is Flower's."""
        self._mailbox.close()

    def _exclude_not_finite(self, question: Question) -> None:
        """Leave out sites whose answers are not numbers, unless all are: then the run diverged.

        One of several runs in lockstep may diverge at one site: that is its own affair, and no
        reason to leave the site out of the others.
        """
        answers = question.answers
        poisoned = [place for place, own in answers.items() if question.is_poisoned(own)]
        if len(poisoned) == len(answers):
            return
        for place in poisoned:
            del answers[place]
            self._letters.exclude(self.members[place], "its answer holds NaN or infinity")
