"""What is found beside a model that is there: features found again, and how sure it all is."""

from collections.abc import Sequence

import numpy as np

from fedsparse.engines.conversation import Conversation, exchanges_of
from fedsparse.engines.engine import Engine
from fedsparse.modelling.after_choosing import split_estimates
from fedsparse.modelling.fitting import FitOptions, Fitted, prepare
from fedsparse.modelling.found_sure import FoundSure
from fedsparse.modelling.refitting import refitting
from fedsparse.modelling.stability import choose_again, stability_of
from fedsparse.modelling.summary import Stability


def found_beside(
    engine: Engine,
    options: FitOptions,
    model: Fitted,
    *,
    pairs: int,
    sparsity: int,
    names: Sequence[str],
    with_intervals: bool,
) -> Conversation[tuple[Stability | None, FoundSure | None]]:
    """What `fedsparse.modelling.analysis` finds beside a model, one thing after the other.

    Parameters
    ----------
    engine, options
        As the model was fitted with.
    model
        With a feature or more.
    pairs
        Of half-samples; 0: none.
    sparsity, names
        As in `fedsparse.modelling.stability.select_stably`.
    with_intervals
        Whether to tell how sure coefficients are.
    """
    stability = splits = None
    halves_took = refit_took = 0
    if pairs:
        again = yield from choose_again(engine, sparsity, options, pairs=pairs)
        stability = stability_of(again, sparsity, names)
        if with_intervals and again.pairs:
            splits, halves_took = yield from exchanges_of(
                split_estimates(again.pairs, engine.width)
            )
    if not with_intervals:
        return stability, None
    prepared = yield from prepare(engine, options)
    support = np.flatnonzero(model.coefficients)
    refitted, refit_took = yield from exchanges_of(refitting(prepared, model.result.coef, support))
    return stability, FoundSure(refitted, splits, halves_took + refit_took)
