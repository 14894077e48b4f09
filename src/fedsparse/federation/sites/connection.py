"""A site's connection: it answers until told to stop, and comes back when the line was away."""

import logging
import threading
import time
from functools import partial

import httpx
from flwr.app import Message

from fedsparse.errors import FederationError
from fedsparse.federation.flower_internals import LINE_ERRORS, reason_of, refusal_of, seconds_ahead
from fedsparse.federation.messages import content_of
from fedsparse.federation.sites.line import Access, Line, keys_of, open_line
from fedsparse.federation.sites.site import Site

log = logging.getLogger("fedsparse.federation")

LONGEST_REFUSAL = 90.0
"""Seconds to go on trying when the server refuses the site: it may just have started, or take the
site for still connected after a crash, which Flower does for a minute."""

_LONGEST_PAUSE = 10.0
_SHARE_IF_EXPECTING = 0.2
"""Of the time between two looks, while a second message of an exchange is due."""
_UNKNOWN_OR_THERE = (
    "the server is still starting, the site's key is not registered, another process uses it, or "
    "the server takes the site for still connected, up to a minute after a crash"
)


def serve(
    site: Site, access: Access, *, patience: float, poll: float, stop: threading.Event
) -> None:
    """Answer the server's messages until told to stop.

    Parameters
    ----------
    site
        Who answers.
    access
        Where the server is.
    patience
        Seconds without the server after which a FederationError ends it all.
    poll
        Seconds between two looks for a message.
    stop
        Set it to end.
    """
    keys = keys_of(access)
    last_contact = time.monotonic()
    has_connected = False
    pause = poll
    while not stop.is_set():
        try:
            with open_line(access, keys) as line:
                has_connected = True
                log.info("%s is connected to %s", site.name, access.address)
                while not stop.is_set():
                    is_busy = line.answer(partial(_reply, site, line))
                    last_contact, pause = time.monotonic(), poll
                    if not is_busy:
                        stop.wait(poll * _SHARE_IF_EXPECTING if site.is_expecting else poll)
        except LINE_ERRORS as error:
            _give_up_if_hopeless(site, access, error, time.monotonic() - last_contact, patience)
            log.warning("%s %s; trying again", site.name, _plight(access, error, has_connected))
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _reply(site: Site, line: Line, message: Message, payload: bytes | None) -> Message:
    if payload is None:
        reason = "this site answers fedsparse and nothing else"
        return refusal_of(message, reason)
    said = site.reply(payload, message.metadata.run_id, line.meter.take())
    return Message(content_of(said), reply_to=message)


def _plight(access: Access, error: Exception, has_connected: bool) -> str:
    """Why there is no line at the moment."""
    if _is_refusal(error):
        return f"was not let in: {_wrong_clock(error) or _UNKNOWN_OR_THERE}"
    if has_connected:
        return f"lost the server ({reason_of(error)})"
    return f"has not reached the server at {access.address} yet ({reason_of(error)})"


def _give_up_if_hopeless(
    site: Site, access: Access, error: Exception, seconds: float, patience: float
) -> None:
    """Raise what waiting will not mend."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise FederationError(
            f"{access.address} is not the server that {access.authority} vouches for "
            f"({reason_of(error)}); ask its administrator for the right folder"
        ) from None
    if _is_refusal(error) and seconds > min(LONGEST_REFUSAL, patience):
        why = _wrong_clock(error) or (
            f"{reason_of(error)}; have its administrator add the card that belongs to {access.key} "
            "to the roster and restart the server, or end another process that uses this key"
        )
        raise FederationError(f"the server does not let {site.name} in: {why}") from None
    if seconds > patience:
        raise FederationError(
            f"{access.address} was not reached for {seconds:.0f} s ({reason_of(error)}); start the "
            "server, or check address and network"
        ) from None


def _wrong_clock(error: Exception) -> str | None:
    """What is wrong with the clock of this machine, if that is why the server refuses."""
    ahead = seconds_ahead(error)
    if ahead is None:
        return None
    return (
        f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} "
        "the server's; set the one that is wrong, best by NTP"
    )


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500
