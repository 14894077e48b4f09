"""Run an experiment: grid search, the chosen settings on every seed, facts about the data.

Every K × γ of the grid is run for all rounds on the first seed. The best setting of an algorithm is
the one whose last f is lowest, among those that did not diverge: see `fedsparse.engines.run` for
when a run has diverged, and ends.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from fedsparse.engines.engine import Engine
from fedsparse.engines.history import Record, as_table
from fedsparse.engines.opening import open_engine
from fedsparse.engines.result import Result
from fedsparse.engines.run import run_together
from fedsparse.errors import DivergenceWarning
from fedsparse.problem.federated import FederatedData
from fedsparse.research.data.clusters import cluster_map
from fedsparse.research.experiments.experiment_plan import (
    ALGORITHMS,
    Method,
    grid_of,
    lowest_of,
    untuned_of,
)
from fedsparse.research.experiments.facts import facts_of
from fedsparse.research.experiments.problems import Experiment, Problem
from fedsparse.research.experiments.store import Store
from fedsparse.version import __version__

FORMAT = 2
"""Raised when saved runs of an earlier fedsparse must not be used any more."""


@dataclass(frozen=True)
class Doing:
    """What a reproduction is at, for a progress bar."""

    experiment: str
    what: str
    done: int
    total: int


@dataclass(frozen=True)
class Means:
    """What a reproduction runs on, and whether it draws what is slow.

    Attributes
    ----------
    engine, device
        See `fedsparse.engines.opening.open_engine`.
    maps
        Whether to place clustered text on a plane, by t-SNE.
    at_once
        Whether experiments are run at the same time, each in a process of its own: on a GPU, which
        mostly waits for what processes do between two rounds.
    """

    engine: str = "local"
    device: str | None = None
    maps: bool = True
    at_once: bool = False

    def check(self) -> None:
        """Refuse an engine that cannot be had, before any data are made.

        Examples
        --------
        >>> Means("abacus").check()
        Traceback (most recent call last):
            ...
        fedsparse.errors.OptionError: engine must be 'local' or 'torch' or 'ray', not 'abacus'
        """
        smallest = FederatedData.from_clients([([[1.0]], [1.0])])
        open_engine(smallest, engine=self.engine, device=self.device).close()


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


@dataclass(frozen=True, eq=False)
class _Opened:
    """The problem of a seed, and the engine that answers on it."""

    seed: int
    problem: Problem
    engine: Engine


class Runner:
    """Works out one experiment; what the store holds is not run again.

    Parameters
    ----------
    experiment
        What to run.
    store
        Finished runs.
    watch
        Called before every piece of work, and after every round of runs.
    means
        What to run it on.
    """

    def __init__(
        self,
        experiment: Experiment,
        store: Store,
        watch: Callable[[Doing], None],
        means: Means | None = None,
    ) -> None:
        self._experiment = experiment
        self._settings = experiment.settings
        self._store = store
        self._watch = watch
        self._means = means or Means()
        self._opened: _Opened | None = None
        self._done = 0
        self._results: list[pl.DataFrame] = []

    def finish(self) -> ExperimentTables:
        """All runs and facts of the experiment."""
        try:
            facts, clusters = self._facts(), self._clusters()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DivergenceWarning)  # the table tells
                methods = [*self._chosen(), *untuned_of(self._settings)]
                for seed in self._settings.seeds:
                    self._run_all("final", seed, methods)
        finally:
            self._close()
        return ExperimentTables(pl.concat(self._results), facts, clusters)

    def _chosen(self) -> list[Method]:
        """The best setting of each algorithm that has one."""
        seed = self._settings.seeds[0]
        chosen = []
        for algorithm in ALGORITHMS:
            best = lowest_of(self._run_all("grid", seed, grid_of(self._settings, algorithm)))
            chosen += [best] if best else []
        return chosen

    def _run_all(
        self, stage: str, seed: int, methods: Sequence[Method]
    ) -> list[tuple[Method, pl.DataFrame]]:
        """The table of each method's run, which also goes into the results."""
        name = self._settings.name
        identities = {method: self._identity(seed, method) for method in methods}
        found = {method: self._store.find(name, own) for method, own in identities.items()}
        lacking = [method for method, table in found.items() if table is None]
        self._done += len(methods) - len(lacking)
        for batch in self._batches(lacking):
            for method, result in zip(batch, self._run(stage, seed, batch), strict=True):
                table = _as_saved(method, result)
                found[method] = self._store.keep(name, identities[method], table)
            self._done += len(batch)
        runs = [(method, table) for method, table in found.items() if table is not None]
        self._results += [self._as_result(stage, seed, method, table) for method, table in runs]
        return runs

    def _batches(self, methods: list[Method]) -> list[list[Method]]:
        """What is run in lockstep, and saved when all of it is done.

        An engine that answers many models in one pass over the rows is given all of them. The local
        one answers one after the other, with all threads, and so gains nothing by it.
        """
        if self._means.engine == "local":
            return [[method] for method in methods]
        return [methods] if methods else []

    def _run(self, stage: str, seed: int, batch: list[Method]) -> list[Result]:
        what = str(batch[0]) if len(batch) == 1 else f"{len(batch)} settings together"
        rounds, reached = self._settings.rounds, -1
        self._tell(f"{stage}, seed {seed}: preparing {what}")
        opened = self._open(seed)

        def on_round(record: Record) -> None:
            nonlocal reached
            if record.round > reached:
                reached = record.round
                self._tell(f"{stage}, seed {seed}: {what}: round {reached} of {rounds}")

        algorithms = [method.build(opened.problem.sparsity) for method in batch]
        return run_together(algorithms, opened.engine, rounds=rounds, seed=seed, on_round=on_round)

    def _as_result(
        self, stage: str, seed: int, method: Method, history: pl.DataFrame
    ) -> pl.DataFrame:
        return history.select(
            pl.lit(self._settings.name).alias("experiment"),
            pl.lit(seed, pl.Int64).alias("seed"),
            pl.lit(stage).alias("stage"),
            pl.lit(method.algorithm).alias("algorithm"),
            pl.lit(method.server).alias("server"),
            pl.lit(method.local_steps, pl.Int64).alias("local_steps"),
            pl.lit(method.step_size, pl.Float64).alias("step_size"),
            pl.all(),
        )

    def _facts(self) -> pl.DataFrame:
        first = self._settings.seeds[0]
        configuration = self._configuration(first) | {
            "facts": self._settings.model_dump(include={"title", "rounds", "claims"})
        }

        def work() -> pl.DataFrame:
            opened = self._open(first)
            return facts_of(self._experiment, opened.problem, opened.engine)

        name = f"{self._settings.name}-facts"
        return self._piece("samples per device and smoothness", name, configuration, work)

    def _clusters(self) -> pl.DataFrame:
        """Where the rows of clustered text lie, for a picture."""
        table = self._experiment.table
        if not self._means.maps or table is None or self._settings.data.source == "mnist":
            return pl.DataFrame()
        first = self._settings.seeds[0]

        def work() -> pl.DataFrame:
            rows, labels = self._experiment.categories(first)
            points = cluster_map(table.features[rows], labels, seed=first)
            return points.insert_column(0, pl.lit(self._settings.name).alias("experiment"))

        name = f"{self._settings.name}-clusters"
        return self._piece("t-SNE of the clusters", name, self._configuration(first), work)

    def _piece(
        self, what: str, name: str, configuration: dict[str, Any], work: Callable[[], pl.DataFrame]
    ) -> pl.DataFrame:
        """A table that is no run."""
        self._tell(what)
        table = self._store.recall(name, configuration, work)
        self._done += 1
        return table

    def _identity(self, seed: int, method: Method) -> dict[str, Any]:
        """What fixes a run, and what its seconds are those of."""
        return self._configuration(seed) | {
            "method": [method.algorithm, method.server, method.local_steps, method.step_size],
            "rounds": self._settings.rounds,
            "engine": [self._means.engine, self._means.device],
        }

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

    def _open(self, seed: int) -> _Opened:
        """The problem of a seed; one is held in memory at a time."""
        if self._opened is None or self._opened.seed != seed:
            self._close()
            problem, means = self._experiment.problem(seed), self._means
            engine = open_engine(
                problem.data, problem.loss, engine=means.engine, device=means.device
            )
            self._opened = _Opened(seed, problem, engine)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.engine.close()
            self._opened = None

    def _tell(self, what: str) -> None:
        self._watch(Doing(self._settings.name, what, self._done, self.total))

    @property
    def total(self) -> int:
        """How many pieces of work there are at most: runs, facts and a map."""
        settings = self._settings
        grid = sum(len(grid_of(settings, algorithm)) for algorithm in ALGORITHMS)
        finals = len(settings.seeds) * (len(ALGORITHMS) + len(untuned_of(settings)))
        return grid + finals + 2


def _as_saved(method: Method, result: Result) -> pl.DataFrame:
    """The history of a run in one process, where nobody is absent."""
    table = as_table(result.records).drop("absent")
    if method.keeps_best:
        table = table.with_columns(pl.col("objective").cum_min())
    return table.insert_column(0, pl.lit(result.diverged).alias("diverged"))
