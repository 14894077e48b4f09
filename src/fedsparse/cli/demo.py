"""``fedsparse demo``: tables of several hospitals to a page, and the methods compared.

Whatever takes long to import is imported inside functions, so that the progress bar comes first.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.cli.compared_methods import compare_methods
from fedsparse.cli.fit import fit_tables
from fedsparse.cli.printing import say
from fedsparse.files import ready_folder, write_atomically
from fedsparse.modelling.specification import FitSpecification

if TYPE_CHECKING:
    from fedsparse.modelling.model import Model

_TARGET = "relapse"


def demo(
    rounds: Annotated[
        int, typer.Option(min=1, help="Communication rounds of each method that is compared.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up data.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for tables, pages and picture.")] = Path(
        "fedsparse-demo"
    ),
) -> None:
    """Show what there is on made-up data, in about a minute.

    First tables of five hospitals become a model and a page, as `fedsparse fit` makes them. Then
    eight methods are compared on the first simulation of the paper.
    """
    ready_folder(out)
    page = _fit_hospitals(seed, out)
    methods, picture = compare_methods(rounds, seed, out)
    typer.echo(
        f"\nTables:  {out / '*.csv'}\nReport:  {page}\nMethods: {methods}\nPicture: {picture}"
    )


def _fit_hospitals(seed: int, out: Path) -> Path:
    """Write the hospitals' tables, fit them, and say what was found of what is in them."""
    files = _write_tables(seed, out)
    folder = out / "fit"
    ready_folder(folder)
    typer.echo(
        f"$ fedsparse fit {out / '*.csv'} --target {_TARGET} --impute mean --seed {seed} "
        f"--out {folder} --overwrite\n"
    )
    specification = FitSpecification(impute="mean", seed=seed)
    summary = fit_tables(files, _TARGET, None, specification, folder)
    say(_found(summary.model))
    typer.echo()
    return folder / "report.html"


def _write_tables(seed: int, out: Path) -> list[Path]:
    from fedsparse.research.data.hospitals import hospital_tables

    files = []
    for name, table in hospital_tables(seed).items():
        files.append(out / f"{name}.csv")
        content = io.BytesIO()
        table.write_csv(content)
        write_atomically(files[-1], content.getvalue())
    return files


def _found(model: "Model") -> str:
    """Which columns the model has of those that the tables were made up with."""
    from fedsparse.research.data.hospitals import EFFECTS

    columns = {feature.column for feature in model.features}
    found = [name for name in EFFECTS if name in columns]
    missed = [name for name in EFFECTS if name not in columns]
    others = len(columns - set(EFFECTS))
    told = f"{len(EFFECTS)} columns decide over a relapse in these made-up tables: "
    told += f"{', '.join(EFFECTS)}. The model has {len(found)} of them"
    told += f", without {', '.join(missed)}" if missed else ""
    return f"{told}, and {others or 'no'} other{'s' if others > 1 else ''}."
