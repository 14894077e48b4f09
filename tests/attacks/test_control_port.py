"""A local user who is not the server's owner controls the server, or has it run a program.

The attacker is on the server's machine, knows its port and has its certificate, as every site has.
What stops them is the secret that the server's owner alone can read.
"""

import ssl
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from flwr.cli.build import build_fab_from_files
from flwr.proto.control_pb2 import ListRunsRequest, ListRunsResponse, StartRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.runtime_pb2 import GetNodesRequest, GetNodesResponse
from flwr.supercore.constant import TASK_TOKEN_HEADER
from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

from fedsparse.federation.demonstration import free_port, prepare_sites, wait_for_port
from fedsparse.federation.flower_internals import SECRET_HEADER, Control
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.server.control_secret import secret_of
from fedsparse.federation.server.submission import project_of
from fedsparse.federation.server.training import Training

ROOT = Path(__file__).parents[2]
SECONDS = 120
VERSION = dict(RuntimeVersionMetadata.from_local_component("flwr-cli").as_metadata())
GUARDED = ["fedsparse", "federation", "server", "{folder}", "--port", "{port}"]
UNGUARDED = ["tests.attacks.unguarded_server", "{folder}", "{port}"]

THEFT = """
import shutil
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    shutil.copy(context.run_config["from"], context.run_config["to"])
"""
PROJECT = """
[project]
name = "theft"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "me"
[tool.flwr.app.components]
serverapp = "theft:app"
clientapp = "theft:app"
[tool.flwr.app.config]
from = "{source}"
to = "{target}"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),  # Flower's build
    pytest.mark.filterwarnings("ignore:`verify=<str>` is deprecated:DeprecationWarning"),  # too
]


NOTHING = {}


class Victim:
    """A server process, and what everybody on its machine knows of it."""

    def __init__(self, root, command):
        self.folder = ServerFolder(root / "server")
        make_keys(self.folder, ["localhost"])
        prepare_sites(self.folder, ["bari"])
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.certificate = self.folder.package_of("bari") / "ca.crt"
        given = {"folder": self.folder.root, "port": self.port}
        self.log = root / "server.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *(part.format(**given) for part in command)],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for_port(self.port)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def post(self, path, message, headers=NOTHING):
        """A plain request, as anybody can send it."""
        known = {"content-type": "application/protobuf", "accept": "application/protobuf"}
        return httpx.post(
            f"https://{self.address}{path}",
            content=message.SerializeToString(),
            headers=known | VERSION | headers,
            timeout=30.0,
            verify=ssl.create_default_context(cafile=self.certificate),
        )

    def control(self):
        return Control(self.address, self.certificate)

    def own_control(self):
        return Control(self.address, self.folder.authority, secret_of(self.folder))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """What 'fedsparse federation server' starts."""
    server = Victim(tmp_path_factory.mktemp("guarded"), GUARDED)
    yield server
    server.end()


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    """The same with the defence switched off."""
    server = Victim(tmp_path_factory.mktemp("unguarded"), UNGUARDED)
    yield server
    server.end()


def until(look):
    """Look until something is there."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def assert_refused(call, *arguments):
    with pytest.raises(httpx.HTTPStatusError) as caught:
        call(*arguments)
    assert caught.value.response.status_code == 403
    assert "owner of the server's folder" in caught.value.response.text


def theft(victim, loot):
    """A program that copies the authority's key to where the attacker can read it."""
    project = PROJECT.format(source=victim.folder.authority_key.absolute(), target=loot)
    files = {"pyproject.toml": project.encode(), "theft.py": THEFT.encode()}
    content, _ = build_fab_from_files(files)
    return StartRunRequest(fab=Fab(hash_str=sha256(content).hexdigest(), content=content))


class TestAPlainRequest:
    def test_lists_runs_without_the_defence(self, unguarded):
        response = unguarded.post("/v1/control/list-runs", ListRunsRequest())
        assert response.status_code == 200
        ListRunsResponse.FromString(response.content)

    @pytest.mark.parametrize("call", ["list-runs", "list-nodes", "start-run", "stop-run"])
    def test_is_refused(self, guarded, call):
        response = guarded.post(f"/v1/control/{call}", ListRunsRequest())
        assert response.status_code == 403

    def test_is_refused_with_a_secret_that_is_wrong(self, guarded):
        shown = {SECRET_HEADER: "0" * 64}
        response = guarded.post("/v1/control/list-runs", ListRunsRequest(), shown)
        assert response.status_code == 403


class TestOurOwnClientWithoutTheSecret:
    def test_controls_everything_without_the_defence(self, unguarded, tmp_path):
        training = Training(open_sums=True, sparsity=1, sites=1, out=str(tmp_path / "trained"))
        with unguarded.control() as control:
            number = control.start(project_of(training), {})
            assert number in [run.number for run in control.runs()]
            control.stop(number)
            assert [node.name for node in control.nodes()] == ["bari"]

    def test_controls_nothing(self, guarded, tmp_path):
        training = Training(open_sums=True, sparsity=1, sites=1, out=str(tmp_path / "trained"))
        with guarded.control() as control:
            assert_refused(control.runs)
            assert_refused(control.nodes)
            assert_refused(control.start, project_of(training), {})
            assert_refused(control.stop, 7)
        with guarded.own_control() as control:
            assert control.runs() == []


class TestAProgramThatReadsTheAuthoritysKey:
    def test_runs_as_the_server_without_the_defence(self, unguarded, tmp_path):
        loot = tmp_path / "loot"
        with unguarded.control() as control:
            control._client.StartRun(theft(unguarded, loot))
        until(lambda: loot.exists() and loot.stat().st_size)
        assert loot.read_bytes() == unguarded.folder.authority_key.read_bytes()

    def test_is_not_started(self, guarded, tmp_path):
        with guarded.control() as control:
            assert_refused(control._client.StartRun, theft(guarded, tmp_path / "loot"))


class TestATokenSeenInTheListOfProcesses:
    """Flower hands a run's process its token in the command line, which all users can read."""

    def nodes(self, victim, tmp_path):
        training = Training(open_sums=True, sparsity=1, sites=1, out=str(tmp_path / "trained"))
        with victim.own_control() as control:
            number = control.start(project_of(training), {})
            response = until(lambda: self.answer_of(victim))
            control.stop(number)
        return response

    def answer_of(self, victim):
        """What is answered to a token that is seen; none while there is none that is known.

        A process that takes long to begin loses its token, and another one is started.
        """
        token = token_of(victim.port)
        if token is None:
            return None
        response = victim.post(
            "/v1/runtime/get-nodes", GetNodesRequest(), {TASK_TOKEN_HEADER: token}
        )
        return None if response.status_code == 401 else response

    def test_speaks_for_the_run_without_the_defence(self, unguarded, tmp_path):
        response = self.nodes(unguarded, tmp_path)
        assert response.status_code == 200
        GetNodesResponse.FromString(response.content)

    def test_is_of_no_use(self, guarded, tmp_path):
        assert self.nodes(guarded, tmp_path).status_code == 403


def token_of(port):
    """The token of the run's process that talks to a port; none if there is no such process."""
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_text().split("\0") if place.name.isdigit() else []
        except OSError:
            continue
        if f"127.0.0.1:{port}" in command and "--token" in command:
            return command[command.index("--token") + 1]
    return None
