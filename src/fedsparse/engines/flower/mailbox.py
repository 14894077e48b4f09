"""Bytes to sites and back, over a Flower grid."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

from fedsparse.codec import WireError
from fedsparse.engines.flower.messages import MESSAGE_TYPE, content_of, payload_of

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
"""Seconds between two looks into the mailbox."""


@dataclass(frozen=True)
class Failure:
    """What came instead of a reply."""

    reason: str


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

    def nodes(self) -> dict[int, str]:
        """Nodes that are online, with the name that their key is registered for, if any."""
        return {node.node_id: node.name for node in self._grid.get_nodes()}

    def post(self, payloads: Mapping[int, bytes], label: str) -> dict[int, str]:
        """Send bytes to nodes; gives the identity of each message that was accepted."""
        messages = [
            Message(content_of(payload), node, MESSAGE_TYPE, ttl=self._seconds, group_id=label)
            for node, payload in payloads.items()
        ]
        accepted = self._grid.push_messages(messages) if messages else []
        return {
            node: identity for node, identity in zip(payloads, accepted, strict=True) if identity
        }

    def replies(self, identities: Iterable[str]) -> dict[str, bytes | Failure]:
        """What has come in reply to messages, each told once."""
        wanted = list(identities)
        if not wanted:
            return {}
        return {
            message.metadata.reply_to_message_id: _opened(message)
            for message in self._grid.pull_messages(wanted)
        }


def pauses() -> Iterator[None]:
    """Wait between looks, ever longer; an endless iterator."""
    seconds = SHORTEST_PAUSE
    while True:
        time.sleep(seconds)
        yield
        seconds = min(1.3 * seconds, LONGEST_PAUSE)


def _opened(message: Message) -> bytes | Failure:
    if message.has_error():
        return Failure(message.error.reason or f"error {message.error.code}")
    try:
        return payload_of(message)
    except WireError as error:
        return Failure(str(error))
