"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.tables import Roles

Tables = Annotated[
    list[Path],
    typer.Argument(
        help="A table (CSV, TSV, Parquet, Arrow, LIBSVM), or one file per site.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column to predict; LIBSVM files name it themselves.", show_default=False),
]
Site = Annotated[
    str | None,
    typer.Option(
        help="Column that says which site a row belongs to; 'qid' for one LIBSVM file. "
        "Leave it out if every file is a site.",
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column not to use; may be repeated.", show_default=False),
]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of categories although it looks like numbers; may be repeated.",
        show_default=False,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="Column that must be in the model; may be repeated.", show_default=False),
]
Task = Annotated[
    Literal["auto", "classification", "regression"],
    typer.Option(help="What the target is: classes or numbers."),
]
Impute = Annotated[
    Literal["no", "mean"],
    typer.Option(help="Fill missing values with the mean of all sites, or refuse them."),
]
MinimumRows = Annotated[int, typer.Option(min=1, help="Refuse a site with fewer rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of tables.")]


def roles_of(
    target: str | None,
    site: str | None,
    drop: list[str] | None = None,
    category: list[str] | None = None,
    keep: list[str] | None = None,
) -> "Roles":
    """The options about columns as one object.

    Examples
    --------
    >>> roles_of("relapse", None, drop=["name"]).drop
    ('name',)
    """
    from fedsparse.tables import Roles

    return Roles(
        target=target,
        site=site,
        drop=tuple(drop or ()),
        categories=tuple(category or ()),
        keep=tuple(keep or ()),
    )


def parse_sparsity(text: str) -> int | Literal["cv", "ebic"]:
    """``--sparsity`` as a number or a way to choose it.

    Examples
    --------
    >>> parse_sparsity("20"), parse_sparsity("cv")
    (20, 'cv')
    """
    if text == "cv":
        return "cv"
    if text == "ebic":
        return "ebic"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise OptionError(
            f"--sparsity must be a whole number of at least 1, 'cv' or 'ebic', not {text!r}"
        )
    return number
