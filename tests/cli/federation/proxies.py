"""A proxy on loopback that counts and keeps what passes, and reads it as HTTP."""

import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

from flwr.proto.message_pb2 import PullObjectResponse

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Exchange:
    """A request, its response, and how many bytes each took on the socket."""

    path: str
    request: bytes
    response: bytes
    bytes_up: int
    bytes_down: int

    @property
    def kind(self) -> str:
        """The last part of the path, such as ``push-object``."""
        return self.path.rpartition("/")[2]

    @property
    def is_idle(self) -> bool:
        """Whether nothing came of it: a look for what is not there yet, or a sign of life.

        How many of these there are depends on the time that all else takes.
        """
        match self.kind:
            case "send-node-heartbeat":
                return True
            case "pull-messages":
                return not self.response
            case "pull-object":
                return not PullObjectResponse.FromString(self.response).object_available
        return False


class Proxy:
    """Passes connections on to a port of this machine."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._streams = []
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
        for end in self._sockets:
            _close(end)

    @property
    def bytes_up(self):
        return sum(len(up) for up, _ in self._streams)

    @property
    def bytes_down(self):
        return sum(len(down) for _, down in self._streams)

    @property
    def content(self):
        """All bytes, both ways."""
        return b"".join(bytes(up) + bytes(down) for up, down in self._streams)

    def exchanges(self):
        """What was said over plain HTTP, connection by connection."""
        found = []
        for up, down in self._streams:
            requests, responses = _messages(bytes(up)), _messages(bytes(down))
            for (head, body, sent), (_, answer, received) in zip(requests, responses, strict=False):
                path = head.split(b" ", 2)[1].decode()
                found.append(Exchange(path, body, answer, sent, received))
        return found

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [near, far]
            up, down = bytearray(), bytearray()
            self._streams.append((up, down))
            for source, sink, kept in ((near, far, up), (far, near, down)):
                threading.Thread(target=_pump, args=(source, sink, kept), daemon=True).start()


def _pump(source, sink, kept):
    try:
        while data := source.recv(65536):
            kept += data
            sink.sendall(data)
    except OSError:
        pass
    finally:
        _close(source)
        _close(sink)


def _close(end):
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _messages(stream):
    """Head, body and size of each HTTP message in a stream."""
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        yield head, rest[:size], len(head) + 4 + size
        stream = rest[size:]
