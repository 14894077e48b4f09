"""Flower's SuperLink with access rules: sites use one of its APIs, this machine the others.

A SuperLink serves three APIs on one port. Whoever reaches the one for control can register sites
and start runs, and Flower asks nobody who they are unless an account system is set up. So here the
other two answer this machine alone, and on it only who can read a secret in the server's folder.
Flower's own programs, which run what was started, are handed that secret, too: the token that
Flower gives them stands in their command line, where every local user can read it.
"""

import hmac
import ipaddress
import logging
import os
import re
import shlex
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedsparse.federation import flower_internals
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.roster import Roster
from fedsparse.federation.server import flower_program
from fedsparse.federation.server.control_secret import make_secret, secret_of
from fedsparse.federation.server.enrolment import enrolled
from fedsparse.files import ready_private_folder, write_atomically

log = logging.getLogger("fedsparse.federation")

FOR_SITES = re.compile(r"/v1/fleet/[a-z-]+")
"""Paths of the API that other machines may use."""

_PROGRAM = 0o700
_START_SECONDS = 60.0
_PAUSE = 0.2


@dataclass(frozen=True)
class Door:
    """Where the server listens.

    Attributes
    ----------
    host, port
        Address to listen at.
    is_insecure
        Without TLS, and without asking sites who they are.
    """

    host: str
    port: int
    is_insecure: bool = False

    @property
    def local_address(self) -> str:
        """Where programs on the same machine reach it.

        Examples
        --------
        >>> Door("0.0.0.0", 8443).local_address
        '127.0.0.1:8443'
        """
        return flower_internals.local_address(self.host, self.port)


class LocalControl:
    """Middleware that keeps other machines and users from all but the API for sites.

    Parameters
    ----------
    app
        What requests are handed to.
    secret
        What the others have to show; None where nothing is protected.
    """

    def __init__(self, app: ASGIApp, secret: str | None) -> None:
        self._app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is not None:
            await JSONResponse({"detail": refusal}, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None if it is not."""
        if FOR_SITES.fullmatch(scope["path"]):
            return None
        if not self._is_local(scope):
            return "this is for the server's own machine"
        if not self._shows_secret(scope):
            return "this is for the owner of the server's folder"
        return None

    def _shows_secret(self, scope: Scope) -> bool:
        if self._secret is None:
            return True
        shown = dict(scope["headers"]).get(flower_internals.SECRET_HEADER.encode(), b"")
        return hmac.compare_digest(shown, self._secret.encode())

    @staticmethod
    def _is_local(scope: Scope) -> bool:
        client, server = scope.get("client"), scope.get("server")
        if client is None or server is None:
            return False
        # A machine that talks to its own address comes from there.
        return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback


def run_superlink(folder: ServerFolder, door: Door) -> None:
    """Serve until interrupted."""
    prepare_environment(folder)
    secret = None
    if not door.is_insecure:
        secret = make_secret(folder)
        hand_secret_to_programs(folder)
        told = (folder, door, enrolled(folder))
        threading.Thread(target=_register_sites, args=told, daemon=True).start()
    flower_internals.run_superlink(_arguments(folder, door), partial(LocalControl, secret=secret))


def prepare_environment(folder: ServerFolder) -> None:
    """Set what Flower's programs read: no telemetry, no look for updates, files of their own."""
    ready_private_folder(folder.flower)
    os.environ |= flower_environment(folder.flower)


def hand_secret_to_programs(folder: ServerFolder) -> None:
    """Have scripts of ours start Flower's programs, so that they show the secret."""
    programs = (folder.flower / "programs").absolute()
    ready_private_folder(programs)
    for name in flower_internals.PROGRAMS:
        # Without -P a module in the folder where the server was started could take Flower's place.
        command = [sys.executable, "-P", "-m", flower_program.__name__, name]
        script = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
        write_atomically(programs / name, script.encode(), _PROGRAM)
    os.environ[flower_program.SECRET_FILE] = str(folder.control_secret.absolute())
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"


def flower_environment(home: Path) -> dict[str, str]:
    """Environment of Flower's programs.

    Examples
    --------
    >>> flower_environment(Path("flower"))["FLWR_TELEMETRY_ENABLED"]
    '0'
    """
    programs = str(Path(sys.executable).parent)
    return {
        "FLWR_HOME": str(home.absolute()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _arguments(folder: ServerFolder, door: Door) -> list[str]:
    common = [
        "--host", door.host, "--port", str(door.port), "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    if door.is_insecure:
        return [*common, "--insecure"]
    return [
        *common,
        "--ssl-ca-certfile", str(folder.authority),
        "--ssl-certfile", str(folder.certificate),
        "--ssl-keyfile", str(folder.key),
        "--enable-supernode-auth",
    ]  # fmt: skip


def _register_sites(folder: ServerFolder, door: Door, roster: Roster) -> None:
    """Tell the SuperLink which keys may connect, as soon as it listens."""
    secret = secret_of(folder)
    with flower_internals.Control(door.local_address, folder.authority, secret) as control:
        for card in roster.cards:
            _register(control, card.name, card.line_key)
    log.info("%d sites may connect: %s", len(roster.names), ", ".join(roster.names) or "none")


def _register(control: flower_internals.Control, name: str, key: ec.EllipticCurvePublicKey) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            control.register(name, key)
            return
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
