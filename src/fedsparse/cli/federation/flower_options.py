"""What the commands of a federation share."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.federation.folder import ServerFolder

DEFAULT_PORT = 8443
DEFAULT_FOLDER = Path("federation")

OUTCOME = ("exposure", "time", "event")
"""Fields of a specification that sites say for themselves, as they do of the target."""

Folder = Annotated[Path, typer.Argument(help="The server's folder.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="The server's port.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="The server was started with --insecure.")
]


def need_flower() -> None:
    """Refuse to go on without Flower."""
    if find_spec("flwr") is None:
        raise OptionError("Flower is not installed; run: pip install 'fedsparse[flower]'")


def warn_insecure() -> None:
    """Say loudly what ``--insecure`` means."""
    typer.secho(
        "WARNING: --insecure: nothing is encrypted and nobody proves who they are. Anyone on the "
        "network can read and change what is sent, and take part. Use it on this machine only.",
        fg=typer.colors.RED,
        bold=True,
        err=True,
    )


def folder_of_server(folder: Path, insecure: bool) -> "ServerFolder":
    """The server's folder, with the keys that are needed unless there is no protection."""
    from fedsparse.federation.folder import ServerFolder

    place = ServerFolder(folder)
    if insecure:
        warn_insecure()
    else:
        place.check()
    return place
