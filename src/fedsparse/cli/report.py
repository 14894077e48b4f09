"""``fedsparse report``: the page of a fit, drawn again from its summary."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `fedsparse fit` wrote to.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write; report.html in the folder if left out."),
    ] = None,
) -> None:
    """Draw the report of a fit again."""
    from fedsparse.modelling.summary import FitSummary
    from fedsparse.report.fit import fit_page

    page = folder / "report.html" if out is None else out
    fit_page(FitSummary.load(folder / "fit.json")).save(page)
    typer.echo(f"Report: {page}")
