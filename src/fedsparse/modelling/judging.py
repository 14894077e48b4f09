"""How good a model is on rows it has not seen, beside each site alone and all rows in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.engines.conversation import Conversation, exchanges_of, together
from fedsparse.engines.engine import Engine
from fedsparse.engines.lens import Lens
from fedsparse.modelling.alone import JudgeAlone, JudgeCountsAlone, JudgeSurvivalAlone
from fedsparse.modelling.curves import calibration_of_numbers, curves_of
from fedsparse.modelling.dense import fit_dense
from fedsparse.modelling.fitting import (
    FitOptions,
    Fitted,
    OnModel,
    Prepared,
    fit_model,
    prepare,
    tell_nobody,
)
from fedsparse.modelling.metrics import Judged
from fedsparse.modelling.outcome_metrics import AnyJudged, JudgedCounts, JudgedSurvival
from fedsparse.modelling.summary import Confusion, Evaluation, Score, WayOfLearning
from fedsparse.problem.losses import Outcome
from fedsparse.requests import Answers, Judge, JudgeCounts, JudgeSurvival, Request, ScoreCounts

ChooseSparsity = Callable[[Engine, Prepared], Conversation[int]]
"""Gives τ for training rows, so that choosing is part of what is judged."""

_ALONE: dict[Outcome, type[JudgeAlone]] = {
    "numbers": JudgeAlone, "classes": JudgeAlone, "counts": JudgeCountsAlone,
    "survival": JudgeSurvivalAlone,
}  # fmt: skip

_METHODS: tuple[WayOfLearning, ...] = ("federated", "alone", "pooled")


def evaluate_held_out(
    engine: Engine,
    choose_sparsity: ChooseSparsity,
    options: FitOptions,
    *,
    folds: int = 5,
    only_first: bool = False,
    labels: tuple[str, ...] = (),
    threshold: float = 0.5,
    with_dense: bool = False,
    on_model: OnModel = tell_nobody,
) -> Conversation[Evaluation | None]:
    """Metrics on held-out rows, site by site and together; None if no row could be held out.

    Every site holds back a fold of its rows; τ is chosen and models are fitted on the others: one
    of all sites together, one of each site by itself, and where rows lie in one place one of all
    rows pooled, all of the same τ. All folds are in lockstep.

    Parameters
    ----------
    engine, options, on_model
        As in `fedsparse.modelling.choosing.cross_validate`.
    choose_sparsity
        A conversation that gives τ for training rows.
    folds
        How many parts every site's rows are cut into; each is held out once.
    only_first
        Hold out the first part only, for large data.
    labels
        Names of the classes.
    threshold
        Probability from which on a row is taken for a class, for sensitivity and specificity.
    with_dense
        Whether to judge a ridge on all features, too.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=4, samples=40, width=20, relevant=3)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> judging = evaluate_held_out(engine, given(3), FitOptions(fs.SquaredError()))
    >>> found = fs.converse(engine, judging)
    >>> [(score.method, score.site) for score in found.scores][:3]
    [('federated', None), ('alone', None), ('pooled', None)]
    """
    judge = _Judge(engine, choose_sparsity, options, folds, threshold, with_dense, on_model)
    parts = range(1 if only_first else folds)
    found, exchanges = yield from exchanges_of(together(judge.of_fold(part) for part in parts))
    sums: dict[tuple[WayOfLearning, str | None], Any] = {}
    for method, site, own in (told for of_fold in found for told in of_fold.judged):
        if own is not None:
            before = sums.get((method, site))
            sums[method, site] = own if before is None else before + own
    dense = sums.pop(("dense", None), None)
    overall = sums.get(("federated", None))
    if overall is None:
        return None
    share = "a random fifth" if folds == 5 else f"one part in {folds}"
    return Evaluation(
        folds=len(parts),
        held_out=f"{share} of every site's rows" if only_first else "every row once",
        scores=tuple(_scores(sums, engine.names)),
        rounds=exchanges,
        dense=None if dense is None else _score("dense", None, dense),
        **_closely(overall, [of_fold.counts for of_fold in found], threshold, labels),
    )


def given(sparsity: int) -> ChooseSparsity:
    """Always the same τ."""

    def choose(training: Engine, prepared: Prepared) -> Conversation[int]:
        return sparsity
        yield ()  # it asks nothing, and is a conversation all the same

    return choose


_Told = list[tuple[WayOfLearning, str | None, AnyJudged | None]]
"""By way of learning and site (None: all sites together), what was told of held-out rows."""


@dataclass(frozen=True, eq=False)
class _OfFold:
    """What was told of a fold, and its rows of the federated model by class and probability."""

    judged: _Told = field(default_factory=list)
    counts: FloatArray | None = None


def _scores(
    sums: Mapping[tuple[WayOfLearning, str | None], AnyJudged], names: Sequence[str]
) -> list[Score]:
    """All sites together first, then site by site."""
    keys = [(method, site) for site in (None, *names) for method in _METHODS]
    return [_score(*key, sums[key]) for key in keys if key in sums]


def _score(method: WayOfLearning, site: str | None, judged: AnyJudged) -> Score:
    return Score(
        method=method,
        site=site,
        rows=judged.rows,
        metrics=judged.metrics(),
        intervals=judged.intervals(),
        guessing=judged.guessing(),
    )


def _closely(
    judged: AnyJudged,
    counts: Sequence[FloatArray | None],
    threshold: float,
    labels: tuple[str, ...],
) -> dict[str, Any]:
    """More of the federated model: which classes it confuses, its curves, its calibration."""
    if not isinstance(judged, Judged):
        return {}
    if judged.is_numbers:
        return {"calibration": calibration_of_numbers(judged)}
    confusion = judged.confusion
    names = labels or tuple(str(code) for code in range(confusion.shape[0]))
    told = [own for own in counts if own is not None]
    return {
        "confusion": Confusion(classes=names, counts=tuple(map(tuple, confusion.tolist()))),
        "curves": curves_of(judged, np.sum(told, axis=0), threshold, names) if told else (),
    }


def judged_on_site(
    engine: Engine, prepared: Prepared, model: Fitted, options: FitOptions, place: int
) -> Conversation[Score | None]:
    """How a model does at a site that had no part in it; None if that has no rows to judge on.

    Parameters
    ----------
    engine
        Shows all rows, not scaled.
    prepared, model
        Rows that were learnt from, and what was learnt.
    options
        How.
    place
        Of the site.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import prepare
    >>> data = fs.datasets.simulation_1(clients=3, samples=40, width=20, relevant=3)
    >>> engine, options = fs.LocalEngine(data, "squared"), FitOptions(fs.SquaredError())
    >>> rows = engine.where(engine.lens.rows.without(1))
    >>> prepared = fs.converse(engine, prepare(rows, options))
    >>> model = fs.converse(engine, fit_model(prepared, 3, options))
    >>> fs.converse(engine, judged_on_site(engine, prepared, model, options, 1)).rows
    40
    """
    unseen = engine.through(replace(prepared.engine.lens, rows=engine.lens.rows))
    request = _judging(options.loss.outcome, model.result.coef, prepared)
    (told,) = yield (unseen.ask(request, which=np.array([place])),)
    judged = _told(told, options, model.scaling.offset)
    return None if judged is None else _score("federated", engine.names[place], judged)


def _judging(outcome: Outcome, x: FloatArray, prepared: Prepared) -> Request:
    """What is asked of held-out rows; counts are compared with the rate of the others."""
    if outcome == "counts":
        return JudgeCounts(x, guess=prepared.mean_target)
    return JudgeSurvival(x) if outcome == "survival" else Judge(x)


@dataclass(frozen=True)
class _Judge:
    """Fits models without a fold and judges them on it."""

    engine: Engine
    choose_sparsity: ChooseSparsity
    options: FitOptions
    folds: int
    threshold: float
    with_dense: bool
    on_model: OnModel

    def of_fold(self, part: int) -> Conversation[_OfFold]:
        """What is told of all ways of learning."""
        rows, how = self.engine.lens.rows, self.options.how_to_part(self.folds)
        training = self.engine.where(rows.but_part(part, **how))
        pooled = training.through(replace(training.lens, is_pooled=True))
        engines = [training, pooled] if self.engine.can_pool else [training]
        prepared, *of_pooled = yield from together(prepare(own, self.options) for own in engines)
        if not prepared.is_learnable:
            return _OfFold()
        sparsity = yield from self.choose_sparsity(training, prepared)
        ways = [
            self._learnt("federated", prepared, part, sparsity),
            self._alone(prepared, part, sparsity),
        ]
        ways += [self._learnt("pooled", own, part, sparsity) for own in of_pooled]
        ways += [self._dense(prepared, part)] if self.with_dense else []
        found = yield from together(ways)
        counts = next((own.counts for own in found if own.counts is not None), None)
        return _OfFold([told for own in found for told in own.judged], counts)

    def _learnt(
        self, method: WayOfLearning, prepared: Prepared, part: int, sparsity: int
    ) -> Conversation[_OfFold]:
        """A model of all training rows, judged on each site's held-out rows and on all."""
        model = yield from fit_model(prepared, sparsity, self.options.nearly)
        self.on_model("all sites together" if method == "federated" else "all rows in one place")
        lens = self._unseen(prepared, part)
        unseen = self.engine.through(lens)
        request = _judging(self.options.loss.outcome, model.result.coef, prepared)
        sites: list[tuple[str | None, Int64Array | None]] = [(None, None)]
        if self.engine.can_single_out:
            sites += [(name, np.array([place])) for place, name in enumerate(self.engine.names)]
        asks = [unseen.ask(request, which=which) for _, which in sites]
        if method == "federated" and self.options.has_classes:
            asks.append(unseen.ask(ScoreCounts(model.result.coef, self.threshold)))
        answers = yield tuple(asks)
        judged: _Told = [
            (method, site, self._judged(own, model.scaling.offset))
            for (site, _), own in zip(sites, answers, strict=False)
        ]
        is_counted = len(asks) > len(sites) and answers[-1].count > 0
        return _OfFold(judged, answers[-1].total("counts") if is_counted else None)

    def _dense(self, prepared: Prepared, part: int) -> Conversation[_OfFold]:
        """A ridge on all features and all training rows, judged on all held-out rows."""
        x = yield from fit_dense(prepared)
        self.on_model("all features")
        unseen = self.engine.through(self._unseen(prepared, part))
        (told,) = yield (unseen.ask(_judging(self.options.loss.outcome, x, prepared)),)
        return _OfFold([("dense", None, self._judged(told, prepared.scaling.offset))])

    def _unseen(self, prepared: Prepared, part: int) -> Lens:
        """What is held out, scaled as what is learnt from."""
        rows, how = self.engine.lens.rows, self.options.how_to_part(self.folds)
        return replace(prepared.engine.lens, rows=rows.part(part, **how), is_pooled=False)

    def _alone(self, prepared: Prepared, part: int, sparsity: int) -> Conversation[_OfFold]:
        """Each site by itself: it tells its own sums, which are added up for all."""
        options, how = self.options, self.options.how_to_part(self.folds)
        is_auto = options.auto_rows is not None
        request = _ALONE[options.loss.outcome](
            sparsity=sparsity,
            keep=np.isin(np.arange(self.engine.width), options.keep).astype(np.float64),
            part=part,
            parts=self.folds,
            part_seed=how["seed"],
            precision=options.loss.l2 * (options.auto_rows or 1.0) if is_auto else None,
            standardize=options.standardize,
            intercept=options.intercept,
            rounds=options.rounds,
            seed=options.seed,
            centre=(
                prepared.mean_target
                if options.loss.outcome == "counts"
                else prepared.scaling.offset
            ),
        )
        whole = self.engine.through(replace(self.engine.lens, loss=options.loss, scaling=None))
        names = self.engine.names
        if not self.engine.can_single_out:
            (all_sites,) = yield (whole.ask(request),)
            self.on_model("each site alone")
            return _OfFold([("alone", None, self._judged(all_sites, request.centre))])
        answers = yield tuple(
            whole.ask(request, which=np.array([place])) for place in range(len(names))
        )
        for name in names:
            self.on_model(f"{name} alone")
        judged = [self._judged(own, request.centre) for own in answers]
        each: _Told = [("alone", name, own) for name, own in zip(names, judged, strict=True)]
        return _OfFold([*(("alone", None, own) for own in judged), *each])

    def _judged(self, answers: Answers, centre: float) -> AnyJudged | None:
        return _told(answers, self.options, centre)


def _told(answers: Answers, options: FitOptions, centre: float) -> AnyJudged | None:
    if options.loss.outcome == "counts":
        return JudgedCounts.told(answers)
    if options.loss.outcome == "survival":
        return JudgedSurvival.told(answers)
    return Judged.told(answers, is_numbers=options.is_regression, centre=centre)
