"""``fedsparse report``: the page of a fit, drawn again from its summary."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.fit import write_report


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `fedsparse fit` wrote to.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write; report.html in the folder if left out."),
    ] = None,
) -> None:
    """Draw the report of a fit again."""
    from fedsparse.models import FitSummary

    page = folder / "report.html" if out is None else out
    write_report(FitSummary.load(folder / "fit.json"), page)
    typer.echo(f"Report: {page}")
