"""``fedsparse federation site``: answers the server on a site's own table."""

import math
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.cli.federation.flower_options import DEFAULT_PORT, need_flower, warn_insecure
from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.federation.sites.line import Access


def site(
    data: Annotated[Path, typer.Option(help="The table: CSV, TSV, Parquet, Arrow or LIBSVM.")],
    server: Annotated[str, typer.Option(help="The server's HOST or HOST:PORT.")],
    target: Annotated[str | None, typer.Option(help="Column to predict; not for LIBSVM.")] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column that this site does not offer; may be repeated."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Folder handed over by the server's administrator.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the site; by default that of its key or table.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="TOML file that says what this site answers.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=1.0, help="Seconds without the server before giving up.")
    ] = 86400.0,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Seconds between two looks for a message.")
    ] = 0.5,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without TLS and without a key; for trials.")
    ] = False,
) -> None:
    """Connect to the server and answer its requests until interrupted.

    The table is read here and stays here. Only what the policy allows is answered, by the installed
    fedsparse: no code of the server is run.
    """
    need_flower()
    from fedsparse.compute.workers import available_threads
    from fedsparse.federation.logs import show_log
    from fedsparse.federation.sites.connection import serve
    from fedsparse.federation.sites.policy import Policy, read_policy
    from fedsparse.federation.sites.site import Site
    from fedsparse.federation.sites.site_tables import open_table

    if not math.isfinite(patience) or not math.isfinite(poll):
        raise OptionError("--patience and --poll are numbers of seconds; correct them")
    access = _access(server, keys, insecure)
    known_as = name or (data if access.key is None else access.key).stem
    rules = Policy() if policy is None else read_policy(policy)
    table = open_table(data, target, tuple(drop or ()))
    own = Site(known_as, table, rules, available_threads())
    show_log()
    own.look()
    stop = _stop_on_signals()
    serve(own, access, patience=patience, poll=poll, stop=stop)
    typer.echo(f"{known_as} has left the federation.")


def _access(server: str, keys: Path | None, insecure: bool) -> "Access":
    from fedsparse.federation.folder import SiteFolder
    from fedsparse.federation.sites.line import Access

    address = _address(server)
    if insecure:
        warn_insecure()
        return Access(address)
    folder = SiteFolder(Path() if keys is None else keys)
    folder.check()
    return Access(address, folder.authority, folder.key)


def _address(server: str) -> str:
    """HOST:PORT, or an OptionError."""
    found = re.fullmatch(r"([^\s:/]+|\[[0-9a-fA-F:.]+\])(?::(\d+))?", server)
    port = DEFAULT_PORT if found is None or found[2] is None else int(found[2])
    if found is None or not 0 < port < 2**16:
        raise OptionError(
            f'"{server}" is no server; name it as HOST or HOST:PORT, such as localhost:8443 or '
            "[::1]:8443"
        )
    return f"{found[1]}:{port}"


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
