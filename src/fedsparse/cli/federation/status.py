"""``fedsparse federation status``: which sites are here, and what is under way."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from fedsparse.cli.federation.flower_options import (
    DEFAULT_FOLDER,
    DEFAULT_PORT,
    Folder,
    Insecure,
    Port,
    folder_of_server,
    need_flower,
)
from fedsparse.tables.sentences import counted

if TYPE_CHECKING:
    from fedsparse.federation.flower_internals import KnownNode, KnownRun


def status(
    folder: Folder = DEFAULT_FOLDER,
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
) -> None:
    """Tell, on the server's machine, which sites are here and which run is under way."""
    need_flower()
    from fedsparse.federation.server import runs
    from fedsparse.federation.server.enrolment import enrolled

    place = folder_of_server(folder, insecure)
    with runs.reached(place, runs.Address(port, insecure)) as control:
        nodes = control.nodes()
        going = [(run, runs.last_line(control, run)) for run in runs.under_way(control)]
    for line in _sites(nodes, [] if insecure else enrolled(place).names):
        typer.echo(line)
    for run, said in going:
        typer.echo(_run(run))
        typer.echo(f"  {said or 'It has said nothing yet.'}")
    if not going:
        typer.echo("No run is under way.")


def _sites(nodes: "Sequence[KnownNode]", keys: Sequence[str]) -> Iterator[str]:
    """A line for all sites and one for each, with those whose key the server has not heard of."""
    here = sum(node.is_online for node in nodes)
    yield f"{counted(len(nodes), 'site')} may connect, {here} {'is' if here == 1 else 'are'} here."
    told = {
        node.name or f"node {node.number}": "here" if node.is_online else "away" for node in nodes
    }
    told |= dict.fromkeys(
        sorted(set(keys) - told.keys()), "not known to the server; restart it to let the site in"
    )
    width = max(map(len, told), default=0)
    for name, state in told.items():
        yield f"  {name:{width}}  {state}"


def _run(run: "KnownRun") -> str:
    from fedsparse.federation.server.runs import folder_of

    since = run.since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    out = folder_of(run)
    where = "" if out is None else f", writing to {out}"
    return f"Run {run.number} is under way since {since}{where}."
