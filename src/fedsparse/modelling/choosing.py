"""How many features: τ by cross-validation, folds inside every site, or by EBIC on one path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

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
from fedsparse.modelling.summary import PathPoint, Selection, SelectionPoint
from fedsparse.requests import Evaluate
from fedsparse.tables.sentences import counted

_GAMMA = 1.0
"""γ of EBIC: how much the number of possible supports counts; 0 is BIC, 1 the strictest."""

_ROUNDING = 1e-24
"""Share of the largest loss that rounding may leave of none."""

_STEPS = (0, 1, 2, 3, 5, 8, 12, 20, 30, 50, 80)

_MOST_IN_PATH = 30
"""Features whose coefficients are kept for every τ."""

MOST_BETWEEN = 8
"""τ values that a refinement tries at most."""


def default_sparsities(width: int, rows: int, fewest: int = 0) -> list[int]:
    """τ from 0 upwards, each about one and a half times the last.

    The last is 80, the number of features or a third of the rows, whichever is least: more cannot
    be told apart.

    Parameters
    ----------
    width
        Features to choose from.
    rows
        To learn from.
    fewest
        Features that a model has at least; see `FitOptions.fewest`.

    Examples
    --------
    >>> default_sparsities(width=50, rows=40)
    [0, 1, 2, 3, 5, 8, 12, 13]
    >>> default_sparsities(width=50, rows=40, fewest=4)
    [4, 5, 8, 12, 13]
    """
    most = max(min(width, rows // 3, _STEPS[-1]), fewest, 1)
    return sorted({fewest, *(step for step in _STEPS if fewest < step < most), most})


def cross_validate(
    engine: Engine,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    refine: bool = False,
    folds: int = 5,
    on_model: OnModel = tell_nobody,
) -> Conversation[Selection]:
    """Choose τ by the loss on rows that a model has not seen.

    Every site holds back a part of its own rows; models of growing τ are fitted on the others, each
    started at the one before, and judged on the rows held back. The smallest τ within one standard
    error of the best is taken. All folds are in lockstep: they take the exchanges of the slowest.

    Refining tries further τ where the choice may change: between the best and its neighbours among
    those tried, and between the one that would be taken and the next smaller. Of the numbers there,
    at most 8 are tried, evenly spread, all at once and each started at the nearest smaller model.
    That is done up to three times. A method that cannot start from another model takes all of its
    rounds for each: with such a one 4 are tried, once.

    Parameters
    ----------
    engine
        Shows the rows, features not scaled.
    sparsities
        τ values; 0 is the model of the intercept alone.
    options
        How models are fitted.
    refine
        Whether to try further values around the best of these.
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
    >>> choosing = cross_validate(engine, [0, 1, 5], FitOptions(fs.SquaredError()), refine=True)
    >>> chosen = fs.converse(engine, choosing)
    >>> chosen.chosen, [point.sparsity for point in chosen.points]
    (2, [0, 1, 2, 3, 4, 5])
    """
    check_count("folds", folds)
    if folds < 2:
        raise OptionError("folds must be at least 2")
    beginnings = [_without_fold(engine, fold, folds, options) for fold in range(folds)]
    search = _Search(options, on_model, _points_of_folds, _Refining.of(options, refine))
    (trials, points), exchanges = yield from exchanges_of(search.among(sparsities, beginnings))
    if not points:
        raise DataError(
            "there are too few rows, or too few of some class, to hold some out; give the sparsity "
            "as a number"
        )
    measure = f"{options.loss.measure} per held-out {options.loss.is_mean_over}"
    return _selection("cv", measure, points, trials, exchanges)


def sentence_on_other_seeds(selection: Selection) -> str | None:
    """How often another number would have been chosen, in words; None if nobody asked.

    The fewest neighbouring numbers are told that two thirds of the seeds choose.

    Examples
    --------
    >>> chosen = Selection(method="cv", measure="", points=(), best=5, chosen=5, rounds=9,
    ...                    bytes_down=0, bytes_up=0, other_seeds=(2, 4, 4, 5, 5, 5, 6, 6, 9, 20))
    >>> sentence_on_other_seeds(chosen)
    '7 of 10 other seeds would choose 4 to 6 features, all of them 2 to 20.'
    """
    others = selection.other_seeds
    if not others:
        return None
    held = -(-2 * len(others) // 3)
    spans = [(others[end] - others[end - held + 1], end) for end in range(held - 1, len(others))]
    _, end = min(spans)
    low, high = others[end - held + 1], others[end]
    inside = sum(low <= other <= high for other in others)
    of = f"{inside} of {counted(len(others), 'other seed')} would choose {_features(low, high)}"
    is_all = inside == len(others)
    return f"{of}." if is_all else f"{of}, all of them {others[0]} to {others[-1]}."


def _features(low: int, high: int) -> str:
    return counted(low, "feature") if low == high else f"{low} to {counted(high, 'feature')}"


def choose_by_ebic(
    engine: Engine,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    refine: bool = False,
    on_model: OnModel = tell_nobody,
) -> Conversation[tuple[Selection, Fitted]]:
    """Choose τ by EBIC (Chen & Chen, Biometrika 2008) on all rows, and the model of that τ.

    EBIC = deviance + k log n + 2γ log C(d, k) with γ = 1 and k non-zero coefficients; the deviance
    is n log(RSS / n) for the squared loss, and −2 times the log-likelihood otherwise. n is what the
    rows weigh, as a rule 1 each; of counts it is how many rows there are and not their exposure,
    which has a unit, and of survival how many events (Volinsky & Raftery, Biometrics 2000).

    Parameters
    ----------
    engine, sparsities, options, refine, on_model
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
    search = _Search(options, on_model, _points_by_ebic, _Refining.of(options, refine))
    (trials, points), exchanges = yield from exchanges_of(
        search.among(sparsities, [_with_all_rows(engine, options)])
    )
    (trial,) = trials  # all rows are there to be judged on
    selection = _selection("ebic", "EBIC", points, trials, exchanges)
    start = trial.models[selection.chosen]
    model = yield from fit_model(trial.prepared, selection.chosen, options, start=start)
    return selection, model


@dataclass(frozen=True, eq=False)
class _Trial:
    """Rows that models are fitted on, rows that they are judged on, and what came of it by τ."""

    prepared: Prepared
    judged_on: Engine
    models: Mapping[int, Fitted] = field(default_factory=dict)
    losses: Mapping[int, float] = field(default_factory=dict)


_Beginning = Conversation[_Trial | None]
"""Prepares rows for a trial; None if nothing can be learnt from them."""

_Scored = Callable[[Sequence[_Trial]], list[SelectionPoint]]
"""How good every τ is that was tried, the smallest first."""


@dataclass(frozen=True)
class _Refining:
    """How often further τ values are tried around the best, and how many at a time."""

    times: int
    values: int

    @classmethod
    def of(cls, options: FitOptions, refine: bool) -> "_Refining":
        if not refine:
            return cls(times=0, values=0)
        # Three times are enough to get from a step of 30 to one of 1.
        return cls(times=3, values=MOST_BETWEEN) if options.splices else cls(times=1, values=4)


@dataclass(frozen=True)
class _Search:
    """Tries τ values on several sets of rows, the same on all, and more of them around the best."""

    options: FitOptions
    on_model: OnModel
    scored: _Scored
    refining: _Refining

    def among(
        self, sparsities: Sequence[int], beginnings: Sequence[_Beginning]
    ) -> Conversation[tuple[list[_Trial], list[SelectionPoint]]]:
        """What was tried, and how good it is; nothing where no row can be judged on."""
        wanted = sorted(set(sparsities))
        trials = _known((yield from together(self._path(own, wanted) for own in beginnings)))
        points = self.scored(trials)
        for _ in range(self.refining.times):
            between = _spread(_values_between(points), self.refining.values)
            if not between:
                break
            trials = _known((yield from together(self._at_once(own, between) for own in trials)))
            points = self.scored(trials)
        return trials, points

    def _path(
        self, beginning: _Beginning, sparsities: Sequence[int]
    ) -> Conversation[_Trial | None]:
        """One τ after another, each started at the one before; all at once if none can."""
        trial = yield from beginning
        if trial is None:
            return None
        if not self.options.splices:
            return (yield from self._at_once(trial, sparsities))
        models: dict[int, Fitted] = {}
        for sparsity in sparsities:
            models[sparsity] = yield from self._fitted(trial.prepared, sparsity, models)
        return (yield from _judged(trial, models))

    def _at_once(self, trial: _Trial, sparsities: Sequence[int]) -> Conversation[_Trial | None]:
        """All τ at once, each started at the nearest smaller model there is."""
        models = yield from together(
            self._fitted(trial.prepared, sparsity, trial.models) for sparsity in sparsities
        )
        return (yield from _judged(trial, dict(zip(sparsities, models, strict=True))))

    def _fitted(
        self, prepared: Prepared, sparsity: int, known: Mapping[int, Fitted]
    ) -> Conversation[Fitted]:
        nearest = max((other for other in known if other < sparsity), default=None)
        start = None if nearest is None else known[nearest]
        model = yield from fit_model(prepared, sparsity, self.options.roughly, start=start)
        self.on_model(f"τ = {sparsity}")
        return model


def _known(trials: Sequence[_Trial | None]) -> list[_Trial]:
    return [trial for trial in trials if trial is not None]


def _without_fold(engine: Engine, fold: int, folds: int, options: FitOptions) -> _Beginning:
    """Rows but for a fold, to be judged on the fold."""
    rows, how = engine.lens.rows, options.how_to_part(folds)
    prepared = yield from prepare(engine.where(rows.but_part(fold, **how)), options)
    if not prepared.is_learnable:
        return None
    unseen = replace(prepared.engine.lens, rows=rows.part(fold, **how))
    return _Trial(prepared, prepared.engine.through(unseen))


def _with_all_rows(engine: Engine, options: FitOptions) -> _Beginning:
    """All rows, to be judged on the same."""
    prepared = yield from prepare(engine, options)
    return _Trial(prepared, prepared.engine)


def _judged(trial: _Trial, models: Mapping[int, Fitted]) -> Conversation[_Trial | None]:
    """The trial with more models: the loss per row of each, the ℓ2 term left out.

    None if nobody has a row to judge on.
    """
    answers = yield tuple(
        trial.judged_on.ask(Evaluate(model.result.coef, is_penalized=False), "samples")
        for model in models.values()
    )
    if any(own.count == 0 for own in answers):
        return None
    told = [own.average("objective") for own in answers]
    losses = {**trial.losses, **dict(zip(models, told, strict=True))}
    return replace(trial, models={**trial.models, **models}, losses=losses)


def _values_between(points: Sequence[SelectionPoint]) -> list[int]:
    """τ values not tried yet, beside the best or below the one that would be chosen."""
    if not points:
        return []
    best, chosen = _best(points).sparsity, _chosen(points)
    return [
        value
        for below, above in pairwise(point.sparsity for point in points)
        if best in (below, above) or chosen == above
        for value in range(below + 1, above)
    ]


def _spread(values: Sequence[int], most: int) -> list[int]:
    """All of them, or that many evenly spread."""
    count = min(len(values), most)
    places = np.linspace(-1, len(values), count + 2)[1:-1]
    return [values[round(place)] for place in places]


def _selection(
    method: Literal["cv", "ebic"],
    measure: str,
    points: Sequence[SelectionPoint],
    trials: Sequence[_Trial],
    exchanges: int,
) -> Selection:
    runs = [model.result.records[-1] for trial in trials for model in trial.models.values()]
    return Selection(
        method=method,
        measure=measure,
        points=tuple(points),
        best=_best(points).sparsity,
        chosen=_chosen(points),
        rounds=exchanges,
        bytes_down=sum(run.bytes_down for run in runs),
        bytes_up=sum(run.bytes_up for run in runs),
        path=_path(trials),
    )


def _path(trials: Sequence[_Trial]) -> tuple[PathPoint, ...]:
    """Means over the trials of the features that come first; the model is told of none of them.

    A feature that fewer than half of the trials choose is not part of what they have in common.
    """
    effects = {sparsity: _mean_effects(trials, sparsity) for sparsity in sorted(trials[0].models)}
    order = dict.fromkeys(
        place
        for own in effects.values()
        for place in sorted(own, key=lambda place: -float(np.abs(own[place]).max()))
    )
    shown = list(order)[:_MOST_IN_PATH]
    return tuple(
        PathPoint(sparsity=sparsity, feature=str(place), effects=tuple(own[place].tolist()))
        for place in shown
        for sparsity, own in effects.items()
        if place in own
    )


def _mean_effects(trials: Sequence[_Trial], sparsity: int) -> dict[int, FloatArray]:
    """Mean change of the score per standard deviation, by feature."""
    width = trials[0].prepared.scaling.scale.size
    found = [trial.models[sparsity].result.coef[:width] for trial in trials]
    every = np.array([own.reshape(width, -1) for own in found])
    is_chosen = np.abs(every).max(axis=2) > 0
    often = np.flatnonzero(2 * is_chosen.sum(axis=0) >= len(trials))
    return {int(place): every[:, place].mean(axis=0) for place in often}


def _points_of_folds(folds: Sequence[_Trial]) -> list[SelectionPoint]:
    """Mean and standard error over folds for every τ; nothing without a fold."""
    if not folds:
        return []
    sparsities = sorted(folds[0].losses)
    losses = np.array([[fold.losses[sparsity] for sparsity in sparsities] for fold in folds])
    count = len(folds)
    means = losses.mean(axis=0)
    errors = losses.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(means.size)
    return [
        SelectionPoint(sparsity=sparsity, score=float(mean), standard_error=float(error))
        for sparsity, mean, error in zip(sparsities, means, errors, strict=True)
    ]


def _points_by_ebic(trials: Sequence[_Trial]) -> list[SelectionPoint]:
    (trial,) = trials
    return [
        SelectionPoint(sparsity=sparsity, score=_ebic(trial, sparsity))
        for sparsity in sorted(trial.models)
    ]


def _best(points: Sequence[SelectionPoint]) -> SelectionPoint:
    return min(points, key=lambda point: point.score)


def _chosen(points: Sequence[SelectionPoint]) -> int:
    """The smallest τ within one standard error of the best; the best where there are no errors."""
    best = _best(points)
    limit = best.score + (best.standard_error or 0.0)
    return min(point.sparsity for point in points if point.score <= limit)


def _ebic(trial: _Trial, sparsity: int) -> float:
    least = max(_ROUNDING * max(trial.losses.values()), 1e-300)
    loss, mass = max(trial.losses[sparsity], least), trial.prepared.mass
    is_quadratic = trial.prepared.loss.is_quadratic
    deviance = mass * np.log(loss) if is_quadratic else 2.0 * mass * loss
    coefficients = trial.models[sparsity].coefficients
    nonzeros, possible = int(np.count_nonzero(coefficients)), coefficients.size
    supports = _log_binomial(possible, nonzeros)
    return float(
        deviance + nonzeros * np.log(trial.prepared.observations) + 2.0 * _GAMMA * supports
    )


def _log_binomial(of: int, chosen: int) -> float:
    return float(gammaln(of + 1) - gammaln(chosen + 1) - gammaln(of - chosen + 1))
