"""Reproduce experiments: run what is not on disk yet, judge the claims, write the tables."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from fedsparse.compute.workers import available_threads
from fedsparse.files import ready_folder, write_atomically
from fedsparse.research.experiments.claims import claims_table
from fedsparse.research.experiments.experiment_settings import NAMES, check_name, read_settings
from fedsparse.research.experiments.experiment_tables import Tables
from fedsparse.research.experiments.message_study import measure_messages
from fedsparse.research.experiments.problems import Experiment, load_experiment
from fedsparse.research.experiments.runner import Doing, ExperimentTables, Means, Runner
from fedsparse.research.experiments.store import Store, as_parquet
from fedsparse.research.experiments.study_claims import (
    message_claims,
    scaling_claims,
    split_claims,
)
from fedsparse.research.theory.scaling_study import measure_scaling, scaling_slopes
from fedsparse.research.theory.split_study import measure_splits
from fedsparse.version import __version__

ALL = "all"
"""Stands for every experiment, and for the studies of what the paper says beside them."""


STUDIES = {"messages": 1, "splits": 1, "scaling": 2}
"""Raised when what an earlier fedsparse measured must not be used any more."""


def names_of(name: str) -> list[str]:
    """Experiments that a name of the command line stands for.

    Examples
    --------
    >>> names_of("all")
    ['simulation-1', 'simulation-2', 'e2006', 'rcv1', 'mnist']
    """
    if name == ALL:
        return list(NAMES)
    if not name.endswith(".toml"):
        check_name(name, (*NAMES, ALL))
    return [name]


def reproduce(
    names: Sequence[str],
    store: Store,
    watch: Callable[[Doing], None],
    *,
    quick: bool = False,
    studies: bool = False,
    means: Means | None = None,
) -> Tables:
    """Work out the tables of experiments; what the store holds is not run again.

    Parameters
    ----------
    names
        Experiments by name or by path of their TOML files.
    store
        Where finished work lies.
    watch
        Called as by `fedsparse.research.experiments.runner.Runner`.
    quick
        The small version of every experiment.
    studies
        Measure, too, how errors of FedIter-HT change with the size of the problem, what non-IID
        rows do, and how many bytes travel.
    means
        What to run experiments on; studies are measured by compiled loops.
    """
    means, settings = means or Means(), [read_settings(name, quick=quick) for name in names]
    study = partial(_studied, store, watch, quick) if studies else dict[str, pl.DataFrame]
    if means.at_once and len(names) > 1:
        found, studied = _all_at_once([*names], store, watch, quick, means, study)
    else:
        experiments = [Experiment(own) for own in settings]
        for experiment in experiments:
            _ = experiment.table  # what is missing is told before an hour of work, not after
        found = [Runner(experiment, store, watch, means).finish() for experiment in experiments]
        studied = study()
    claims = [
        claims_table(own, tables.results, tables.facts)
        for own, tables in zip(settings, found, strict=True)
    ]
    measured = studied.get("scaling", pl.DataFrame())
    slopes = scaling_slopes(measured) if measured.height else pl.DataFrame()
    return Tables(
        results=pl.concat([tables.results for tables in found]),
        experiments=pl.concat([tables.facts for tables in found]),
        clusters=_joined([tables.clusters for tables in found]),
        claims=pl.concat(
            [
                *claims,
                message_claims(studied.get("messages", pl.DataFrame())),
                split_claims(studied.get("splits", pl.DataFrame())),
                scaling_claims(slopes),
            ]
        ),
        scaling=measured,
        slopes=slopes,
    )


def save_tables(tables: Tables, folder: Path) -> None:
    """Write a Parquet file per table, and the claims as CSV, too."""
    ready_folder(folder)
    for field in fields(tables):
        table: pl.DataFrame = getattr(tables, field.name)
        if table.height:
            write_atomically(folder / f"{field.name}.parquet", as_parquet(table))
    write_atomically(folder / "claims.csv", tables.claims.write_csv().encode())


def _all_at_once(
    names: list[str],
    store: Store,
    watch: Callable[[Doing], None],
    quick: bool,
    means: Means,
    study: Callable[[], dict[str, pl.DataFrame]],
) -> tuple[list[ExperimentTables], dict[str, pl.DataFrame]]:
    """Every experiment in a process of its own, and the studies meanwhile."""
    # Forked processes could not use a GPU.
    with ProcessPoolExecutor(len(names), get_context("spawn")) as pool:
        work = partial(_finished, quick, store, means)
        waiting = {pool.submit(work, name): name for name in names}
        studied = study()
        for done, finished in enumerate(as_completed(waiting), 1):
            finished.result()
            watch(Doing("experiments", f"{waiting[finished]} is done", done, len(names)))
        return [one.result() for one in waiting], studied


def _finished(quick: bool, store: Store, means: Means, name: str) -> ExperimentTables:
    return Runner(load_experiment(name, quick=quick), store, lambda doing: None, means).finish()


def _studied(store: Store, watch: Callable[[Doing], None], quick: bool) -> dict[str, pl.DataFrame]:
    """Tables of the studies by name."""
    works = {
        "messages": ("bytes of a round", measure_messages),
        "splits": ("the same rows in other hands", measure_splits),
        "scaling": ("errors on growing problems", measure_scaling),
    }
    tables = {}
    for done, (name, (what, measure)) in enumerate(works.items()):
        watch(Doing("studies", what, done, len(works)))
        configuration = {"fedsparse": __version__, "quick": quick, "study": STUDIES[name]}
        work = partial(measure, quick=quick, processes=available_threads())
        tables[name] = store.recall(name, configuration, work)
    return tables


def _joined(tables: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [table for table in tables if table.height]
    return pl.concat(filled) if filled else pl.DataFrame()
