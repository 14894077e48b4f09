"""How good a model is on a client's rows, as sums: counts and totals, never a row."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax
from scipy.stats import rankdata

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.clients import by_class
from fedsparse.compute.stacks import DenseStack
from fedsparse.requests.request import Fields, Request, Shapes, Weights


@dataclass(frozen=True)
class Judge(Request):
    """Ask how well x predicts a client's rows, as sums that `fedsparse.modelling.metrics` reads.

    The AUC compares the scores of rows of the same client; that of several clients is the share
    of all such pairs.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """See `judged`."""
        return judged_shapes(shape)

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Sums of each client; see `judged`."""
        found = []
        for place in which:
            targets = clients.targets_of(int(place))[:, 0]
            scores = self._scores(clients, int(place))
            found.append(judged(targets, scores, is_numbers=clients.classes is None))
        return stacked(found)

    def _scores(self, clients: Clients, client: int) -> FloatArray:
        if self.x.ndim == 1:
            return clients.scores(self.x, client)
        return np.column_stack([clients.scores(column, client) for column in by_class(self.x)])


@dataclass(frozen=True)
class NoBetterThanNull(Request):
    """Ask whether x predicts a client's rows no better than one guess for all of them would.

    The guess is the best there is for the client: the mean of its targets, or the shares of its
    classes. Clients tell 0 or 1, so that counts add up and nobody learns who it is. Where all
    targets are the same there is nothing to predict, and a client tells 0.

    Examples
    --------
    >>> import fedsparse as fs
    >>> clients = [([[1.0], [2.0]], [1.0, 2.0]), ([[1.0], [2.0]], [2.0, 1.0])]
    >>> engine = fs.LocalEngine(fs.FederatedData.from_clients(clients), "squared")
    >>> (told,) = engine.exchange([engine.ask(NoBetterThanNull(np.array([1.0])))])
    >>> float(told.total("no_better")), told.count
    (1.0, 2)
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "uniform"

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """0 or 1."""
        return {"no_better": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``no_better`` of each client."""
        losses = clients.mean_losses(self.x, which)
        guess, targets_of = clients.loss.value_of_guessing, clients.targets_of
        guessing = np.array([guess(targets_of(int(place))) for place in which])
        return {"no_better": ((guessing > 0) & (losses >= guessing)).astype(np.float64)}


def judged(targets: FloatArray, scores: FloatArray, *, is_numbers: bool) -> dict[str, FloatArray]:
    """Sums over rows: of residuals, or of classes against predicted ones.

    Parameters
    ----------
    targets
        Numbers, or classes 0 … c−1.
    scores
        Predictions; for classes one per row, or a column per class if there are more than two.
    is_numbers
        Whether targets are numbers.

    Returns
    -------
    dict
        ``counts``: rows by true and predicted class, flattened; numbers are all of the first. And
        ``sums``: for numbers Σ y, Σ y², Σ (y − prediction)²; for classes the log-loss and, if there
        are two, the pairs of rows of different classes whose scores are in order, and all pairs.

    Examples
    --------
    >>> judged(np.array([0.0, 1.0]), np.array([-3.0, 2.0]), is_numbers=False)["counts"]
    array([1., 0., 0., 1.])
    """
    scores = np.asarray(scores, dtype=np.float64)
    if is_numbers:
        residuals = targets - scores
        return {
            "counts": np.array([float(targets.size), 0.0, 0.0, 0.0]),
            "sums": np.array([targets.sum(), np.sum(targets**2), np.sum(residuals**2)]),
        }
    codes = targets.astype(np.int64)
    logits = np.column_stack([np.zeros(codes.size), scores]) if scores.ndim == 1 else scores
    classes = logits.shape[1]
    confusion = np.bincount(codes * classes + logits.argmax(axis=1), minlength=classes**2)
    loss = -log_softmax(logits, axis=1)[np.arange(codes.size), codes].sum()
    pairs = _pairs(codes, scores) if scores.ndim == 1 else (0.0, 0.0)
    return {"counts": confusion.astype(np.float64), "sums": np.array([loss, *pairs])}


def judged_shapes(shape: tuple[int, ...]) -> Shapes:
    """What `judged` gives for coefficients of a shape."""
    classes = shape[1] if len(shape) > 1 else 2
    return {"counts": (classes**2,), "sums": (3,)}


def stacked(found: list[dict[str, FloatArray]]) -> Fields:
    """The sums of several clients."""
    return {
        name: DenseStack(np.array([own[name] for own in found]), found[0][name].shape)
        for name in ("counts", "sums")
    }


def _pairs(codes: Int64Array, scores: FloatArray) -> tuple[float, float]:
    """Pairs of the second class above the first, ties counting half, and all pairs."""
    seconds = int(codes.sum())
    above = float(rankdata(scores)[codes == 1].sum()) - seconds * (seconds + 1) / 2
    return above, float(seconds * (codes.size - seconds))
