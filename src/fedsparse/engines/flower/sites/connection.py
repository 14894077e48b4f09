"""A site's connection: it answers until told to stop, and comes back when the line was away."""

import logging
import threading
import time
from contextlib import suppress
from functools import partial

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from fedsparse.engines.flower.messages import content_of
from fedsparse.engines.flower.sites.line import LINE_ERRORS, Access, Line, keys_of, open_line
from fedsparse.engines.flower.sites.site import Site
from fedsparse.errors import FederationError

log = logging.getLogger("fedsparse.federation")

LONGEST_REFUSAL = 90.0
"""Seconds to go on trying when the server refuses the site: it may just have started, or take the
site for still connected after a crash, which Flower does for a minute."""

_LONGEST_PAUSE = 10.0
_UNKNOWN_OR_THERE = (
    "its key is not registered, another process uses it, or the server takes the site for still "
    "connected, up to a minute after a crash"
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
    pause = poll
    while not stop.is_set():
        try:
            with open_line(access, keys) as line:
                log.info("%s is connected to %s", site.name, access.address)
                while not stop.is_set():
                    is_busy = line.answer(partial(_reply, site, line))
                    last_contact, pause = time.monotonic(), poll
                    if not is_busy:
                        stop.wait(poll)
        except LINE_ERRORS as error:
            _give_up_if_hopeless(site, access, error, time.monotonic() - last_contact, patience)
            if _is_refusal(error):
                log.warning("%s was not let in: %s; trying again", site.name, _UNKNOWN_OR_THERE)
            else:
                log.warning("%s lost the server (%s); trying again", site.name, _told(error))
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _reply(site: Site, line: Line, message: Message, payload: bytes | None) -> Message:
    if payload is None:
        reason = "this site answers fedsparse and nothing else"
        return Message(Error(ErrorCode.LOAD_CLIENT_APP_EXCEPTION, reason), reply_to=message)
    said = site.reply(payload, message.metadata.run_id, line.meter.take())
    return Message(content_of(said), reply_to=message)


def _give_up_if_hopeless(
    site: Site, access: Access, error: Exception, seconds: float, patience: float
) -> None:
    """Raise what waiting will not mend."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise FederationError(
            f"{access.address} is not the server that {access.authority} vouches for "
            f"({_told(error)}); ask its administrator for the right folder"
        ) from None
    if _is_refusal(error) and seconds > min(LONGEST_REFUSAL, patience):
        raise FederationError(
            f"the server does not let {site.name} in ({_told(error)}); have its administrator "
            f"register the key {access.key} and restart the server, or end another process that "
            "uses this key"
        ) from None
    if seconds > patience:
        raise FederationError(
            f"{access.address} was not reached for {seconds:.0f} s ({_told(error)}); start the "
            "server, or check address and network"
        ) from None


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500


def _told(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, KeyError, TypeError, httpx.ResponseNotRead):
            return str(error.response.json()["detail"])
        return f"status {error.response.status_code}"
    return " ".join(str(error).split()) or type(error).__name__
