"""How many features: τ by cross-validation, folds inside every site, or by EBIC on one path."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.engines.conversation import Conversation, exchanges_of, together
from fedsparse.engines.engine import Engine
from fedsparse.errors import DataError, OptionError
from fedsparse.modelling.fitting import (
    FitOptions,
    Fitted,
    OnModel,
    Prepared,
    fit_model,
    prepare,
    tell_nobody,
)
from fedsparse.modelling.summary import Selection, SelectionPoint
from fedsparse.requests import Evaluate

_GAMMA = 1.0
"""γ of EBIC: how much the number of possible supports counts; 0 is BIC, 1 the strictest."""

_STEPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80)


def default_sparsities(width: int, rows: int, keep: int = 0) -> list[int]:
    """τ from 1 (or the features to keep) upwards, each about one and a half times the last.

    At most as many as there are features, and a third of the rows: more cannot be told apart.

    Examples
    --------
    >>> default_sparsities(width=50, rows=40)
    [1, 2, 3, 5, 8, 12]
    """
    most = max(min(width, rows // 3), keep, 1)
    steps = [step for step in _STEPS if max(keep, 1) <= step <= most] or [most]
    # All features together, where there are few.
    return sorted({*steps, most}) if most == width <= _STEPS[-1] else steps


def cross_validate(
    engine: Engine,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    folds: int = 5,
    on_model: OnModel = tell_nobody,
) -> Conversation[Selection]:
    """Choose τ by the loss on rows that a model has not seen.

    Every site holds back a part of its own rows; models of growing τ are fitted on the others, each
    started at the one before, and judged on the rows held back. The smallest τ within one standard
    error of the best is taken. All folds are in lockstep: they take the exchanges of the slowest.

    Parameters
    ----------
    engine
        Shows the rows, features not scaled.
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
    >>> Z, noise = np.split(np.random.default_rng(0).standard_normal((60, 31)), [30], axis=1)
    >>> y = Z[:, 3] - Z[:, 7] + 0.1 * noise[:, 0]
    >>> data = fs.FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> choosing = cross_validate(engine, [1, 2, 5], FitOptions(fs.SquaredError()))
    >>> chosen = fs.converse(engine, choosing)
    >>> chosen.chosen, len(chosen.points)
    (2, 3)
    """
    check_count("folds", folds)
    if folds < 2:
        raise OptionError("folds must be at least 2")
    wanted = sorted(set(sparsities))
    on_folds = together(
        _judged_path(engine, fold, folds, wanted, options, on_model) for fold in range(folds)
    )
    judged, exchanges = yield from exchanges_of(on_folds)
    paths = [path for path in judged if path is not None]
    if not paths:
        raise DataError(
            "there are too few rows, or too few of some class, to hold some out; give the sparsity "
            "as a number"
        )
    points = _points(wanted, np.array([path.losses for path in paths]))
    best = min(points, key=lambda point: point.score)
    return Selection(
        method="cv",
        measure=f"{_of_a_row(options)} per held-out row",
        points=tuple(points),
        best=best.sparsity,
        chosen=_within_one_error(points, best),
        rounds=exchanges,
        bytes_down=sum(path.bytes_down for path in paths),
        bytes_up=sum(path.bytes_up for path in paths),
    )


def choose_by_ebic(
    engine: Engine,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    on_model: OnModel = tell_nobody,
) -> Conversation[tuple[Selection, Fitted]]:
    """Choose τ by EBIC (Chen & Chen, Biometrika 2008) on all rows, and the model of that τ.

    EBIC = deviance + k log n + 2γ log C(d, k) with γ = 1 and k non-zero coefficients; the deviance
    is n log(RSS / n) for the squared loss and 2n times the log-loss otherwise.

    Parameters
    ----------
    engine, sparsities, options, on_model
        As in `cross_validate`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> Z = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = Z[:, 3] - Z[:, 7]
    >>> data = fs.FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> choosing = choose_by_ebic(engine, [1, 2, 5], FitOptions(fs.SquaredError()))
    >>> selection, model = fs.converse(engine, choosing)
    >>> selection.chosen, len(selection.points)
    (2, 3)
    """
    wanted = sorted(set(sparsities))
    (prepared, models, losses), exchanges = yield from exchanges_of(
        _path_and_losses(engine, wanted, options, on_model)
    )
    scores = [
        _ebic(model, loss, prepared.mass, options)
        for model, loss in zip(models, losses, strict=True)
    ]
    lowest = int(np.argmin(scores))
    selection = Selection(
        method="ebic",
        measure="EBIC",
        points=tuple(
            SelectionPoint(sparsity=sparsity, score=score)
            for sparsity, score in zip(wanted, scores, strict=True)
        ),
        best=wanted[lowest],
        chosen=wanted[lowest],
        rounds=exchanges,
        bytes_down=sum(model.result.records[-1].bytes_down for model in models),
        bytes_up=sum(model.result.records[-1].bytes_up for model in models),
    )
    model = yield from fit_model(prepared, wanted[lowest], options, start=models[lowest])
    return selection, model


def fit_path(
    prepared: Prepared, sparsities: Sequence[int], options: FitOptions, on_model: OnModel
) -> Conversation[list[Fitted]]:
    """Models of increasing τ: each started at the one before, or all at once if none can."""

    def fitted(sparsity: int, start: Fitted | None) -> Conversation[Fitted]:
        model = yield from fit_model(prepared, sparsity, options, start=start)
        on_model(f"τ = {sparsity}")
        return model

    if not options.splices:
        return (yield from together(fitted(sparsity, None) for sparsity in sparsities))
    models: list[Fitted] = []
    for sparsity in sparsities:
        models.append((yield from fitted(sparsity, models[-1] if models else None)))
    return models


@dataclass(frozen=True, eq=False)
class _Path:
    losses: FloatArray
    bytes_down: int
    bytes_up: int


def _judged_path(
    engine: Engine,
    fold: int,
    folds: int,
    sparsities: Sequence[int],
    options: FitOptions,
    on_model: OnModel,
) -> Conversation[_Path | None]:
    """Losses of a path of models on the rows of a fold.

    None if the fold has no rows, or if the others are all of one class.
    """
    rows, how = engine.lens.rows, options.how_to_part(folds)
    prepared = yield from prepare(engine.where(rows.but_part(fold, **how)), options)
    if not prepared.is_learnable:
        return None
    models = yield from fit_path(prepared, sparsities, options.roughly, on_model)
    unseen = replace(prepared.engine.lens, rows=rows.part(fold, **how))
    losses = yield from _losses(prepared.engine.through(unseen), models)
    if losses is None:
        return None
    return _Path(
        np.array(losses),
        sum(model.result.records[-1].bytes_down for model in models),
        sum(model.result.records[-1].bytes_up for model in models),
    )


def _path_and_losses(
    engine: Engine, sparsities: Sequence[int], options: FitOptions, on_model: OnModel
) -> Conversation[tuple[Prepared, list[Fitted], list[float]]]:
    prepared = yield from prepare(engine, options)
    models = yield from fit_path(prepared, sparsities, options.roughly, on_model)
    losses = yield from _losses(prepared.engine, models)
    assert losses is not None  # models were fitted on these rows
    return prepared, models, losses


def _losses(engine: Engine, models: Sequence[Fitted]) -> Conversation[list[float] | None]:
    """Loss per row of every model, the ℓ2 term left out; None if nobody has a row."""
    answers = yield tuple(
        engine.ask(Evaluate(model.result.coef, is_penalized=False), "samples") for model in models
    )
    if any(own.count == 0 for own in answers):
        return None
    return [own.average("objective") for own in answers]


def _of_a_row(options: FitOptions) -> str:
    return "squared error" if options.is_regression else "log-loss"


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


def _ebic(model: Fitted, loss: float, mass: float, options: FitOptions) -> float:
    own = max(loss, 1e-300)
    deviance = mass * np.log(own) if options.is_regression else 2.0 * mass * own
    nonzeros, possible = int(np.count_nonzero(model.coefficients)), model.coefficients.size
    supports = _log_binomial(possible, nonzeros)
    return float(deviance + nonzeros * np.log(mass) + 2.0 * _GAMMA * supports)


def _log_binomial(of: int, chosen: int) -> float:
    return float(gammaln(of + 1) - gammaln(chosen + 1) - gammaln(of - chosen + 1))
