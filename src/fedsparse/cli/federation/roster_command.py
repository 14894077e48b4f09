"""``fedsparse federation roster``: which sites may connect."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import DEFAULT_FOLDER, Folder, need_flower


def roster(
    folder: Folder = DEFAULT_FOLDER,
    add: Annotated[
        list[Path] | None,
        typer.Option(help="Card of a site, as 'fedsparse federation join' made it; repeatable."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Site that may not connect any more; repeatable.")
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(help="Site whose added card may have another key than before; repeatable."),
    ] = None,
) -> None:
    """Show who may connect, add sites by their cards, or remove some.

    Compare each site's fingerprint with what its administrator reads out. All sites get the same
    two files.
    """
    need_flower()
    from fedsparse.federation.folder import ServerFolder
    from fedsparse.federation.roster import read_card
    from fedsparse.federation.server.enrolment import enrol, enrolled
    from fedsparse.tables.sentences import counted

    place = ServerFolder(folder)
    before = enrolled(place)
    cards = [read_card(path) for path in add or ()]
    now = enrol(place, cards, remove=remove or (), replace=replace or ())
    width = max(map(len, now.names), default=0)
    typer.echo(f"{counted(len(now.names), 'site')} may connect.")
    for card in now.cards:
        typer.echo(f"  {card.name:{width}}  {card.fingerprint}")
    if not now.names:
        typer.echo("Add sites with --add, each by the card that 'fedsparse federation join' made.")
        return
    typer.echo(
        f"Fingerprint of the roster, for all administrators to compare:\n\n    {now.fingerprint}\n"
    )
    typer.echo(
        f"Hand the two files in {place.for_sites} to every site; there is no secret in them."
    )
    if now != before:
        typer.echo("Restart the server if it is running, so that it knows this roster.")
