"""``fedsparse federation keys``: certificates and keys for the server and its sites."""

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
    site: Annotated[list[str] | None, typer.Option(help="Name of a site; may be repeated.")] = None,
) -> None:
    """Make a private authority, the server's certificate, and a key for each site.

    Run it again with more sites to add them; keys that exist are kept.
    """
    need_flower()
    from fedsparse.federation.folder import ServerFolder
    from fedsparse.federation.keys import make_keys

    place = ServerFolder(folder)
    new = make_keys(place, host or [], site or [])
    typer.echo(f"The server's folder is {folder}; keep {place.authority_key} secret.")
    for name in new:
        typer.echo(f"Hand {place.package_of(name)} to {name}, by a safe way, then delete it here.")
    if new:
        typer.echo("Restart the server if it is running, so that it learns of new sites.")
