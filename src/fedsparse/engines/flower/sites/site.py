"""A site: answers what it is asked, on its own rows, within its policy."""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from fedsparse.clients import Clients, open_clients
from fedsparse.codec import WireError, decode_request, encode_answer
from fedsparse.data.federated import FederatedData
from fedsparse.engines.flower.payloads import (
    Answered,
    Ask,
    Described,
    Hello,
    Payload,
    Refused,
    Setup,
    SetupNeeded,
    digest_of,
    from_bytes,
    to_bytes,
)
from fedsparse.engines.flower.sites.policy import Policy
from fedsparse.engines.flower.sites.tables import SiteTable, Told, Wishes
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.tables import SiteDescription
from fedsparse.wire import MAX_LENGTH

log = logging.getLogger("fedsparse.federation")

_ONE = np.zeros(1, dtype=np.int64)


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
    >>> from fedsparse.engines.flower.sites.tables import NamedTable
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
        self._setups: dict[str, bytes] = {}
        self._opened: tuple[str, Clients] | None = None
        self._rounds: Counter[int] = Counter()

    def memory(self) -> dict[str, bytes]:
        """What must be kept for the next message, if another process answers it."""
        rounds = {f"rounds of {run}": str(count).encode() for run, count in self._rounds.items()}
        return {**self._setups, **rounds}

    def recall(self, memory: Mapping[str, bytes]) -> None:
        """Take up what `memory` gave."""
        for name, value in memory.items():
            if name.startswith("rounds of "):
                self._rounds[int(name.removeprefix("rounds of "))] = int(value)
            else:
                self._setups[name] = value

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
            reply = Refused("its rows cannot be used like that; its own log says why")
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
            case Ask():
                return self._answer(message, run, crossed)
        raise WireError("A site was told something that only a site says.")

    def _describe(self, written: dict[str, Any]) -> Payload:
        try:
            wishes = Wishes.model_validate(written)
        except ValidationError:
            raise WireError("What is to be described is malformed.") from None
        told = self._table.describe(self.name, wishes)
        description = told.description
        if wishes.task == "auto":
            description = self._policy.allowed(description)
        self._check_telling(description)
        log.info("%s described its table: %d rows", self.name, self._table.rows)
        return Described(Told(description=description, target=told.target).model_dump(mode="json"))

    def _check_telling(self, description: SiteDescription) -> None:
        """Refuse to tell what the policy forbids."""
        numbers = [own.name for own in description.columns if own.kind == "number"]
        standing_out = self._table.standing_out(numbers, self._policy.smallest_samples)
        objection = self._policy.objection_to_telling(description, standing_out)
        if objection is not None:
            self._log_rare_levels(description)
            raise FederationError(objection)

    def _log_rare_levels(self, description: SiteDescription) -> None:
        """Say here, and here alone, which levels they are."""
        for column in description.columns:
            for level, count in (column.levels or {}).items():
                if count < self._policy.smallest_samples:
                    rare = f'"{level}" of column "{column.name}"'
                    log.warning("%s: %d rows have %s", self.name, count, rare)

    def _answer(self, ask: Ask, run: int, crossed: tuple[int, int] | None) -> Payload:
        if ask.setup is not None:
            self._learn(ask.session, ask.setup)
        clients = self._clients(ask.session)
        if clients is None:
            return SetupNeeded()
        request = decode_request(ask.request, clients.shape)
        objection = self._policy.objection(request, clients.data.samples)
        if objection is not None:
            return Refused(objection)
        if request.is_round:
            limit = self._policy.most_rounds
            if limit is not None and self._rounds[run] >= limit:
                return Refused(f"its policy allows {limit} rounds in a run; train it anew")
            self._rounds[run] += 1
        answer = encode_answer(request.answer(clients, _ONE))
        log.info(
            "%s answered %s with %d bytes%s",
            self.name, type(request).__name__, len(answer), _on_socket(crossed),
        )  # fmt: skip
        return Answered(answer, crossed)

    def _learn(self, session: str, setup: bytes) -> None:
        if digest_of(setup) != session:
            raise WireError("The setup is not the one that the message names.")
        self._setups = {session: setup}

    def _clients(self, session: str) -> Clients | None:
        """The rows made ready under a setup, or None if it is not known."""
        if self._opened is not None and self._opened[0] == session:
            return self._opened[1]
        if session not in self._setups:
            return None
        setup = Setup.from_bytes(self._setups[session])
        # A server may ask for other columns than were described, or without a description.
        fewest = self._policy.smallest_samples
        self._check_telling(self._table.describe_used(self.name, setup.agreed, fewest))
        features, targets, classes = self._table.encode(setup.agreed)
        data = FederatedData(
            features,
            targets,
            np.array([0, features.shape[0]]),
            (self.name,),
            np.array([setup.identity]),
            None if classes is None else np.arange(classes),
        )
        if setup.scaling is not None:
            if setup.scaling.mean.size != data.width:
                raise WireError("The scaling is not one of the agreed columns.")
            data = setup.scaling.scaled(data)
        if self._opened is not None:
            self._opened[1].workers.close()
        clients = open_clients(data, setup.loss, self._threads)
        if math.prod(clients.shape) > MAX_LENGTH:
            raise WireError(f"The model would have more than {MAX_LENGTH} coefficients.")
        self._opened = (session, clients)
        return clients


def _on_socket(crossed: tuple[int, int] | None) -> str:
    if crossed is None:
        return ""
    down, up = crossed
    return f" (since the last answer {down} bytes came and {up} went over the network)"
