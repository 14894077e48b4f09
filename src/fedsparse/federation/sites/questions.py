"""Which questions were answered together with which sites: the difference of two sums tells.

The sum over all sites less the sum over all but one is that one's answer, masks or not; and three
sums of which any two differ by many may still single one out. So a site answers a question together
with one set of sites, ever: sums of the same question then have no site in common. And it answers
with one kind of weights: rows times the plain sum, less the sum weighted by rows, leaves out all
sites with that many rows.

Nearly the same question is another one: x moved by next to nothing, asked of all and of all but
one, tells that one's answer all the same, and no bits give it away. So it is counted how often the
sites change that answer together, and from some number on a site answers with the last of them
only.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsparse.arrays import FloatArray
from fedsparse.engines.engine import FEWEST_IN_A_SUM
from fedsparse.engines.lens import Lens
from fedsparse.errors import FederationError
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.problem.rows import Rows, Without
from fedsparse.requests import (
    CorrectedSteps,
    Curvature,
    Evaluate,
    JudgeCounts,
    LocalSteps,
    Request,
    ScoreCounts,
    Slopes,
    SurvivalCounts,
)
from fedsparse.requests.wire.request_bytes import encode_request

_KEY_BYTES = 12

MOST_CHANGES = 50
"""How often the sites that answer together may change: each time a site is lost, and when it is
back."""

_TOGETHER, _BEGUN, _OPENED = "together", "begun", "opened"

_Sum = tuple[frozenset[str], str]
"""Who is in a sum, and how they are weighted."""


@dataclass(frozen=True)
class Question:
    """What a sum is about, whoever is in it.

    Attributes
    ----------
    key
        Stands for the table, the rows, their scaling, the loss and the request.
    left_out
        Sites that the lens leaves out.
    asked
        Those that are asked; None: all.
    weights
        ``"uniform"`` or ``"samples"``.
    """

    key: str
    left_out: frozenset[str]
    asked: frozenset[str] | None
    weights: str = "uniform"

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Of some sites, those whose answers are in the sum."""
        every = frozenset(names) - self.left_out
        return every if self.asked is None else every & self.asked


def question_of(
    table: str,
    lens: Lens,
    request: Request,
    which: Sequence[int] | None,
    names: Sequence[str],
    weights: str = "uniform",
) -> Question:
    """What is asked, told apart from who is asked.

    Parameters
    ----------
    table
        Stands for the site's rows.
    lens, request
        What is asked.
    which
        Places of those who are asked; None: all.
    names
        Of all sites, by place.
    weights
        Of the sum.
    """
    cuts = lens.rows.cuts
    others = {cut.client for cut in cuts if isinstance(cut, Without)}
    plain = Rows(tuple(cut for cut in cuts if not isinstance(cut, Without)))
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    # What is told without the ℓ2 term follows from what is told with it.
    without_l2 = replace(lens, rows=plain, loss=replace(lens.loss, l2=0.0))
    for part in (table.encode(), without_l2.digest.encode()):
        digest.update(part + b"\0")
    digest.update(encode_request(_plain(request)))
    return Question(
        digest.hexdigest(),
        frozenset(name for place, name in enumerate(names) if place in others),
        None if which is None else frozenset(names[place] for place in which if place < len(names)),
        weights,
    )


def _plain(request: Request) -> Request:
    """The request without what changes how answers are written, or which part of them is left out.

    Else the sum over all sites in some units, less that over all but one in others, would tell.
    """
    if isinstance(request, LocalSteps):
        return _plain_steps(request)
    if isinstance(request, Evaluate):
        return replace(request, is_penalized=False)
    if isinstance(request, Curvature):
        return replace(request, known=request.support[:0], units=None, bits=8, only_second=False)
    if isinstance(request, Slopes):
        return replace(request, units=None, bits=8, with_diagonal=True)
    if isinstance(request, ScoreCounts):
        return replace(request, threshold=0.5, fewest=1)  # the other bins stay what they are
    if isinstance(request, JudgeCounts):
        return replace(request, guess=1.0)
    if isinstance(request, SurvivalCounts):
        return replace(request, low=0.0, high=0.0, width=1.0, bins=1, fewest=1)
    if isinstance(request, JudgeAlone):
        return replace(request, centre=1.0)
    return request


def _plain_steps(request: LocalSteps) -> LocalSteps:
    """The steps alone, whatever is told beside them."""
    plain = replace(request, with_objective=False, with_distance=False)
    if isinstance(plain, CorrectedSteps):
        plain = replace(plain, with_gradient=False)
    elif plain.batch_size is None:
        plain = replace(plain, snapshot=None)  # a gradient of all rows needs no correction
    # These say nothing where all rows are used.
    return plain if plain.batch_size is not None else replace(plain, seed=0, round=0)


def counting_of(what: str, own: FloatArray) -> Question:
    """The question how many rows of all sites have something.

    Parameters
    ----------
    what
        Is counted.
    own
        The site's part of the sum, which stands for its table.

    Examples
    --------
    >>> import numpy as np
    >>> counting_of("rows", np.array([9.0])) == counting_of("rows", np.array([8.0]))
    False
    """
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    digest.update(b"count\0" + what.encode() + b"\0")
    digest.update(own.astype("<f8").tobytes())
    return Question(digest.hexdigest(), frozenset(), None)


class AnsweredQuestions:
    """Remembers with which sites questions were answered, in a file if there is one.

    Parameters
    ----------
    path
        Where; None: as long as this process lives.
    most_changes
        How often the sites may change that answer together.

    Examples
    --------
    >>> answered = AnsweredQuestions(None)
    >>> asked = Question("17", frozenset(), None)
    >>> answered.record([asked], ["bari", "cork", "delft", "espoo"])
    >>> answered.check([asked], ["bari", "cork", "delft"])
    Traceback (most recent call last):
        ...
    fedsparse.errors.FederationError: it answered the same question before when espoo took part, \
too: the difference would be theirs; start them as well
    """

    def __init__(self, path: Path | None, most_changes: int = MOST_CHANGES) -> None:
        self._path = path
        self._most_changes = most_changes
        self._sets: dict[str, set[_Sum]] = {}
        self._begun: dict[str, set[_Sum]] = {}
        self._together: frozenset[str] | None = None
        self._changes = 0
        for (names, how), kind, keys in _read(path):
            if kind == _TOGETHER:
                self._note_together(names)
            for key in keys:
                own = self._begun if kind == _BEGUN else self._sets
                own.setdefault(key, set()).add((names, how))

    @property
    def count(self) -> int:
        """How many questions are remembered."""
        return len(self._sets.keys() | self._begun.keys())

    def check(
        self, questions: Iterable[Question], names: Iterable[str], *, is_new: bool = True
    ) -> None:
        """A FederationError if an answer together with these sites would give some away.

        Parameters
        ----------
        questions
            Of one exchange: they must not give anybody away among themselves, either.
        names
            Of those who take part.
        is_new
            Whether they are not answered yet; else they are those that `begin` remembered last.
        """
        every = frozenset(names)
        if self._together not in (None, every) and self._changes >= self._most_changes:
            raise FederationError(
                f"the sites that answer together have changed {self._changes} times, and each "
                "change tells about the one that came or went; start all of "
                f"{', '.join(sorted(self._together or ()))}, or have it allow more"
            )
        together: dict[str, set[_Sum]] = {}
        for question in questions:
            now = question.among(every)
            if 0 < len(now) < FEWEST_IN_A_SUM:
                raise FederationError(
                    f"a sum over {len(now)} sites would not hide them; {FEWEST_IN_A_SUM} are needed"
                )
            others = together.setdefault(question.key, set())
            for before in self._sets.get(question.key, set()) | others:
                _check_both((now, question.weights), before)
            if is_new:
                for before in self._begun.get(question.key, ()):
                    _check_both((now, question.weights), before)
            others.add((now, question.weights))

    def begin(self, questions: Iterable[Question], names: Iterable[str]) -> None:
        """Remember what is answered where sites outside a sum may help to open it.

        Then those inside need not be asked for shares, and would not know that it was opened.
        """
        every = frozenset(names)
        some = [own for own in questions if own.among(every) != every]
        self._write(some, every, self._begun, _BEGUN)

    def record(self, questions: Iterable[Question], names: Iterable[str]) -> None:
        """Remember that these sites' answers are in the sums."""
        every = frozenset(names)
        if every != self._together:
            self._append([[sorted(every), "", _TOGETHER, []]])
            self._note_together(every)
        self._write(questions, every, self._sets, _OPENED)

    def _note_together(self, names: frozenset[str]) -> None:
        self._changes += self._together not in (None, names)
        self._together = names

    def _write(
        self,
        questions: Iterable[Question],
        every: frozenset[str],
        into: dict[str, set[_Sum]],
        kind: str,
    ) -> None:
        new: dict[_Sum, list[str]] = {}
        for question in questions:
            now = (question.among(every), question.weights)
            known = into.setdefault(question.key, set())
            if now[0] and now not in known:
                known.add(now)
                new.setdefault(now, []).append(question.key)
        if new:
            self._append([[sorted(own), how, kind, keys] for (own, how), keys in new.items()])

    def _append(self, lines: list[list[Any]]) -> None:
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(line)}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())


def _check_both(one: _Sum, other: _Sum) -> None:
    """A FederationError if two sums of the same answers would give some away."""
    (now, weights), (before, others) = one, other
    if now & before and now != before:
        raise FederationError(_difference(now, before))
    if now & before and weights != others:
        raise FederationError(
            f"it answered the same question before with weights {others!r}: together with others "
            "they would single sites out; train with the same weights"
        )


def _difference(now: frozenset[str], before: frozenset[str]) -> str:
    names = ", ".join(sorted(now ^ before))
    if before > now:
        return (
            f"it answered the same question before when {names} took part, too: the difference "
            "would be theirs; start them as well"
        )
    return (
        f"it answered the same question before with other sites ({names}): the difference would be "
        "theirs; train with the same sites, or see the guide on letting others join"
    )


def _read(path: Path | None) -> Iterator[tuple[_Sum, str, list[str]]]:
    if path is None or not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            names, weights, kind, keys = json.loads(line)
            yield (frozenset(names), str(weights)), str(kind), list(keys)
        except (ValueError, TypeError):
            raise FederationError(
                f"line {number} of {path} is damaged; restore the file, or move it away if no "
                "question of earlier runs may be asked again"
            ) from None
