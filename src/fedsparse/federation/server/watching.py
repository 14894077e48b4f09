"""A page on this machine that shows a federation to whoever knows its address.

Every user of the machine can connect to its ports, and so can every web page that is open in a
browser here. So the address has a token that is made at each start. Requests that do not show it
are refused, and so are those that name another host: a page elsewhere could have its own name lead
here. What is served can be looked at and nothing else: no request changes anything.
"""

import hmac
import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fedsparse.errors import OptionError
from fedsparse.federation.server.lookout import Lookout
from fedsparse.report.watch_page import watch_page
from fedsparse.text import visible
from fedsparse.version import __version__

HOST = "127.0.0.1"

_TOKEN_BYTES = 32
_PATIENCE = 10.0
_PATH = re.compile(r"/([A-Za-z0-9_-]{1,100})/(.{0,100})")
_REPORT = re.compile(r"runs/(\d{1,20})/report\.html")

_ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE = (
    f"{_NOTHING}; connect-src 'self'; img-src data:; "
    "script-src 'nonce-{0}'; style-src 'nonce-{0}'"
)
# A report draws its charts by itself. It is kept from everything else, this page included.
_REPORT_PAGE = (
    f"{_NOTHING}; img-src data: blob:; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; sandbox allow-scripts"
)


class Watching(ThreadingHTTPServer):
    """Serves the page; close it as any server.

    Parameters
    ----------
    lookout
        What is shown.
    port
        Where, on this machine; 0: any that is free.
    """

    allow_reuse_port = False  # nobody else may listen there, too

    def __init__(self, lookout: Lookout, port: int) -> None:
        self.lookout = lookout
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise OptionError(
                f"the page cannot be served at {HOST}, port {port} ({error.strerror}); choose "
                "another with --page-port"
            ) from None

    @property
    def url(self) -> str:
        """Where the page is; keep it secret."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser on this machine may call it."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))

    def server_close(self) -> None:
        """Listen no more, and let go of what was looked at."""
        super().server_close()
        self.lookout.close()

    def handle_error(self, *request: Any) -> None:
        """Tell what went wrong, but for a browser that went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*request)


class _Handler(BaseHTTPRequestHandler):
    server: Watching
    timeout = _PATIENCE
    server_version = f"fedsparse/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        asked = _PATH.fullmatch(self.path)
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.FORBIDDEN, "this is for browsers on this machine")
        elif asked is None or not hmac.compare_digest(asked[1], self.server.token):
            self._refuse(HTTPStatus.FORBIDDEN, "use the address that the command told")
        elif asked[2] == "":
            nonce = secrets.token_urlsafe()
            self._send(watch_page(nonce).encode(), "text/html", _PAGE.format(nonce))
        elif asked[2] == "state.json":
            self._send(to_json(asdict(self.server.lookout.look())), "application/json")
        else:
            self._send_report(asked[2])

    def _send_report(self, asked: str) -> None:
        """The page that a run wrote; nothing else is read from any folder."""
        named = _REPORT.fullmatch(asked)
        path = None if named is None else self.server.lookout.report_of(named[1])
        page = None
        if path is not None:
            with suppress(OSError), open(path, "rb", opener=_without_links) as file:
                page = file.read()
        if page is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        else:
            self._send(page, "text/html", _REPORT_PAGE)

    def send_error(self, code: int, *_: object) -> None:
        """Refuse what is no request, or one that would change something."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this can be looked at and nothing else")
        else:
            self._refuse(HTTPStatus(code), HTTPStatus(code).phrase)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        more = {"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._send(f"{reason}\n".encode(), "text/plain", status=status, more=more)

    def _send(
        self,
        content: bytes,
        kind: str,
        policy: str = _NOTHING,
        *,
        status: HTTPStatus = HTTPStatus.OK,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        told = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy,
        }
        for name, value in (_ALWAYS | told | (dict(more) if more else {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is logged: the token is in every address."""


def _without_links(path: str, flags: int) -> int:
    """Open a file, and not one that a link in its place names."""
    return os.open(path, flags | os.O_NOFOLLOW)


def to_json(told: Any) -> bytes:
    r"""JSON in which no text holds what turns a line around or steers a screen.

    Examples
    --------
    >>> to_json({"name": "\u202enekatsim"})
    b'{"name": "\\\\u202enekatsim"}'
    """
    return json.dumps(_visible(told), allow_nan=False).encode()


def _visible(told: Any) -> Any:
    match told:
        case str():
            return visible(told)
        case dict():
            return {name: _visible(value) for name, value in told.items()}
        case list() | tuple():
            return [_visible(value) for value in told]
    return told
