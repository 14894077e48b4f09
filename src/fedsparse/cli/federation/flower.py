"""What the commands of a federation share."""

from importlib.util import find_spec

import typer

from fedsparse.errors import OptionError

DEFAULT_PORT = 8443
DEFAULT_FOLDER = "federation"


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
