"""Eight methods on the paper's first simulation, for ``fedsparse demo``: a table and a picture.

Whatever takes long to import is imported inside functions, so that the progress bar comes first.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fedsparse.cli.progress import Bar
from fedsparse.errors import DivergenceWarning
from fedsparse.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from fedsparse.algorithms import Algorithm
    from fedsparse.engines.history import Record
    from fedsparse.engines.result import Result
    from fedsparse.report.convergence_charts import Axis
    from fedsparse.report.page import Section

SPARSITY = 200
LOCAL_STEPS = 10
REFERENCE = "Distributed-IHT"
REFERENCE_STEP = 0.01  # the best of the paper's grid

TITLE = "Sparse regression on 100 clients that disagree"
INTRODUCTION = (
    "Simulation I: 100 clients hold 100 rows of 1,000 features each, and every client has its own "
    "coefficients and its own centre of the data. The methods look for at most 200 non-zero "
    "coefficients that suit all clients, and no row ever leaves its client. The charts show the "
    "objective f(x), the clients' average mean squared error, against communication rounds and "
    "against the bytes of the encoded vectors sent to and by all clients."
)


def compare_methods(rounds: int, seed: int, out: Path) -> tuple[Path, Path]:
    """Run the methods, print where each ended, and say where page and picture are.

    Parameters
    ----------
    rounds
        Of each method, at most.
    seed
        Of the simulated data.
    out
        Folder for page and picture.
    """
    with Bar() as bar:
        results = _run_all(rounds, seed, bar)
        bar.show("drawing")
        history, closing = _tables(results)
        page, picture = _save(history, closing, _settings(rounds, seed), out)
    _print_closing(closing)
    typer.echo(_sentence(history))
    return page, picture


def _run_all(rounds: int, seed: int, bar: Bar) -> dict[str, "Result"]:
    import fedsparse as fs

    methods = _methods()
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # the closing table tells
        _compile(methods)
        data = fs.datasets.simulation_1(seed=seed)
        for place, (name, algorithm) in enumerate(methods.items()):
            show = partial(_show, bar, name, place * rounds, len(methods) * rounds)
            results[name] = fs.run(
                algorithm, data, loss="squared", rounds=rounds, seed=seed, on_round=show
            )
    return results


def _show(bar: Bar, method: str, before: int, total: int, record: "Record") -> None:
    bar.show(f"{method}, f = {record.objective:.4g}", before + record.round, total)


def _compile(methods: dict[str, "Algorithm"]) -> None:
    """Run once on little data, so that compiling does not count as a method's time."""
    import fedsparse as fs

    little = fs.datasets.simulation_1(clients=2)
    for algorithm in methods.values():
        fs.run(algorithm, little, loss="squared", rounds=1)


def _methods() -> dict[str, "Algorithm"]:
    """Set up the paper's algorithms, variants that need fewer rounds, and FedSplice."""
    import fedsparse as fs

    return {
        REFERENCE: fs.DistributedIHT(SPARSITY, step_size=REFERENCE_STEP),
        f"{REFERENCE}, extrapolated": fs.DistributedIHT(SPARSITY, server_step="extrapolated"),
        "Fed-HT": fs.FedHT(SPARSITY, local_steps=LOCAL_STEPS),
        "Fed-HT, extrapolated": fs.FedHT(
            SPARSITY, local_steps=LOCAL_STEPS, server_step="extrapolated"
        ),
        "FedIter-HT": fs.FedIterHT(SPARSITY, local_steps=LOCAL_STEPS),
        "FedIter-HT, extrapolated": fs.FedIterHT(
            SPARSITY, local_steps=LOCAL_STEPS, server_step="extrapolated"
        ),
        "FedIter-HT, adaptive": fs.FedIterHT(
            SPARSITY, local_steps=LOCAL_STEPS, server_step="adaptive"
        ),
        "FedSplice": fs.FedSplice(SPARSITY),
    }


def _tables(results: dict[str, "Result"]) -> tuple["pl.DataFrame", "pl.DataFrame"]:
    """All histories in one table, and the closing table."""
    import polars as pl

    from fedsparse.report.closing_table import closing_table

    history = pl.concat(
        [
            result.history.select(pl.lit(name).alias("method"), pl.all())
            for name, result in results.items()
        ]
    )
    diverged = [name for name, result in results.items() if result.diverged]
    return history, closing_table(history, reference=REFERENCE, diverged=diverged)


def _settings(rounds: int, seed: int) -> dict[str, str]:
    return {
        "Command": f"fedsparse demo --rounds {rounds} --seed {seed}",
        "Data": "simulation_1: 100 clients × 100 rows × 1,000 features, α = β = 0.1",
        "Sparsity τ": str(SPARSITY),
        "Local steps K": f"{LOCAL_STEPS}; 1 for {REFERENCE}",
        "Step size γ": f"{REFERENCE_STEP} for {REFERENCE}, else auto: 1 / max lᵢ, where lᵢ is "
        "the smoothness of client i",
        "Server step": "1, or extrapolated: η = max(1, Σ pᵢ‖Δᵢ‖² / (2‖Σ pᵢΔᵢ‖²)), or adaptive: "
        "extrapolated with momentum and a safeguard",
        "fedsparse": __version__,
    }


def _save(
    history: "pl.DataFrame", closing: "pl.DataFrame", settings: dict[str, str], out: Path
) -> tuple[Path, Path]:
    """Write page and picture; where they are."""
    from fedsparse.report.convergence_charts import MEGABYTES, ROUNDS, side_by_side
    from fedsparse.report.page import Page
    from fedsparse.report.pictures import save_png

    page, picture = out / "methods.html", out / "methods.png"
    axes = (ROUNDS, MEGABYTES)
    introduction = f"{INTRODUCTION} {_sentence(history)}"
    Page(TITLE, introduction, _sections(history, closing, settings, axes)).save(page)
    save_png(side_by_side(history, axes), picture)
    return page, picture


def _sections(
    history: "pl.DataFrame",
    closing: "pl.DataFrame",
    settings: dict[str, str],
    axes: "tuple[Axis, ...]",
) -> "list[Section]":
    """What the page shows after its introduction."""
    from fedsparse.report.closing_table import closing_note
    from fedsparse.report.page import Section
    from fedsparse.report.parts import Paragraph, SettingsList, Table, comparison
    from fedsparse.report.style import looks, methods_in

    note = Paragraph(closing_note(REFERENCE), is_hint=True)
    return [
        Section("", comparison(history, axes, looks(methods_in(history)))),
        Section("Where each method ended", [Table(closing), note]),
        Section("Settings", [SettingsList(settings)]),
    ]


def _sentence(history: "pl.DataFrame") -> str:
    """Which method needed the fewest rounds for what the reference ended with."""
    import polars as pl

    from fedsparse.report.closing_table import final_objective

    goal = final_objective(history, REFERENCE)
    megabytes = (pl.col("bytes_down") + pl.col("bytes_up")) / 1e6
    reached = (
        history.with_columns(megabytes=megabytes)
        .filter(pl.col("objective") <= goal)
        .sort("round", "objective")
        .unique("method", keep="first", maintain_order=True)
    )
    fastest = reached.row(0, named=True)
    reference = reached.row(by_predicate=pl.col("method") == REFERENCE, named=True)
    if fastest["method"] == REFERENCE:
        return f"No method got to f = {goal:.4g}, where {REFERENCE} ended, in fewer rounds."
    return (
        f"{fastest['method']} needed {fastest['round']} rounds and {fastest['megabytes']:.1f} MB "
        f"for what {REFERENCE} reached in {reference['round']} rounds and "
        f"{reference['megabytes']:.1f} MB: f = {goal:.4g}."
    )


def _print_closing(closing: "pl.DataFrame") -> None:
    """Print the table so that it fits 80 columns, where only the names of methods wrap."""
    from fedsparse.report.closing_table import closing_note

    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, heading in enumerate(closing.columns):
        if place == 0:
            table.add_column(heading)
        else:
            table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in closing.iter_rows():
        table.add_row(*row)
    Console().print(table)
    typer.echo(closing_note(REFERENCE))
