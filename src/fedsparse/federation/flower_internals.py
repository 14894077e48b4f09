"""All that is used of Flower beyond its public interface: a new release is met here alone.

Flower promises to keep ``flwr.app``, ``flwr.clientapp`` and ``flwr.serverapp``, which other modules
import. The rest may change with every release: it is imported here and nowhere else, behind
functions that speak of sites and runs. ``tests/federation/test_flower_contract.py`` checks of
the installed release whatever is relied on.

The protocol is HTTP, and what goes wrong on the way is raised as httpx does.
"""

import datetime
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import (
    HEARTBEAT_DEFAULT_INTERVAL,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_TOLERANCE,
    ErrorCode,
    Status,
    SubStatus,
)
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    StreamLogsResponse,
)
from flwr.proto.fab_pb2 import Fab
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
    UnregisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import Run
from flwr.proto.transport_pb2 import Scalar
from flwr.supercore.address import resolve_bind_address
from flwr.supercore.constant import NodeStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_objects,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import (
    ProtobufCall,
    ProtobufClient,
    ProtobufClientInterceptor,
    ProtobufRequestContext,
)
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from starlette.middleware import Middleware
from starlette.types import ASGIApp

KeyPair = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]

LINE_ERRORS = (httpx.HTTPError, ObjectPullError, ObjectPushError)
CLOCK_AHEAD, CLOCK_BEHIND = float(SYSTEM_TIME_TOLERANCE), float(TIMESTAMP_TOLERANCE)
"""Seconds by which a node's clock may differ from the server's."""
"""What a site's line raises when it is away or damaged."""

LOST_CODES = (
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    ErrorCode.NODE_UNAVAILABLE,
)
"""Codes of errors that say that a message or its reply got lost on the way."""

SECRET_HEADER = "x-fedsparse-secret"
"""Shows the server that a request comes from its owner."""

PROGRAMS = ("flower-superexec", "flwr-serverapp")
"""Flower's programs that talk to the server on its own machine."""

_LOG_SECONDS = 5.0
_MOST_RUNS = 1000
_OBJECT_SECONDS = 60.0
_SHORT_PAUSE = 0.25


def reason_of(error: Exception) -> str:
    """What went wrong on the way to the server or there, in one line.

    Examples
    --------
    >>> reason_of(httpx.ConnectError("[Errno 111] Connection refused"))
    '[Errno 111] Connection refused'
    """
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, KeyError, TypeError, httpx.ResponseNotRead):
            return str(error.response.json()["detail"])
        return f"status {error.response.status_code}"
    return " ".join(str(error).split()) or type(error).__name__


def seconds_ahead(error: Exception) -> float | None:
    """By how much this machine's clock is ahead of the server's, if that is why it refused.

    Flower takes a signature that is from the future, or old, for a wrong one.

    Returns
    -------
    float or None
        Negative if it is behind; None if the server refused for another reason.

    Examples
    --------
    >>> seconds_ahead(httpx.ConnectError("refused")) is None
    True
    """
    if not isinstance(error, httpx.HTTPStatusError) or error.response.status_code != 401:
        return None
    try:
        there = parsedate_to_datetime(error.response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
    ahead = time.time() - there
    # The server tells whole seconds, and its answer was on the way for a while.
    is_why = ahead >= CLOCK_AHEAD or ahead <= -CLOCK_BEHIND
    return ahead if is_why else None


def refusal_of(message: Message, reason: str) -> Message:
    """The reply of a node that does not run what a message is for."""
    return Message(Error(ErrorCode.LOAD_CLIENT_APP_EXCEPTION, reason), reply_to=message)


def set_identity(message: Message, identity: str) -> None:
    """Give a message the identity by which Flower's servers know it."""
    message.metadata.__dict__["_message_id"] = identity


# The server ---------------------------------------------------------------------------------------


def local_address(host: str, port: int) -> str:
    """Where programs on the same machine reach a server that listens at an address.

    Examples
    --------
    >>> local_address("0.0.0.0", 8443)
    '127.0.0.1:8443'
    """
    return resolve_bind_address(f"{host}:{port}")


def run_superlink(arguments: Sequence[str], door: Callable[[ASGIApp], ASGIApp]) -> None:
    """Run Flower's SuperLink in this process until it is interrupted.

    Parameters
    ----------
    arguments
        Of its command line.
    door
        Middleware that every request passes first.
    """
    # Imported here because sites have no use for the server, which takes long to import.
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink

    # The hook that Flower keeps for extensions; ours comes before everything else.
    extensions.get_middleware = lambda: (Middleware(door),)
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


def run_program(name: str, secret: str) -> None:
    """Run one of Flower's programs in this process, which shows a secret with every request."""
    make = ProtobufClient.__init__

    def make_with_secret(
        self: ProtobufClient,
        base_url: str,
        *,
        interceptors: Sequence[ProtobufClientInterceptor] = (),
        **options: Any,
    ) -> None:
        make(self, base_url, interceptors=[*interceptors, _Secret(secret)], **options)

    ProtobufClient.__init__ = make_with_secret  # type: ignore[method-assign]
    [program] = entry_points(group="console_scripts", name=name)
    program.load()()


# Controlling it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownNode:
    """A node that the server knows; ``name`` is empty where nodes need no key."""

    number: int
    name: str
    is_online: bool


@dataclass(frozen=True)
class KnownRun:
    """A run that the server knows.

    Attributes
    ----------
    number
        By which Flower knows it.
    since
        When it began, or was put in line.
    told
        What `Control.start` was told about it.
    is_finished
        Whether it has ended, however it did.
    is_stopped
        Whether somebody ended it.
    """

    number: int
    since: datetime.datetime
    told: Mapping[str, str] = field(default_factory=dict)
    is_finished: bool = False
    is_stopped: bool = False


class Control:
    """Flower's Control API, which registers sites and starts, follows and ends runs.

    Parameters
    ----------
    address
        ``host:port``.
    authority
        Certificate by which the server is known; None for a connection without protection.
    secret
        By which the server knows its owner; None without protection.
    """

    def __init__(self, address: str, authority: Path | None, secret: str | None = None) -> None:
        self._patience = _LogPatience()
        self._client = ControlHttpClient.from_server_address(
            address,
            insecure=authority is None,
            root_certificates=None if authority is None else str(authority),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="flwr-cli"),
                self._patience,
                *([] if secret is None else [_Secret(secret)]),
            ],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def register(self, name: str, key: ec.EllipticCurvePublicKey) -> None:
        """Let in the node that has a key, under a name."""
        self._client.RegisterNode(
            RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name)
        )

    def nodes(self) -> list[KnownNode]:
        """Nodes that may connect, in the order of their names."""
        known = [
            KnownNode(node.node_id, node.name, node.status == NodeStatus.ONLINE)
            for node in self._client.ListNodes(ListNodesRequest()).nodes_info
            if node.status != NodeStatus.UNREGISTERED
        ]
        return sorted(known, key=lambda node: (node.name, node.number))

    def runs(self) -> list[KnownRun]:
        """Runs since the server was started, the last first."""
        listed = self._client.ListRuns(ListRunsRequest(limit=_MOST_RUNS)).run_dict.values()
        return sorted(map(_known_run, listed), key=lambda run: run.since, reverse=True)

    def start(self, project: str, told: Mapping[str, str]) -> int:
        """Start an app, and give the run's number.

        Parameters
        ----------
        project
            The app's ``pyproject.toml``; there is nothing else in it.
        told
            Settings of the app that `runs` shall tell.
        """
        content, _ = build_fab_from_files({"pyproject.toml": project.encode()})
        response = self._client.StartRun(
            StartRunRequest(
                fab=Fab(hash_str=sha256(content).hexdigest(), content=content),
                override_config={name: Scalar(string=value) for name, value in told.items()},
            )
        )
        if not response.HasField("run_id"):
            raise httpx.RemoteProtocolError("the server started no run")
        return response.run_id

    def stop(self, run: int) -> None:
        """Have the server end a run; its process may take a little longer."""
        self._client.StopRun(StopRunRequest(run_id=run))

    def log(self, run: int) -> Iterator[str]:
        """Lines that a run says, from its beginning to its end."""
        rest = ""
        try:
            for part in self._log_parts(run, None):
                *lines, rest = (rest + part.log_output).split("\n")
                yield from lines
        except ValueError as error:  # the server was gone in the middle of a part
            raise httpx.RemoteProtocolError(str(error)) from None
        if rest:
            yield rest

    def log_so_far(self, run: int) -> list[str]:
        """Lines that a run has said; none if it says nothing for a while."""
        try:
            # All that was said by now comes in one part.
            with closing(self._log_parts(run, _LOG_SECONDS)) as parts:
                part = next(parts, None)
        except httpx.ReadTimeout:
            return []
        return [] if part is None else part.log_output.splitlines()

    def _log_parts(
        self, run: int, seconds: float | None
    ) -> Generator[StreamLogsResponse, None, None]:
        self._patience.seconds = seconds
        return self._client.StreamLogs(StreamLogsRequest(run_id=run))


def _known_run(run: Run) -> KnownRun:
    return KnownRun(
        run.run_id,
        datetime.datetime.fromisoformat(run.running_at or run.pending_at),
        {name: value.string for name, value in run.override_config.items()},
        run.status.status == Status.FINISHED,
        run.status.sub_status == SubStatus.STOPPED,
    )


class _Secret:
    """Interceptor that shows the server the secret of its owner."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers[SECRET_HEADER] = self._secret
        return call_next(context)


class _LogPatience:
    """Interceptor that says how long a log may be silent: Flower waits for ever."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        response = call_next(context)
        if context.rpc_method.endswith("/StreamLogs"):
            context.request.extensions["timeout"]["read"] = self.seconds
        return response


# A site's line ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pulled:
    """A message that came for a node.

    Attributes
    ----------
    message
        Without its content.
    leaf
        Where the content is, if it is in one place; None if it is in many.
    """

    message: Message
    leaf: str | None


class Fleet:
    """Flower's Fleet API, by which a node takes messages and answers them."""

    def __init__(self, client: FleetHttpClient, node: int) -> None:
        self._client = client
        self._node = Node(node_id=node)

    def pull(self) -> Pulled | None:
        """The next message, if there is one."""
        pulled = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not pulled.messages_list:
            return None
        leaf = _only_leaf(pulled.message_object_trees[0])
        return Pulled(message_from_proto(pulled.messages_list[0]), leaf)

    def fetch(self, message: Message, leaf: str) -> bytes:
        """A message's content as Flower stores it; it may come a little after the message."""
        pull = make_pull_object_fn_protobuf(
            self._client.PullObject, self._node, message.metadata.run_id
        )
        contents = pull_objects(
            [leaf], pull, max_time=_OBJECT_SECONDS, initial_backoff=_SHORT_PAUSE
        )
        return contents[leaf]

    def confirm(self, message: Message) -> None:
        """Have the server forget a message."""
        confirm = make_confirm_message_received_fn_protobuf(
            self._client.ConfirmMessageReceived, self._node, message.metadata.run_id
        )
        confirm(message.metadata.message_id)

    def push(self, reply: Message, seconds: float) -> None:
        """Send a reply that took some seconds to make."""
        set_identity(reply, reply.object_id)
        with no_object_id_recompute():
            accepted = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[seconds],
                )
            )
            objects = get_all_nested_objects(reply)
            push = make_push_object_fn_protobuf(
                self._client.PushObject, self._node, reply.metadata.run_id, accepted.session_id
            )
            push_objects(
                objects,
                push,
                object_ids_to_push=set(accepted.objects_to_push),
                max_concurrent_pushes=len(objects),
            )

    def heartbeat(self) -> bool:
        """Say that the node is alive."""
        request = SendNodeHeartbeatRequest(
            node=self._node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        try:
            return self._client.SendNodeHeartbeat(request).success
        except httpx.HTTPError:
            return False


@contextmanager
def open_fleet(
    address: str,
    authority: Path | None,
    keys: KeyPair,
    watch: Callable[[httpx.Response, bool], None],
) -> Iterator[Fleet]:
    """Connect a node, keep it alive, and say goodbye.

    Parameters
    ----------
    address
        The server's ``host:port``.
    authority
        Certificate by which it is known; None for a connection without protection, by which a node
        may register itself.
    keys
        The node's.
    watch
        Is handed every response, and whether it belongs to idle polling.
    """
    public = public_key_to_bytes(keys[1])
    with FleetHttpClient.from_server_address(
        address,
        authority is None,
        None if authority is None else str(authority),
        interceptors=[
            _ShortHeaders(),
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(*keys),
            _Watched(watch),
        ],
    ) as client:
        if authority is None:
            with suppress(httpx.HTTPStatusError):  # it is registered since an earlier connection
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
        node = client.ActivateNode(
            ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        ).node_id
        fleet = Fleet(client, node)
        heart = HeartbeatSender(fleet.heartbeat)
        heart.start()
        try:
            yield fleet
        finally:
            heart.stop()
            with suppress(httpx.HTTPError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=node))
                if authority is None:
                    client.UnregisterNode(UnregisterNodeFleetRequest(node_id=node))


def _only_leaf(tree: ObjectTree) -> str | None:
    """Flower keeps a message as a tree of objects; one of ours has one leaf, which holds all."""
    while len(tree.children) == 1:
        tree = tree.children[0]
    return None if tree.children else tree.object_id


class _ShortHeaders:
    """Interceptor that leaves out headers which say nothing here: each request repeats them."""

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        for name in ("accept", "accept-encoding", "connection", "user-agent"):
            del context.request.headers[name]
        return call_next(context)


class _Watched:
    """Interceptor that shows every response to somebody."""

    def __init__(self, watch: Callable[[httpx.Response, bool], None]) -> None:
        self._watch = watch

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        response = call_next(context)
        self._watch(response, _is_idle(context.rpc_method, response))
        return response


def _is_idle(method: str, response: httpx.Response) -> bool:
    """Whether nothing came of a call: how many of them there are is a matter of time alone."""
    match method.rpartition("/")[2]:
        case "SendNodeHeartbeat":
            return True
        case "PullMessages":
            return not response.content
        case "PullObject" if response.is_success:  # the server may not have stored it yet
            return not PullObjectResponse.FromString(response.content).object_available
    return False
