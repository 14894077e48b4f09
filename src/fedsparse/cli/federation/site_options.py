"""What the commands that a site's administrator gives on its table share."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.cli.federation.flower_options import DEFAULT_PORT, warn_insecure
from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.federation.folder import SiteFolder
    from fedsparse.federation.sites.line import Access
    from fedsparse.federation.sites.site_tables import SiteTable

Data = Annotated[Path, typer.Option(help="The table: CSV, TSV, Parquet, Arrow or LIBSVM.")]
Server = Annotated[str, typer.Option(help="The server's HOST or HOST:PORT.")]
Target = Annotated[str | None, typer.Option(help="Column to predict; not for LIBSVM.")]
Exposure = Annotated[
    str | None, typer.Option(help="Of counts: column that says for how long, or of how many.")
]
Time = Annotated[
    str | None,
    typer.Option(help="Of survival: column that says when the event was, or the last look."),
]
Event = Annotated[
    str | None,
    typer.Option(
        help="Of survival: column that says whether the event was (1, yes, true) or not "
        "(0, no, false)."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column that this site does not offer; may be repeated."),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of numbers, maybe the target, that may be told level by level; may be "
        "repeated."
    ),
]
Keys = Annotated[Path | None, typer.Option(help="Folder that 'fedsparse federation join' made.")]
PolicyFile = Annotated[
    Path | None, typer.Option(help="TOML file that says what this site answers.")
]
LedgerFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder in which this site enters what it answers; by default 'ledger' among its "
        "keys, NAME-ledger here without keys."
    ),
]
WithoutKeys = Annotated[
    bool, typer.Option("--insecure", help="Without TLS and without a key; for trials.")
]


def table_of(
    data: Path,
    target: str | None,
    time: str | None,
    event: str | None,
    exposure: str | None,
    drop: list[str] | None,
    category: list[str] | None,
) -> "SiteTable":
    """The site's table, as its options describe it."""
    from fedsparse.federation.sites.site_tables import open_table

    return open_table(
        data, time or target, tuple(drop or ()), tuple(category or ()),
        event=event, exposure=exposure,
    )  # fmt: skip


def access_to(server: str, keys: Path | None, insecure: bool) -> "Access":
    """How to reach the server; says loudly if nothing protects the way."""
    from fedsparse.federation.sites.line import Access

    address = _address(server)
    if insecure:
        warn_insecure()
        return Access(address)
    folder = folder_of_site(keys)
    folder.check()
    return Access(address, folder.authority, folder.key)


def folder_of_site(keys: Path | None) -> "SiteFolder":
    """Where the site's keys are."""
    from fedsparse.federation.folder import SiteFolder

    return SiteFolder(Path() if keys is None else keys)


def ledger_folder(access: "Access", name: str, chosen: Path | None) -> Path:
    """The one that was named; else among the site's keys, and without any in this folder."""
    if chosen is not None:
        return chosen
    return Path(f"{name}-ledger") if access.key is None else access.key.with_name("ledger")


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
