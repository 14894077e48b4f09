"""``fedsparse federation server``: where sites connect."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import (
    DEFAULT_FOLDER,
    DEFAULT_PORT,
    folder_of_server,
    need_flower,
)
from fedsparse.errors import OptionError


def server(
    folder: Annotated[
        Path, typer.Argument(help="The folder that 'fedsparse federation keys' made.")
    ] = DEFAULT_FOLDER,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen at; all by default, this machine if --insecure."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = DEFAULT_PORT,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without TLS and without keys; for trials.")
    ] = False,
) -> None:
    """Run the server until interrupted: a Flower SuperLink that only knows the sites' keys.

    Other machines reach the API for sites alone; training is started on this machine.
    """
    need_flower()
    from fedsparse.federation.logs import show_log
    from fedsparse.federation.server.superlink import Door, run_superlink

    place = folder_of_server(folder, insecure)
    show_log()
    listen = host or ("127.0.0.1" if insecure else "0.0.0.0")
    _check_port(listen, port)
    run_superlink(place, Door(listen, port, insecure))


def _check_port(host: str, port: int) -> None:
    """Refuse an address at which nobody can listen: Flower says so in a long traceback."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise OptionError(
            f"the server cannot listen at {host}, port {port} ({error.strerror}); choose another "
            "with --port or --host"
        ) from None
