"""``fedsparse federation demo``: a whole federation on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import need_flower
from fedsparse.cli.fit import print_fit


def demo(
    out: Annotated[Path, typer.Option(help="Folder for keys, tables and results.")] = Path(
        "fedsparse-federation"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 10,
) -> None:
    """Make keys, start a server and five sites with TLS on, train, and compare.

    It takes about a minute. The model is the one that a single process learns from the same rows.
    """
    need_flower()
    from fedsparse.federation.demonstration import compare, demonstrate
    from fedsparse.modelling.summary import FitSummary

    training, tables = demonstrate(out, rounds, tell=typer.echo)
    typer.echo()
    print_fit(FitSummary.load(out / "trained" / "fit.json"))
    typer.echo(compare(training, tables))
    typer.echo(f"Report: {out / 'trained' / 'report.html'}")
