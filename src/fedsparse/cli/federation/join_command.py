"""``fedsparse federation join``: a site makes its own keys."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import need_flower


def join(
    name: Annotated[str, typer.Argument(help="Name of the site.")],
    keys: Annotated[
        Path | None, typer.Option(help="Folder for the keys; by default one of the site's name.")
    ] = None,
) -> None:
    """Make a site's own keys, at the site, and the card that the server's administrator needs.

    Keys that exist are kept, and what to do with them is told again.
    """
    need_flower()
    from fedsparse.federation.folder import SiteFolder
    from fedsparse.federation.site_keys import join as made

    folder = SiteFolder(Path(name) if keys is None else keys)
    card = made(folder, name)
    typer.echo(f"The keys of {name} are in {folder.root}; nobody else may have them.")
    typer.echo(
        f"Send {folder.card_of(name)} to the server's administrator; there is no secret in it."
    )
    typer.echo(
        f"Read its fingerprint to them by another way, such as the telephone:\n\n"
        f"    {card.fingerprint}\n"
    )
    typer.echo(
        f"You get {folder.authority.name} and {folder.roster.name} in return: put both into "
        f"{folder.root}."
    )
