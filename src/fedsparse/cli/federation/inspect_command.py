"""``fedsparse federation inspect``: what training on the connected sites would meet."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import (
    DEFAULT_FOLDER,
    DEFAULT_PORT,
    OUTCOME,
    Folder,
    Insecure,
    Port,
    folder_of_server,
    need_flower,
)
from fedsparse.cli.inspect import print_inspection
from fedsparse.cli.options import Json, WithoutFields, offers_settings
from fedsparse.errors import OptionError
from fedsparse.federation.server.training import DryRun

_WOULD_FAIL = 1


@offers_settings
def inspect(
    folder: Folder = DEFAULT_FOLDER,
    *,
    dry_run: Annotated[
        DryRun,
        WithoutFields("dry_run", "min_sites", "if_absent", "data", "target", "out", *OUTCOME),
    ],
    out: Annotated[Path, typer.Option(help="Folder for inspection.json and left-out.csv.")] = Path(
        "inspected"
    ),
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
    json: Json = False,
) -> None:
    """Ask all sites to describe their tables, and tell everything that would go wrong.

    Nothing is trained. Ends with exit code 1 if training with the same options would fail.
    """
    need_flower()
    from fedsparse.federation.server.inspection import LEFT_OUT, read_inspection
    from fedsparse.federation.server.runs import Address
    from fedsparse.federation.server.submission import submit

    _check_folder(out)
    task = dry_run.model_copy(update={"out": str(out.absolute())})
    task.terms()  # refuses options that contradict each other before anything is started
    place = folder_of_server(folder, insecure)
    submit(task, place, Address(port, insecure), tell=partial(typer.echo, err=json))
    found = read_inspection(out)
    if json:
        typer.echo(found.model_dump_json())
    else:
        typer.echo()
        print_inspection(found)
        typer.echo(f"Columns that are left out, by site and reason: {out / LEFT_OUT}")
    if found.errors:
        raise typer.Exit(_WOULD_FAIL)


def _check_folder(out: Path) -> None:
    """Refuse to write among the results of a training run."""
    from fedsparse.federation.server.transcript import TRANSCRIPT

    if (out / TRANSCRIPT).exists():
        raise OptionError(f"{out} holds a training run; choose another folder with --out")
