"""``fedsparse predict`` and ``fedsparse evaluate``: a saved model on other rows."""

from datetime import datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsparse.cli.options import Json, SiteColumn, TableFiles
from fedsparse.cli.printing import print_table, say, with_interval
from fedsparse.errors import DataError, OptionError
from fedsparse.files import write_atomically

if TYPE_CHECKING:
    import polars as pl

    from fedsparse.modelling.model import Model
    from fedsparse.modelling.outcome_metrics import AnyJudged

ModelFile = Annotated[Path, typer.Argument(help="model.json from `fit` or `federation train`.")]


def predict(
    model: ModelFile,
    tables: TableFiles,
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file to write; printed if left out.", show_default=False),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(help="Column to copy beside the predictions; may be repeated."),
    ] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(help="Time at which to tell survival; may be repeated."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace predictions already there.")] = False,
    strict: Annotated[
        bool, typer.Option(help="Refuse tables with columns that the model does not use.")
    ] = False,
) -> None:
    """Predict the target of the rows of a table."""
    import polars as pl

    from fedsparse.modelling.model import Model

    found = Model.load(model)
    if at and found.task != "survival":
        raise OptionError(
            f"--at is for survival, and the model predicts {found.task}; leave it out"
        )
    if out is not None and out.exists() and not overwrite:
        raise OptionError(f"{out} exists already; choose another --out, or add --overwrite")
    predictions = pl.concat(
        [_predictions(found, table, id or [], at or [], strict) for table in tables]
    )
    if out is None:
        typer.echo(predictions.write_csv(), nl=False)
    else:
        write_atomically(out, predictions.write_csv().encode())
        typer.echo(f"{predictions.height:,} predictions: {out}")


def evaluate(
    model: ModelFile,
    tables: TableFiles,
    site: SiteColumn = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Page (HTML) to write for colleagues.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a page already there.")] = False,
    json: Json = False,
) -> None:
    """Compare a model's predictions with the target of a table it was not learnt from."""
    import json as to_json

    from fedsparse.modelling.model import Model

    found = Model.load(model)
    if out is not None and out.exists() and not overwrite:
        raise OptionError(f"{out} exists already; choose another --out, or add --overwrite")
    notes: list[str] = []
    sums = _sums(found, tables, site, notes)
    scores = {
        "all": _score_of(reduce(add, sums.values())),
        "sites": {name: _score_of(own) for name, own in sums.items()},
    }
    if out is not None:
        _write_page(found, sums, tables, notes, out)
    if json:
        typer.echo(to_json.dumps(scores, ensure_ascii=False))
        return
    from fedsparse.report.fit.metric_words import metric_of

    lines = list(scores["sites"].items())
    if len(lines) > 1:
        lines = [("all sites", scores["all"]), *lines]
    names = list(scores["all"]["metrics"])
    rows = [
        [
            name,
            str(score["rows"]),
            *(
                with_interval(
                    score["metrics"][own],
                    score["intervals"][own],
                    is_count=metric_of(own).is_count,
                )
                for own in names
            ),
        ]
        for name, score in lines
    ]
    print_table(
        f"Predictions of {found.predicted_in_words}, with 95 % intervals",
        ["site", "rows", *names],
        rows,
    )
    if out is not None:
        typer.echo(f"Page: {out}")


def _predictions(
    model: "Model", table: Path, copied: list[str], at: list[float], strict: bool
) -> "pl.DataFrame":
    import polars as pl

    from fedsparse.modelling.scoring import read_rows

    rows = read_rows(model, table)
    if strict and rows.unused:
        raise DataError(
            f"{table.name} has {len(rows.unused)} columns that the model does not use, such as "
            f'"{rows.unused[0]}"; remove them or leave --strict out'
        )
    for name in copied:
        if name not in rows.frame.columns:
            raise DataError(f'{table.name} has no column "{name}" (--id); leave it out')
        if name in ("file", "row"):
            raise DataError(f'a column "{name}" is written anyway; leave --id {name} out')
    filled = rows.filled_in_words
    if filled is not None:
        say(f"{table.name}: {filled}; the column filled counts them", is_note=True)
    whose = pl.DataFrame(
        {
            "file": [table.name] * rows.frame.height,
            "row": range(1, rows.frame.height + 1),
            **{name: rows.frame.get_column(name) for name in copied},
        }
    )
    found = model.predictions(rows.features, at)
    if any(column.fill is not None for column in model.columns):
        found = found.with_columns(pl.Series("filled", rows.filled))
    return pl.concat([whose, found], how="horizontal")


def _sums(
    model: "Model", tables: list[Path], site: str | None, notes: list[str]
) -> dict[str, "AnyJudged"]:
    """What metrics are made of, by site; notes are said and kept."""
    from fedsparse.modelling.scoring import sums_by_site

    def tell(note: str) -> None:
        say(note, is_note=True)
        notes.append(note)

    return dict(sums_by_site(model, tables, site, tell))


def _write_page(
    model: "Model",
    sums: dict[str, "AnyJudged"],
    tables: list[Path],
    notes: list[str],
    out: Path,
) -> None:
    from fedsparse.modelling.summary import Evaluation, Score
    from fedsparse.report.fit.new_rows_page import new_rows_page

    whole = reduce(add, sums.values())
    every: dict[str | None, AnyJudged] = {None: whole}
    if len(sums) > 1:
        every.update(sums)
    source = ", ".join(str(table) for table in tables)
    evaluation = Evaluation(
        folds=0,
        held_out=f"{whole.rows:,} rows of {source}",
        scores=tuple(
            Score(method="federated", site=name, **_score_of(own)) for name, own in every.items()
        ),
    )
    page = new_rows_page(model, evaluation, source, notes, created=datetime.now())
    page.save(out)


def _score_of(judged: "AnyJudged") -> dict[str, Any]:
    return {
        "rows": judged.rows,
        "metrics": judged.metrics(),
        "intervals": judged.intervals(),
        "guessing": judged.guessing(),
    }
