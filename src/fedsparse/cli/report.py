"""``fedsparse report``: the page of a fit, drawn again from its summary."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.modelling.model import Model


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `fedsparse fit` wrote to.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write; report.html in the folder if left out."),
    ] = None,
    forest: Annotated[
        Path | None,
        typer.Option(
            help="PNG file to write the forest plot to: the intervals of the coefficients.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Draw the report of a fit again."""
    from fedsparse.modelling.summary import FitSummary
    from fedsparse.report.fit import fit_page

    if folder.is_file():
        raise OptionError(f"{folder} is a file; give the folder it is in: {folder.parent}")
    page = folder / "report.html" if out is None else out
    summary = FitSummary.load(folder / "fit.json")
    if forest is not None:
        _save_forest(summary.model, forest)
    fit_page(summary).save(page)
    typer.echo(f"Report: {page}")


def _save_forest(model: "Model", path: Path) -> None:
    from fedsparse.report.fit.forest_chart import forest_picture
    from fedsparse.report.pictures import save_png

    if path.suffix.lower() != ".png":
        raise OptionError(f"--forest {path} does not end in .png; the plot is written as a PNG")
    if model.how_sure is None or not model.features:
        raise OptionError(
            "--forest has nothing to draw: no intervals were worked out for this model; fit again "
            "with --intervals yes (models of several classes have none)"
        )
    save_png(forest_picture(model), path)
    typer.echo(f"Forest plot: {path}")
