"""A Flower app of fedsparse: `server` drives an algorithm, `client` answers on a site's file.

Name both in an app's ``pyproject.toml`` (see ``docs/federation.md``) to use it with ``flwr run``,
deployed or simulated. `fedsparse federation` uses them, too.
"""

import json
import logging
from contextlib import closing
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsparse.compute.workers import available_threads
from fedsparse.errors import DataError, OptionError
from fedsparse.federation.logs import show_log
from fedsparse.federation.messages import MESSAGE_TYPE, content_of, payload_of
from fedsparse.federation.payloads import Refused, to_bytes
from fedsparse.federation.server.inspection import inspect_sites
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.training import DryRun, Training
from fedsparse.federation.sites.ledger import Ledger
from fedsparse.federation.sites.policy import Policy, read_policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import check_site_outcome, open_table

log = logging.getLogger("fedsparse.federation")

server = ServerApp()
client = ClientApp()

_MEMORY = "fedsparse"
_CATEGORY, _ACTION = MESSAGE_TYPE.split(".")
assert _CATEGORY == "query"


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train as the run configuration says, or only look at the tables."""
    show_log()
    if context.run_config.get("dry-run"):
        inspect_sites(grid, DryRun.from_run_config(context.run_config))
    else:
        train(grid, Training.from_run_config(context.run_config))


@client.query(_ACTION)
def reply(message: Message, context: Context) -> Message:
    """Answer one message on the site's file, in a process that knows nothing of the last one."""
    show_log()
    try:
        path = _file_of(context)
        name = str(context.node_config.get("name", path.stem))
        folder = context.node_config.get("ledger", path.parent / f"{name}-ledger")
        with closing(
            Ledger(Path(str(folder)), name, f"node {message.metadata.src_node_id}")
        ) as own:
            return _replied(message, context, _site_of(context, name, path, own))
    except (DataError, OptionError, OSError) as error:
        # Flower would send the error itself, which may quote rows.
        log.error("the site's table, policy or ledger cannot be used: %s", error)
        refusal = Refused("its table, policy or ledger cannot be used; its own log says why")
        return Message(content_of(to_bytes(refusal)), reply_to=message)


def _replied(message: Message, context: Context, site: Site) -> Message:
    memory = context.state.get(_MEMORY)
    if isinstance(memory, ConfigRecord):
        site.recall({name: value for name, value in memory.items() if isinstance(value, bytes)})
    said = site.reply(payload_of(message), context.run_id)
    context.state[_MEMORY] = ConfigRecord(dict(site.memory()))
    return Message(content_of(said), reply_to=message)


def _site_of(context: Context, name: str, path: Path, ledger: Ledger) -> Site:
    """The site that a node's configuration describes.

    It holds ``data``, ``target`` (or ``time`` and ``event``), ``exposure``, ``name``, ``policy``,
    ``ledger``, ``accept-table``, and ``drop`` and ``category``, lists in JSON. In Flower's
    simulation ``data`` comes with the run and is a folder; each partition takes a file.
    """
    own = context.node_config
    target = str(own.get("target", context.run_config.get("target", "")))
    policy = own.get("policy")
    drop, categories = (
        tuple(str(name) for name in json.loads(str(own.get(which, "[]"))))
        for which in ("drop", "category")
    )
    time, event, exposure = (
        str(own.get(which, context.run_config.get(which, ""))) or None
        for which in ("time", "event", "exposure")
    )
    check_site_outcome(target or None, exposure, time, event)
    table = open_table(
        path, time or target or None, drop, categories, event=event, exposure=exposure
    )
    # Simulated sites have no administrators who could forbid anything.
    unasked = Policy(open_sums="data" not in own)
    rules = unasked if policy is None else read_policy(Path(str(policy)))
    ledger.open_table(table, rules, str(own.get("accept-table", "")))
    return Site(name, table, rules, available_threads(), ledger)


def _file_of(context: Context) -> Path:
    data = context.node_config.get("data", context.run_config.get("data", ""))
    if not data:
        raise OptionError(
            "this site has no data; start its SuperNode with --node-config 'data=\"FILE\"'"
        )
    path = Path(str(data))
    if not path.is_dir():
        return path
    files = sorted(file for file in path.iterdir() if file.is_file())
    return files[int(context.node_config["partition-id"]) % len(files)]
