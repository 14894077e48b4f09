"""What the final runs of an experiment say, seeds taken together."""

from collections.abc import Sequence

import polars as pl

from fedsparse.report.style import Look, looks
from fedsparse.research.experiments.experiment_tables import (
    ALGORITHMS,
    REFERENCE,
    SERVERS,
    SPLICING,
    Tables,
)

PLAIN, ADAPTIVE = SERVERS


def method_looks(tables: Tables) -> dict[str, Look]:
    """How each method is drawn, wherever it appears."""
    ran = set(named(tables.results)["method"])
    methods = [_method(algorithm, server) for algorithm in ALGORITHMS for server in SERVERS]
    return looks([method for method in [*methods, SPLICING] if method in ran])


def final_history(tables: Tables, experiment: str) -> pl.DataFrame:
    """Medians over seeds, as a table of runs in the sense of `fedsparse.report.convergence_charts`.

    A method's rows end where the first of its runs diverged, so that each row speaks for all of
    them. A run that was done before others keeps what it had.
    """
    return _over_seeds(tables, final_runs(tables, experiment))


def gap_history(tables: Tables, experiment: str) -> pl.DataFrame:
    """The same of f − f*, where f* is the lowest f found on the seed; see `lowest_found`."""
    runs = final_runs(tables, experiment).join(lowest_found(tables, experiment), on="seed")
    gap = pl.col("objective") - pl.col("lowest")
    return _over_seeds(tables, runs.with_columns(objective=gap))


def lowest_found(tables: Tables, experiment: str) -> pl.DataFrame:
    """The lowest f of all final runs, seed by seed, and ``finder``, the method that found it."""
    runs = final_runs(tables, experiment).filter(~pl.col("diverged"))
    best = runs.sort("objective").group_by("seed", maintain_order=True).first()
    return best.select("seed", lowest="objective", finder="method").sort("seed")


def about_lowest(tables: Tables, experiments: Sequence[str]) -> str:
    """What f* is in figures that show f − f*: FedSplice's, unless another method got lower."""
    text = f"f*: the lowest f on a seed, found by {SPLICING}"
    for experiment in experiments:
        others = set(lowest_found(tables, experiment)["finder"]) - {SPLICING}
        if others:
            text += f"; on {tables.title(experiment)} by {' or '.join(sorted(others))}"
    return text


def final_runs(tables: Tables, experiment: str) -> pl.DataFrame:
    """Rows of an experiment's final runs, with the name of the method."""
    is_final = (pl.col("experiment") == experiment) & (pl.col("stage") == "final")
    return named(tables.results.filter(is_final))


def finished(tables: Tables) -> list[str]:
    """Experiments that have final runs, in the order in which they are shown."""
    return [name for name in tables.names() if not final_runs(tables, name).is_empty()]


def reference_of(history: pl.DataFrame) -> str:
    """The method the others are measured by: the paper's, or the first if that did not run."""
    methods = history["method"]
    return REFERENCE if REFERENCE in methods else str(methods[0])


def named(results: pl.DataFrame) -> pl.DataFrame:
    """Give each row the name of its method, as in "Fed-HT, adaptive"."""
    is_plain = pl.col("server") == PLAIN
    variant = pl.concat_str("algorithm", "server", separator=", ")
    return results.with_columns(method=pl.when(is_plain).then("algorithm").otherwise(variant))


def _over_seeds(tables: Tables, runs: pl.DataFrame) -> pl.DataFrame:
    runs = _to_the_last_round(runs.filter(pl.col("objective").is_finite()))
    counts = ("round", "iterations", "nonzeros", "bytes_down", "bytes_up")
    each_round = (
        runs.group_by("method", "round", maintain_order=True)
        .agg(
            pl.col("iterations", "objective", "nonzeros", "bytes_down", "bytes_up").median(),
            pl.col("seconds").median(),
            low=pl.col("objective").min(),
            high=pl.col("objective").max(),
            runs=pl.len(),
        )
        .with_columns(pl.col(counts).cast(pl.Int64))
    )
    whole = each_round.filter(pl.col("runs") == pl.col("runs").max().over("method"))
    order = pl.Enum(list(method_looks(tables)))
    return (
        whole.with_columns(pl.col("method").cast(order))
        .sort("method", "round")
        .with_columns(pl.col("method").cast(pl.String))
        .drop("runs")
    )


def _to_the_last_round(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs that were done early, as FedSplice is, drawn out to the longest of their method."""
    done = runs.filter(~pl.col("diverged"))
    rounds = done.select("method", "round").unique()
    every = done.select("method", "seed").unique().join(rounds, on="method")
    carried = (
        every.join(done, on=["method", "seed", "round"], how="left")
        .sort("method", "seed", "round")
        .with_columns(pl.exclude("method", "seed", "round").forward_fill().over("method", "seed"))
    )
    return pl.concat([runs.filter("diverged"), carried.select(runs.columns)])


def _method(algorithm: str, server: str) -> str:
    return algorithm if server == PLAIN else f"{algorithm}, {server}"
