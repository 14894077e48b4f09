"""The losses as the compiled loops see them: from scores z·x to values and derivatives.

A loss has a branch in each function here, or no code: then it is worked out by NumPy.
"""

import math
from typing import Final

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compiling import compiled

SQUARED: Final = 0
LOGISTIC: Final = 1
SOFTMAX: Final = 2
POISSON: Final = 3

NOT_COMPILED: Final = -1
"""Of losses that have no branch here."""

LARGEST_LOG_RATE: Final = 60.0
"""Rates go on growing linearly beyond e⁶⁰: f stays finite where a step went too far."""


@compiled
def to_slopes(loss: int, scores: FloatArray, targets: FloatArray, row: int) -> None:
    """Replace one row's scores by the derivative of its weighted loss with respect to them.

    ``targets`` holds the target and the weight of every row.
    """
    target, weight = targets[row, 0], targets[row, 1]
    if loss == SQUARED:
        scores[0] = 2.0 * (scores[0] - target)
    elif loss == LOGISTIC:
        scores[0] = 1.0 / (1.0 + math.exp(-scores[0])) - target
    elif loss == POISSON:
        scores[0] = rate_at(scores[0]) - target
    else:
        _to_probabilities(scores)
        scores[int(target)] -= 1.0
    for label in range(scores.size):
        scores[label] *= weight


@compiled
def rate_at(score: float) -> float:
    """The rate that a Poisson score stands for."""
    if math.isnan(score):
        return score
    return math.exp(min(score, LARGEST_LOG_RATE))


@compiled
def _poisson_at(score: float, target: float, rate: float) -> float:
    """Half the deviance of a rate from one that was seen."""
    least = target * math.log(target) - target if target > 0.0 else 0.0
    beyond = max(score - LARGEST_LOG_RATE, 0.0)
    return rate * (1.0 + beyond) - target * score + least


@compiled
def _to_probabilities(scores: FloatArray) -> None:
    highest = scores.max()
    total = 0.0
    for label in range(scores.size):
        scores[label] = math.exp(scores[label] - highest)
        total += scores[label]
    for label in range(scores.size):
        scores[label] /= total


@compiled
def to_mean_slopes(loss: int, scores: FloatArray, targets: FloatArray, row: FloatArray) -> None:
    """`to_slopes` for scores laid out (classes, rows), divided by the number of rows.

    Columns of ``scores`` beyond the last row are padding and become zero; ``row`` is room for one
    row's scores.
    """
    count = targets.shape[0]
    if loss == SQUARED:
        for position in range(count):
            slope = 2.0 * (scores[0, position] - targets[position, 0])
            scores[0, position] = slope * targets[position, 1] / count
    else:
        for position in range(count):
            for label in range(row.size):
                row[label] = scores[label, position]
            to_slopes(loss, row, targets, position)
            for label in range(row.size):
                scores[label, position] = row[label] / count
    scores[:, count:] = 0.0


@compiled
def second_derivatives(loss: int, scores: FloatArray) -> FloatArray:
    """Second derivative of each row's loss with respect to its one score."""
    derivatives = np.empty_like(scores)
    for row in range(scores.size):
        derivatives[row] = _second_derivative(loss, scores[row])
    return derivatives


@compiled
def curvature_of_row(loss: int, score: float, targets: FloatArray, row: int) -> float:
    """Second derivative of one row's weighted loss with respect to its one score."""
    return targets[row, 1] * _second_derivative(loss, score)


@compiled
def _second_derivative(loss: int, score: float) -> float:
    if loss == SQUARED:
        return 2.0
    if loss == POISSON:
        return rate_at(score)
    # p (1 − p), written so that it neither overflows nor cancels
    tail = math.exp(-abs(score))
    return tail / (1.0 + tail) ** 2


@compiled
def mean_derivatives(
    loss: int, scores: FloatArray, targets: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Mean weighted loss at scores, one a row, and its first and second derivative by each."""
    count = scores.size
    slopes, curvatures = np.empty(count), np.empty(count)
    total = 0.0
    for row in range(count):
        value, slope, curvature = derivatives_at(loss, scores[row], targets, row)
        total += value
        slopes[row] = slope / count
        curvatures[row] = curvature / count
    return total / count, slopes, curvatures


@compiled
def derivatives_at(
    loss: int, score: float, targets: FloatArray, row: int
) -> tuple[float, float, float]:
    """One row's weighted loss at its one score, and its first and second derivative."""
    target, weight = targets[row, 0], targets[row, 1]
    if loss == SQUARED:
        residual = score - target
        return weight * residual * residual, 2.0 * weight * residual, 2.0 * weight
    if loss == POISSON:
        rate = rate_at(score)
        value = _poisson_at(score, target, rate)
        return weight * value, weight * (rate - target), weight * rate
    tail = math.exp(-abs(score))  # one exponential serves all three
    upper = 1.0 / (1.0 + tail)
    value = math.log1p(tail) + max(score, 0.0) - target * score
    probability = upper if score >= 0.0 else tail * upper
    return weight * value, weight * (probability - target), weight * tail * upper * upper


@compiled
def to_class_slopes(
    loss: int, scores: FloatArray, targets: FloatArray, row: int, curvatures: FloatArray
) -> float:
    """Replace one row's scores by slopes as `to_slopes` does, and give its weighted loss.

    ``curvatures`` becomes the second derivative by each score alone: p (1 − p) for softmax.
    """
    value = loss_of_row(loss, scores, targets, row)
    if loss == SOFTMAX:
        curvatures[:] = scores
        _to_probabilities(curvatures)
        for label in range(scores.size):
            curvatures[label] *= targets[row, 1] * (1.0 - curvatures[label])
    else:
        for label in range(scores.size):
            curvatures[label] = curvature_of_row(loss, scores[label], targets, row)
    to_slopes(loss, scores, targets, row)
    return value


@compiled
def class_probabilities(scores: FloatArray) -> FloatArray:
    """Probabilities of the classes, row by row."""
    probabilities = scores.copy()
    for row in range(scores.shape[0]):
        _to_probabilities(probabilities[row])
    return probabilities


@compiled
def row_derivatives(
    loss: int, scores: FloatArray, targets: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted loss of every row, and its first and second derivative by each of its scores.

    ``scores`` has a row per row and a column per class, and so have the derivatives.
    """
    losses = np.empty(scores.shape[0])
    slopes, curvatures = scores.copy(), np.empty_like(scores)
    for row in range(scores.shape[0]):
        losses[row] = to_class_slopes(loss, slopes[row], targets, row, curvatures[row])
    return losses, slopes, curvatures


@compiled
def mean_loss(loss: int, scores: FloatArray, targets: FloatArray, row: FloatArray) -> float:
    """Mean weighted loss at scores laid out (classes, rows), padding left out.

    ``row`` is room for one row's scores.
    """
    total = 0.0
    for position in range(targets.shape[0]):
        for label in range(row.size):
            row[label] = scores[label, position]
        total += loss_of_row(loss, row, targets, position)
    return total / targets.shape[0]


@compiled
def loss_of_row(loss: int, scores: FloatArray, targets: FloatArray, row: int) -> float:
    """One row's weighted loss at the given scores."""
    return targets[row, 1] * _loss_at(loss, scores, targets[row, 0])


@compiled
def _loss_at(loss: int, scores: FloatArray, target: float) -> float:
    if loss == SQUARED:
        return (target - scores[0]) ** 2
    if loss == LOGISTIC:
        # log(1 + e^u) - y u without overflow
        score = scores[0]
        return math.log1p(math.exp(-abs(score))) + max(score, 0.0) - target * score
    if loss == POISSON:
        return _poisson_at(scores[0], target, rate_at(scores[0]))
    highest = scores.max()
    total = 0.0
    for label in range(scores.size):
        total += math.exp(scores[label] - highest)
    return math.log(total) + highest - scores[int(target)]
