"""``fedsparse federation``: sites on a network, on Flower."""

import typer

from fedsparse.cli.federation.check_command import check
from fedsparse.cli.federation.demo_command import demo
from fedsparse.cli.federation.inspect_command import inspect
from fedsparse.cli.federation.join_command import join
from fedsparse.cli.federation.keys_command import keys
from fedsparse.cli.federation.ledger_command import ledger
from fedsparse.cli.federation.replay_command import replay
from fedsparse.cli.federation.roster_command import roster
from fedsparse.cli.federation.server import server
from fedsparse.cli.federation.site_command import site
from fedsparse.cli.federation.status import status
from fedsparse.cli.federation.stop import stop
from fedsparse.cli.federation.train import train
from fedsparse.cli.federation.watch_command import watch

app = typer.Typer(
    name="federation",
    help="Train on sites of a network: each keeps its rows, Flower carries the messages.",
    no_args_is_help=True,
)
_COMMANDS = (
    keys, join, roster, server, check, site, inspect, train, status, watch, stop, replay, ledger,
    demo,
)  # fmt: skip
for command in _COMMANDS:
    app.command()(command)
