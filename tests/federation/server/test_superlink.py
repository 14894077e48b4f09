"""The server's doors: other machines reach the API for sites, and no other."""

import asyncio

import pytest

from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.server.superlink import (
    Door,
    LocalControl,
    _arguments,
    flower_environment,
)

SERVER = ("192.0.2.2", 8443)
REQUESTS = [
    ("/v1/fleet/pull-messages", "198.51.100.9", 200),
    ("/v1/control/start-run", "198.51.100.9", 403),
    ("/v1/control/register-node", "2001:db8::9", 403),
    ("/v1/runtime/acquire-task", "198.51.100.9", 403),
    ("/docs", "198.51.100.9", 403),
    ("/v1/fleet/../control/start-run", "198.51.100.9", 403),
    ("//v1/control/start-run", "198.51.100.9", 403),
    ("/v1/control/start-run", "127.0.0.1", 200),
    ("/v1/control/start-run", "::1", 200),
    ("/v1/runtime/acquire-task", "192.0.2.2", 200),
]


def status_of(path, client):
    """What a request from an address gets."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "headers": [],
        "client": (client, 40000), "server": SERVER,
    }  # fmt: skip
    asyncio.run(LocalControl(app)(scope, None, send))
    return sent[0]["status"]


@pytest.mark.parametrize(("path", "client", "status"), REQUESTS)
def test_who_may_ask_for_what(path, client, status):
    assert status_of(path, client) == status


def test_a_request_from_nowhere_is_refused():
    refused = LocalControl(None)._is_allowed({"path": "/v1/control/start-run", "client": None})
    assert not refused


def test_tls_and_keys_are_the_default(tmp_path):
    arguments = _arguments(ServerFolder(tmp_path), Door("0.0.0.0", 8443))
    assert "--enable-supernode-auth" in arguments
    assert "--ssl-certfile" in arguments
    assert "--insecure" not in arguments
    assert "--disable-runtime-dependency-installation" in arguments


def test_flower_neither_phones_home_nor_looks_for_updates(tmp_path):
    environment = flower_environment(tmp_path)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_HOME"] == str(tmp_path)
