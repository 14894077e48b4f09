"""A training run from roll call to files: the model, its history, and how the sites did."""

import json
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from fedsparse.engines.flower.engine import FlowerEngine
from fedsparse.engines.flower.training import Training
from fedsparse.errors import (
    CheckpointError,
    DataError,
    FederationError,
    OptionError,
)
from fedsparse.files import ready_folder, write_atomically
from fedsparse.history import Record
from fedsparse.result import Result
from fedsparse.run import run_on
from fedsparse.version import __version__

log = logging.getLogger("fedsparse.federation")

CHECKPOINT = "checkpoint.npz"
MODEL = "model.json"
HISTORY = "history.parquet"
OUTCOME = "outcome.json"

KNOWN_ERRORS = (CheckpointError, DataError, FederationError, OptionError)


def train(grid: Grid, training: Training) -> Result:
    """Train on the sites that a grid reaches, and write what came of it.

    An error that a person can mend is written to ``outcome.json`` before it is raised.
    """
    folder = training.folder()
    if folder is not None:
        ready_folder(folder)
        (folder / OUTCOME).unlink(missing_ok=True)
        if not training.resume:
            (folder / CHECKPOINT).unlink(missing_ok=True)
    try:
        engine = FlowerEngine(grid, training.problem(), training.conduct())
        log.info("training on %d sites: %s", len(engine.names), ", ".join(engine.names))
        with closing(engine):
            result = run_on(
                engine,
                training.algorithm(),
                rounds=training.rounds,
                seed=training.seed,
                evaluate_every=training.evaluate_every,
                checkpoint=None if folder is None else folder / CHECKPOINT,
                every=1,
                on_round=_told_by(training.rounds),
            )
    except KNOWN_ERRORS as error:
        _write_outcome(folder, {"error": type(error).__name__, "message": str(error)})
        raise
    if folder is not None:
        _write(folder, training, engine, result)
    log.info("done: f = %.6g with %d coefficients", result.objective, np.count_nonzero(result.coef))
    return result


def _told_by(rounds: int) -> Callable[[Record], None]:
    def tell(record: Record) -> None:
        log.info(
            "round %d of %d: f = %.6g with %d coefficients",
            record.round, rounds, record.objective, record.nonzeros,
        )  # fmt: skip

    return tell


def _write(folder: Path, training: Training, engine: FlowerEngine, result: Result) -> None:
    result.history.write_parquet(folder / HISTORY)
    model = json.dumps(_model(training, engine, result), indent=2, ensure_ascii=False)
    write_atomically(folder / MODEL, model.encode())
    _write_outcome(folder, {"sites": _sites(engine), "diverged": result.diverged})


def _write_outcome(folder: Path | None, outcome: dict[str, Any]) -> None:
    if folder is not None:
        written = json.dumps(outcome, indent=2, ensure_ascii=False)
        write_atomically(folder / OUTCOME, written.encode())


def _model(training: Training, engine: FlowerEngine, result: Result) -> dict[str, Any]:
    """The model by the names of its features."""
    names = engine.columns
    coefficients = {
        names[place] if names is not None else str(place + 1): result.coef[place].tolist()
        for place in result.support
    }
    return {
        "format": "fedsparse-federation",
        "method": training.method,
        "loss": training.loss,
        "l2": training.l2,
        "classes": None if result.classes is None else result.classes.tolist(),
        "features": engine.shape[0],
        "coefficients": coefficients,
        "objective": result.objective,
        "rounds": result.records[-1].round,
        "fedsparse": __version__,
    }


def _sites(engine: FlowerEngine) -> list[dict[str, Any]]:
    return [
        {
            "name": member.name,
            "rows": member.rows,
            "excluded": member.excluded,
            "absent": member.is_absent,
            "bytes_down": member.bytes_down,
            "bytes_up": member.bytes_up,
        }
        for member in engine.members
    ]
