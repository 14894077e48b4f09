"""``fedsparse federation keys``: the server's certificate and the authority behind it."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import DEFAULT_FOLDER, need_flower


def keys(
    folder: Annotated[
        Path, typer.Argument(help="The server's folder; it is made if need be.")
    ] = DEFAULT_FOLDER,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address by which sites reach the server; may be repeated."),
    ] = None,
) -> None:
    """Make a private authority and the server's certificate; keys that exist are kept.

    Sites make their own keys with 'fedsparse federation join'.
    """
    need_flower()
    from fedsparse.federation.folder import ServerFolder
    from fedsparse.federation.keys import make_keys

    place = ServerFolder(folder)
    make_keys(place, host or [])
    typer.echo(f"The server's folder is {folder}; keep {place.authority_key} secret.")
    typer.echo(
        "Have every site run 'fedsparse federation join NAME' and send you the card it makes, then "
        f"add it with 'fedsparse federation roster {folder} --add NAME.site'."
    )
