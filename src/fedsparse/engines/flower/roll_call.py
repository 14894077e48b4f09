"""Who is there: the sites describe their tables, before anything is trained."""

import logging
import time

from pydantic import ValidationError

from fedsparse.codec import WireError
from fedsparse.engines.flower.conduct import Conduct
from fedsparse.engines.flower.mailbox import Failure, Mailbox, pauses
from fedsparse.engines.flower.payloads import Described, Hello, Refused, from_bytes, to_bytes
from fedsparse.engines.flower.tables import Description
from fedsparse.errors import FederationError
from fedsparse.losses import Loss

log = logging.getLogger("fedsparse.federation")


def roll_call(mailbox: Mailbox, loss: Loss, conduct: Conduct) -> dict[int, Description]:
    """Wait for the sites and have them describe their tables.

    Returns
    -------
    dict
        Descriptions by node, in the order of the sites' names.
    """
    end = time.monotonic() + conduct.longest_wait
    present: dict[int, Description] = {}
    refusals: list[str] = []
    greeted: dict[int, str] = {}
    for _ in pauses():
        registered = mailbox.nodes()
        strangers = registered.keys() - greeted.keys()
        hello = to_bytes(Hello(loss.name))
        # A node whose message was not accepted has just left; it is greeted when it is back.
        greeted |= mailbox.post(dict.fromkeys(sorted(strangers), hello), "hello")
        waiting = {identity: node for node, identity in greeted.items() if identity}
        for identity, reply in mailbox.replies(waiting).items():
            node = waiting[identity]  # every greeting is waited for until it is answered
            greeted[node] = ""
            try:
                present[node] = _description(reply, registered.get(node, ""))
                log.info("%s is here with %d rows", present[node].site, present[node].rows)
            except FederationError as error:
                log.warning("a site does not take part: %s", error)
                refusals.append(str(error))
        if len(present) >= conduct.sites:
            break
        if time.monotonic() > end:
            raise _too_few(present, refusals, conduct)
        if len(refusals) > 0 and len(present) + len(refusals) >= conduct.sites:
            if len(present) < conduct.fewest:
                raise _too_few(present, refusals, conduct)
            break
    in_order = sorted(present.items(), key=lambda entry: entry[1].site)
    _check_names([description.site for _, description in in_order])
    return dict(in_order)


def _description(reply: bytes | Failure, registered: str) -> Description:
    """What a site told, if it is the one that its key is registered for."""
    description = _parsed(reply)
    if registered and description.site != registered:
        raise FederationError(
            f"{description.site!r} has the key of {registered!r}; start it with --name {registered}"
        )
    return description


def _parsed(reply: bytes | Failure) -> Description:
    if isinstance(reply, Failure):
        raise FederationError(reply.reason)
    try:
        said = from_bytes(reply)
        if isinstance(said, Refused):
            raise FederationError(said.reason)
        if isinstance(said, Described):
            return Description.model_validate(said.description)
    except (WireError, ValidationError):
        pass
    raise FederationError("its description is malformed; install the same release of fedsparse")


def _too_few(
    present: dict[int, Description], refusals: list[str], conduct: Conduct
) -> FederationError:
    there = ", ".join(sorted(own.site for own in present.values())) or "none"
    said = f" (refused: {'; '.join(refusals)})" if refusals else ""
    return FederationError(
        f"{conduct.sites} sites were expected and {len(present)} came: {there}{said}; "
        "start the others or lower --sites"
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise FederationError(f"two sites are called {name!r}; give each its own --name")
