"""A whole analysis as one conversation: choose τ, fit, judge on unseen rows, measure stability.

Nothing here knows where rows lie: it asks through an engine, in memory or over a network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fedsparse.engines.conversation import Conversation, exchanges_of, together
from fedsparse.engines.engine import Engine
from fedsparse.errors import DataError, OptionError
from fedsparse.modelling.after_choosing import split_estimates
from fedsparse.modelling.choosing import (
    MOST_BETWEEN,
    choose_by_ebic,
    cross_validate,
    default_sparsities,
)
from fedsparse.modelling.estimates_by_site import FoundAtSites, estimating_at_sites
from fedsparse.modelling.fitting import (
    NO_ROWS,
    FitOptions,
    Fitted,
    Prepared,
    fit_model,
    prepare,
)
from fedsparse.modelling.found_sure import FoundSure
from fedsparse.modelling.judging import evaluate_held_out
from fedsparse.modelling.multi_split import SplitEstimates
from fedsparse.modelling.refitting import Refitted, refitting
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.stability import choose_again, sites_left_out, stability_of
from fedsparse.modelling.summary import Evaluation, Selection, SitesJudged, Stability
from fedsparse.modelling.survival_by_risk import SurvivalTold, survival_by_risk
from fedsparse.problem.losses import Outcome
from fedsparse.requests import NoBetterThanNull
from fedsparse.tables.cells import Task
from fedsparse.tables.sentences import counted

OnProgress = Callable[[str, int, int], None]
"""Called with the model just fitted, how many there are by now, and about how many in all."""

_One = TypeVar("_One")
_Other = TypeVar("_Other")

FOLDS = 5
"""Parts of every site's rows, each held out in turn to judge on."""

_TASKS: dict[Outcome, Task] = {"counts": "counts", "survival": "survival"}
"""What is learnt where it is neither numbers nor classes."""

_LARGE = 3e8
"""Work above which everything takes more than some seconds; see `_work`."""
_PER_SITE = 2000
_PAIRS = 25
_SEEDS = 2**63

_DISPERSED = 1.3
"""Deviance of a row above which counts are not Poisson's: theirs is 1.16 on average with a mean of
1.3, and less with any other."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """What an analysis found.

    Attributes
    ----------
    fitted
        The model.
    options
        How it was fitted, with the loss of all rows.
    sparsity
        τ.
    selection, evaluation, stability
        How τ was chosen, how good the model is, which features are found again; None if that was
        not asked for.
    sure
        How sure coefficients are; None if that was not worked out.
    estimates_at_sites
        What each site's own rows say of the coefficients; None where nobody may know.
    at_sites
        What each site says for itself; None where an engine may single sites out.
    exchanges
        Messages to every site and back, all of it in lockstep.
    notes
        What a reader should know, in sentences.
    survival
        Of survival by risk and time, None of other outcomes.
    """

    fitted: Fitted
    options: FitOptions
    sparsity: int
    selection: Selection | None
    evaluation: Evaluation | None
    stability: Stability | None
    at_sites: SitesJudged | None
    sure: FoundSure | None
    estimates_at_sites: FoundAtSites | None
    exchanges: int
    notes: tuple[str, ...]
    survival: SurvivalTold | None = None


def analysing(
    engine: Engine,
    asked: FitSpecification,
    names: Sequence[str],
    *,
    labels: tuple[str, ...] | None = None,
    keep: tuple[int, ...] = (),
    on_progress: OnProgress = lambda what, done, total: None,
) -> Conversation[Analysis]:
    """Choose τ, fit, judge and measure stability.

    Parameters
    ----------
    engine
        Shows all rows, not scaled.
    asked
        What to work out.
    names
        Of the features.
    labels
        Names of the classes; None for numbers.
    keep
        Places of features that are always kept.
    on_progress
        Called after each model.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=4, samples=40, width=20, relevant=3)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> asked = FitSpecification(sparsity=3, stability=2)
    >>> found = fs.converse(engine, analysing(engine, asked, [str(n) for n in range(20)]))
    >>> found.sparsity, found.evaluation.scores[0].rows, found.stability.subsamples
    (3, 160, 4)
    """
    if labels is None and asked.threshold is not None:
        raise OptionError(
            "--threshold is for classes, and the target has numbers; leave it out, or add --task "
            "classification"
        )
    task = _TASKS.get(engine.lens.loss.outcome, "auto")
    options = FitOptions.of(asked, None if labels is None else len(labels), keep, task)
    work = _Work(engine, asked, options, names, labels, on_progress)
    found, exchanges = yield from exchanges_of(work.all())
    return replace(found, exchanges=exchanges)


class _Work:
    """What is to be worked out, and how far it is."""

    def __init__(
        self,
        engine: Engine,
        asked: FitSpecification,
        options: FitOptions,
        names: Sequence[str],
        labels: tuple[str, ...] | None,
        on_progress: OnProgress,
    ) -> None:
        self._engine = engine
        self._asked = asked
        self._options = options
        self._names = names
        self._labels = labels
        self._on_progress = on_progress
        self._done = self._total = 0

    def all(self) -> Conversation[Analysis]:
        prepared = yield from prepare(self._engine, self._options)
        if prepared.rows == 0:
            raise DataError(NO_ROWS)
        if prepared.why_not_learnable is not None:
            raise DataError(prepared.why_not_learnable)
        plan = _plan(self._asked, self._engine, prepared, self._models_to_choose(prepared))
        self._total = self._models_to_fit(prepared, plan)
        (model, evaluation) = yield from _both(
            self._model_and_stability(prepared, plan.pairs), self._judged(plan)
        )
        selection, fitted, stability, sure, estimates_at_sites = model
        if selection is not None:
            selection = _with_names(selection, self._names)
        options = replace(self._options, loss=prepared.loss, auto_rows=None)
        sparsity = selection.chosen if selection else int(self._asked.sparsity)
        at_sites = yield from self._judged_at_sites(prepared, fitted)
        survival = None
        if prepared.loss.outcome == "survival":
            survival = yield from survival_by_risk(prepared, fitted)
        notes = (
            *plan.notes,
            *_notes_on_labels(prepared, self._labels),
            *_notes_on_no_features(sparsity, plan.pairs),
            *_notes_on_too_many(self._asked, self._engine.width),
            *_notes_on_dispersion(evaluation),
        )
        return Analysis(
            fitted,
            options,
            sparsity,
            selection,
            evaluation,
            stability,
            at_sites,
            sure,
            estimates_at_sites,
            0,
            notes,
            survival,
        )

    def _judged_at_sites(
        self, prepared: Prepared, fitted: Fitted
    ) -> Conversation[SitesJudged | None]:
        """Where nobody may know how the model does at one site, at how many it does nothing.

        One without features does nothing at any.
        """
        if self._engine.can_single_out or not fitted.coefficients.any():
            return None
        (told,) = yield (prepared.engine.ask(NoBetterThanNull(fitted.result.coef)),)
        if told.count == 0:
            return None
        return SitesJudged(no_better=round(float(told.total("no_better"))), sites=told.count)

    def _model_and_stability(
        self, prepared: Prepared, pairs: int
    ) -> Conversation[
        tuple[Selection | None, Fitted, Stability | None, FoundSure | None, FoundAtSites | None]
    ]:
        """τ, then the model of that τ beside the features found again, and how sure they are."""
        (selection, known), others = yield from _both(
            self._chosen(self._engine, prepared), self._chosen_by_other_seeds(prepared)
        )
        if selection is not None:
            selection = selection.model_copy(update={"other_seeds": others})
        sparsity = selection.chosen if selection else int(self._asked.sparsity)
        with_intervals = sparsity > 0 and self._tells_intervals
        (fitted, refitted, at_sites), (stability, splits) = yield from _both(
            self._final(prepared, sparsity, known, with_intervals),
            self._stability(sparsity, pairs, with_intervals),
        )
        sure = None
        if refitted is not None:
            exchanges = refitted[1] + (0 if splits is None else splits[1])
            sure = FoundSure(refitted[0], None if splits is None else splits[0], exchanges)
        return selection, fitted, stability, sure, at_sites

    @property
    def _tells_intervals(self) -> bool:
        """Where coefficients are a matrix, there are none."""
        is_asked = self._asked.intervals == "yes" or self._options.splices
        return is_asked and self._asked.intervals != "no" and not self._options.loss.is_by_class

    def _chosen(
        self, engine: Engine, prepared: Prepared
    ) -> Conversation[tuple[Selection | None, Fitted | None]]:
        """τ by the rows at hand, if that is asked for; EBIC gives the model, too."""
        if isinstance(self._asked.sparsity, int):
            return None, None
        sparsities, refine = self._sparsities(prepared), self._refines
        if self._asked.sparsity == "ebic":
            return (
                yield from choose_by_ebic(
                    engine, sparsities, self._options, refine=refine, on_model=self._step
                )
            )
        return (yield from self._cross_validated(engine, prepared, self._options)), None

    def _cross_validated(
        self, engine: Engine, prepared: Prepared, options: FitOptions
    ) -> Conversation[Selection]:
        return (
            yield from cross_validate(
                engine,
                self._sparsities(prepared),
                options,
                refine=self._refines,
                folds=self._asked.folds,
                on_model=self._step,
            )
        )

    def _chosen_by_other_seeds(self, prepared: Prepared) -> Conversation[tuple[int, ...]]:
        """τ by folds of other seeds, in lockstep with the choice itself."""
        found = yield from together(
            self._cross_validated(
                self._engine,
                prepared,
                replace(self._options, seed=(self._options.seed + 1 + other) % _SEEDS),
            )
            for other in range(self._asked.other_seeds)
        )
        return tuple(sorted(own.chosen for own in found))

    def _final(
        self, prepared: Prepared, sparsity: int, known: Fitted | None, with_intervals: bool
    ) -> Conversation[tuple[Fitted, tuple[Refitted, int] | None, FoundAtSites | None]]:
        """The model, and its coefficients without shrinkage with the exchanges these took.

        Beside them, in the same messages, what single sites say of them.
        """
        fitted = known
        if fitted is None:
            fitted = yield from fit_model(
                prepared, sparsity, self._options, evaluate_every=self._asked.evaluate_every
            )
        self._step(f"{sparsity} features")
        support = np.flatnonzero(fitted.coefficients)
        if not with_intervals or not support.size:
            return fitted, None, None
        refit, at_sites = yield from _both(
            exchanges_of(refitting(prepared, fitted.result.coef, support)),
            estimating_at_sites(prepared, fitted, support),
        )
        return fitted, refit, at_sites

    def _stability(
        self, sparsity: int, pairs: int, with_intervals: bool
    ) -> Conversation[tuple[Stability | None, tuple[SplitEstimates, int] | None]]:
        """Which features are chosen again, and what the halves that did not choose say of them."""
        if pairs == 0 or sparsity == 0:  # of no features, none can be found again
            return None, None
        again = yield from choose_again(
            self._engine, sparsity, self._options, pairs=pairs, on_model=self._step
        )
        stability = stability_of(again, sparsity, self._names)
        if not with_intervals or not again.pairs:
            return stability, None
        return stability, (
            yield from exchanges_of(split_estimates(again.pairs, self._engine.width))
        )

    def _judged(self, plan: "_Plan") -> Conversation[Evaluation | None]:
        if plan.folds == 0:
            return None
        return (
            yield from evaluate_held_out(
                self._engine,
                self._sparsity_on,
                self._options,
                folds=FOLDS,
                only_first=plan.folds == 1,
                labels=self._labels or (),
                with_dense=plan.is_dense,
                threshold=0.5 if self._asked.threshold is None else self._asked.threshold,
                on_model=self._step,
            )
        )

    def _sparsity_on(self, training: Engine, prepared: Prepared) -> Conversation[int]:
        """τ from training rows alone, by the same rule."""
        if isinstance(self._asked.sparsity, int):
            return self._asked.sparsity
        chosen, _ = yield from self._chosen(training, prepared)
        assert chosen is not None
        return chosen.chosen

    def _sparsities(self, prepared: Prepared) -> Sequence[int]:
        return self._asked.sparsities or default_sparsities(
            prepared.engine.width, prepared.rows, self._options.fewest
        )

    @property
    def _refines(self) -> bool:
        """Whether the data may ask for more τ than those; not if a person has named them."""
        return not self._asked.sparsities

    def _models_to_choose(self, prepared: Prepared) -> int:
        """How many models choosing τ takes, about: with one refinement."""
        values = len(self._sparsities(prepared)) + (MOST_BETWEEN if self._refines else 0)
        return {"cv": self._asked.folds * values, "ebic": values}.get(str(self._asked.sparsity), 0)

    def _models_to_fit(self, prepared: Prepared, plan: "_Plan") -> int:
        """About how many models all of it takes."""
        to_choose = self._models_to_choose(prepared)
        to_know_it = to_choose * self._asked.other_seeds
        sites = len(self._engine.names) if self._engine.can_single_out else 1
        judged = plan.folds * (to_choose + sites + 1 + self._engine.can_pool + plan.is_dense)
        halves = 2 * plan.pairs + len(sites_left_out(self._engine)) if plan.pairs else 0
        return to_choose + to_know_it + 1 + judged + halves

    def _step(self, what: str) -> None:
        self._done += 1
        self._on_progress(what, self._done, max(self._total, self._done))


@dataclass(frozen=True)
class _Plan:
    """How much is worked out.

    Attributes
    ----------
    folds
        Folds held out to judge on: 0, 1 or all.
    pairs
        Of half-samples.
    notes
        What was left out to save time.
    is_dense
        Whether a model of all features is judged, too.
    """

    folds: int
    pairs: int
    notes: tuple[str, ...]
    is_dense: bool


def _plan(asked: FitSpecification, engine: Engine, prepared: Prepared, to_choose: int) -> _Plan:
    sites = len(engine.names)
    models = (FOLDS + 1) * to_choose + FOLDS * (sites + 2) + 2 * _PAIRS + sites
    is_large = _work(engine, prepared) * models > _LARGE
    notes = []
    folds = {"all": FOLDS, "fifth": 1, "none": 0}.get(asked.held_out, 1 if is_large else FOLDS)
    if asked.held_out == "auto" and is_large:
        notes.append(
            "A fifth of every site's rows was held out once, to save time; --held-out all "
            "holds out every row once."
        )
    pairs = asked.stability
    if pairs is None:
        pairs = 0 if is_large else _PAIRS
        if is_large:
            notes.append("Stability was not worked out, to save time; --stability 25 does it.")
    is_dense = asked.dense == "yes" or (asked.dense == "auto" and engine.can_pool and not is_large)
    return _Plan(folds, pairs, tuple(notes), is_dense)


def _work(engine: Engine, prepared: Prepared) -> float:
    """About how long a model takes: the numbers a round touches, and what each site costs.

    Dense numbers take a quarter of the time of sparse ones.
    """
    stored = prepared.stored if engine.is_sparse else prepared.stored / 4
    return float(stored + len(engine.names) * (engine.width + _PER_SITE))


def _with_names(selection: Selection, names: Sequence[str]) -> Selection:
    """Features of the path by their names instead of their places."""
    named = [
        point.model_copy(update={"feature": names[int(point.feature)]}) for point in selection.path
    ]
    return selection.model_copy(update={"path": tuple(named)})


def _notes_on_labels(prepared: Prepared, labels: tuple[str, ...] | None) -> list[str]:
    """Classes so rare that some folds may have none of their rows to learn from."""
    if labels is None:
        return []
    return [
        f'Class "{label}" has {counted(count, "row")} at all sites together: some folds may have '
        "none to learn from, and how well it is told from others is hardly known."
        for label, count in zip(labels, prepared.labels or (), strict=True)
        if count < FOLDS
    ]


def _notes_on_no_features(sparsity: int, pairs: int) -> list[str]:
    if sparsity > 0 or pairs == 0:
        return []
    return ["Stability was not worked out: the model has no features to be found again."]


def _notes_on_too_many(asked: FitSpecification, width: int) -> list[str]:
    if not isinstance(asked.sparsity, int) or asked.sparsity <= width:
        return []
    return [f"{asked.sparsity:,} features were asked for, and there are {width:,}."]


def _notes_on_dispersion(evaluation: Evaluation | None) -> list[str]:
    """That counts vary more than Poisson's, whose deviance is about 1 a row, or less."""
    overall = None if evaluation is None else evaluation.overall
    if overall is None:
        return []
    around = overall.intervals.get("deviance")
    if around is None or around[0] <= _DISPERSED:
        return []
    return [
        "Counts vary more than this model lets them: on rows it had not seen their deviance is "
        f"{overall.metrics['deviance']:.1f} a row, where about 1 is expected. Intervals and "
        "p-values of coefficients are too sure of themselves; those of metrics allow for it."
    ]


def _both(
    one: Conversation[_One], other: Conversation[_Other]
) -> Conversation[tuple[_One, _Other]]:
    """Two conversations of different kinds in lockstep."""
    both: list[Any] = yield from together((one, other))
    return both[0], both[1]
