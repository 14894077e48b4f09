"""Tables of the reproduction: claims, samples of the clients, outcomes and times."""

from dataclasses import dataclass
from html import escape

import polars as pl

from fedsparse.report.closing_table import closing_table, final_objective, rounds_to_reach
from fedsparse.report.experiment_tables import Tables
from fedsparse.report.final_runs import (
    final_history,
    final_runs,
    finished,
    method_looks,
    reference_of,
)
from fedsparse.report.network import Network
from fedsparse.report.parts import table_markup

MARKS = {"holds": "✓", "partly": "◐", "fails": "✗"}
"""For claims that hold, hold with something added, and do not hold."""


@dataclass(frozen=True)
class Claims:
    """What the paper claims and what we found, for a page."""

    tables: Tables

    def html(self) -> str:
        """A table whose verdicts are told by words, by a mark and by colour."""
        head = ["Experiment", "Claim", "Paper", "Ours", "Verdict"]
        rows = [self._cells(row) for row in self.tables.claims.iter_rows(named=True)]
        return table_markup(head, rows, is_prose=True)

    def _cells(self, row: dict[str, str]) -> list[str]:
        title = self.tables.title(row["experiment"])
        texts = [
            f'<td data-label="{name}">{escape(row[name])}</td>'
            for name in ("claim", "paper", "ours")
        ]
        return [f'<th scope="row">{escape(title)}</th>', *texts, _verdict_cell(row["verdict"])]


@dataclass(frozen=True)
class Times:
    """Estimated seconds until methods are where the reference ended, for a page.

    The page's script works them out anew when the reader changes the network.
    """

    tables: Tables
    network: Network

    def html(self) -> str:
        """A row per experiment, a column per method, with the speed-up in brackets."""
        head = ["Experiment", *method_looks(self.tables)]
        rows = [self._cells(experiment) for experiment in finished(self.tables)]
        return table_markup(head, rows, is_prose=False)

    def _cells(self, experiment: str) -> list[str]:
        history = final_history(self.tables, experiment)
        reference = reference_of(history)
        goal = final_objective(history, reference)
        costs = {
            method: self._cost(experiment, history.filter(pl.col("method") == method), goal)
            for method in method_looks(self.tables)
        }
        unit = self._seconds(costs[reference])
        cells = [
            self._cell(cost, unit, "data-reference " if method == reference else "")
            for method, cost in costs.items()
        ]
        return [f'<th scope="row">{escape(self.tables.title(experiment))}</th>', *cells]

    def _cost(self, experiment: str, run: pl.DataFrame, goal: float) -> dict[str, float]:
        """What it took to get to the goal; nothing if a method never got there."""
        rounds = rounds_to_reach(run, goal)
        if rounds is None:
            return {}
        row = run.row(by_predicate=pl.col("round") == rounds, named=True)
        megabytes = (row["bytes_down"] + row["bytes_up"]) / 1e6 / self.tables.clients(experiment)
        return {"rounds": rounds, "megabytes": megabytes, "computing": row["seconds"]}

    def _seconds(self, cost: dict[str, float]) -> float:
        return self.network.seconds(**cost)

    def _cell(self, cost: dict[str, float], unit: float, mark: str) -> str:
        if not cost:
            return "<td>–</td>"
        data = " ".join(f'data-{name}="{value:.6g}"' for name, value in cost.items())
        seconds = self._seconds(cost)
        return f"<td {mark}{data}>{seconds:.1f} s ({unit / seconds:.1f}×)</td>"


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
        pl.Series("K", [str(row["local_steps"]) for row in chosen]),
        pl.Series("γ", [_step(row["step_size"]) for row in chosen]),
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


def _verdict_cell(verdict: str) -> str:
    return f'<td class="verdict {kind_of(verdict)}">{mark_of(verdict)} {escape(verdict)}</td>'


def _spread(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:,.1f}" if deviation is None else f"{mean:,.1f} ± {deviation:.1f}"


def _step(size: float | None) -> str:
    return "auto" if size is None else f"{size:g}"


def _range(history: pl.DataFrame, method: str) -> str:
    last = history.filter(pl.col("method") == method).row(-1, named=True)
    return f"{last['low']:#.4g} – {last['high']:#.4g}"
