"""Flower's SuperLink with doors: sites use one of its APIs, the others are for this machine.

A SuperLink serves three APIs on one port. Whoever reaches the one for control can register sites
and start runs, and Flower asks nobody who they are unless an account system is set up. So here the
other two answer this machine alone.
"""

import ipaddress
import logging
import os
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedsparse.errors import OptionError
from fedsparse.federation import flower_internals
from fedsparse.federation.folder import ServerFolder

log = logging.getLogger("fedsparse.federation")

FOR_SITES = re.compile(r"/v1/fleet/[a-z-]+")
"""Paths of the API that other machines may use."""

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
    """Middleware that keeps other machines from all but the API for sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] == "http" and not self._is_allowed(scope):
            refusal = PlainTextResponse("this is for the server's own machine", 403)
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        if FOR_SITES.fullmatch(scope["path"]):
            return True
        client, server = scope.get("client"), scope.get("server")
        if client is None or server is None:
            return False
        # A machine that talks to its own address comes from there.
        return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback


def run_superlink(folder: ServerFolder, door: Door) -> None:
    """Serve until interrupted."""
    prepare_environment(folder)
    if not door.is_insecure:
        threading.Thread(target=_register_sites, args=(folder, door), daemon=True).start()
    flower_internals.run_superlink(_arguments(folder, door), LocalControl)


def prepare_environment(folder: ServerFolder) -> None:
    """Set what Flower's programs read: no telemetry, no look for updates, files of their own."""
    folder.flower.mkdir(parents=True, exist_ok=True)
    os.environ |= flower_environment(folder.flower)


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


def _register_sites(folder: ServerFolder, door: Door) -> None:
    """Tell the SuperLink which keys may connect, as soon as it listens."""
    sites = {name: _public(path) for name, path in folder.sites().items()}
    with flower_internals.Control(door.local_address, folder.authority) as control:
        for name, key in sites.items():
            _register(control, name, key)
    log.info("%d sites may connect: %s", len(sites), ", ".join(sites) or "none")


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


def _public(path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = load_ssh_public_key(path.read_bytes())
    except ValueError:
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise OptionError(f"{path} is not a site's public key; make it anew or remove it")
    return key
