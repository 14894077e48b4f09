"""A site: answers what it is asked, on its own rows, within its policy."""

import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Count,
    Described,
    Finished,
    Hello,
    Introduced,
    Masked,
    MaskedAsks,
    Note,
    Noted,
    Opened,
    Payload,
    Prepare,
    Prepared,
    Refused,
    Setup,
    Signed,
    Survivors,
    TellMe,
    digest_of,
    from_bytes,
    lens_from_bytes,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.releases import objection_to_release
from fedsparse.federation.secure.site_masking import MaskedAnswer, SiteMasking
from fedsparse.federation.secure.statements import Epoch
from fedsparse.federation.sites.disclosure import (
    is_dominated,
    objection_to_scaling,
    with_own_batches,
    with_own_bins,
)
from fedsparse.federation.sites.ledger import (
    JUDGING,
    Ledger,
    entry_of,
    judged_in,
    read_ledger,
    why_unwritable,
)
from fedsparse.federation.sites.message_limits import (
    check_cells,
    check_room,
    check_size,
    most_lenses,
)
from fedsparse.federation.sites.policy import FEWEST_CUT_OFF, FEWEST_JUDGED, Policy
from fedsparse.federation.sites.questions import (
    AnsweredQuestions,
    Question,
    counting_of,
    question_of,
)
from fedsparse.federation.sites.site_tables import SiteTable, Told, Wishes
from fedsparse.federation.sites.spending import Spending
from fedsparse.federation.sites.table_digests import table_digest
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.modelling.model import Model
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import FEW_HOLES
from fedsparse.requests import Fields, LocalSteps, Request, SurvivalCounts
from fedsparse.requests.fixed_sums import layout_of
from fedsparse.requests.wire.answer_bytes import encode_answer
from fedsparse.requests.wire.request_bytes import decode_request
from fedsparse.requests.wire.vectors import MAX_LENGTH, WireError
from fedsparse.tables import SiteDescription
from fedsparse.tables.counting import Countable, Counts
from fedsparse.tables.schemas import SiteSchema
from fedsparse.tables.sentences import counted, listed

log = logging.getLogger("fedsparse.federation")

_Model = TypeVar("_Model", bound=BaseModel)

_MOST_BOUNDS = 3
"""Of rows that a site compares its own with: with more, a server would find out how many it has."""
_NO_KEY = (
    "it has no key of its own and cannot hide its answers in a sum; start it with --keys, or train "
    "with --open-sums"
)
_ROWS_CANNOT_BE_USED = "its rows cannot be used like that; its own log says why"


class Site:
    """Holds a site's rows and answers messages about them.

    Parameters
    ----------
    name
        By which the federation knows the site.
    table
        Its rows.
    policy
        What it answers.
    threads
        Processor cores it may use.
    ledger
        Where it enters what it is asked and answers, open for the table. Without one, budgets hold
        for as long as the site lives.
    masking
        Hides its answers in sums; None: it can only tell them openly, if its policy lets it.
    questions
        What it answered before, and together with whom.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.federation.sites.site_tables import NamedTable
    >>> table = NamedTable(pl.DataFrame({"age": range(6), "days": range(6)}), "days")
    >>> site = Site("bari", table, Policy(open_sums=True), threads=1)
    >>> hello = to_bytes(Hello({"open_sums": True}))
    >>> from_bytes(site.reply(hello, run=1)).told["description"]["rows"]
    6
    """

    def __init__(
        self,
        name: str,
        table: SiteTable,
        policy: Policy,
        threads: int,
        ledger: Ledger | None = None,
        masking: SiteMasking | None = None,
        questions: AnsweredQuestions | None = None,
    ) -> None:
        self.name = name
        self._table = table
        self._policy = policy
        self._threads = threads
        self._masking = masking
        self._questions = AnsweredQuestions(None) if questions is None else questions
        self._answered: dict[int, tuple[int, list[Question]]] = {}
        self._unopened: set[int] = set()
        self._finished: set[int] = set()
        self._setup: tuple[str, bytes] | None = None
        self._lenses: dict[str, Lens] = {}
        self._opened: tuple[tuple[str, bool], LocalEngine] | None = None
        self._digest: tuple[LocalEngine, str] | None = None
        self._bounds: set[int] = set()
        self._mark: str | None = None
        self._crossed: tuple[int, int] | None = None
        self._ledger = ledger
        self._spending = Spending() if ledger is None else ledger.spending

    @property
    def is_expecting(self) -> bool:
        """Whether an answer was masked and its sum has not been opened yet."""
        return bool(self._unopened)

    def memory(self) -> dict[str, bytes]:
        """What must be kept for the next message, if another process answers it."""
        lenses = {f"lens {digest}": lens_to_bytes(lens) for digest, lens in self._lenses.items()}
        setup = {} if self._setup is None else {f"setup {self._setup[0]}": self._setup[1]}
        return {**setup, **lenses}

    def recall(self, memory: Mapping[str, bytes]) -> None:
        """Take up what `memory` gave."""
        for name, value in memory.items():
            what, _, which = name.partition(" ")
            if what == "lens":
                self._lenses[which] = lens_from_bytes(value)
            else:
                self._setup = (which, value)

    def look(self) -> None:
        """Say in the site's own log, before anybody asks, what is odd or would make it refuse."""
        for oddity in self._table.oddities(self.name):
            log.warning("%s", oddity.sentence)
        objection = self._policy.objection_to_few(self._table.rows)
        faults = [fault.sentence for fault in self._table.faults(self.name, Wishes())]
        problems = ([] if objection is None else [f"{self.name}: {objection}"]) + faults
        for problem in problems:
            log.warning("%s", problem)
        if problems:
            log.warning(
                "%s would refuse to train, because of %s; mend them and start it again, or leave "
                "columns out with --drop",
                self.name, counted(len(problems), "problem"),
            )  # fmt: skip

    def reply(self, message: bytes, run: int, crossed: tuple[int, int] | None = None) -> bytes:
        """What to say to a message of a run; whatever it holds, there is a reply.

        Parameters
        ----------
        message
            What came.
        run
            Which training it belongs to.
        crossed
            Bytes down and up over the site's sockets since the last reply, if known.
        """
        said: Payload | None = None
        self._note_crossed(crossed)
        try:
            said = from_bytes(message)
            reply = self._reply(said, run, self._crossed)
        except DataError as error:
            # Errors about rows may quote them: they are told here and nowhere else.
            log.error("%s cannot answer: %s", self.name, error)
            reply = Refused(_ROWS_CANNOT_BE_USED)
        except FederationError as error:
            reply = Refused(str(error))
        except (WireError, OptionError) as error:
            log.error("%s was sent something that makes no sense: %s", self.name, error)
            reply = Refused(str(error))
        except Exception as error:
            log.exception("%s failed", self.name)
            reply = Refused(_failed(error))
        if isinstance(reply, Answered | Masked | Described | Noted):
            self._crossed = None  # it is told, or was not a part of the run's answers
        try:
            return self._entered(said, reply, run)
        except Exception as error:
            log.exception("%s failed", self.name)
            return to_bytes(Refused(_failed(error)))

    def _note_crossed(self, crossed: tuple[int, int] | None) -> None:
        """Add up what crossed the sockets until a reply tells it."""
        if crossed is not None:
            before = self._crossed or (0, 0)
            self._crossed = (before[0] + crossed[0], before[1] + crossed[1])

    def _entered(self, said: Payload | None, reply: Payload, run: int) -> bytes:
        """A reply as bytes, once the ledger has it; what it has not does not leave."""
        written = self._written(said, reply)
        entry = entry_of(said, reply, self._lenses)
        if entry is None:
            return written
        if self._ledger is None:
            judged = judged_in(entry.told.get("asked", {}))
            self._spending.add(datetime.now(UTC), "", entry.answers, judged)
            return written
        try:
            self._ledger.enter(entry, run, written)
        except OSError as error:
            return self._written(said, Refused(why_unwritable(error)))
        return written

    def _written(self, said: Payload | None, reply: Payload) -> bytes:
        if isinstance(reply, Refused):
            log.warning("%s refused: %s", self.name, reply.reason)
            if isinstance(said, Hello):  # nobody knows yet who it is
                reply = Refused(f"{self.name}: {reply.reason}")
        return to_bytes(reply)

    def _reply(self, message: Payload, run: int, crossed: tuple[int, int] | None) -> Payload:
        match message:
            case Hello(wishes, release):
                objection = objection_to_release(release, "the server")
                return Refused(objection) if objection else self._describe(wishes, run)
            case Asks():
                return self._answer(message, run, crossed)
            case Count():
                return self._count(message, run, crossed)
            case Prepare(epoch):
                return self._prepare(epoch, run)
            case Survivors():
                return self._open(message, run)
            case Finished(model):
                return self._finish(model, run)
        raise WireError("A site was told something that only a site says.")

    def _describe(self, written: dict[str, Any], run: int) -> Payload:
        wishes = _parsed(Wishes, written)
        if wishes.open_sums:
            self._check_open()
        told, problems = self._told(wishes)
        if problems and not wishes.dry_run:
            raise FederationError("; ".join(problems))
        if wishes.dry_run:
            more = {"problems": tuple(problems), "limits": self._policy.limits(*self._spent())}
            told = told.model_copy(update=more)
        if not wishes.open_sums:
            told = self._without_counts(told, run)
        log.info("%s described its table: %d rows", self.name, self._table.rows)
        return Described(told.model_dump(mode="json"))

    def _without_counts(self, told: Told, run: int) -> Told:
        """What is told where sums are secure: names and kinds, the policy's bound and a key."""
        more: dict[str, Any] = {
            "description": SiteSchema.of(_with_counts(told)),
            "smallest_samples": self._policy.smallest_samples,
        }
        if self._masking is not None:
            own = self._masking.introduction(run)
            more["introduction"] = (str(run), own.public.hex(), own.signature.hex())
        return told.model_copy(update=more)

    def _check_open(self) -> None:
        """Refuse to tell answers that are not masked, unless the policy lets it."""
        if not self._policy.open_sums:
            raise FederationError(
                "its policy does not allow open sums, in which the server sees its answers; train "
                "without --open-sums, or have its administrator allow them"
            )

    def _checked_masking(self) -> SiteMasking:
        if self._masking is None:
            raise FederationError(_NO_KEY)
        return self._masking

    def _told(self, wishes: Wishes) -> tuple[Told, list[str]]:
        """What the policy allows to tell, and why the site would refuse to train."""
        faults = self._table.faults(self.name, wishes)
        for fault in faults:  # they quote rows: they are told here and nowhere else
            log.error("%s", fault.sentence)
        problems = [*self._table.lacking(wishes), *([_ROWS_CANNOT_BE_USED] if faults else [])]
        if not wishes.open_sums:
            problems += self._hindrances(wishes.minimum_rows)
        few = self._policy.objection_to_few(self._table.rows)
        objection = few or self._policy.objection_to_spending(1, *self._spent())
        if objection is not None:
            raise FederationError("; ".join([objection, *problems]))
        unusable = dict.fromkeys(name for fault in faults for name in fault.columns)
        told = self._table.describe(self.name, wishes, list(unusable))
        description = self._without_withheld(_with_counts(told), is_open=wishes.open_sums)
        is_asked = wishes.task == "classification"
        allowed = self._policy.allowed(description, numbers_are_classes=is_asked)
        return told.model_copy(update={"description": allowed}), problems

    def _hindrances(self, minimum_rows: int) -> list[str]:
        """What keeps the site from a secure sum, in sentences that tell no count."""
        self._bounds.add(minimum_rows)
        if len(self._bounds) > _MOST_BOUNDS:
            self._bounds.remove(minimum_rows)
            raise FederationError(
                f"it was asked about {_MOST_BOUNDS} other bounds on rows already; keep to one "
                "--minimum-rows, or start it anew"
            )
        found = []
        if self._masking is None:
            found.append(_NO_KEY)
        if self._table.rows < minimum_rows:
            found.append(
                f"it has fewer than {minimum_rows} rows; train without it, or lower the bound "
                "with --minimum-rows"
            )
        return found

    def _without_withheld(self, description: SiteDescription, *, is_open: bool) -> SiteDescription:
        """What may be told; which columns and levels may not is said here, and here alone."""
        withheld = self._withheld(description, is_open=is_open)
        if not withheld:
            return description
        names = [name for name in description.names if name in withheld]
        fewest = self._policy.smallest_samples
        log.warning(
            "%s tells nothing of %s: fewer than %d rows have some value or level",
            self.name, listed(names), fewest,
        )  # fmt: skip
        for column in description.columns:
            for level, count in (column.levels or {}).items():
                if count < fewest:
                    log.warning("%s: %d rows have %s=%s", self.name, count, column.name, level)
        return description.withholding(withheld)

    def _withheld(self, description: SiteDescription, *, is_open: bool) -> frozenset[str]:
        """Columns of which nothing is told.

        Under secure sums rows that stand out are counted over all sites, and a site sees to it only
        that none stands out alone.
        """
        fewest = self._policy.smallest_samples if is_open else FEWEST_CUT_OFF
        standing_out = self._table.standing_out(description.number_names, fewest)
        if is_open:
            return self._policy.withheld(description, standing_out)
        return self._policy.with_rare_levels(description).union(standing_out)

    def _check_telling(self, description: SiteDescription, *, is_open: bool) -> None:
        """Refuse to answer about what the policy forbids to tell."""
        objection = self._policy.objection_to_few(description.rows)
        if objection is not None:
            raise FederationError(objection)
        if self._withheld(description, is_open=is_open):
            raise FederationError(
                "the server uses columns of which its policy lets it tell nothing"
            )

    def _count(self, message: Count, run: int, crossed: tuple[int, int] | None) -> Payload:
        """Numbers of rows under masks, of columns that the site has described."""
        how, masking = message.masked, self._checked_masking()
        if not masking.has_keys(run):
            return Introduced(masking.introduction(run))
        masker = masking.mask(run, how.number, dict(how.packages), message.asks())
        if isinstance(masker, MaskedAnswer):
            return Masked(masker, Note(crossed))  # the same was asked before, and is told again
        wishes, counted = message.read()
        own = self._counts(_parsed(Wishes, wishes), _parsed(Countable, counted))
        questions = [
            counting_of(f"{self._on_table} {what}", numbers) for what, numbers in own.parts()
        ]
        self._questions.check(questions, (name for name, _ in how.packages))
        reply = masker.masked(own.counted.layout.encode([(own.sums, 1.0)]))
        self._expect(run, how.number, questions)
        log.info("%s counted its rows, with %d bytes under masks", self.name, len(reply.integers))
        return Masked(reply, Note(crossed))

    def _counts(self, wishes: Wishes, counted: Countable) -> Counts:
        """The site's own numbers; a FederationError if it may not tell what is counted."""
        told, problems = self._told(wishes.model_copy(update={"open_sums": False}))
        if problems and not wishes.dry_run:
            raise FederationError("; ".join(problems))
        schema = SiteSchema.of(_with_counts(told))
        if not counted.is_within(schema):
            raise FederationError("the server counts what the site did not describe")
        # Counts of rare classes are not told openly, and hidden here: they are those of the table.
        description = _with_counts(self._table.describe(self.name, wishes, told.unusable))
        numbers = [name for name in counted.numbers if name in description.number_names]
        differing = self._table.differing(numbers)
        return Counts(counted, counted.contribution(description, differing))

    def _answer(self, asks: Asks, run: int, crossed: tuple[int, int] | None) -> Payload:
        if asks.masked is None:
            self._check_open()  # before a refusal could depend on rows
        engine = self._learn(asks)
        unknown = {digest for digest, _ in asks.requests} - self._lenses.keys()
        if engine is None or unknown:
            return TellMe(tuple(sorted(unknown)))
        check_room(engine, [self._lenses[digest] for digest, _ in asks.requests])
        requests = [
            (lens, self._read(engine, lens, written))
            for lens, written in ((self._lenses[digest], own) for digest, own in asks.requests)
        ]
        check_size(engine, requests, self._policy.most_local_steps)
        if asks.masked is not None:
            return self._masked(asks, asks.masked, engine, requests, run, crossed)
        objection = self._objection([request for _, request in requests])
        if objection is not None:
            return Refused(objection)
        self._check_ratios(engine, requests)
        fewest = self._policy.smallest_samples
        requests = [(lens, with_own_bins(request, fewest)) for lens, request in requests]
        found = self._answers(engine, asks, requests, [True] * len(requests))
        answers = tuple(None if own is None else (encode_answer(own[0]), own[1]) for own in found)
        size = sum(len(own[0]) for own in answers if own is not None)
        self._log_answered(requests, size, crossed)
        return Answered(answers, Note(crossed, self._mark))

    def _read(self, engine: LocalEngine, lens: Lens, written: bytes) -> Request:
        """A request, with mini-batches of the site's own."""
        request = decode_request(written, engine.through(lens).shape)
        if isinstance(request, SurvivalCounts):
            return replace(request, fewest=max(request.fewest, self._policy.smallest_samples))
        if isinstance(request, LocalSteps) and request.batch_size:
            rows = engine.rows_shown(lens)
            return with_own_batches(request, rows, self._policy.smallest_samples)
        return request

    def _answers(
        self,
        engine: LocalEngine,
        asks: Asks,
        requests: Sequence[tuple[Lens, Request]],
        is_asked: Sequence[bool],
    ) -> list[tuple[Fields, float] | None]:
        """Answers and what their rows weigh, lens by lens."""
        engine.make_room({digest for digest, _ in asks.requests})
        in_order = sorted(range(len(requests)), key=lambda place: asks.requests[place][0])
        found = {
            place: self._answer_of(engine, *requests[place])
            for place in in_order
            if is_asked[place]
        }
        return [found.get(place) for place in range(len(requests))]

    def _log_answered(
        self,
        requests: Sequence[tuple[Lens, Request]],
        size: int,
        crossed: tuple[int, int] | None,
        how: str = "",
    ) -> None:
        log.info(
            "%s answered %s with %d bytes%s%s",
            self.name, _listed([request for _, request in requests]), size, how,
            _on_socket(crossed),
        )  # fmt: skip

    def _prepare(self, epoch: Epoch, run: int) -> Payload:
        """Join those who hold shares of each other's keys."""
        masking = self._checked_masking()
        if epoch.run != run:
            raise FederationError("the server names another run")
        package = masking.prepare(epoch)
        return Introduced(masking.introduction(run)) if package is None else Prepared(package)

    def _masked(
        self,
        asks: Asks,
        how: MaskedAsks,
        engine: LocalEngine,
        requests: Sequence[tuple[Lens, Request]],
        run: int,
        crossed: tuple[int, int] | None,
    ) -> Payload:
        """The answers as one vector of integers under masks."""
        assert self._setup is not None
        setup = Setup.from_bytes(self._setup[1])
        if setup.names[setup.identity] != self.name:
            raise FederationError("the server gives it the place of another site")
        masking = self._checked_masking()
        if not masking.has_keys(run):
            return Introduced(masking.introduction(run))
        masker = masking.mask(
            run, how.number, dict(how.packages), how.asks(asks.requests, setup.common)
        )
        if isinstance(masker, MaskedAnswer):
            return Masked(
                masker, Note(crossed, self._mark)
            )  # the same was asked before, and is told again
        objection = self._objection([request for _, request in requests])
        if objection is not None:
            return Refused(objection)
        questions = [
            question_of(self._table_digest(engine), lens, request, which, setup.names, weights)
            for (lens, request), which, weights in zip(
                requests, how.which, how.weights, strict=True
            )
        ]
        self._questions.check(questions, (name for name, _ in how.packages))
        is_asked = [which is None or setup.identity in which for which in how.which]
        found = self._answers(engine, asks, requests, is_asked)
        layout = layout_of(
            [
                (request, engine.through(lens).shape, lens.scaling is not None)
                for lens, request in requests
            ]
        )
        reply = masker.masked(
            layout.encode(
                [
                    None if own is None else (own[0], own[1] if weights == "samples" else 1.0)
                    for own, weights in zip(found, how.weights, strict=True)
                ],
                secrets.token_bytes,
                len(how.packages),
            )
        )
        self._questions.begin(questions, (name for name, _ in how.packages))
        self._expect(run, how.number, questions)
        self._log_answered(requests, len(reply.integers), crossed, " under masks")
        return Masked(reply, Note(crossed, self._mark))

    def _expect(self, run: int, number: int, questions: list[Question]) -> None:
        """Remember what was answered until its sum is opened."""
        self._answered[run] = (number, questions)
        self._unopened.add(run)

    def _open(self, told: Survivors, run: int) -> Payload:
        """Agree on who answered, or tell the shares that open the sum of their answers."""
        masking = self._checked_masking()
        if not masking.has_keys(run):
            return Introduced(masking.introduction(run))
        if not told.signatures:
            return Signed(masking.sign_survivors(run, told.number, told.names))
        number, questions = self._answered.get(run, (None, []))
        if number != told.number:
            raise FederationError(f"exchange {told.number} is not the one that was answered last")
        self._questions.check(questions, told.names, is_new=False)
        shares = masking.open(run, told.number, told.names, dict(told.signatures))
        self._questions.record(questions, told.names)
        self._unopened.discard(run)
        return Opened(tuple(shares.values()))

    def _finish(self, model: bytes, run: int) -> Payload:
        """Write the site's own page of a run: what was asked, what left, how good the model is.

        Whatever comes of it, the server hears the same: what a model does on the site's rows is
        not its to know.
        """
        if self._ledger is None or run in self._finished:
            return Noted()
        self._finished.add(run)
        try:
            # Charts take long to import, and a site is to start at once.
            from fedsparse.federation.sites.site_page import write_site_page

            folder = self._ledger.folder
            page = write_site_page(
                folder,
                self.name,
                run,
                read_ledger(folder),
                policy=self._policy,
                model=Model.model_validate_json(model),
                table=self._table,
            )
        except Exception:
            log.exception("%s cannot write its page of the run", self.name)
        else:
            log.info("%s: what was asked in this run and what left is in %s", self.name, page)
        return Noted()

    def _table_digest(self, engine: LocalEngine) -> str:
        """Stands for the rows as they are set up."""
        if self._digest is None or self._digest[0] is not engine:
            self._digest = (engine, engine.fingerprint())
        return self._digest[1]

    def _objection(self, requests: Sequence[Request]) -> str | None:
        """Why some request is not answered, or None."""
        for request in requests:
            objection = self._policy.objection(request, self._table.rows)
            if objection is not None:
                return objection
        judged = sum(type(request).__name__ in JUDGING for request in requests)
        return self._policy.objection_to_spending(len(requests), *self._spent()) or (
            self._policy.objection_to_judging(judged, self._spending.judged_on(self._on_table))
        )

    def _spent(self) -> tuple[int, int]:
        """Answers given so far, on this table and within 30 days."""
        return self._spending.on(self._on_table), self._spending.in_month(datetime.now(UTC))

    @property
    def _on_table(self) -> str:
        """Stands for the table in what was spent."""
        return "" if self._ledger is None else self._ledger.table

    def _answer_of(
        self, engine: LocalEngine, lens: Lens, request: Request
    ) -> tuple[Fields, float] | None:
        """An answer and what its rows weigh; None if the lens shows none, or too few to tell of."""
        fewest = self._policy.smallest_samples
        if isinstance(request, JudgeAlone):
            training, unseen = request.shown(lens)
            if engine.rows_shown(training) < fewest or engine.rows_shown(unseen) < min(
                FEWEST_JUDGED, fewest
            ):
                return None
        if not self._may_tell(engine, lens, request):
            return None
        return engine.answer_of(lens, request, self._policy.fewest_rows(request))

    def _may_tell(self, engine: LocalEngine, lens: Lens, request: Request) -> bool:
        """Whether an answer speaks of many rows; else it is left out like that of too few.

        A server step that overshoots brings honest runs to such an x now and then, and an answer
        that is left out there does no harm: the step is taken back.
        """
        clients = engine.clients_through(lens)
        if clients is None or clients.data.samples < self._policy.fewest_rows(request):
            return True
        if self._cuts_off_few(engine, lens):
            log.warning(
                "%s does not tell %s: its rows are cut so that single ones would show",
                self.name, type(request).__name__,
            )  # fmt: skip
            return False
        rows = clients.data.samples
        fewest, smallest = self._policy.smallest_samples, self._policy.least_weight_of_others(rows)
        if not is_dominated(request, clients, 0, fewest, smallest):
            return True
        log.warning(
            "%s does not tell %s: fewer than %d of the %d rows shown make up nearly all of it",
            self.name, type(request).__name__, fewest, rows,
        )  # fmt: skip
        return False

    def _cuts_off_few(self, engine: LocalEngine, lens: Lens) -> bool:
        """Whether some cut takes a single row away: with and without it, sums tell that row."""
        cuts = lens.rows.cuts
        left = [
            engine.rows_shown(replace(lens, rows=Rows(cuts[:count])))
            for count in range(len(cuts) + 1)
        ]
        return any(0 < before - after < FEWEST_CUT_OFF for before, after in pairwise(left))

    def _check_ratios(self, engine: LocalEngine, requests: Sequence[tuple[Lens, Request]]) -> None:
        """Refuse curvature on many features of few rows where the server would see it.

        Under masks the rows of all sites count, which a site cannot know.
        """
        for lens, request in requests:
            rows = engine.rows_shown(lens)
            if rows >= self._policy.fewest_rows(request):
                objection = self._policy.objection_to_ratio(request, rows)
                if objection is not None:
                    raise FederationError(objection)

    def _learn(self, asks: Asks) -> LocalEngine | None:
        """Keep what was told of setup and lenses; the rows made ready, if the setup is known."""
        if asks.setup is not None:
            if digest_of(asks.setup) != asks.session:
                raise WireError("The setup is not the one that the message names.")
            if self._setup is not None and self._setup[0] != asks.session:
                self._lenses.clear()  # those of another run; what is needed will be told again
            self._setup = (asks.session, asks.setup)
        engine = self._engine(asks.session, is_open=asks.masked is None)
        if engine is None:  # lenses of unknown width: they will be told again
            return None
        most = most_lenses(engine.width)
        if len(asks.lenses) > most:
            raise WireError(f"The message has more than {most} lenses.")
        if len(self._lenses) + len(asks.lenses) > most:
            self._lenses.clear()  # what is still needed will be told again
        for written in asks.lenses:
            lens = lens_from_bytes(written, engine.width)
            objection = self._policy.objection_to_lens(lens) or objection_to_scaling(lens)
            if lens.loss.outcome != engine.lens.loss.outcome:
                objection = "the server takes its outcome for another kind of outcome"
            if objection is not None:
                raise FederationError(objection)
            self._lenses[lens.digest] = lens
        return engine

    def _engine(self, session: str, *, is_open: bool) -> LocalEngine | None:
        """The rows made ready under a setup, or None if it is not known."""
        if self._setup is None or self._setup[0] != session:
            return None
        if self._opened is not None and self._opened[0] == (session, is_open):
            return self._opened[1]
        setup = Setup.from_bytes(self._setup[1])
        # A server may ask for other columns than were described, or without a description.
        used = self._table.describe_used(self.name, setup.agreed)
        self._check_telling(used, is_open=is_open)
        check_cells(setup.agreed, self._table.rows)
        own = self._table.encode(setup.agreed)
        data = FederatedData(
            own.features,
            own.targets,
            np.array([0, own.features.shape[0]]),
            (self.name,),
            np.array([setup.identity]),
            None if own.classes is None else np.arange(own.classes),
            own.row_weights,
        )
        if data.width * (own.classes or 1) > MAX_LENGTH:
            raise WireError(f"The model would have more than {MAX_LENGTH} coefficients.")
        if self._opened is not None:
            self._opened[1].close()
        few = max(FEW_HOLES, self._policy.smallest_samples)
        engine = LocalEngine(data, own.loss, self._threads, few_holes=few)
        self._opened = ((session, is_open), engine)
        if self._ledger is not None:  # which has the secret for it
            key = self._ledger.session_key(session.encode())
            weights = [] if own.row_weights is None else [own.row_weights]
            self._mark = table_digest(own.features, np.concatenate([own.targets, *weights]), key)
        return engine


def _failed(error: Exception) -> str:
    return f"it failed ({type(error).__name__}); its own log says where"


def _parsed(kind: type[_Model], written: dict[str, Any]) -> _Model:
    try:
        return kind.model_validate(written)
    except ValidationError:
        raise WireError("What is to be described or counted is malformed.") from None


def _with_counts(told: Told) -> SiteDescription:
    """What a table is described by before anything is taken away."""
    assert isinstance(told.description, SiteDescription)
    return told.description


def _listed(requests: Sequence[Request]) -> str:
    """Names of requests, each with its number where there are several."""
    counts = Counter(type(request).__name__ for request in requests)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _on_socket(crossed: tuple[int, int] | None) -> str:
    if crossed is None:
        return ""
    down, up = crossed
    return f" (since the last answer {down} bytes came and {up} went over the network)"
