"""A training run from roll call to files: the model, its report, and how the sites did."""

import json
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from fedsparse.engines.flower.server.beginning import Beginning
from fedsparse.engines.flower.server.engine import FlowerEngine
from fedsparse.engines.flower.server.lock import LOCK, locked
from fedsparse.engines.flower.server.summary import summarize
from fedsparse.engines.flower.server.training import Training
from fedsparse.errors import (
    CheckpointError,
    DataError,
    FederationError,
    OptionError,
)
from fedsparse.files import ready_folder, write_atomically
from fedsparse.fitting import (
    FitOptions,
    Fitted,
    Scaling,
    algorithm_for,
    check_fit,
    scaling_from,
)
from fedsparse.history import Record
from fedsparse.run import run_on

log = logging.getLogger("fedsparse.federation")

CHECKPOINT = "checkpoint.npz"
OUTCOME = "outcome.json"

KNOWN_ERRORS = (CheckpointError, DataError, FederationError, OptionError)


def train(grid: Grid, training: Training) -> Fitted:
    """Train on the sites that a grid reaches, and write what came of it.

    An error that a person can mend is written to ``outcome.json`` before it is raised.
    """
    folder = training.folder()
    if folder is None:
        return _train(grid, training, None)
    ready_folder(folder)
    with locked(folder / LOCK) as is_alone:
        if not is_alone:
            raise FederationError(f"another run is still writing to {folder}")
        (folder / OUTCOME).unlink(missing_ok=True)
        return _train(grid, training, folder)


def _train(grid: Grid, training: Training, folder: Path | None) -> Fitted:
    try:
        if training.resume and folder is not None:
            Beginning.load(folder).check_options(training)
        engine = FlowerEngine(grid, training.terms(), training.conduct())
        log.info("training on %d sites: %s", len(engine.names), ", ".join(engine.names))
        for note in engine.notes:
            log.info("note: %s", note)
        with closing(engine):
            options = training.fit_options(engine.encoding, float(engine.masses.sum()))
            fitted = _fit(engine, options, training)
    except KNOWN_ERRORS as error:
        _write_outcome(folder, {"error": type(error).__name__, "message": str(error)})
        raise
    if folder is not None:
        from fedsparse.report.fit import save_fit

        save_fit(summarize(engine, options, training, fitted), folder)
        _write_outcome(folder, {"diverged": fitted.result.diverged})
    features = np.count_nonzero(fitted.coefficients.reshape(len(engine.encoding.feature_names), -1))
    log.info("done: f = %.6g with %d coefficients", fitted.result.objective, features)
    return fitted


def _fit(engine: FlowerEngine, options: FitOptions, training: Training) -> Fitted:
    """The same steps as `prepare` and `fit_model`, with rows that stay at their sites."""
    check_fit(options, len(engine.encoding.feature_names))
    folder = training.folder()
    if training.resume and folder is not None:
        scaling = _scaling_of_old(engine, options, folder)
    else:
        scaling = _scaling_of_new(engine, options, training)
    engine.set_up(options.loss, scaling)
    result = run_on(
        engine,
        algorithm_for(engine.shape[0], int(training.sparsity), options),
        rounds=training.rounds,
        seed=training.seed,
        evaluate_every=training.evaluate_every,
        checkpoint=None if folder is None else folder / CHECKPOINT,
        every=1,
        on_round=_told_by(training.rounds),
    )
    return Fitted.of(result, scaling)


def _scaling_of_new(engine: FlowerEngine, options: FitOptions, training: Training) -> Scaling:
    """Have sites tell their moments, and keep what comes of it."""
    folder = training.folder()
    moments = None
    if options.needs_moments:
        engine.set_up(options.loss)
        moments = engine.moments(with_target=options.is_regression)
    is_sparse = not engine.encoding.columns
    width = len(engine.encoding.feature_names)
    scaling = scaling_from(moments, options, width, is_sparse=is_sparse)
    if folder is not None:  # only now is it sure that there is something new
        (folder / CHECKPOINT).unlink(missing_ok=True)
        setup = engine.setup_for(options.loss, scaling)
        Beginning(engine.names, setup, training.what_is_learnt(), engine.notes).save(folder)
    return scaling


def _scaling_of_old(engine: FlowerEngine, options: FitOptions, folder: Path) -> Scaling:
    """The one that an interrupted run began with."""
    beginning = Beginning.load(folder)
    beginning.check(engine.names, engine.setup_for(options.loss, None))
    engine.notes = beginning.notes
    assert beginning.setup.scaling is not None
    return beginning.setup.scaling


def _told_by(rounds: int) -> Callable[[Record], None]:
    def tell(record: Record) -> None:
        log.info("round %d of at most %d: f = %.6g", record.round, rounds, record.objective)

    return tell


def _write_outcome(folder: Path | None, outcome: dict[str, Any]) -> None:
    if folder is not None:
        written = json.dumps(outcome, indent=2, ensure_ascii=False)
        write_atomically(folder / OUTCOME, written.encode())
