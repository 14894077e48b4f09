"""Estimates that stay valid although the features were chosen by the data.

The halves of stability selection serve a second time: what one half has chosen is estimated on the
other, whose rows had no part in choosing. See `fedsparse.modelling.multi_split`.
"""

from collections.abc import Sequence

import numpy as np

from fedsparse.engines.conversation import Conversation, together
from fedsparse.modelling.multi_split import SplitEstimates
from fedsparse.modelling.refitting import refitting
from fedsparse.modelling.stability import Chosen


def split_estimates(
    pairs: Sequence[tuple[Chosen, Chosen]], width: int
) -> Conversation[SplitEstimates]:
    """Features chosen on each half, estimated on the other half of its pair; all in lockstep.

    Of the squared loss this takes one exchange, of others two to six, however many pairs.

    Parameters
    ----------
    pairs
        Halves that have no row in common.
    width
        Features, those never chosen included.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions
    >>> from fedsparse.modelling.stability import choose_again
    >>> Z = np.random.default_rng(0).standard_normal((60, 9))
    >>> y = Z[:, 4] + np.random.default_rng(1).standard_normal(60)
    >>> engine = fs.LocalEngine(fs.FederatedData.from_table(Z, y, ["north", "south"] * 30))
    >>> def estimated():
    ...     again = yield from choose_again(engine, 1, FitOptions(fs.SquaredError()), pairs=5)
    ...     return (yield from split_estimates(again.pairs, 9))
    >>> found = fs.converse(engine, estimated())
    >>> np.flatnonzero(found.p_values < 0.05), found.interval(4, 0.95).round(1).tolist()
    (array([4]), [0.6, 1.4])
    """
    splits = [split for one, other in pairs for split in ((one, other), (other, one))]
    chosen = [(own, other) for own, other in splits if own.support.size]
    found = yield from together(
        [refitting(other.prepared, own.model.result.coef, own.support) for own, other in chosen]
    )
    refits = iter(found)
    values, errors = np.full((2, len(splits), width), np.nan)
    freedom, tests = np.full(len(splits), np.inf), np.ones(len(splits))
    for place, (own, _) in enumerate(splits):
        told = next(refits).plain if own.support.size else None
        if told is not None:
            values[place, own.support], errors[place, own.support] = told.values, told.errors
            freedom[place], tests[place] = told.freedom, own.support.size
    return SplitEstimates(values, errors, freedom, tests)
