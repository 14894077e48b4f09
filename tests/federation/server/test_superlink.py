"""The server's doors: others reach the API for sites, and no other."""

import asyncio
import os
import stat

import pytest

from fedsparse.federation.flower_internals import SECRET_HEADER
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.server.control_secret import make_secret, secret_of
from fedsparse.federation.server.superlink import (
    Door,
    LocalControl,
    _arguments,
    flower_environment,
    hand_secret_to_programs,
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


def status_of(path, client, secret="right", shown="right"):
    """What a request from an address gets that shows some secret."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path,
        "headers": [] if shown is None else [(SECRET_HEADER.encode(), shown.encode("latin-1"))],
        "client": (client, 40000), "server": SERVER,
    }  # fmt: skip
    asyncio.run(LocalControl(app, secret)(scope, None, send))
    return sent[0]["status"]


@pytest.mark.parametrize(("path", "client", "status"), REQUESTS)
def test_who_may_ask_for_what(path, client, status):
    assert status_of(path, client) == status


def test_a_request_from_nowhere_is_refused():
    scope = {"path": "/v1/control/start-run", "client": None}
    assert "own machine" in LocalControl(None, None)._refusal(scope)


@pytest.mark.parametrize("shown", [None, "", "wrong", "right ", "Right", "r\xefght"])
@pytest.mark.parametrize("path", ["/v1/control/start-run", "/v1/runtime/acquire-task", "/docs"])
def test_on_the_server_s_machine_the_secret_is_needed(path, shown):
    assert status_of(path, "127.0.0.1", shown=shown) == 403
    assert status_of(path, "127.0.0.1") == 200


def test_sites_need_no_secret_nor_does_anybody_without_protection():
    assert status_of("/v1/fleet/pull-messages", "127.0.0.1", shown=None) == 200
    assert status_of("/v1/control/start-run", "127.0.0.1", secret=None, shown=None) == 200


class TestSecret:
    def test_nobody_else_may_read_it(self, tmp_path):
        folder = ServerFolder(tmp_path / "federation")
        assert len(make_secret(folder)) == 64
        assert stat.S_IMODE(folder.control_secret.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700

    def test_it_is_kept(self, tmp_path):
        folder = ServerFolder(tmp_path)
        assert make_secret(folder) == make_secret(folder) == secret_of(folder)

    @pytest.mark.parametrize("left", ["", "0123"])
    def test_a_part_of_one_is_none(self, tmp_path, left):
        folder = ServerFolder(tmp_path)
        folder.control_secret.write_text(left)
        assert secret_of(folder) is None
        assert len(make_secret(folder)) == 64

    def test_one_that_others_may_have_read_is_replaced(self, tmp_path):
        folder = ServerFolder(tmp_path)
        before = make_secret(folder)
        folder.control_secret.chmod(0o644)
        assert make_secret(folder) != before
        assert stat.S_IMODE(folder.control_secret.stat().st_mode) == 0o600

    def test_it_is_in_no_command_line_and_no_variable(self, tmp_path, monkeypatch):
        folder = ServerFolder(tmp_path)
        for name in ("PATH", "FEDSPARSE_SECRET_FILE"):
            monkeypatch.setenv(name, "")
        secret = make_secret(folder)
        hand_secret_to_programs(folder)
        assert secret not in str(dict(os.environ))
        programs = sorted((folder.flower / "programs").iterdir())
        assert [path.name for path in programs] == ["flower-superexec", "flwr-serverapp"]
        assert all(secret not in path.read_text() for path in programs)


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
