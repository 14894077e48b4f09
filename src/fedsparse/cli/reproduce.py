"""``fedsparse reproduce``: the paper's experiments again, with a verdict on each claim.

Whatever takes long to import is imported inside functions, so that mistakes are told at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedsparse.cli.progress import Bar
from fedsparse.files import ready_folder
from fedsparse.version import __version__

if TYPE_CHECKING:
    from fedsparse.report.network import Network
    from fedsparse.research.experiments.experiment_tables import Tables
    from fedsparse.research.experiments.runner import Doing, Means

FOLDER = "fedsparse-reproduction"


def reproduce(
    name: Annotated[str, typer.Argument()] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder for everything; {FOLDER} or {FOLDER}-quick by default."),
    ] = None,
    delay: Annotated[float, typer.Option(help="Network delay of a round, ms.")] = 150.0,
    bandwidth: Annotated[float, typer.Option(help="A client's bandwidth, Mbit/s.")] = 10.0,
    engine: Annotated[
        str | None,
        typer.Option(help="What runs are worked out by: local by default, torch with a device."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where torch works, such as cuda or cpu.")
    ] = None,
    maps: Annotated[
        bool,
        typer.Option(
            "--maps/--no-maps", help="Draw Figures 1 and 2; their t-SNE takes a minute or more."
        ),
    ] = True,
    in_turn: Annotated[
        bool,
        typer.Option(
            "--in-turn", help="One experiment after the other where a GPU's memory is short."
        ),
    ] = False,
) -> None:
    """Reproduce the paper's experiments: tables, figures, a page and a verdict on each claim.

    NAME is simulation-1, simulation-2, e2006, rcv1, mnist, all, or the path of a TOML file of your
    own. Finished runs are kept in the folder: an interrupted reproduction goes on where it was.
    """
    from fedsparse.report.network import Network
    from fedsparse.research.experiments.reproduction import ALL, names_of, reproduce, save_tables
    from fedsparse.research.experiments.runner import Means
    from fedsparse.research.experiments.store import Store

    folder = out or Path(FOLDER + ("-quick" if quick else ""))
    network = Network(delay=delay, bandwidth=bandwidth)
    names = names_of(name)
    at_once = (device or "").startswith("cuda") and not in_turn
    means = Means(engine or ("torch" if device else "local"), device, maps, at_once)
    means.check()
    ready_folder(folder)
    with Bar() as bar:
        told = _Told(bar)
        store = Store(folder / "runs")
        tables = reproduce(names, store, told, quick=quick, studies=name == ALL, means=means)
        save_tables(tables, folder / "tables")
        told.say("drawing figures and page")
        page = _draw(tables, network, _settings(name, quick, network, means), folder)
    _print_claims(tables)
    typer.echo(f"Tables:  {folder / 'tables'}\nFigures: {folder / 'figures'}\nPage:    {page}")


class _Told:
    """Shows on a bar what is being done; without a terminal, a line per experiment."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._experiment = ""

    def __call__(self, doing: "Doing") -> None:
        if doing.experiment != self._experiment:
            self._experiment = doing.experiment
            self._bar.note(f"{doing.experiment}: {doing.total} pieces of work")
        self._bar.show(f"{doing.experiment} {doing.what}", doing.done, doing.total)

    def say(self, what: str) -> None:
        self._bar.note(what)
        self._bar.show(what)


def _draw(tables: "Tables", network: "Network", settings: dict[str, str], folder: Path) -> Path:
    """Write figures and page; where the page is."""
    from fedsparse.report.figures import figures, save_picture
    from fedsparse.report.reproduction_page import reproduction_page

    ready_folder(folder / "figures")
    for stem, chart in figures(tables, network).items():
        save_picture(chart, folder / "figures" / stem)
    page = folder / "index.html"
    reproduction_page(tables, network, settings).save(page)
    return page


def _settings(name: str, quick: bool, network: "Network", means: "Means") -> dict[str, str]:
    options = [
        *(["--quick"] if quick else []),
        *([f"--engine {means.engine}"] if means.engine != "local" else []),
        *([f"--device {means.device}"] if means.device else []),
    ]
    return {
        "Command": " ".join(["fedsparse reproduce", name, *options]),
        "Version": "quick: fewer settings, rounds and rows" if quick else "full",
        "Network": f"{network.delay:g} ms delay, {network.bandwidth:g} Mbit/s",
        "fedsparse": __version__,
    }


def _print_claims(tables: "Tables") -> None:
    """Print the claims one below the other: as columns they would not fit a terminal."""
    from fedsparse.report.reproduction_tables import mark_of

    console = Console()
    for (experiment,), claims in tables.claims.group_by("experiment", maintain_order=True):
        console.print(f"\n[bold]{tables.title(str(experiment))}[/bold]", highlight=False)
        for row in claims.iter_rows(named=True):
            lines = Table.grid(padding=(0, 1))
            lines.add_row(mark_of(row["verdict"]), row["claim"])
            for name in ("paper", "ours", "verdict"):
                lines.add_row("", f"{name + ':':<9}{row[name]}")
            console.print(lines)
    typer.echo()
