"""Who is there: the sites describe their tables, before anything is trained."""

import logging
import time
from collections.abc import Sequence

from pydantic import ValidationError

from fedsparse.errors import FederationError
from fedsparse.federation.payloads import Described, Hello, Refused, from_bytes, to_bytes
from fedsparse.federation.releases import objection_to_release
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.mailbox import Failure, Mailbox, pauses
from fedsparse.federation.sites.site_tables import Told, Wishes
from fedsparse.requests.wire.vectors import WireError
from fedsparse.tables import SiteDescription
from fedsparse.tables.schemas import Outline
from fedsparse.tables.sentences import counted
from fedsparse.version import __version__

log = logging.getLogger("fedsparse.federation")

_LONGEST_NAME = 100
_QUIET_SECONDS = 5.0


def roll_call(mailbox: Mailbox, wishes: Wishes, conduct: Conduct) -> dict[int, Told]:
    """Wait for the sites and have them describe their tables.

    A node that is online and silent is waited for no longer than for an answer in a round.

    Returns
    -------
    dict
        What the sites told, by node, in the order of their names.
    """
    call = _held(mailbox, wishes, conduct)
    told = _in_order(call)
    _check_names([own.description.site for own in told.values()])
    problem = _wrong_number(list(told.values()), call.refusals, conduct)
    if problem is not None:
        raise FederationError(problem)
    return told


def dry_roll_call(
    mailbox: Mailbox, wishes: Wishes, conduct: Conduct
) -> tuple[dict[int, Told], list[str]]:
    """The same without an end at the first problem: who came, and what is wrong with the rest.

    Returns
    -------
    told
        By the sites that described their tables, by node in the order of their names.
    problems
        Why others did not, and whether sites are missing or too many, in sentences.
    """
    call = _held(mailbox, wishes, conduct)
    told = _in_order(call)
    problems = [f"a site would refuse: {reason}" for reason in call.refusals]
    if len(told) + len(problems) != conduct.sites:
        number = _wrong_number(list(told.values()), [], conduct)
        problems += [] if number is None else [number]
    return told, problems


def _held(mailbox: Mailbox, wishes: Wishes, conduct: Conduct) -> "_Call":
    """Greet all sites and hear them, until all have answered or waiting is over."""
    began = time.monotonic()
    call = _Call(mailbox, to_bytes(Hello(wishes.model_dump(mode="json"))), conduct.round_seconds)
    has_told = False
    for _ in pauses():
        call.look()
        waited = time.monotonic() - began
        is_settled = not call.silent or waited > conduct.round_seconds
        if is_settled and len(call.present) + len(call.refusals) >= conduct.sites:
            break
        if waited > conduct.longest_wait:
            break
        if waited > _QUIET_SECONDS and not has_told:
            here = f"{len(call.present)} of {counted(conduct.sites, 'site')}"
            log.info("%s here; waiting for more, at most %.0f s", here, conduct.longest_wait)
            has_told = True
    return call


def _in_order(call: "_Call") -> dict[int, Told]:
    return dict(sorted(call.present.items(), key=lambda entry: entry[1].description.site))


class _Call:
    """Who has been greeted and what they said."""

    def __init__(self, mailbox: Mailbox, hello: bytes, patience: float) -> None:
        self._mailbox = mailbox
        self._hello = hello
        self._patience = patience
        self._greeted: dict[int, float] = {}
        self.silent: dict[str, int] = {}
        self.present: dict[int, Told] = {}
        self.refusals: list[str] = []

    def look(self) -> None:
        """Greet those who are new or have been silent for long, and hear what others reply."""
        registered = self._mailbox.nodes()
        now = time.monotonic()
        silent = set(self.silent.values())
        new = [node for node in sorted(registered) if self._is_due(node, node in silent, now)]
        posted = self._mailbox.post(dict.fromkeys(new, self._hello), "hello")
        self._greeted |= dict.fromkeys(posted, now)
        self.silent |= {identity: node for node, identity in posted.items()}
        for identity, reply in self._mailbox.replies(self.silent).items():
            node = self.silent.pop(identity)
            if isinstance(reply, Failure) and reply.is_lost:  # it may have been started anew
                log.warning("a site did not get the message: %s", reply.reason)
                self._greeted.pop(node, None)
                continue
            if node in self.present:
                continue  # greeted twice
            try:
                self.present[node] = _told(reply, registered.get(node, ""))
                own = self.present[node].description
                log.info("%s is here%s", own.site, _with_rows(own))
            except FederationError as error:
                log.warning("a site does not take part: %s", error)
                self.refusals.append(str(error))

    def _is_due(self, node: int, is_silent: bool, now: float) -> bool:
        greeted = self._greeted.get(node)
        return greeted is None or (is_silent and now - greeted > self._patience)


def _wrong_number(told: Sequence[Told], refusals: Sequence[str], conduct: Conduct) -> str | None:
    """Why those who came are too many or too few, or None."""
    there = ", ".join(own.description.site for own in told) or "none"
    count = len(told)
    were = "was" if conduct.sites == 1 else "were"
    found = f"{counted(conduct.sites, 'site')} {were} expected and {count} came: {there}"
    if count > conduct.sites:
        return f"{found}; say --sites {count}, or stop those that are not meant to take part"
    if count < conduct.fewest:
        said = f" (refused: {'; '.join(refusals)})" if refusals else ""
        advice = "see to those that refused" if refusals else "start the others"
        return f"{found}{said}; {advice}, or lower --sites"
    return None


def _told(reply: bytes | Failure, registered: str) -> Told:
    """What a site told, if it is the one that its key is registered for."""
    told = _parsed(reply, registered)
    name = told.description.site
    if registered and name != registered:
        raise FederationError(
            f"{name!r} has the key of {registered!r}; start it with --name {registered}"
        )
    own = told.description
    if len(name) > _LONGEST_NAME or (isinstance(own, SiteDescription) and own.rows == 0):
        raise FederationError(f"{name[:_LONGEST_NAME]!r} has no rows, or too long a name")
    return told


def _with_rows(description: Outline) -> str:
    """How many rows a site has, if it told."""
    if not isinstance(description, SiteDescription):
        return ""
    return f" with {counted(description.rows, 'row')}"


def _parsed(reply: bytes | Failure, registered: str) -> Told:
    if isinstance(reply, Failure):
        raise FederationError(reply.reason)
    try:
        said = from_bytes(reply)
        if isinstance(said, Refused):
            raise FederationError(said.reason)
        if isinstance(said, Described):
            _check_release(said.release, registered or "a site")
            return Told.model_validate(said.told)
    except (WireError, ValidationError):
        pass
    raise FederationError("its description is malformed; install the same release of fedsparse")


def _check_release(release: str, site: str) -> None:
    """A FederationError if a site's release of fedsparse speaks otherwise; a note if it may."""
    objection = objection_to_release(release, site)
    if objection is not None:
        raise FederationError(objection)
    if release != __version__:
        told = release or "from before 1.0"
        log.warning("%s has fedsparse %s, the server %s; agree on one", site, told, __version__)


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise FederationError(f"two sites are called {name!r}; give each its own --name")
