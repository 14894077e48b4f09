"""A Flower grid whose nodes live in this process, for tests of what the server makes of replies."""

import itertools

import polars as pl
from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid
from scipy import sparse

from fedsparse.federation.flower_internals import set_identity
from fedsparse.federation.messages import content_of, payload_of
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable

TARGET = "outcome"


class Nodes(Grid):
    """Nodes are functions from bytes to bytes; one that gives None does not answer."""

    def __init__(self, nodes):
        self.nodes = dict(nodes)
        self._numbers = itertools.count(1)
        self._replies = {}

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *arguments, **options):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        identities = []
        for message in messages:
            identity = f"message {next(self._numbers)}"
            set_identity(message, identity)
            node = self.nodes.get(message.metadata.dst_node_id)
            if node is None:
                identities.append("")
                continue
            self._replies[identity] = self._reply(node, message)
            identities.append(identity)
        return identities

    def pull_messages(self, message_ids):
        found = [self._replies.pop(identity, None) for identity in list(message_ids)]
        return [reply() if callable(reply) else reply for reply in found if reply is not None]

    def _reply(self, node, message):
        said = node(payload_of(message))
        if said is None:
            return None
        if isinstance(said, Error):
            return Message(said, reply_to=message)
        content = said if isinstance(said, RecordDict) else content_of(said)
        return Message(content, reply_to=message)


def answering(site):
    return lambda payload: site.reply(payload, run=1)


def table_of(rows, targets, columns=None):
    """Dense rows with names, or CSR rows whose features are numbered from 1."""
    if sparse.issparse(rows):
        shifted = sparse.hstack([sparse.csr_array((rows.shape[0], 1)), rows], format="csr")
        return NumberedTable(sparse.csr_array(shifted), targets)
    names = columns or [f"gene {place}" for place in range(rows.shape[1])]
    columns = dict(zip(names, rows.T, strict=True))
    return NamedTable(pl.DataFrame({**columns, TARGET: targets}), TARGET)


def site_named(name, rows, targets, columns=None, policy=None):
    return Site(name, table_of(rows, targets, columns), policy or Policy(open_sums=True), threads=1)
