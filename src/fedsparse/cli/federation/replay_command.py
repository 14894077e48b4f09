"""``fedsparse federation replay``: works a model out again from the transcript of its run."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import need_flower


def replay(
    folder: Annotated[Path, typer.Argument(help="Folder of the results, such as 'trained'.")],
) -> None:
    """Work the model out again from what was asked and told, and compare every bit.

    Needs no site and no server. Ends with exit code 1 if anything differs.
    """
    need_flower()
    from fedsparse.federation.server.replay import replay as replayed

    found = replayed(folder)
    if found.differing:
        typer.echo(
            f"{found.exchanges} exchanges were replayed, and these differ: "
            f"{', '.join(found.differing)}. The files in {folder} are not what this transcript "
            "leads to."
        )
        raise typer.Exit(1)
    typer.echo(
        f"{found.exchanges} exchanges were replayed: coefficients, the choice of their number, "
        "held-out metrics and stability are the same, bit for bit."
    )
