"""The ``fedsparse`` command."""

import errno
import sys
from typing import Annotated, NoReturn

import click
import typer

from fedsparse.cli.demo import demo
from fedsparse.cli.federation import app as federation
from fedsparse.cli.fit import fit
from fedsparse.cli.inspect import inspect
from fedsparse.cli.predict import evaluate, predict
from fedsparse.cli.report import report
from fedsparse.cli.reproduce import reproduce
from fedsparse.cli.theory import theory
from fedsparse.errors import CheckpointError, DataError, FederationError, OptionError
from fedsparse.text import visible
from fedsparse.version import __version__

INTERRUPTED = 130
"""Exit code of a command stopped by Ctrl-C, as shells have it."""

app = typer.Typer(
    name="fedsparse",
    help="Learn sparse models from data that stay where they are.",
    pretty_exceptions_enable=False,
)
app.command()(inspect)
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(report)
app.command()(demo)
app.command()(reproduce)
app.command()(theory)
app.add_typer(federation)


def main() -> None:
    """Run the command line; what goes wrong is told in one line."""
    try:
        code = app(standalone_mode=False)
    except click.ClickException as error:
        _stop(error.format_message(), error.exit_code)
    except (DataError, OptionError, CheckpointError, FederationError) as error:
        _stop(str(error), 2)
    except OSError as error:
        _stop(_in_plain_words(error), 2)
    if code == INTERRUPTED:
        _stop("stopped", INTERRUPTED)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    if show_version:
        typer.echo(f"fedsparse {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"fedsparse: {visible(' '.join(message.split()))}", err=True)
    sys.exit(code)


def _in_plain_words(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    advice = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "; make room and run the same command again, what is finished is kept"
    return f"cannot use {error.filename}: {error.strerror.lower()}{advice}"
