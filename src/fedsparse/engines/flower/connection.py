"""A site's line to the server: Flower's Fleet API, without a program that the server could change.

Flower's SuperNode runs the code of the app that a run brings along. Here it is the installed
fedsparse that answers, whatever a run says it is: nothing that comes over the network is executed.
The messages, their signatures and the authentication are Flower's own.
"""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, ErrorCode
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

from fedsparse.engines.flower.messages import MESSAGE_TYPE, content_of, payload_in
from fedsparse.engines.flower.site import Site
from fedsparse.errors import FederationError, OptionError

log = logging.getLogger("fedsparse.federation")

LONGEST_REFUSAL = 90.0
"""Seconds to go on trying when the server refuses the site: it may just have started, or take the
site for still connected after a crash, which Flower does for a minute."""

_LONGEST_PAUSE = 10.0
_OBJECT_SECONDS = 60.0
_SHORT_PAUSE = 0.05

_LINE_ERRORS = (httpx.HTTPError, ObjectPullError, ObjectPushError)


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


def serve(
    site: Site, access: Access, *, patience: float, poll: float, stop: threading.Event
) -> None:
    """Answer the server's messages until told to stop.

    Parameters
    ----------
    site
        Who answers.
    access
        Where the server is.
    patience
        Seconds without the server after which a FederationError ends it all.
    poll
        Seconds between two looks for a message.
    stop
        Set it to end.
    """
    keys = _keys(access)
    last_contact = time.monotonic()
    pause = poll
    while not stop.is_set():
        try:
            with _line(access, keys) as line:
                log.info("%s is connected to %s", site.name, access.address)
                while not stop.is_set():
                    is_busy = line.answer(site)
                    last_contact, pause = time.monotonic(), poll
                    if not is_busy:
                        stop.wait(poll)
        except _LINE_ERRORS as error:
            _give_up_if_hopeless(site, access, error, time.monotonic() - last_contact, patience)
            what = "was not let in" if _is_refusal(error) else "lost the server"
            log.warning("%s %s (%s); trying again", site.name, what, _told(error))
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


class _Line:
    """A node's connection."""

    def __init__(self, client: FleetHttpClient, node: Node) -> None:
        self._client = client
        self._node = node
        self._pool = ThreadPoolExecutor(1)
        self._last: Message | None = None

    def answer(self, site: Site) -> bool:
        """Take one message and answer it; False if there is none."""
        pulled = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not pulled.messages_list:
            return False
        message = message_from_proto(pulled.messages_list[0])
        payload = self._payload(message, pulled.message_object_trees[0])
        if self._last is not None:
            self._pool.submit(self._confirm, self._last)  # a trip that nobody needs to wait for
        self._last = message
        began = time.monotonic()
        reply = _reply(site, message, payload)
        try:
            self._send(reply, time.monotonic() - began)
        except httpx.HTTPStatusError as error:
            if error.response.status_code >= 500 or error.response.status_code == 401:
                raise
            log.warning("%s answered too late: %s", site.name, _told(error))  # the run is over
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
        """Have the server forget a message.

        Only once the next one is there: before, the server may still be storing parts of it that
        we did not ask for. The last one of a run is forgotten with the run.
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


KeyPair = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]


@contextmanager
def _line(access: Access, keys: KeyPair) -> Iterator[_Line]:
    """Connect, stay alive, and say goodbye."""
    public = public_key_to_bytes(keys[1])
    with FleetHttpClient.from_server_address(
        access.address,
        access.authority is None,
        None if access.authority is None else str(access.authority),
        interceptors=[
            _ShortHeaders(),
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(*keys),
        ],
    ) as client:
        if access.key is None:
            with suppress(httpx.HTTPStatusError):  # it is registered since an earlier connection
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
        activated = client.ActivateNode(
            ActivateNodeRequest(public_key=public, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
        )
        line = _Line(client, Node(node_id=activated.node_id))
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


def _reply(site: Site, message: Message, payload: bytes | None) -> Message:
    if payload is None:
        reason = "this site answers fedsparse and nothing else"
        return Message(Error(ErrorCode.LOAD_CLIENT_APP_EXCEPTION, reason), reply_to=message)
    return Message(content_of(site.reply(payload, message.metadata.run_id)), reply_to=message)


def _keys(access: Access) -> KeyPair:
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


def _give_up_if_hopeless(
    site: Site, access: Access, error: Exception, seconds: float, patience: float
) -> None:
    """Raise what waiting will not mend."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise FederationError(
            f"{access.address} is not the server that {access.authority} vouches for "
            f"({_told(error)}); ask its administrator for the right folder"
        ) from None
    if _is_refusal(error) and seconds > min(LONGEST_REFUSAL, patience):
        raise FederationError(
            f"the server does not know {site.name} ({_told(error)}); have its administrator "
            f"register the key {access.key}"
        ) from None
    if seconds > patience:
        raise FederationError(
            f"{access.address} was not reached for {seconds:.0f} s ({_told(error)}); start the "
            "server, or check address and network"
        ) from None


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500


def _told(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, KeyError, TypeError, httpx.ResponseNotRead):
            return str(error.response.json()["detail"])
        return f"status {error.response.status_code}"
    return " ".join(str(error).split()) or type(error).__name__
