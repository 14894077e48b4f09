"""Run an experiment: grid search, the chosen settings on every seed, facts about the data."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from fedsparse.engines.history import Record, as_table
from fedsparse.engines.run import run
from fedsparse.errors import DivergenceWarning
from fedsparse.research.data.clusters import cluster_map
from fedsparse.research.experiments.experiment_plan import (
    ALGORITHMS,
    Method,
    best_of,
    extrapolated_of,
    grid_of,
)
from fedsparse.research.experiments.facts import facts_of
from fedsparse.research.experiments.problems import Experiment, Problem
from fedsparse.research.experiments.store import Store
from fedsparse.version import __version__

FORMAT = 1
"""Raised when saved runs of an earlier fedsparse must not be used any more."""


@dataclass(frozen=True)
class Doing:
    """What a reproduction is at, for a progress bar."""

    experiment: str
    what: str
    done: int
    total: int


@dataclass(frozen=True)
class ExperimentTables:
    """What an experiment found.

    Attributes
    ----------
    results
        A row per run and evaluated round.
    facts
        One row: sizes, samples per device, smoothness.
    clusters
        A t-SNE of clustered text; empty for other data.
    """

    results: pl.DataFrame
    facts: pl.DataFrame
    clusters: pl.DataFrame


class Runner:
    """Works out one experiment, run by run; what the store holds is not run again.

    Parameters
    ----------
    experiment
        What to run.
    store
        Finished runs.
    watch
        Called before every run.
    """

    def __init__(
        self, experiment: Experiment, store: Store, watch: Callable[[Doing], None]
    ) -> None:
        self._experiment = experiment
        self._settings = experiment.settings
        self._store = store
        self._watch = watch
        self._opened: tuple[int, Problem] | None = None
        self._done = 0
        self._results: list[pl.DataFrame] = []

    def finish(self) -> ExperimentTables:
        """All runs and facts of the experiment."""
        facts, clusters = self._facts(), self._clusters()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the table tells
            grid = self._grid()
            methods = [*self._chosen(grid), *extrapolated_of(self._settings)]
            for seed in self._settings.seeds:
                for method in methods:
                    self._result("final", seed, method, self._settings.rounds)
        return ExperimentTables(pl.concat(self._results), facts, clusters)

    def _grid(self) -> list[tuple[Method, pl.DataFrame]]:
        """Every K × γ on the first seed."""
        settings = self._settings
        return [
            (method, self._result("grid", settings.seeds[0], method, settings.grid.rounds))
            for algorithm in ALGORITHMS
            for method in grid_of(settings, algorithm)
        ]

    def _chosen(self, grid: list[tuple[Method, pl.DataFrame]]) -> list[Method]:
        """The setting of each algorithm that ends lowest after all rounds on the first seed."""
        settings = self._settings
        chosen = []
        for algorithm in ALGORITHMS:
            own = [(method, table) for method, table in grid if method.algorithm == algorithm]
            finalists = best_of(own, settings.grid.finalists)
            if settings.grid.rounds < settings.rounds:
                runs = [
                    (method, self._result("finalist", settings.seeds[0], method, settings.rounds))
                    for method in finalists
                ]
                finalists = best_of(runs, 1)
            chosen += finalists[:1]
        return chosen

    def _result(self, stage: str, seed: int, method: Method, rounds: int) -> pl.DataFrame:
        """The table of one run, which also goes into the results."""
        self._tell(f"{stage}, seed {seed}: {method}")
        configuration = self._configuration(seed) | {
            "method": [method.algorithm, method.server, method.local_steps, method.step_size],
            "rounds": rounds,
            # A setting that survived the grid is run the same way again.
            "stop_above": self._settings.grid.stop_above if method.server == "plain" else None,
        }
        history = self._store.recall(
            self._settings.name,
            configuration,
            lambda: self._run(seed, method, rounds, configuration["stop_above"]),
        )
        table = history.select(
            pl.lit(self._settings.name).alias("experiment"),
            pl.lit(seed, pl.Int64).alias("seed"),
            pl.lit(stage).alias("stage"),
            pl.lit(method.algorithm).alias("algorithm"),
            pl.lit(method.server).alias("server"),
            pl.lit(method.local_steps, pl.Int64).alias("local_steps"),
            pl.lit(method.step_size, pl.Float64).alias("step_size"),
            # Nobody is absent in one process; runs kept from earlier releases have no such column.
            pl.exclude("absent"),
        )
        self._results.append(table)
        return table

    def _run(
        self, seed: int, method: Method, rounds: int, stop_above: float | None
    ) -> pl.DataFrame:
        problem = self._problem(seed)
        watcher = _Watcher(stop_above)
        try:
            result = run(
                method.build(problem.sparsity),
                problem.data,
                loss=problem.loss,
                rounds=rounds,
                seed=seed,
                on_round=watcher,
            )
            diverged = result.diverged
        except _HopelessError:
            diverged = True
        return as_table(watcher.records).insert_column(0, pl.lit(diverged).alias("diverged"))

    def _facts(self) -> pl.DataFrame:
        self._tell("samples per device and smoothness")
        first = self._settings.seeds[0]
        configuration = self._configuration(first) | {
            "facts": self._settings.model_dump(include={"title", "rounds", "claims"})
        }
        return self._store.recall(
            f"{self._settings.name}-facts",
            configuration,
            lambda: facts_of(self._experiment, self._problem(first)),
        )

    def _clusters(self) -> pl.DataFrame:
        """Where the rows of clustered text lie, for a picture."""
        table = self._experiment.table
        if table is None or self._settings.data.source == "mnist":
            return pl.DataFrame()
        self._tell("t-SNE of the clusters")
        first = self._settings.seeds[0]

        def work() -> pl.DataFrame:
            rows, labels = self._experiment.categories(first)
            points = cluster_map(table.features[rows], labels, seed=first)
            return points.insert_column(0, pl.lit(self._settings.name).alias("experiment"))

        name = f"{self._settings.name}-clusters"
        return self._store.recall(name, self._configuration(first), work)

    def _configuration(self, seed: int) -> dict[str, Any]:
        """What fixes the problem of a seed."""
        settings = self._settings
        table = self._experiment.table
        return {
            "format": FORMAT,
            "fedsparse": __version__,
            "data": settings.data.model_dump(),
            "rows": None if table is None else [table.title, table.stand_in, table.samples],
            "loss": [settings.loss, settings.l2],
            "sparsity": settings.sparsity,
            "seed": seed,
        }

    def _problem(self, seed: int) -> Problem:
        """The problem of a seed; one is held in memory at a time."""
        if self._opened is None or self._opened[0] != seed:
            self._opened = None
            self._opened = (seed, self._experiment.problem(seed))
        return self._opened[1]

    def _tell(self, what: str) -> None:
        self._watch(Doing(self._settings.name, what, self._done, self.total))
        self._done += 1

    @property
    def total(self) -> int:
        """How many pieces of work there are at most."""
        settings = self._settings
        grid = sum(len(grid_of(settings, algorithm)) for algorithm in ALGORITHMS)
        is_short = settings.grid.rounds < settings.rounds
        finalists = settings.grid.finalists * len(ALGORITHMS) if is_short else 0
        return grid + finalists + 2 * len(ALGORITHMS) * len(settings.seeds) + 2


class _HopelessError(Exception):
    """The objective has risen so far that no more rounds are worth their time."""


class _Watcher:
    """Keeps the records of a run and stops it when it is hopeless."""

    def __init__(self, stop_above: float | None) -> None:
        self.records: list[Record] = []
        self._stop_above = stop_above

    def __call__(self, record: Record) -> None:
        self.records.append(record)
        limit = self._stop_above
        if limit is not None and record.objective > limit * self.records[0].objective:
            raise _HopelessError
