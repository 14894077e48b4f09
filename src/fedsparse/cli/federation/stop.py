"""``fedsparse federation stop``: ends the run that is under way."""

from typing import Annotated

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


def stop(
    folder: Folder = DEFAULT_FOLDER,
    run: Annotated[
        int | None, typer.Argument(help="Number of the run, if several are under way.")
    ] = None,
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
) -> None:
    """End the run that is under way, on the server's machine; what it had reached is kept."""
    need_flower()
    from fedsparse.federation.server import runs
    from fedsparse.federation.server.transcript import TRANSCRIPT

    place = folder_of_server(folder, insecure)
    with runs.reached(place, runs.Address(port, insecure)) as control:
        chosen = runs.chosen_run(control, run)
        runs.stop(control, chosen)
    out = runs.folder_of(chosen)
    kept = ""
    if out is not None and (out / TRANSCRIPT).exists():
        kept = f" What it had reached is kept in {out}: go on with --resume."
    elif out is not None:
        kept = " It had reached nothing yet."
    typer.echo(f"Run {chosen.number} is stopped.{kept}")
