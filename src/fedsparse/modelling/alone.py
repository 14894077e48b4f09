"""What a site can do by itself: it fits a model on its own rows and tells how good that is."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.engines.conversation import Conversation, converse
from fedsparse.engines.engine import Engine
from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine
from fedsparse.errors import OptionError
from fedsparse.modelling.fitting import FitOptions, Fitted, fit_model, parting, prepare
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.problem.rows import Rows
from fedsparse.requests.judged import judged, judged_shapes, stacked
from fedsparse.requests.judged_outcomes import (
    COUNTS_SHAPES,
    SURVIVAL_SHAPES,
    judged_counts,
    judged_survival,
)
from fedsparse.requests.request import Fields, Request, Shapes, Weights
from fedsparse.requests.wire.request_bytes import travels
from fedsparse.threads import one_thread


@travels
@dataclass(frozen=True)
class JudgeAlone(Request):
    """Ask a site to fit a model on all but a part of its rows, and to judge it on that part.

    The model has τ features, or one less than there are rows, and is found by the method that suits
    the loss, whatever the federation uses. Its coefficients do not leave the site.

    Parameters
    ----------
    sparsity
        τ.
    keep
        1 for features that are always kept, 0 for others.
    part, parts, part_seed
        Which rows are held out.
    precision
        ℓ2 weight times rows; None: the weight of the lens' loss.
    standardize, intercept, rounds, seed
        As in `FitOptions`.
    centre
        Taken from numbers before they are added up, the same at all sites. Of counts the rate that
        `JudgeCounts` calls a guess.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"
    like_a_row: ClassVar[tuple[str, ...]] = ("keep",)

    sparsity: int
    keep: FloatArray
    part: int
    parts: int
    part_seed: int
    precision: float | None
    standardize: bool
    intercept: bool
    rounds: int
    seed: int
    centre: float

    def vectors(self) -> tuple[FloatArray, ...]:
        """Which features are kept."""
        return (self.keep,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `fedsparse.requests.judged.judged`."""
        return judged_shapes(shape)

    def shown(self, lens: Lens) -> tuple[Lens, Lens]:
        """Lenses on the rows that are learnt from and on those that are judged on."""
        how = parting(lens.loss, self.parts, self.part_seed)
        training = lens.rows.but_part(self.part, **how)
        unseen = lens.rows.part(self.part, **how)
        return replace(lens, rows=training), replace(lens, rows=unseen)

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Sums of each client over its held-out rows; all zero if it has none, or no others."""
        return stacked([self._of_one(clients, int(place)) for place in which])

    def _of_one(self, clients: Clients, place: int) -> dict[str, FloatArray]:
        data = clients.data.client(place)
        loss = clients.loss
        how = parting(loss, self.parts, self.part_seed)
        unseen, _ = Rows().part(self.part, **how).of(data)
        if unseen.samples in (0, data.samples):
            sizes = self.answer_shapes(clients.shape)
            return {name: np.zeros(size) for name, size in sizes.items() if size is not None}
        # The whole table says whether there are holes: held-out rows may have the only ones.
        engine = LocalEngine(data, loss, clients.workers.threads)
        training = engine.where(Rows().but_part(self.part, **how))
        try:
            model = converse(training, self._fitting(training))
        finally:
            engine.close()
        with one_thread():
            scores = model.scaling.apply(unseen.features) @ model.result.coef
        return self._judged(unseen, loss, scores, model.scaling.offset)

    def _judged(
        self, unseen: FederatedData, loss: Loss, scores: FloatArray, offset: float
    ) -> dict[str, FloatArray]:
        """Sums over the rows that are judged on."""
        targets = loss.encode(unseen).values
        if loss.outcome == "numbers":
            scores, targets = loss.expected(scores) + (offset - self.centre), targets - self.centre
        return judged(targets, scores, is_numbers=loss.outcome == "numbers")

    def _fitting(self, engine: Engine) -> Conversation[Fitted]:
        """τ features, or fewer where there are few rows."""
        loss = engine.lens.loss
        options = FitOptions(
            loss if self.precision is None else replace(loss, l2=self.precision),
            keep=tuple(np.flatnonzero(self.keep).tolist()),
            standardize=self.standardize,
            intercept=self.intercept,
            rounds=self.rounds,
            seed=self.seed,
            auto_rows=None if self.precision is None else 1.0,
        )
        prepared = yield from prepare(engine, options)
        sparsity = max(min(self.sparsity, prepared.rows - 1), options.fewest)
        return (yield from fit_model(prepared, sparsity, options.nearly))


@travels
@dataclass(frozen=True)
class JudgeCountsAlone(JudgeAlone):
    """The same of counts."""

    def __post_init__(self) -> None:
        if not 0.0 < self.centre < np.inf:
            raise OptionError("a rate to compare with must be above 0")

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `fedsparse.requests.judged_outcomes.judged_counts`."""
        return COUNTS_SHAPES

    def _judged(
        self, unseen: FederatedData, loss: Loss, scores: FloatArray, offset: float
    ) -> dict[str, FloatArray]:
        rates = loss.encode(unseen).values
        return judged_counts(rates, unseen.row_weights, scores, guess=self.centre)


@travels
@dataclass(frozen=True)
class JudgeSurvivalAlone(JudgeAlone):
    """The same of survival."""

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `fedsparse.requests.judged_outcomes.judged_survival`."""
        return SURVIVAL_SHAPES

    def _judged(
        self, unseen: FederatedData, loss: Loss, scores: FloatArray, offset: float
    ) -> dict[str, FloatArray]:
        return judged_survival(loss.encode(unseen).values, scores, loss)
