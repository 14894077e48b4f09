"""Bytes to sites and back, over a Flower grid."""

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedsparse.errors import FederationError
from fedsparse.federation.flower_internals import LOST_CODES
from fedsparse.federation.messages import MESSAGE_TYPE, content_of, payload_of
from fedsparse.requests.wire.vectors import WireError

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
"""Seconds between two looks into the mailbox."""

_LOOK_SECONDS = 1.0
_CALL_SECONDS = 300.0
_MOST_LOOKS = 64

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Failure:
    """What came instead of a reply.

    Attributes
    ----------
    reason
        In words.
    is_lost
        The message or its reply got lost on the way; the node may be well.
    """

    reason: str
    is_lost: bool = False


class Mailbox:
    """Posts messages to nodes and looks for replies.

    Parameters
    ----------
    grid
        Flower's.
    seconds
        How long a message stays worth delivering.
    """

    def __init__(self, grid: Grid, seconds: float) -> None:
        self._grid = grid
        self._seconds = seconds
        self._pool = ThreadPoolExecutor(_MOST_LOOKS)
        self._looks: dict[str, Future[list[Message]]] = {}

    def nodes(self) -> dict[int, str]:
        """Nodes that are online, with the name that their key is registered for, if any."""
        nodes = self._finished(self._pool.submit(self._grid.get_nodes))
        return {node.node_id: node.name for node in nodes}

    def post(self, payloads: Mapping[int, bytes], label: str) -> dict[int, str]:
        """Send bytes to nodes; gives the identity of each message that was accepted."""
        messages = [
            Message(content_of(payload), node, MESSAGE_TYPE, ttl=self._seconds, group_id=label)
            for node, payload in payloads.items()
        ]
        if not messages:
            return {}
        accepted = self._finished(self._pool.submit(self._grid.push_messages, messages))
        return {
            node: identity for node, identity in zip(payloads, accepted, strict=True) if identity
        }

    def replies(self, identities: Iterable[str]) -> dict[str, bytes | Failure]:
        """What has come in reply to messages, each told once.

        Every message is looked for by itself: Flower waits for minutes for the rest of a reply
        whose sender fell silent half-way, and the others must not wait with it.
        """
        new = {
            identity: self._pool.submit(self._look, identity)
            for identity in identities
            if identity not in self._looks
        }
        self._looks |= new
        wait(new.values(), timeout=_LOOK_SECONDS)
        done = {own: look for own, look in self._looks.items() if look.done()}
        self._looks = {own: look for own, look in self._looks.items() if own not in done}
        return {
            identity: _opened(message)
            for identity, look in done.items()
            for message in look.result()
        }

    def close(self) -> None:
        """Look no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finished(self, call: "Future[_Result]") -> "_Result":
        """Wait for a call of Flower's, which may take for ever when its server is gone.

        Waiting in short turns lets this thread notice signals, such as that of its own end.
        """
        end = time.monotonic() + _CALL_SECONDS
        while not call.done():
            wait([call], timeout=_LOOK_SECONDS)
            if time.monotonic() > end:
                raise FederationError(
                    f"Flower's SuperLink has not answered for {_CALL_SECONDS:.0f} s; start it "
                    "again and resume"
                )
        return call.result()

    def _look(self, identity: str) -> list[Message]:
        return list(self._grid.pull_messages([identity]))


def pauses() -> Iterator[None]:
    """Wait between looks, ever longer; an endless iterator."""
    seconds = SHORTEST_PAUSE
    while True:
        time.sleep(seconds)
        yield
        seconds = min(1.3 * seconds, LONGEST_PAUSE)


def _opened(message: Message) -> bytes | Failure:
    if message.has_error():
        code = message.error.code
        return Failure(message.error.reason or f"error {code}", code in LOST_CODES)
    try:
        return payload_of(message)
    except WireError as error:
        return Failure(str(error))
