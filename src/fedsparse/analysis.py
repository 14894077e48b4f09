"""From tables to a model and everything that its report shows."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fedsparse.data.federated import FederatedData
from fedsparse.evaluation import evaluate_held_out
from fedsparse.fitting import FitOptions, Fitted, fit_model, prepare
from fedsparse.modelling.specification import FitSpecification
from fedsparse.models import FitSummary
from fedsparse.models.building import build_model, history_of
from fedsparse.models.summary import Evaluation, Selection, SiteCount, Stability
from fedsparse.selection import (
    choose_by_ebic,
    cross_validate,
    default_sparsities,
    select_stably,
)

if TYPE_CHECKING:
    from fedsparse.tables import Loaded

Progress = Callable[[str, int, int], None]
"""Called with the model just fitted, how many there are by now, and about how many in all."""

_LARGE = 3e8
"""Work above which everything takes more than some seconds; see `_work`."""
_PER_SITE = 2000
_PAIRS = 25
_FOLDS = 5


def analyse(
    loaded: "Loaded",
    specification: FitSpecification,
    *,
    files: Sequence[str] = (),
    on_progress: Progress = lambda what, done, total: None,
) -> FitSummary:
    """Fit a model, and judge it.

    Parameters
    ----------
    loaded
        The sites' rows, from `fedsparse.tables.load_tables`.
    specification
        What to work out; the rows were loaded by it, too.
    files
        SHA-256 of the files that held the rows.
    on_progress
        Called after each model.
    """
    work = _Work(loaded, specification, on_progress)
    selection, fitted = work.fit()
    told = specification.told(
        work.options.loss,
        work.options.algorithm,
        sparsity=work.sparsity,
        rounds=fitted.result.records[-1].round,
    )
    model = build_model(loaded.encoding, fitted, told, fingerprint=loaded.fingerprint, files=files)
    evaluation, stability = work.evaluate(), work.stability()
    return FitSummary(
        title=specification.title or f"What predicts {model.target}",
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        model=model,
        source=loaded.source,
        sites=_sites(work.data, loaded.classes),
        columns=loaded.encoding.column_counts,
        candidates=work.data.width,
        history=history_of(fitted.result.records),
        selection=selection,
        evaluation=evaluation,
        stability=stability,
        settings=model.settings,
        notes=(*loaded.notes, *work.notes),
    )


class _Work:
    """The data as a federation, and what is fitted on it."""

    def __init__(
        self,
        loaded: "Loaded",
        specification: FitSpecification,
        on_progress: Progress,
    ) -> None:
        self.data = FederatedData.from_table(loaded.features, loaded.targets, loaded.sites)
        self.classes = loaded.classes
        count = None if loaded.classes is None else len(loaded.classes)
        self.options = FitOptions.of(specification, count, self.data.samples, loaded.encoding.kept)
        self.notes: list[str] = []
        self.sparsity = 0
        self.asked = specification
        self._names = loaded.names
        is_large = _work(self.data) * self._models_to_fit(_FOLDS, _PAIRS) > _LARGE
        held_out, pairs = specification.held_out, specification.stability
        self._only_first = held_out == "fifth" or (held_out == "auto" and is_large)
        self._pairs = (0 if is_large else _PAIRS) if pairs is None else pairs
        self._on_progress = on_progress
        self._done = 0
        self._total = self._models_to_fit(1 if self._only_first else _FOLDS, self._pairs)

    def fit(self) -> tuple[Selection | None, Fitted]:
        """Choose τ if need be, and fit."""
        asked = self.asked.sparsity
        if asked == "ebic":
            selection, model = choose_by_ebic(
                self.data, self._sparsities(self.data), self.options, on_model=self._step
            )
            self.sparsity = selection.chosen
            return selection, model
        chosen = self._choose(self.data) if asked == "cv" else None
        self.sparsity = chosen.chosen if chosen else int(asked)
        model = fit_model(prepare(self.data, self.options), self.sparsity, self.options)
        self._step(f"{self.sparsity} features")
        return chosen, model

    def evaluate(self) -> Evaluation | None:
        """Judge on rows that models have not seen."""
        if self.asked.held_out == "none":
            return None
        if self.asked.held_out == "auto" and self._only_first:
            self.notes.append(
                "A fifth of every site's rows was held out once, to save time; --held-out all "
                "holds out every row once."
            )
        if self.asked.impute is not None:
            self.notes.append(
                "Missing values were filled with means of all rows, held-out ones included."
            )
        found = evaluate_held_out(
            self.data,
            self._choose_again,
            self.options,
            folds=_FOLDS,
            only_first=self._only_first,
            labels=self.classes or (),
            on_model=self._step,
        )
        return found if found.scores else None

    def stability(self) -> Stability | None:
        """How often features are found again."""
        if self._pairs == 0:
            if self.asked.stability is None:
                self.notes.append(
                    "Stability was not worked out, to save time; --stability 25 does it."
                )
            return None
        return select_stably(
            self.data, self.sparsity, self.options, self._names, pairs=self._pairs,
            on_model=self._step,
        )  # fmt: skip

    def _step(self, what: str) -> None:
        self._done += 1
        self._on_progress(what, self._done, max(self._total, self._done))

    def _models_to_fit(self, folds: int, pairs: int) -> int:
        """How many models all of it takes; folds of small data may have fewer τ to try."""
        sparsities, sites = len(self._sparsities(self.data)), len(self.data)
        to_choose = {"cv": self.asked.folds * sparsities, "ebic": sparsities}.get(
            str(self.asked.sparsity), 0
        )
        judged = 0 if self.asked.held_out == "none" else folds * (to_choose + sites + 2)
        halves = 2 * pairs + sites * (sites > 1) if pairs else 0
        return to_choose + 1 + judged + halves

    def _choose(self, data: FederatedData) -> Selection:
        return cross_validate(
            data, self._sparsities(data), self.options, folds=self.asked.folds, on_model=self._step
        )

    def _choose_again(self, train: FederatedData) -> int:
        """τ from training rows alone, by the same rule."""
        if self.asked.sparsity == "cv":
            return self._choose(train).chosen
        if self.asked.sparsity == "ebic":
            sparsities = self._sparsities(train)
            found, _ = choose_by_ebic(train, sparsities, self.options, on_model=self._step)
            return found.chosen
        return self.sparsity

    def _sparsities(self, data: FederatedData) -> Sequence[int]:
        return self.asked.sparsities or default_sparsities(data, len(self.options.keep))


def _work(data: FederatedData) -> float:
    """About how long a model takes: the numbers a round touches, and what each site costs.

    Dense numbers take a quarter of the time of sparse ones.
    """
    features = data.features
    stored = features.nnz if isinstance(features, sparse.csr_array) else features.size / 4
    return float(stored + len(data) * (data.width + _PER_SITE))


def _sites(data: FederatedData, classes: tuple[str, ...] | None) -> tuple[SiteCount, ...]:
    sites = []
    for place, name in enumerate(data.names):
        own = data.targets[data.pointer[place] : data.pointer[place + 1]]
        counts = None
        if classes is not None:
            numbers = np.bincount(own, minlength=len(classes)).tolist()
            counts = dict(zip(classes, numbers, strict=True))
        sites.append(SiteCount(name=name, rows=own.size, classes=counts))
    return tuple(sites)
