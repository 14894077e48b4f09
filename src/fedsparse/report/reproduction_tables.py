"""Tables of the reproduction: claims, samples of the clients, outcomes and times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from fedsparse.report.closing_table import closing_table, final_objective
from fedsparse.report.final_runs import (
    final_history,
    final_runs,
    finished,
    method_looks,
    reference_of,
)
from fedsparse.report.network import Network
from fedsparse.research.experiments.experiment_tables import Tables, rounds_to_reach

MARKS = {"holds": "✓", "partly": "◐", "fails": "✗"}
"""For claims that hold, hold with something added, and do not hold."""


@dataclass(frozen=True)
class ClaimLine:
    """What the paper says, what we found, and a verdict, of a kind and with a mark."""

    experiment: str
    claim: str
    paper: str
    ours: str
    verdict: str
    kind: str
    mark: str


@dataclass(frozen=True)
class ClaimsTable:
    """Claims of the paper, with verdicts that are told by words, by a mark and by colour."""

    macro: ClassVar[str] = "claims_table"
    claims: Sequence[ClaimLine]


@dataclass(frozen=True)
class Time:
    """What it took a method to get to where the reference ended.

    Parameters
    ----------
    rounds, megabytes, computing
        As `Network.seconds` needs them.
    seconds
        Estimated from these.
    times_faster
        Than the reference.
    is_reference
        Whether it is the reference's own.
    """

    rounds: int
    megabytes: float
    computing: float
    seconds: float
    times_faster: float
    is_reference: bool


@dataclass(frozen=True)
class TimesRow:
    """Times of the methods in an experiment; None for one that never got there."""

    experiment: str
    times: Sequence[Time | None]


@dataclass(frozen=True)
class TimesTable:
    """Estimated seconds until methods are where the reference ended.

    The page's script works them out anew when the reader changes the network.
    """

    macro: ClassVar[str] = "times_table"
    columns: Sequence[str]
    rows: Sequence[TimesRow]


def claims_table(tables: Tables) -> ClaimsTable:
    """What the paper claims and what we found."""
    return ClaimsTable(
        [
            ClaimLine(
                experiment=tables.title(row["experiment"]),
                claim=row["claim"],
                paper=row["paper"],
                ours=row["ours"],
                verdict=row["verdict"],
                kind=kind_of(row["verdict"]),
                mark=mark_of(row["verdict"]),
            )
            for row in tables.claims.iter_rows(named=True)
        ]
    )


def times_table(tables: Tables, network: Network) -> TimesTable:
    """A row per experiment, a column per method, with the speed-up in brackets."""
    rows = [
        TimesRow(tables.title(experiment), _times(tables, network, experiment))
        for experiment in finished(tables)
    ]
    return TimesTable(["Experiment", *method_looks(tables)], rows)


def kind_of(verdict: str) -> str:
    """Whether a claim holds, holds with something added, or fails.

    Examples
    --------
    >>> kind_of("holds"), kind_of("holds with a smaller factor"), kind_of("does not hold because …")
    ('holds', 'partly', 'fails')
    """
    if verdict == "holds":
        return "holds"
    return "partly" if verdict.startswith("holds") else "fails"


def mark_of(verdict: str) -> str:
    """The sign of a verdict.

    Examples
    --------
    >>> mark_of("holds")
    '✓'
    """
    return MARKS[kind_of(verdict)]


def samples_table(tables: Tables) -> pl.DataFrame:
    """The paper's Table 2: samples on each client, ours beside the paper's."""
    rows = tables.experiments.filter(pl.col("experiment").is_in(tables.names()))
    return pl.DataFrame(
        [
            {
                "Experiment": tables.title(row["experiment"]),
                "Samples": f"{row['samples']:,}",
                "Features": f"{row['width']:,}",
                "Clients": f"{row['clients']:,}",
                "Samples per client": _spread(row["samples_mean"], row["samples_sd"]),
                "The paper's": _spread(row["paper_mean"], row["paper_sd"]),
            }
            for row in rows.iter_rows(named=True)
        ]
    )


def outcomes_table(tables: Tables, experiment: str) -> pl.DataFrame:
    """Say with which settings each method ran, what it cost, and how far it got."""
    history = final_history(tables, experiment)
    settings = (
        final_runs(tables, experiment)
        .group_by("method", "seed", maintain_order=True)
        .last()
        .group_by("method", maintain_order=True)
        .agg(
            pl.col("local_steps", "step_size").first(),
            diverged=pl.col("diverged").sum(),
            runs=pl.len(),
        )
    )
    hopeless = settings.filter(pl.col("diverged") == pl.col("runs"))["method"].to_list()
    closing = closing_table(history, reference=reference_of(history), diverged=hopeless)
    found = {row["method"]: row for row in settings.iter_rows(named=True)}
    chosen = [found[method] for method in closing["Method"]]
    return closing.select(
        "Method",
        pl.Series("K", [_count(row["local_steps"]) for row in chosen]),
        pl.Series("γ", [_step(row) for row in chosen]),
        "Final objective",
        pl.Series("Lowest to highest", [_range(history, row["method"]) for row in chosen]),
        "Rounds",
        "Rounds to match",
        "Local iterations",
        "MB down",
        "MB up",
        "Seconds",
        pl.Series("Diverged", [f"{row['diverged']} of {row['runs']}" for row in chosen]),
    )


def _times(tables: Tables, network: Network, experiment: str) -> list[Time | None]:
    history = final_history(tables, experiment)
    reference = reference_of(history)
    goal = final_objective(history, reference)
    costs = {
        method: _cost(history.filter(pl.col("method") == method), goal, tables.clients(experiment))
        for method in method_looks(tables)
    }
    seconds = {method: network.seconds(**cost) for method, cost in costs.items() if cost}
    return [
        Time(
            **cost,
            seconds=seconds[method],
            times_faster=seconds[reference] / seconds[method],
            is_reference=method == reference,
        )
        if cost
        else None
        for method, cost in costs.items()
    ]


def _cost(run: pl.DataFrame, goal: float, clients: int) -> dict[str, Any] | None:
    """What it took to get to the goal; None if a method never got there."""
    rounds = rounds_to_reach(run, goal)
    if rounds is None:
        return None
    row = run.row(by_predicate=pl.col("round") == rounds, named=True)
    megabytes = (row["bytes_down"] + row["bytes_up"]) / 1e6 / clients
    return {"rounds": rounds, "megabytes": megabytes, "computing": row["seconds"]}


def _spread(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:,.1f}" if deviation is None else f"{mean:,.1f} ± {deviation:.1f}"


def _count(steps: int | None) -> str:
    return "–" if steps is None else str(steps)


def _step(chosen: dict[str, Any]) -> str:
    if chosen["step_size"] is not None:
        return f"{chosen['step_size']:g}"
    return "–" if chosen["local_steps"] is None else "auto"


def _range(history: pl.DataFrame, method: str) -> str:
    last = history.filter(pl.col("method") == method).row(-1, named=True)
    return f"{last['low']:#.4g} – {last['high']:#.4g}"
