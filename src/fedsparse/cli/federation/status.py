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
    from fedsparse.federation.flower_internals import KnownRun
    from fedsparse.federation.server.lookout import SeenSite


def status(
    folder: Folder = DEFAULT_FOLDER,
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
) -> None:
    """Tell, on the server's machine, which sites are here and which run is under way."""
    need_flower()
    from fedsparse.federation.server import runs
    from fedsparse.federation.server.enrolment import enrolled
    from fedsparse.federation.server.lookout import seen_sites

    place = folder_of_server(folder, insecure)
    with runs.reached(place, runs.Address(port, insecure)) as control:
        nodes = control.nodes()
        going = [(run, runs.last_line(control, run)) for run in runs.under_way(control)]
    for line in _sites(seen_sites(nodes, [] if insecure else enrolled(place).names)):
        typer.echo(line)
    for run, said in going:
        typer.echo(_run(run))
        typer.echo(f"  {said or 'It has said nothing yet.'}")
    if not going:
        typer.echo("No run is under way.")


def _sites(sites: "Sequence[SeenSite]") -> Iterator[str]:
    """A line for all sites and one for each."""
    from fedsparse.federation.server.lookout import UNKNOWN

    known = [site for site in sites if site.state != UNKNOWN]
    here = sum(site.state == "here" for site in known)
    yield f"{counted(len(known), 'site')} may connect, {here} {'is' if here == 1 else 'are'} here."
    width = max((len(site.name) for site in sites), default=0)
    for site in sites:
        yield f"  {site.name:{width}}  {site.state}"


def _run(run: "KnownRun") -> str:
    from fedsparse.federation.server.runs import folder_of

    since = run.since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    out = folder_of(run)
    where = "" if out is None else f", writing to {out}"
    return f"Run {run.number} is under way since {since}{where}."
