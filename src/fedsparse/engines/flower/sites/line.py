"""A site's line to the server: Flower's Fleet API, without a program that the server could change.

Flower's SuperNode runs the code of the app that a run brings along. Here it is the installed
fedsparse that answers, whatever a run says it is: nothing that comes over the network is executed.
The messages, their signatures and the authentication are Flower's own.
"""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
    UnregisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
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
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedsparse.engines.flower.messages import MESSAGE_TYPE, payload_in
from fedsparse.engines.flower.sites.meter import SocketMeter
from fedsparse.errors import OptionError

log = logging.getLogger("fedsparse.federation")

LINE_ERRORS = (httpx.HTTPError, ObjectPullError, ObjectPushError)
"""What a line that is away or damaged raises."""

KeyPair = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]

_OBJECT_SECONDS = 60.0
_SHORT_PAUSE = 0.25
_WORTH_FORGETTING = 4096


@dataclass(frozen=True)
class Access:
    """How to reach the server.

    Attributes
    ----------
    address
        ``host:port``.
    authority
        Certificate by which the server is known; None for a connection without protection.
    key
        File with the site's private key; None without protection.
    """

    address: str
    authority: Path | None = None
    key: Path | None = None


@contextmanager
def open_line(access: Access, keys: KeyPair) -> Iterator["Line"]:
    """Connect, stay alive, and say goodbye."""
    public = public_key_to_bytes(keys[1])
    meter = SocketMeter()
    with FleetHttpClient.from_server_address(
        access.address,
        access.authority is None,
        None if access.authority is None else str(access.authority),
        interceptors=[
            _ShortHeaders(),
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(*keys),
            meter,
        ],
    ) as client:
        if access.key is None:
            with suppress(httpx.HTTPStatusError):  # it is registered since an earlier connection
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
        activated = client.ActivateNode(
            ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        )
        line = Line(client, Node(node_id=activated.node_id), meter)
        heart = HeartbeatSender(line.heartbeat)
        heart.start()
        try:
            yield line
        finally:
            heart.stop()
            line.close()
            with suppress(httpx.HTTPError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=activated.node_id))
                if access.key is None:
                    client.UnregisterNode(UnregisterNodeFleetRequest(node_id=activated.node_id))


def keys_of(access: Access) -> KeyPair:
    """The site's key pair; without protection, one for the time being."""
    if access.key is None:
        passing = ec.generate_private_key(ec.SECP256R1())
        return passing, passing.public_key()
    try:
        private = load_ssh_private_key(access.key.read_bytes(), None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise OptionError(f"{access.key} is not a site's key; ask the server's administrator")
    return private, private.public_key()


class Line:
    """A node's connection.

    Attributes
    ----------
    meter
        Counts what crosses its sockets.
    """

    def __init__(self, client: FleetHttpClient, node: Node, meter: SocketMeter) -> None:
        self._client = client
        self._node = node
        self.meter = meter
        self._pool = ThreadPoolExecutor(1)
        self._last: Message | None = None

    def answer(self, reply_to: Callable[[Message, bytes | None], Message]) -> bool:
        """Take one message and answer it; False if there is none.

        ``reply_to`` makes a reply of a message and of the bytes it carries, None if not ours.
        """
        pulled = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not pulled.messages_list:
            return False
        message = message_from_proto(pulled.messages_list[0])
        payload = self._payload(message, pulled.message_object_trees[0])
        if self._last is not None:
            self._pool.submit(self._confirm, self._last)  # a trip that nobody needs to wait for
        is_large = payload is not None and len(payload) > _WORTH_FORGETTING
        self._last = message if is_large else None
        began = time.monotonic()
        reply = reply_to(message, payload)
        try:
            self._send(reply, time.monotonic() - began)
        except httpx.HTTPStatusError as error:
            if error.response.status_code >= 500 or error.response.status_code == 401:
                raise
            log.warning("an answer came too late: the run is over")
        return True

    def heartbeat(self) -> bool:
        """Say that the site is alive."""
        request = SendNodeHeartbeatRequest(
            node=self._node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
        )
        try:
            return self._client.SendNodeHeartbeat(request).success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False)

    def _payload(self, message: Message, tree: ObjectTree) -> bytes | None:
        """Our bytes of a message, None if it is not ours.

        Flower keeps a message as a tree of objects; ours has one leaf, and only that is fetched.
        """
        leaf = tree
        while len(leaf.children) == 1:
            leaf = leaf.children[0]
        if message.metadata.message_type != MESSAGE_TYPE or leaf.children:
            return None
        pull = make_pull_object_fn_protobuf(
            self._client.PullObject, self._node, message.metadata.run_id
        )
        contents = pull_objects(
            [leaf.object_id], pull, max_time=_OBJECT_SECONDS, initial_backoff=_SHORT_PAUSE
        )
        return payload_in(contents[leaf.object_id])

    def _confirm(self, message: Message) -> None:
        """Have the server forget a large message.

        Only once the next one is there: before, the server may still be storing parts of it that
        we did not ask for. Small ones are forgotten with the run: a request each would double what
        they cost.
        """
        confirm = make_confirm_message_received_fn_protobuf(
            self._client.ConfirmMessageReceived, self._node, message.metadata.run_id
        )
        with suppress(httpx.HTTPError):
            confirm(message.metadata.message_id)

    def _send(self, reply: Message, seconds: float) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
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


class _ShortHeaders:
    """Interceptor that leaves out headers which say nothing here: each request repeats them."""

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        for name in ("accept", "accept-encoding", "connection", "user-agent"):
            del context.request.headers[name]
        return call_next(context)
