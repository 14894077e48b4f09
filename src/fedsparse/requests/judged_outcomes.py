"""How good a model of counts or of survival is on a client's rows, as sums over them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.kernels.concordance import concordant_pairs
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.requests.judged import FEWEST_FOR_FOURTHS, stacked
from fedsparse.requests.request import Fields, Request, Shapes, Weights


@dataclass(frozen=True)
class JudgeCounts(Request):
    """Ask how well x predicts a client's counts; `judged_counts` says by which sums.

    Parameters
    ----------
    x
        The model.
    guess
        One rate for all rows, with which single rows are compared for intervals.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[0.0], [0.0]], [1.0, 3.0])])
    >>> engine = fs.LocalEngine(data, "poisson")
    >>> (told,) = engine.exchange([engine.ask(JudgeCounts(np.zeros(1)))])
    >>> told.total("counts").tolist()
    [2.0, 4.0]
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray
    guess: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.guess < np.inf:
            raise OptionError("a rate to compare with must be above 0")

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `judged_counts`."""
        return COUNTS_SHAPES

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Sums of each client; see `judged_counts`."""
        found = []
        for place in which:
            own = clients.data.client(int(place))
            rates, scores = clients.targets_of(int(place))[:, 0], clients.scores(self.x, int(place))
            found.append(judged_counts(rates, own.row_weights, scores, self.guess))
        return stacked(found)


@dataclass(frozen=True)
class JudgeSurvival(Request):
    """Ask how well x predicts a client's times; `judged_survival` says by which sums.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[2.0], [0.0], [1.0]], [1.0, -2.0, 3.0])])
    >>> engine = fs.LocalEngine(data, "cox")
    >>> (told,) = engine.exchange([engine.ask(JudgeSurvival(np.ones(1)))])
    >>> told.total("counts").tolist(), told.total("sums")[2:4].tolist()
    ([3.0, 2.0], [2.0, 2.0])
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `judged_survival`."""
        return SURVIVAL_SHAPES

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Sums of each client; see `judged_survival`."""
        return stacked(
            [
                judged_survival(
                    clients.targets_of(int(place))[:, 0],
                    clients.scores(self.x, int(place)),
                    clients.loss,
                )
                for place in which
            ]
        )


COUNTS_SHAPES: Shapes = {"counts": (2,), "sums": (7,)}
SURVIVAL_SHAPES: Shapes = {"counts": (2,), "sums": (5,)}


def judged_counts(
    rates: FloatArray, exposures: FloatArray | None, scores: FloatArray, guess: float = 1.0
) -> dict[str, FloatArray]:
    """Sums over rows of counts.

    Parameters
    ----------
    rates
        Counts over exposures.
    exposures
        Of each row; None: all 1.
    scores
        Logarithms of the rates that are predicted.
    guess
        One rate for all rows.

    Returns
    -------
    dict
        ``counts``: rows, and what was counted in them. ``sums``: exposures; counts times the
        logarithms of their rates; and Σ count · score − exposure · exp(score), the log-likelihood
        but for what no model changes. The deviance follows from these. Then, of clients with five
        rows or more, how many rows, and Σ a², Σ a b and Σ b², with a row's deviance a from what
        is predicted, and b from the guess.

    Examples
    --------
    >>> judged_counts(np.array([0.5]), np.array([2.0]), np.zeros(1))["sums"].round(3).tolist()
    [2.0, -0.693, -2.0, 0.0, 0.0, 0.0, 0.0]
    """
    exposures = np.ones(rates.size) if exposures is None else exposures
    counts = rates * exposures
    squares = [0.0] * 4
    if rates.size >= FEWEST_FOR_FOURTHS:
        least = xlogy(counts, rates) - counts
        own = 2.0 * (least - counts * scores + exposures * np.exp(scores))
        against = 2.0 * (least - counts * np.log(guess) + exposures * guess)
        # Not as dot products, whose last digit depends on where in memory the numbers are.
        products = (own * own, own * against, against * against)
        squares = [float(rates.size), *(float(each.sum()) for each in products)]
    sums = [
        exposures.sum(),
        np.sum(xlogy(counts, rates)),
        np.sum(counts * scores - exposures * np.exp(scores)),
        *squares,
    ]
    return {"counts": np.array([float(rates.size), counts.sum()]), "sums": np.array(sums)}


def judged_survival(
    signed_times: FloatArray, scores: FloatArray, loss: Loss
) -> dict[str, FloatArray]:
    """Sums over rows of survival, compared with rows of the same client alone.

    Parameters
    ----------
    signed_times
        Below 0 if they are censored.
    scores
        Higher for earlier events.
    loss
        Gives the partial likelihood, with its treatment of ties.

    Returns
    -------
    dict
        ``counts``: rows, and events. ``sums``: minus the logarithm of the partial likelihood, the
        same were all scores equal, pairs whose scores are in order, all pairs that can be
        compared, and `partners_by_row` squared: of times alone, whatever the scores.

    Examples
    --------
    >>> from fedsparse.problem.losses import as_loss
    >>> found = judged_survival(np.array([1.0, -2.0]), np.array([9.0, 0.0]), as_loss("cox"))
    >>> found["sums"].round(3).tolist()
    [0.0, 0.693, 1.0, 1.0, 2.0]
    """
    rows = signed_times.size
    is_event = signed_times > 0
    likelihoods = (
        [rows * loss.value(own, signed_times) for own in (scores, np.zeros(rows))]
        if is_event.any()
        else [0.0, 0.0]
    )
    return {
        "counts": np.array([float(rows), float(is_event.sum())]),
        "sums": np.array(
            [
                *likelihoods,
                *concordant_pairs(signed_times, scores),
                float(np.sum(partners_by_row(signed_times) ** 2)),
            ]
        ),
    }


def partners_by_row(signed_times: FloatArray) -> FloatArray:
    """Of each row, how many others it is compared with that come later, less those before it.

    Two pairs that share a row go together where both of the others are later, or both are earlier,
    and against each other else. So the squares of these numbers say how far pairs are independent.

    Examples
    --------
    >>> partners_by_row(np.array([1.0, -2.0, 3.0])).tolist()
    [2.0, -1.0, -1.0]
    """
    is_event = signed_times > 0
    # Whoever is censored at the time of an event outlived it.
    places = 2 * np.unique(np.abs(signed_times), return_inverse=True)[1] + ~is_event
    later = places.size - np.searchsorted(np.sort(places), places, side="right")
    earlier = np.searchsorted(np.sort(places[is_event]), places, side="left")
    return np.asarray(np.where(is_event, later, 0) - earlier, dtype=np.float64)
