"""``fedsparse federation watch``: a page that shows what goes on."""

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


def watch(
    folder: Folder = DEFAULT_FOLDER,
    page_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0: any that is free.")
    ] = 0,
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
) -> None:
    """Show, on the server's machine, a page with sites, runs, the objective and what was refused.

    It is there until interrupted, for browsers on this machine that are given its address, which
    is another at each start. Nothing can be changed on it.
    """
    need_flower()
    from fedsparse.federation.server.lookout import Lookout
    from fedsparse.federation.server.runs import Address
    from fedsparse.federation.server.watching import Watching

    lookout = Lookout(folder_of_server(folder, insecure), Address(port, insecure))
    with Watching(lookout, page_port) as page:
        typer.echo(f"Open {page.url}")
        typer.echo("Keep the address to yourself: it lets whoever has it look. Ctrl-C ends it.")
        page.serve_forever()
