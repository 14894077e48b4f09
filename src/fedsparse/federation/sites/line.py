"""A site's line to the server: Flower's Fleet API, without a program that the server could change.

Flower's SuperNode runs the code of the app that a run brings along. Here it is the installed
fedsparse that answers, whatever a run says it is: nothing that comes over the network is executed.
The messages, their signatures and the authentication are Flower's own.
"""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message

from fedsparse.federation.flower_internals import Fleet, KeyPair, Pulled, open_fleet
from fedsparse.federation.messages import MESSAGE_TYPE, payload_in
from fedsparse.federation.site_keys import load_line_key
from fedsparse.federation.sites.meter import SocketMeter

log = logging.getLogger("fedsparse.federation")

_WORTH_FORGETTING = 4096


@dataclass(frozen=True)
class Access:
    """How to reach the server.

    Attributes
    ----------
    address
        ``host:port``.
    authority
        Certificate by which the server is known; None for a connection without protection.
    key
        File with the site's private key; None without protection.
    """

    address: str
    authority: Path | None = None
    key: Path | None = None


@contextmanager
def open_line(access: Access, keys: KeyPair) -> Iterator["Line"]:
    """Connect, stay alive, and say goodbye."""
    meter = SocketMeter()
    with open_fleet(access.address, access.authority, keys, meter.count) as fleet:
        line = Line(fleet, meter)
        try:
            yield line
        finally:
            line.close()


def keys_of(access: Access) -> KeyPair:
    """The site's key pair; without protection, one for the time being."""
    if access.key is None:
        passing = ec.generate_private_key(ec.SECP256R1())
        return passing, passing.public_key()
    private = load_line_key(access.key)
    return private, private.public_key()


class Line:
    """A node's connection.

    Attributes
    ----------
    meter
        Counts what crosses its sockets.
    """

    def __init__(self, fleet: Fleet, meter: SocketMeter) -> None:
        self._fleet = fleet
        self.meter = meter
        self._pool = ThreadPoolExecutor(1)
        self._last: Message | None = None

    def answer(self, reply_to: Callable[[Message, bytes | None], Message]) -> bool:
        """Take one message and answer it; False if there is none.

        ``reply_to`` makes a reply of a message and of the bytes it carries, None if not ours.
        """
        pulled = self._fleet.pull()
        if pulled is None:
            return False
        message, payload = pulled.message, self._payload(pulled)
        if self._last is not None:
            self._pool.submit(self._confirm, self._last)  # a trip that nobody needs to wait for
        is_large = payload is not None and len(payload) > _WORTH_FORGETTING
        self._last = message if is_large else None
        began = time.monotonic()
        reply = reply_to(message, payload)
        try:
            self._fleet.push(reply, time.monotonic() - began)
        except httpx.HTTPStatusError as error:
            if error.response.status_code >= 500 or error.response.status_code == 401:
                raise
            log.warning("an answer came too late: the run is over")
        return True

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False)

    def _payload(self, pulled: Pulled) -> bytes | None:
        """Our bytes of a message, None if it is not ours."""
        if pulled.message.metadata.message_type != MESSAGE_TYPE or pulled.leaf is None:
            return None
        return payload_in(self._fleet.fetch(pulled.message, pulled.leaf))

    def _confirm(self, message: Message) -> None:
        """Have the server forget a large message.

        Only once the next one is there: before, the server may still be storing parts of it that
        we did not ask for. Small ones are forgotten with the run: a request each would double what
        they cost.
        """
        with suppress(httpx.HTTPError):
            self._fleet.confirm(message)
