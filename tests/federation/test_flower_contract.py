"""What `flower_internals` relies on in the installed release of Flower.

The rest of fedsparse is tested with what Flower shows; these tests say which part of an internal
module changed when a release of Flower is new. Run them first, and add the release to `RELEASES`
once they and the tests of federations pass.
"""

import ast
import inspect
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import flwr
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.cli import build
from flwr.common import constant, serde
from flwr.proto import (
    control_pb2,
    fab_pb2,
    fleet_pb2,
    heartbeat_pb2,
    message_pb2,
    node_pb2,
    run_pb2,
    runtime_pb2,
    transport_pb2,
)
from flwr.serverapp import Grid
from flwr.supercore import constant as core_constant
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable import (
    inflatable_object,
    inflatable_protobuf_utils,
    inflatable_utils,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufClient, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.routers.fleet import node_auth
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedsparse.federation import flower_internals
from fedsparse.federation.demonstration import free_port, wait_for_port
from fedsparse.federation.messages import MESSAGE_TYPE, content_of, payload_in
from fedsparse.federation.payloads import Hello, from_bytes
from fedsparse.federation.server.submission import project_of
from fedsparse.federation.server.training import Training
from tests.federation.guarded_superlink import ELSEWHERE

RELEASES = ("1.41", "1.42")
"""Releases of Flower that fedsparse supports, as ``pyproject.toml`` says, too."""

ROOT = Path(__file__).parents[2]
SECONDS = 120


def test_the_installed_release_is_supported():
    release = ".".join(flwr.__version__.split(".")[:2])
    print(f"Flower {flwr.__version__}")
    assert release in RELEASES


def _imported_by(path):
    """Modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_nothing_else_uses_flower_beyond_its_public_interface():
    source = ROOT / "src" / "fedsparse"
    public = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"}
    beyond = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for module in _imported_by(path)
        if module.partition(".")[0] == "flwr" and module not in public
    }
    assert beyond == {"federation/flower_internals.py"}


def _named(own):
    return getattr(own, "__qualname__", "")


CALLS = {
    build.build_fab_from_files: "files",
    ControlHttpClient.from_server_address:
        "server_address insecure root_certificates interceptors",
    FleetHttpClient.from_server_address: "server_address insecure root_certificates interceptors",
    RuntimeVersionHttpInterceptor: "component_name",
    ProtobufClient: "base_url interceptors verify timeout retry_invoker",
    NodeAuthHttpInterceptor: "private_key public_key",
    HeartbeatSender: "heartbeat_fn",
    serde.message_from_proto: "message_proto",
    serde.message_to_proto: "message",
    inflatable_object.get_all_nested_objects: "obj",
    inflatable_object.get_object_tree: "obj",
    inflatable_protobuf_utils.make_confirm_message_received_fn_protobuf:
        "confirm_message_received_protobuf node run_id",
    inflatable_protobuf_utils.make_pull_object_fn_protobuf: "pull_object_protobuf node run_id",
    inflatable_protobuf_utils.make_push_object_fn_protobuf:
        "push_object_protobuf node run_id session_id",
    inflatable_utils.pull_objects: "object_ids pull_object_fn max_time initial_backoff",
    inflatable_utils.push_objects:
        "objects push_object_fn object_ids_to_push max_concurrent_pushes",
    Grid.push_messages: "self messages",
    Grid.pull_messages: "self message_ids",
    Grid.get_nodes: "self",
}  # fmt: skip


@pytest.mark.parametrize(("call", "given"), CALLS.items(), ids=_named)
def test_calls_take_what_they_are_given_and_need_no_more(call, given):
    parameters = inspect.signature(call).parameters
    needed = {own.name for own in parameters.values() if own.default is own.empty}
    assert needed <= set(given.split()) <= parameters.keys()


FIELDS = {
    control_pb2.RegisterNodeRequest: "public_key name",
    control_pb2.ListNodesResponse: "nodes_info",
    control_pb2.ListRunsRequest: "limit",
    control_pb2.ListRunsResponse: "run_dict",
    control_pb2.StartRunRequest: "fab override_config",
    control_pb2.StartRunResponse: "run_id",
    control_pb2.StopRunRequest: "run_id",
    control_pb2.StreamLogsRequest: "run_id",
    control_pb2.StreamLogsResponse: "log_output",
    fab_pb2.Fab: "hash_str content",
    fleet_pb2.ActivateNodeRequest: "public_key heartbeat_interval",
    fleet_pb2.ActivateNodeResponse: "node_id",
    fleet_pb2.DeactivateNodeRequest: "node_id",
    fleet_pb2.PullMessagesRequest: "node",
    fleet_pb2.PullMessagesResponse: "messages_list message_object_trees",
    fleet_pb2.PushMessagesRequest:
        "node messages_list message_object_trees clientapp_runtime_list",
    fleet_pb2.PushMessagesResponse: "session_id objects_to_push",
    fleet_pb2.RegisterNodeFleetRequest: "public_key",
    fleet_pb2.UnregisterNodeFleetRequest: "node_id",
    heartbeat_pb2.SendNodeHeartbeatRequest: "node heartbeat_interval",
    heartbeat_pb2.SendNodeHeartbeatResponse: "success",
    message_pb2.ObjectTree: "object_id children",
    message_pb2.PullObjectResponse: "object_found object_available object_content",
    node_pb2.Node: "node_id",
    node_pb2.NodeInfo: "node_id name status",
    run_pb2.Run: "run_id pending_at running_at override_config status",
    run_pb2.RunStatus: "status sub_status",
    transport_pb2.Scalar: "string",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "used"), FIELDS.items(), ids=_named)
def test_protocol_messages_have_the_fields_that_are_used(kind, used):
    assert set(used.split()) <= set(kind.DESCRIPTOR.fields_by_name)


def test_constants_are_those_that_are_compared_with():
    assert (constant.Status.FINISHED, constant.SubStatus.STOPPED) == ("finished", "stopped")
    assert core_constant.NodeStatus.ONLINE == "online"
    assert core_constant.NodeStatus.UNREGISTERED == "unregistered"
    assert constant.HEARTBEAT_DEFAULT_INTERVAL > 0
    codes = {*flower_internals.LOST_CODES, constant.ErrorCode.LOAD_CLIENT_APP_EXCEPTION}
    assert len(codes) == 4


class TestMessages:
    def test_an_identity_can_be_given(self):
        message = Message(content_of(b"hello"), 1, MESSAGE_TYPE)
        flower_internals.set_identity(message, "mine")
        assert message.metadata.message_id == "mine"

    def test_ours_have_one_leaf_that_holds_our_bytes(self):
        message = Message(content_of(b"hello"), 1, MESSAGE_TYPE)
        leaf = flower_internals._only_leaf(inflatable_object.get_object_tree(message))
        stored = inflatable_object.get_all_nested_objects(message)[leaf].deflate()
        assert payload_in(stored) == b"hello"
        assert payload_in(b"something else") is None

    def test_others_have_many(self):
        content = RecordDict({name: ConfigRecord({"a": 1}) for name in ("one", "two")})
        content["two"]["a"] = 2  # equal records are one object
        tree = inflatable_object.get_object_tree(Message(content, 1, "train"))
        assert flower_internals._only_leaf(tree) is None

    def test_a_refusal_is_an_error_with_a_reason(self):
        message = Message(content_of(b"hello"), 1, MESSAGE_TYPE)
        reply = flower_internals.refusal_of(message, "not here")
        assert isinstance(reply.error, Error)
        assert reply.error.reason == "not here"
        assert reply.error.code not in flower_internals.LOST_CODES


class TestClocks:
    """A refusal is laid to the clock only where Flower refuses for it."""

    def refusal(self, ahead, status=401):
        date = format_datetime(datetime.now(UTC) - timedelta(seconds=ahead), usegmt=True)
        request = httpx.Request("POST", "http://localhost")
        response = httpx.Response(status, headers={"date": date}, request=request)
        return httpx.HTTPStatusError("no", request=request, response=response)

    @pytest.mark.parametrize("ahead", [7, 3600, -302, -1e6])
    def test_a_wrong_one_is_measured(self, ahead):
        assert abs(flower_internals.seconds_ahead(self.refusal(ahead)) - ahead) < 2

    @pytest.mark.parametrize("ahead", [0, 3, -60, -290])
    def test_one_that_flower_tolerates_is_no_reason(self, ahead):
        assert flower_internals.seconds_ahead(self.refusal(ahead)) is None

    def test_other_refusals_are_not_laid_to_it(self):
        assert flower_internals.seconds_ahead(self.refusal(3600, 403)) is None
        assert flower_internals.seconds_ahead(httpx.ConnectError("no")) is None

    def test_tolerances_are_what_flower_checks(self):
        checked = inspect.getsource(node_auth.authenticate_node)
        assert "-SYSTEM_TIME_TOLERANCE" in checked
        assert "TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE" in checked
        assert (constant.SYSTEM_TIME_TOLERANCE, constant.TIMESTAMP_TOLERANCE) == (5, 300)


class TestPrograms:
    """Flower's programs that the server starts show its secret with every request."""

    def test_those_that_the_server_starts_are_known(self):
        superlink = import_module("flwr.superlink.cli.flower_superlink")
        command = superlink._get_superexec_command("localhost:1", None, None, 1, False)
        app = core_constant.TASK_TYPE_TO_COMMAND[core_constant.TaskType.SERVER_APP]
        assert (command[0], app) == flower_internals.PROGRAMS
        installed = {own.name for own in entry_points(group="console_scripts")}
        assert installed.issuperset(flower_internals.PROGRAMS)

    def test_their_client_is_ours_to_change(self):
        assert issubclass(RuntimeHttpClient, ProtobufClient)
        assert RuntimeHttpClient.__init__ is ProtobufClient.__init__

    def test_a_secret_goes_along_with_every_request(self, monkeypatch):
        seen = []
        monkeypatch.setattr(ProtobufClient, "__init__", ProtobufClient.__init__)
        monkeypatch.setattr(
            httpx.Client,
            "send",
            lambda self, request, **_: seen.append(request) or httpx.Response(200, request=request),
        )

        class Program:
            def load(self):
                return self.run

            def run(self):
                client = RuntimeHttpClient.from_server_address("localhost:1", True, None, [])
                client.AcquireTask(runtime_pb2.AcquireTaskRequest())

        monkeypatch.setattr(flower_internals, "entry_points", lambda **_: [Program()])
        flower_internals.run_program("flower-superexec", "hush")
        [request] = seen
        assert request.headers[flower_internals.SECRET_HEADER] == "hush"


class TestIdlePolling:
    """What came of a call decides whether it counts, never how often it was made."""

    @pytest.mark.parametrize(
        ("call", "content", "is_idle"),
        [
            ("SendNodeHeartbeat", b"\x08\x01", True),
            ("PullMessages", b"", True),
            ("PullMessages", b"\n\x00", False),
            ("PullObject", {"object_found": True}, True),
            ("PullObject", {"object_found": True, "object_available": True}, False),
            ("PushObject", b"", False),
        ],
        ids=["sign of life", "no message", "message", "no content yet", "content", "answer"],
    )
    def test_is_what_nothing_came_of(self, call, content, is_idle):
        if isinstance(content, dict):
            content = message_pb2.PullObjectResponse(**content).SerializeToString()
        response = httpx.Response(200, content=content)
        seen = []
        watched = flower_internals._Watched(lambda *told: seen.append(told))
        request = httpx.Request("POST", "http://localhost")
        context = ProtobufRequestContext(f"/flwr.proto.Fleet/{call}", None, request)
        assert watched.intercept(context, lambda _: response) is response
        assert seen == [(response, is_idle)]

    def test_is_not_a_refusal(self):
        response = httpx.Response(403, json={"detail": "no"})
        assert not flower_internals._is_idle("/flwr.proto.Fleet/PullObject", response)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A SuperLink of the installed release, behind a door of ours."""
    port = free_port()
    home = tmp_path_factory.mktemp("flower")
    with open(home / "superlink.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.federation.guarded_superlink", str(port), str(home)],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_port(port)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def until(look):
    """Look until something is there."""
    end = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # by Flower's build
class TestServer:
    def test_the_door_is_passed_first(self, address):
        url = f"http://{address}/v1/control/list-runs"
        assert httpx.post(url, headers={ELSEWHERE: "1"}).text == "no"
        assert httpx.post(url).text != "no"

    def test_a_node_takes_the_messages_of_a_run_that_is_started_followed_and_stopped(
        self, address, tmp_path
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        seen = []
        watch = lambda response, is_idle: seen.append(is_idle)  # noqa: E731
        told = {"out": str(tmp_path / "trained")}
        training = Training(open_sums=True, sparsity=1, sites=1, **told)
        with (
            flower_internals.Control(address, None) as control,
            flower_internals.open_fleet(address, None, (key, key.public_key()), watch) as fleet,
        ):
            [node] = control.nodes()
            assert (node.name, node.is_online) == ("", True)
            assert fleet.heartbeat()
            assert fleet.pull() is None
            assert seen[-1]
            assert control.runs() == []

            number = control.start(project_of(training), told)
            pulled = until(fleet.pull)
            assert pulled.message.metadata.message_type == MESSAGE_TYPE
            assert pulled.message.metadata.run_id == number
            stored = fleet.fetch(pulled.message, pulled.leaf)
            assert isinstance(from_bytes(payload_in(stored)), Hello)
            assert not seen[-1]
            fleet.push(flower_internals.refusal_of(pulled.message, "not today"), 0.5)
            fleet.confirm(pulled.message)

            [run] = control.runs()
            assert (run.number, run.told, run.is_finished) == (number, told, False)
            with closing(control.log(number)) as lines:
                assert any("not today" in line for line in lines)
            assert any("not today" in line for line in control.log_so_far(number))
            # It ended by itself, for want of sites.
            until(lambda: control.runs()[0].is_finished)
            assert not control.runs()[0].is_stopped

            second = control.start(project_of(training), told)
            until(fleet.pull)
            control.stop(second)
            ended = next(own for own in control.runs() if own.number == second)
            assert (ended.is_finished, ended.is_stopped) == (True, True)
            assert isinstance(list(control.log(second)), list)  # it ends with the run
            with pytest.raises(httpx.HTTPStatusError) as caught:
                control.stop(second)
            assert "finished" in flower_internals.reason_of(caught.value)
        with flower_internals.Control(address, None) as control:
            assert control.nodes() == []

    def test_a_log_that_is_silent_is_not_waited_for_for_ever(self, address, tmp_path, monkeypatch):
        monkeypatch.setattr(flower_internals, "_LOG_SECONDS", 1e-6)
        training = Training(open_sums=True, sparsity=1, sites=1, out=str(tmp_path))
        with flower_internals.Control(address, None) as control:
            number = control.start(project_of(training), {})
            assert control.log_so_far(number) == []
            control.stop(number)
