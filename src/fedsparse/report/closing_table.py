"""The table a report closes with: what each method cost, and how far it got."""

from collections.abc import Collection

import polars as pl

from fedsparse.research.experiments.experiment_tables import rounds_to_reach


def closing_table(
    history: pl.DataFrame, *, reference: str, diverged: Collection[str] = ()
) -> pl.DataFrame:
    """One row of text per method, ready to print.

    Parameters
    ----------
    history
        The table of runs; see `fedsparse.report.convergence_charts`.
    reference
        The method whose final objective the others are measured by.
    diverged
        Methods whose run blew up.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["A", "A", "B", "B"], "round": [0, 1, 0, 1], "iterations": [0, 1, 0, 10],
    ...     "objective": [8.0, 2.0, 8.0, 3.0], "bytes_down": [0, 900_000] * 2,
    ...     "bytes_up": [0, 1_600_000] * 2, "seconds": [0.0, 0.1, 0.0, 0.2]})
    >>> closing_table(history, reference="A").row(1)
    ('B', '1', '10', '0.90', '1.60', '3.000', '0.2', '–')
    """
    goal = final_objective(history, reference)
    return pl.DataFrame(
        [
            _closing_row(run, goal, str(method) in diverged)
            for (method,), run in history.group_by("method", maintain_order=True)
        ]
    )


def closing_note(reference: str) -> str:
    """Explain the last column of the closing table.

    Examples
    --------
    >>> closing_note("A")
    'Rounds to match: the first round at or below where A ended; – if there is none.'
    """
    return (
        f"Rounds to match: the first round at or below where {reference} ended; – if there is none."
    )


def final_objective(history: pl.DataFrame, method: str) -> float:
    """Objective a method ended with.

    Examples
    --------
    >>> final_objective(pl.DataFrame({"method": ["A", "A"], "objective": [8.0, 2.0]}), "A")
    2.0
    """
    return float(history.filter(pl.col("method") == method)["objective"][-1])


def _closing_row(run: pl.DataFrame, goal: float, has_diverged: bool) -> dict[str, str]:
    last = run.row(-1, named=True)
    reached = rounds_to_reach(run, goal)
    return {
        "Method": last["method"],
        "Rounds": str(last["round"]),
        "Local iterations": f"{last['iterations']:,}",
        "MB down": f"{last['bytes_down'] / 1e6:.2f}",
        "MB up": f"{last['bytes_up'] / 1e6:.2f}",
        "Final objective": "diverged" if has_diverged else f"{last['objective']:#.4g}",
        "Seconds": f"{last['seconds']:.1f}",
        "Rounds to match": "–" if reached is None else str(reached),
    }
