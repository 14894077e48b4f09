"""What crosses a site's sockets, counted by the kernel: headers and TLS included."""

import socket
import struct
import sys
import threading
from typing import NamedTuple
from weakref import WeakKeyDictionary

import httpx

_BYTES_ACKED_AND_RECEIVED = struct.Struct("=QQ")
_OFFSET = 120
"""Where Linux keeps them in ``struct tcp_info``."""


class Crossed(NamedTuple):
    """Bytes that came down to a site and went up from it."""

    down: int
    up: int


class SocketMeter:
    """Adds up what each exchange of a site with the server took.

    Idle polling does not count: looks for messages or content that found none, and signs of life.
    It goes on while nothing is asked. Other systems than Linux do not tell; then nothing is known.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: WeakKeyDictionary[socket.socket, Crossed] = WeakKeyDictionary()
        self._total = Crossed(0, 0)

    def count(self, response: httpx.Response, is_idle: bool) -> None:
        """Read the counters of the socket over which a response came."""
        own = response.extensions["network_stream"].get_extra_info("socket")
        now = _counters(own)
        if now is None:
            return
        with self._lock:
            before = self._seen.get(own, Crossed(0, 0))
            self._seen[own] = now
            if not is_idle:
                down, up = (after - first for after, first in zip(now, before, strict=True))
                self._total = Crossed(self._total.down + down, self._total.up + up)

    def take(self) -> Crossed | None:
        """What crossed since it was last taken; None where that is not known."""
        if not sys.platform.startswith("linux"):
            return None
        with self._lock:
            taken, self._total = self._total, Crossed(0, 0)
        return taken


def _counters(own: socket.socket) -> Crossed | None:
    """Bytes received and acknowledged since the connection began."""
    if not sys.platform.startswith("linux"):
        return None
    length = _OFFSET + _BYTES_ACKED_AND_RECEIVED.size
    try:
        told = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, length)
        up, down = _BYTES_ACKED_AND_RECEIVED.unpack_from(told, _OFFSET)
    except (OSError, struct.error):  # closed already, or an old kernel
        return None
    return Crossed(down, up)
