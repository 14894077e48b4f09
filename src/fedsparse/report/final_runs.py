"""What the final runs of an experiment say, seeds taken together."""

import polars as pl

from fedsparse.report.style import Look, looks
from fedsparse.research.experiments.experiment_tables import ALGORITHMS, REFERENCE, SERVERS, Tables


def method_looks(tables: Tables) -> dict[str, Look]:
    """How each method is drawn, wherever it appears."""
    ran = set(named(tables.results)["method"])
    methods = [_method(algorithm, server) for algorithm in ALGORITHMS for server in SERVERS]
    return looks([method for method in methods if method in ran])


def final_history(tables: Tables, experiment: str) -> pl.DataFrame:
    """Medians over seeds, as a table of runs in the sense of `fedsparse.report.convergence_charts`.

    A method's rows end where the first of its runs ended, so that each row speaks for all of them.
    """
    runs = final_runs(tables, experiment).filter(pl.col("objective").is_finite())
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
    """Give each row the name of its method, as in "Fed-HT, extrapolated"."""
    is_plain = pl.col("server") == SERVERS[0]
    variant = pl.concat_str("algorithm", "server", separator=", ")
    return results.with_columns(method=pl.when(is_plain).then("algorithm").otherwise(variant))


def _method(algorithm: str, server: str) -> str:
    return algorithm if server == SERVERS[0] else f"{algorithm}, {server}"
