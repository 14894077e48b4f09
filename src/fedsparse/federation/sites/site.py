"""A site: answers what it is asked, on its own rows, within its policy."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Described,
    Hello,
    Payload,
    Refused,
    Setup,
    TellMe,
    digest_of,
    from_bytes,
    lens_from_bytes,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.sites.policy import FEWEST_JUDGED, Policy
from fedsparse.federation.sites.site_tables import SiteTable, Told, Wishes
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Softmax, SquaredError
from fedsparse.requests import Request
from fedsparse.requests.wire.answer_bytes import encode_answer
from fedsparse.requests.wire.request_bytes import decode_request
from fedsparse.requests.wire.vectors import MAX_LENGTH, WireError
from fedsparse.tables import Encoding, SiteDescription
from fedsparse.tables.sentences import Finding, counted, listed

log = logging.getLogger("fedsparse.federation")

_MOST_LENSES = 4096
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

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.federation.sites.site_tables import NamedTable
    >>> table = NamedTable(pl.DataFrame({"age": range(6), "days": range(6)}), "days")
    >>> site = Site("bari", table, Policy(), threads=1)
    >>> from_bytes(site.reply(to_bytes(Hello({})), run=1)).told["description"]["rows"]
    6
    """

    def __init__(self, name: str, table: SiteTable, policy: Policy, threads: int) -> None:
        self.name = name
        self._table = table
        self._policy = policy
        self._threads = threads
        self._setup: tuple[str, bytes] | None = None
        self._lenses: dict[str, Lens] = {}
        self._unchecked: set[str] = set()
        self._opened: tuple[str, LocalEngine] | None = None
        self._rounds: Counter[int] = Counter()

    def memory(self) -> dict[str, bytes]:
        """What must be kept for the next message, if another process answers it."""
        rounds = {f"rounds of {run}": str(count).encode() for run, count in self._rounds.items()}
        lenses = {f"lens {digest}": lens_to_bytes(lens) for digest, lens in self._lenses.items()}
        setup = {} if self._setup is None else {f"setup {self._setup[0]}": self._setup[1]}
        return {**setup, **lenses, **rounds}

    def recall(self, memory: Mapping[str, bytes]) -> None:
        """Take up what `memory` gave."""
        for name, value in memory.items():
            what, _, which = name.partition(" ")
            if what == "rounds":
                self._rounds[int(which.removeprefix("of "))] = int(value)
            elif what == "lens":
                self._lenses[which] = lens_from_bytes(value)
            else:
                self._setup = (which, value)

    def look(self) -> None:
        """Say in the site's own log, before anybody asks, all that would make it refuse."""
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
        try:
            said = from_bytes(message)
            reply = self._reply(said, run, crossed)
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
            reply = Refused(f"it failed ({type(error).__name__}); its own log says where")
        if isinstance(reply, Refused):
            log.warning("%s refused: %s", self.name, reply.reason)
            if isinstance(said, Hello):  # nobody knows yet who it is
                reply = Refused(f"{self.name}: {reply.reason}")
        return to_bytes(reply)

    def _reply(self, message: Payload, run: int, crossed: tuple[int, int] | None) -> Payload:
        match message:
            case Hello(wishes):
                return self._describe(wishes)
            case Asks():
                return self._answer(message, run, crossed)
        raise WireError("A site was told something that only a site says.")

    def _describe(self, written: dict[str, Any]) -> Payload:
        try:
            wishes = Wishes.model_validate(written)
        except ValidationError:
            raise WireError("What is to be described is malformed.") from None
        faults = self._table.faults(self.name, wishes)
        for fault in faults:  # they quote rows: they are told here and nowhere else
            log.error("%s", fault.sentence)
        problems = [*self._table.lacking(wishes), *([_ROWS_CANNOT_BE_USED] if faults else [])]
        objection = self._policy.objection_to_few(self._table.rows)
        if objection is not None:
            raise FederationError("; ".join([objection, *problems]))
        if problems and not wishes.dry_run:
            raise FederationError("; ".join(problems))
        told = self._told(wishes, faults)
        if wishes.dry_run:
            more = {"problems": tuple(problems), "limits": self._policy.limits()}
            told = told.model_copy(update=more)
        log.info("%s described its table: %d rows", self.name, self._table.rows)
        return Described(told.model_dump(mode="json"))

    def _told(self, wishes: Wishes, faults: Sequence[Finding]) -> Told:
        """What the policy allows to tell of columns that are not at fault."""
        unusable = dict.fromkeys(fault.column for fault in faults if fault.column is not None)
        told = self._table.describe(self.name, wishes, list(unusable))
        is_asked = wishes.task == "classification"
        description = self._policy.allowed(told.description, numbers_are_classes=is_asked)
        return told.model_copy(update={"description": self._without_withheld(description)})

    def _without_withheld(self, description: SiteDescription) -> SiteDescription:
        """What may be told; which columns and levels may not is said here, and here alone."""
        withheld = self._withheld(description)
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

    def _withheld(self, description: SiteDescription) -> frozenset[str]:
        standing_out = self._table.standing_out(
            description.number_names, self._policy.smallest_samples
        )
        return self._policy.withheld(description, standing_out)

    def _check_telling(self, description: SiteDescription) -> None:
        """Refuse to answer about what the policy forbids to tell."""
        objection = self._policy.objection_to_few(description.rows)
        if objection is not None:
            raise FederationError(objection)
        if self._withheld(description):
            raise FederationError(
                "the server uses columns of which its policy lets it tell nothing"
            )

    def _answer(self, asks: Asks, run: int, crossed: tuple[int, int] | None) -> Payload:
        self._learn(asks)
        engine = self._engine(asks.session)
        unknown = {digest for digest, _ in asks.requests} - self._lenses.keys()
        if engine is None or unknown:
            return TellMe(tuple(sorted(unknown)))
        self._check_fills(engine)
        requests = [
            (lens, decode_request(request, engine.through(lens).shape))
            for lens, request in ((self._lenses[digest], own) for digest, own in asks.requests)
        ]
        objection = self._objection([request for _, request in requests], run)
        if objection is not None:
            return Refused(objection)
        engine.make_room({digest for digest, _ in asks.requests})
        in_order = sorted(range(len(requests)), key=lambda place: asks.requests[place][0])
        found = {place: self._answer_of(engine, *requests[place]) for place in in_order}
        answers = tuple(found[place] for place in range(len(requests)))
        size = sum(len(own[0]) for own in answers if own is not None)
        log.info(
            "%s answered %s with %d bytes%s",
            self.name, _listed([request for _, request in requests]), size, _on_socket(crossed),
        )  # fmt: skip
        return Answered(answers, crossed)

    def _check_fills(self, engine: LocalEngine) -> None:
        """Refuse a lens that would fill few holes with what makes their rows stand out."""
        fewest = self._policy.smallest_samples
        while self._unchecked:
            digest = self._unchecked.pop()
            scaling = self._lenses[digest].scaling
            fill = None if scaling is None else scaling.fill
            places = () if fill is None else engine.standing_out(fill, fewest)
            if len(places):
                del self._lenses[digest]
                # Which they are says where their extremes lie: it is said here and nowhere else.
                names = [self._feature_names()[place] for place in places]
                log.warning("%s: holes would stand out: %s", self.name, listed(names, len(names)))
                raise FederationError(
                    "holes would be filled with a value far from all of its own; see whether "
                    "sites use the same unit, or leave the columns that its own log names out with "
                    "--drop"
                )

    def _feature_names(self) -> tuple[str, ...]:
        """Of the table that was set up."""
        assert self._setup is not None
        return Encoding.model_validate(Setup.from_bytes(self._setup[1]).agreed).feature_names

    def _objection(self, requests: Sequence[Request], run: int) -> str | None:
        """Why some request is not answered, or None; those that are count against the policy."""
        for request in requests:
            objection = self._policy.objection(request, self._table.rows)
            if objection is not None:
                return objection
        rounds = sum(request.is_round for request in requests)
        limit = self._policy.most_rounds
        if limit is not None and self._rounds[run] + rounds > limit:
            return f"its policy allows {limit} answers in a run; train it anew, or ask for less"
        self._rounds[run] += rounds
        return None

    def _answer_of(
        self, engine: LocalEngine, lens: Lens, request: Request
    ) -> tuple[bytes, float] | None:
        """An answer and what its rows weigh; None if the lens shows none, or too few to tell of."""
        fewest = self._policy.smallest_samples
        if isinstance(request, JudgeAlone):
            training, unseen = request.shown(lens, by_class=engine.classes is not None)
            if engine.rows_shown(training) < fewest or engine.rows_shown(unseen) < min(
                FEWEST_JUDGED, fewest
            ):
                return None
        found = engine.answer_of(lens, request, self._policy.fewest_rows(request))
        return None if found is None else (encode_answer(found[0]), float(found[1]))

    def _learn(self, asks: Asks) -> None:
        """Keep what was told of setup and lenses."""
        if asks.setup is not None:
            if digest_of(asks.setup) != asks.session:
                raise WireError("The setup is not the one that the message names.")
            if self._setup is not None and self._setup[0] != asks.session:
                self._lenses.clear()  # those of another run; what is needed will be told again
                self._unchecked.clear()
            self._setup = (asks.session, asks.setup)
        if len(self._lenses) + len(asks.lenses) > _MOST_LENSES:
            self._lenses.clear()  # what is still needed will be told again
            self._unchecked.clear()
        for written in asks.lenses:
            lens = lens_from_bytes(written)
            objection = self._policy.objection_to_lens(lens)
            if objection is not None:
                raise FederationError(objection)
            self._lenses[lens.digest] = lens
            self._unchecked.add(lens.digest)

    def _engine(self, session: str) -> LocalEngine | None:
        """The rows made ready under a setup, or None if it is not known."""
        if self._opened is not None and self._opened[0] == session:
            return self._opened[1]
        if self._setup is None or self._setup[0] != session:
            return None
        setup = Setup.from_bytes(self._setup[1])
        # A server may ask for other columns than were described, or without a description.
        self._check_telling(self._table.describe_used(self.name, setup.agreed))
        features, targets, classes = self._table.encode(setup.agreed)
        data = FederatedData(
            features,
            targets,
            np.array([0, features.shape[0]]),
            (self.name,),
            np.array([setup.identity]),
            None if classes is None else np.arange(classes),
        )
        if data.width * (classes or 1) > MAX_LENGTH:
            raise WireError(f"The model would have more than {MAX_LENGTH} coefficients.")
        if self._opened is not None:
            self._opened[1].close()
        loss = SquaredError() if classes is None else Softmax()
        engine = LocalEngine(data, loss, self._threads)
        self._opened = (session, engine)
        return engine


def _listed(requests: Sequence[Request]) -> str:
    """Names of requests, each with its number where there are several."""
    counts = Counter(type(request).__name__ for request in requests)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _on_socket(crossed: tuple[int, int] | None) -> str:
    if crossed is None:
        return ""
    down, up = crossed
    return f" (since the last answer {down} bytes came and {up} went over the network)"
