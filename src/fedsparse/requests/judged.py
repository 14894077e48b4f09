"""How good a model is on a client's rows, as sums: counts and totals, never a row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax, logsumexp

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
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
            scores = scores_of(self.x, clients, int(place))
            if clients.loss.outcome == "numbers":
                scores = clients.loss.expected(scores)
            found.append(judged(targets, scores, is_numbers=clients.classes is None))
        return stacked(found)


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
        return {"no_better": (losses >= guessing).astype(np.float64)}  # never so of infinity


def scores_of(x: FloatArray, clients: Clients, client: int) -> FloatArray:
    """Of each row, and of several classes a column for each."""
    if x.ndim == 1:
        return clients.scores(x, client)
    return np.column_stack([clients.scores(column, client) for column in by_class(x)])


FEWEST_FOR_FOURTHS = 5
"""Fewest rows of which Σ r⁴ is told: with the other sums it would give fewer away."""

_FOURTHS = (1e-20, 1e24)
"""Between these it is told: what lies beyond is lost where sums are integers."""

_SUMS = 8
"""Of numbers and of two classes, which are of the same shape; those of two classes are fewer."""


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
        ``counts``: rows by true and predicted class, flattened; numbers are all of the first.

        ``sums``, for numbers: Σ y, Σ y², Σ r² with r = y − prediction, Σ prediction and
        Σ y · prediction; then of clients with five rows or more how many rows, Σ r² and Σ r⁴.

        ``sums``, for classes: the log-loss and its square, and three numbers for each comparison of
        rows of a class with the others: pairs whose scores are in order, all pairs, and all pairs
        times the *partners* of a row, (n₁ + n₀) / 2 − 1. There is one comparison of two classes,
        else one for each class. Zeros follow where there are two.

    Examples
    --------
    >>> judged(np.array([0.0, 1.0]), np.array([-3.0, 2.0]), is_numbers=False)["counts"]
    array([1., 0., 0., 1.])
    """
    scores = np.asarray(scores, dtype=np.float64)
    return _of_numbers(targets, scores) if is_numbers else _of_classes(targets, scores)


def _of_numbers(targets: FloatArray, predictions: FloatArray) -> dict[str, FloatArray]:
    residuals = targets - predictions
    squares = residuals**2
    fourths = np.sum(squares**2)
    has_tails = targets.size >= FEWEST_FOR_FOURTHS and _FOURTHS[0] < fourths < _FOURTHS[1]
    tails = [float(targets.size), squares.sum(), fourths] if has_tails else [0.0, 0.0, 0.0]
    sums = [
        *(targets.sum(), np.sum(targets**2), squares.sum()),
        *(predictions.sum(), np.sum(targets * predictions)),
        *tails,
    ]
    return {"counts": np.array([float(targets.size), 0.0, 0.0, 0.0]), "sums": np.array(sums)}


def _of_classes(targets: FloatArray, scores: FloatArray) -> dict[str, FloatArray]:
    codes = targets.astype(np.int64)
    logits = np.column_stack([np.zeros(codes.size), scores]) if scores.ndim == 1 else scores
    classes = logits.shape[1]
    confusion = np.bincount(codes * classes + logits.argmax(axis=1), minlength=classes**2)
    losses = -log_softmax(logits, axis=1)[np.arange(codes.size), codes]
    sums = [losses.sum(), np.sum(losses**2)]
    for label, against in compared(scores):
        sums += _pairs(codes == label, against)
    sums += [0.0] * (_SUMS - len(sums) if classes == 2 else 0)
    return {"counts": confusion.astype(np.float64), "sums": np.array(sums)}


def compared(scores: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Classes that are told from all others, and by which log-odds.

    Examples
    --------
    >>> [(label, odds.tolist()) for label, odds in compared(np.array([0.5, -1.0]))]
    [(1, [0.5, -1.0])]
    """
    if scores.ndim == 1:
        yield 1, scores
        return
    for label in range(scores.shape[1]):
        yield label, scores[:, label] - logsumexp(np.delete(scores, label, axis=1), axis=1)


def judged_shapes(shape: tuple[int, ...]) -> Shapes:
    """What `judged` gives for coefficients of a shape."""
    if len(shape) > 1:
        return {"counts": (shape[1] ** 2,), "sums": (2 + 3 * shape[1],)}
    return {"counts": (4,), "sums": (_SUMS,)}


def stacked(found: list[dict[str, FloatArray]]) -> Fields:
    """The sums of several clients."""
    return {
        name: DenseStack(np.array([own[name] for own in found]), found[0][name].shape)
        for name in ("counts", "sums")
    }


def _ranks(scores: FloatArray) -> FloatArray:
    """From 1; of equal scores each has the mean of theirs."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _pairs(is_one: BoolArray, scores: FloatArray) -> tuple[float, float, float]:
    """Pairs of a class above the others, ties counting half; all pairs; all times partners."""
    ones = int(is_one.sum())
    above = float(_ranks(scores)[is_one].sum()) - ones * (ones + 1) / 2
    pairs = float(ones * (scores.size - ones))
    return above, pairs, pairs * (scores.size / 2 - 1.0)
