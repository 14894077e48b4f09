"""The tables that the pictures and the page of the reproduction are made from.

``results`` has a row per run and evaluated round. Its ``stage`` is "grid" for the search over
local steps K and step sizes γ, and "final" for the settings it chose, run with several seeds; its
``server`` is "plain" or "adaptive". A step size of null was chosen automatically; FedSplice has
neither K nor γ. ``objective`` is f of the x that the run would return after that round: the last
one, or where a method keeps the best (adaptive, FedSplice), that one. A run that diverged ends
early. `COLUMNS` lists what each table must have.
"""

from dataclasses import dataclass, field

import polars as pl

from fedsparse.errors import DataError

ALGORITHMS = ("Distributed-IHT", "Fed-HT", "FedIter-HT")
"""Of the paper, in the order in which they are shown."""

REFERENCE = ALGORITHMS[0]
"""The algorithm the others are measured by."""

SPLICING = "FedSplice"
"""Not of the paper: the lowest f it reaches stands for f*."""

SERVERS = ("plain", "adaptive")

EXPERIMENTS = ("simulation-1", "simulation-2", "e2006", "rcv1", "mnist")
"""Of the paper, in the order in which they are shown."""

COLUMNS = {
    "results": (
        *("experiment", "seed", "stage", "algorithm", "server", "local_steps", "step_size"),
        *("diverged", "round", "iterations", "objective", "nonzeros"),
        *("bytes_down", "bytes_up", "seconds"),
    ),
    "experiments": (
        *("experiment", "title", "stand_in", "loss", "sparsity", "rounds", "samples", "width"),
        *("clients", "samples_mean", "samples_sd", "paper_mean", "paper_sd"),
    ),
    "clusters": ("experiment", "x", "y", "cluster"),
    "claims": ("experiment", "claim", "paper", "ours", "verdict"),
    "scaling": ("model", "sweep", "factor", "error"),
    "slopes": ("model", "sweep", "slope", "low", "high", "expected"),
}


@dataclass(frozen=True)
class Tables:
    """All that is known of the experiments; a table without rows is simply not shown.

    Parameters
    ----------
    results
        Objective and cost of every run, round by round.
    experiments
        What was run: a row per experiment. ``stand_in`` says what stands in for the paper's data,
        and is "" where they are the paper's.
    clusters
        Rows of text on a plane, by t-SNE, and their clusters.
    claims
        What the paper says, what we found, and a verdict.
    scaling, slopes
        Errors measured on designs of many sizes, and the slopes fitted to them.

    Examples
    --------
    >>> tables = {name: pl.DataFrame(schema=COLUMNS[name]) for name in ("results", "experiments")}
    >>> Tables(**tables).names()
    []
    """

    results: pl.DataFrame
    experiments: pl.DataFrame
    clusters: pl.DataFrame = field(default_factory=pl.DataFrame)
    claims: pl.DataFrame = field(default_factory=pl.DataFrame)
    scaling: pl.DataFrame = field(default_factory=pl.DataFrame)
    slopes: pl.DataFrame = field(default_factory=pl.DataFrame)

    def __post_init__(self) -> None:
        for name in COLUMNS:
            _check_columns(name, getattr(self, name))
        _check_values("algorithm", self.results, (*ALGORITHMS, SPLICING))
        _check_values("server", self.results, SERVERS)
        _check_described(self.results, self.experiments)

    def names(self) -> list[str]:
        """Experiments that have been run, those of the paper first."""
        ran = self.results["experiment"].unique(maintain_order=True).to_list()
        known = [name for name in EXPERIMENTS if name in ran]
        return known + [name for name in ran if name not in EXPERIMENTS]

    def about(self, experiment: str) -> dict[str, object]:
        """What is known of an experiment."""
        return self.experiments.row(by_predicate=pl.col("experiment") == experiment, named=True)

    def title(self, experiment: str) -> str:
        """How an experiment is headed, marked where other data stand in for the paper's."""
        if experiment not in self.experiments["experiment"]:
            return experiment
        about = self.about(experiment)
        title = str(about["title"])
        is_unmarked = bool(about["stand_in"]) and "stand-in" not in title
        return f"{title} (stand-in)" if is_unmarked else title

    def clients(self, experiment: str) -> int:
        """How many clients an experiment has."""
        return int(str(self.about(experiment)["clients"]))


def _check_columns(name: str, table: pl.DataFrame) -> None:
    if table.is_empty() and name not in ("results", "experiments"):
        return
    for column in COLUMNS[name]:
        if column not in table.columns:
            raise DataError(
                f"the table {name!r} lacks the column {column!r}; "
                f"its columns must be {', '.join(COLUMNS[name])}"
            )


def _check_values(column: str, results: pl.DataFrame, allowed: tuple[str, ...]) -> None:
    for value in results[column].unique():
        if value not in allowed:
            raise DataError(
                f"the table 'results' has {value!r} in its column {column!r}, "
                f"which must be one of {', '.join(allowed)}"
            )


def _check_described(results: pl.DataFrame, experiments: pl.DataFrame) -> None:
    described = experiments["experiment"]
    if described.is_duplicated().any():
        raise DataError("the table 'experiments' has two rows for one experiment; keep one of them")
    for name in results["experiment"].unique():
        if name not in described:
            raise DataError(
                f"the table 'experiments' has no row for {name!r}, which 'results' has; add one"
            )


def rounds_to_reach(run: pl.DataFrame, objective: float) -> int | None:
    """First round of one method's run at or below an objective, or None.

    Examples
    --------
    >>> rounds_to_reach(pl.DataFrame({"round": [0, 1, 2], "objective": [8.0, 4.0, 2.0]}), 5.0)
    1
    """
    reached = run.filter(pl.col("objective") <= objective)["round"]
    return None if reached.is_empty() else int(reached[0])
