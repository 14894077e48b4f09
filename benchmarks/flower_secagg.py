"""Flower's SecAgg+ with clients in this process: the least that its workflow asks of a server."""

import copy
import itertools
import logging
from types import SimpleNamespace

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import fitres_to_recorddict, parameters_to_arrayrecord
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.supercore.task_identity import TaskIdentity

from fedsparse.federation.flower_internals import set_identity

_MOST_SHARES = 1.0
_THRESHOLD = 0.51


class _Grid:
    """Has every node's mod answer at once."""

    def __init__(self, vectors, clock):
        self._vectors = vectors
        self._contexts = {node: _context(node) for node in range(1, len(vectors) + 1)}
        self._numbers = itertools.count(1)
        self.clock = clock

    def send_and_receive(self, messages, *, timeout=None):
        return [self._reply(message) for message in messages]

    def _reply(self, message):
        message = copy.deepcopy(message)  # as if it had travelled: nodes change what they get
        set_identity(message, f"message {next(self._numbers)}")
        node = message.metadata.dst_node_id
        self.clock.down += _size(message.content)
        with self.clock.at_site():
            reply = secaggplus_mod(message, self._contexts[node], self._fit)
        self.clock.up += _size(reply.content)
        return reply

    def _fit(self, message, _):
        own = self._vectors[message.metadata.dst_node_id - 1]
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([own]), 1, {})
        return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)


class _Strategy:
    """Asks all, and keeps what came of it."""

    def __init__(self, sites):
        self._sites = sites
        self.found = None

    def configure_fit(self, server_round, parameters, client_manager):
        empty = FitIns(ndarrays_to_parameters([]), {})
        return [(SimpleNamespace(node_id=node), empty) for node in range(1, self._sites + 1)]

    def aggregate_fit(self, server_round, results, failures):
        (self.found,) = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}


def exchanges(vectors, clock_of):
    """Yields a clock after every exchange, and the sum."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    sites = len(vectors)
    for number in itertools.count(1):
        strategy = _Strategy(sites)
        grid = _Grid(vectors, clock_of())
        context = LegacyContext(_context(0), strategy=strategy)
        context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {Key.CURRENT_ROUND: number}
        )
        context.state.array_records[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(
            ndarrays_to_parameters([]), keep_input=False
        )
        SecAggPlusWorkflow(_MOST_SHARES, _THRESHOLD, max_weight=float(sites))(grid, context)
        yield grid.clock, strategy.found * sites


def _context(node):
    return Context(
        run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={}, series_id=1
    )


def _size(content):
    """Bytes of what a message holds."""
    records = content.config_records.values()
    values = [value for record in records for value in record.values()]
    flat = [own for value in values for own in (value if isinstance(value, list) else [value])]
    numbers = sum(not isinstance(own, bytes | str) for own in flat)
    return 8 * numbers + sum(len(own) for own in flat if isinstance(own, bytes | str))
