"""τ by cross-validation, folds inside every site."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.checks import check_count
from fedsparse.data.federated import FederatedData
from fedsparse.data.folds import folds_within_sites
from fedsparse.errors import DataError, OptionError
from fedsparse.evaluation.metrics import mean_loss
from fedsparse.fitting import (
    FitOptions,
    Fitted,
    Prepared,
    Progress,
    fit_model,
    no_progress,
    prepare,
)
from fedsparse.losses import SquaredError
from fedsparse.models.summary import Selection, SelectionPoint


def cross_validate(
    data: FederatedData,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    folds: int = 5,
    on_model: Progress = no_progress,
) -> Selection:
    """Choose τ by the loss on rows that a model has not seen.

    Every site holds back a part of its own rows; models of growing τ are fitted on the others, each
    started at the one before, and judged on the rows held back. The smallest τ within one standard
    error of the best is taken. No fold waits for another, so that all can share their messages: the
    rounds told are those of the slowest fold.

    Parameters
    ----------
    data
        The sites, features not standardized.
    sparsities
        τ values.
    options
        How models are fitted.
    folds
        How many parts every site's rows are cut into.
    on_model
        Called after each model.

    Examples
    --------
    >>> import fedsparse as fs
    >>> Z = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = Z[:, 3] - Z[:, 7]
    >>> data = FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> chosen = cross_validate(data, [1, 2, 5], FitOptions(fs.SquaredError()))
    >>> chosen.chosen, len(chosen.points)
    (2, 3)
    """
    check_count("folds", folds)
    if folds < 2:
        raise OptionError("folds must be at least 2")
    is_regression = isinstance(options.loss, SquaredError)
    own_folds = folds_within_sites(data, folds, seed=options.seed, by_class=not is_regression)
    paths = []
    for fold in range(folds):
        is_held_out = own_folds == fold
        if is_held_out.any() and not is_held_out.all():
            paths.append(_judge(data, is_held_out, sorted(set(sparsities)), options, on_model))
    if not paths:
        raise DataError("there are too few rows to hold some out; give the sparsity as a number")
    points = _points(sorted(set(sparsities)), np.array([path.losses for path in paths]))
    best = min(points, key=lambda point: point.score)
    return Selection(
        method="cv",
        measure="squared error per held-out row" if is_regression else "log-loss per held-out row",
        points=tuple(points),
        best=best.sparsity,
        chosen=_within_one_error(points, best),
        rounds=max(path.rounds for path in paths),
        bytes_down=sum(path.bytes_down for path in paths),
        bytes_up=sum(path.bytes_up for path in paths),
    )


def fit_path(
    prepared: Prepared, sparsities: Sequence[int], options: FitOptions, on_model: Progress
) -> list[Fitted]:
    """Models of increasing τ, each started at the one before where the algorithm can."""
    models: list[Fitted] = []
    for sparsity in sparsities:
        start = models[-1] if models else None
        models.append(fit_model(prepared, sparsity, options, start=start))
        on_model(f"τ = {sparsity}")
    return models


def path_rounds(models: Sequence[Fitted], prepared: Prepared, options: FitOptions) -> int:
    """Rounds of a path: one model after the other if each starts at the last, else all at once."""
    rounds = [model.result.records[-1].round for model in models]
    return prepared.rounds + (sum(rounds) if options.splices else max(rounds))


@dataclass(frozen=True, eq=False)
class _Path:
    losses: FloatArray
    rounds: int
    bytes_down: int
    bytes_up: int


def _judge(
    data: FederatedData,
    is_held_out: BoolArray,
    sparsities: Sequence[int],
    options: FitOptions,
    on_model: Progress,
) -> _Path:
    """Losses of a path of models on the rows that they have not seen."""
    prepared = prepare(data.where(~is_held_out), options)
    models = fit_path(prepared, sparsities, options.roughly, on_model)
    unseen = data.where(is_held_out)
    return _Path(
        np.array([mean_loss(options.loss, model, unseen) for model in models]),
        path_rounds(models, prepared, options) + 1,  # to learn the losses
        sum(model.result.records[-1].bytes_down for model in models),
        sum(model.result.records[-1].bytes_up for model in models),
    )


def _points(sparsities: Sequence[int], losses: FloatArray) -> list[SelectionPoint]:
    """Mean and standard error over folds (rows) for every τ (columns)."""
    means = losses.mean(axis=0)
    count = losses.shape[0]
    errors = losses.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(means.size)
    return [
        SelectionPoint(sparsity=sparsity, score=float(mean), standard_error=float(error))
        for sparsity, mean, error in zip(sparsities, means, errors, strict=True)
    ]


def _within_one_error(points: Sequence[SelectionPoint], best: SelectionPoint) -> int:
    limit = best.score + (best.standard_error or 0.0)
    return min(point.sparsity for point in points if point.score <= limit)
