"""Hessians of losses with a score for each class, or matrices that bound them.

The second derivative of a row's cross-entropy by its scores is D = diag(p) − ppᵀ, p the
probabilities of the classes. It couples all classes:

- `joint_curvature` is the exact Hessian on some entries of x, which Newton's step on them takes;
- `class_curvature` takes p_k min(1, 2 (1 − p_k)) for each class by itself. Both diag(p) and
  2 diag(p (1 − p)) are upper bounds of D; their minimum mostly is one in effect, and is shorter;
- `shared_curvature` is one matrix for all classes, with the mean of p_k (1 − p_k) c / (c − 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.asked_entries import ClientMatrix
from fedsparse.compute.clients import Clients
from fedsparse.compute.matrices import AskedMatrices
from fedsparse.compute.stacks import DenseStack, Stack
from fedsparse.errors import OptionError
from fedsparse.problem.slopes import class_probabilities, row_derivatives
from fedsparse.threads import one_thread


@dataclass(frozen=True)
class ClassRows:
    """One client's rows on some features, and what the loss makes of them at x.

    Attributes
    ----------
    rows
        Of shape (B, features).
    slopes, probabilities
        Of shape (B, classes); slopes are weighted and divided by B.
    weights
        Of the rows, divided by B.
    """

    rows: FloatArray
    slopes: FloatArray
    probabilities: FloatArray
    weights: FloatArray

    def product(self, left: Int64Array, right: Int64Array, weights: FloatArray) -> FloatArray:
        """Σ weight · row[left] row[right]ᵀ."""
        return np.asarray((self.rows[:, left] * weights[:, None]).T @ self.rows[:, right])

    def sums(self, features: Int64Array, weights: FloatArray) -> FloatArray:
        """Σ weight · row on some of the features."""
        return np.asarray(weights @ self.rows[:, features])

    def gradient(self, columns: list[Int64Array]) -> FloatArray:
        """Of the mean loss by some features of each class, class by class."""
        return np.concatenate(
            [self.sums(part, self.slopes[:, label]) for label, part in enumerate(columns)]
        )

    def matrix(self, features: Int64Array, weights: FloatArray) -> ClientMatrix:
        """Σ weight · row rowᵀ on some of the features."""
        return ClientMatrix(
            np.arange(features.size),
            self.product(features, features, weights),
            float(weights.sum()),
            self.sums(features, weights),
        )


Work = Callable[[ClassRows, list[Int64Array]], list[ClientMatrix]]
"""From a client's rows and each class's places among the features: its matrices."""


def joint_curvature(
    clients: Clients, x: FloatArray, places: Int64Array, which: Int64Array, asked: AskedMatrices
) -> tuple[FloatArray, Stack, Stack]:
    """f_i(x), gradient and exact Hessian on entries of x, numbered class · d + feature.

    The ℓ2 term is left out of the latter two.
    """
    return _worked_out(clients, x, places, which, asked, _joint)


def class_curvature(
    clients: Clients, x: FloatArray, places: Int64Array, which: Int64Array, asked: AskedMatrices
) -> tuple[FloatArray, Stack, Stack]:
    """The same with a matrix for each class, as if the others stayed."""
    return _worked_out(clients, x, places, which, asked, _each)


def shared_curvature(
    clients: Clients, x: FloatArray, features: Int64Array, which: Int64Array, asked: AskedMatrices
) -> tuple[FloatArray, Stack, Stack]:
    """The same with one matrix for all classes, on the entries of some features."""
    width, classes = _shape(x)
    if features.size and features[-1] >= width:
        raise OptionError(f"there is no feature {features[-1]}; they go from 0 to {width - 1}")
    places = (np.arange(classes)[:, None] * width + features).ravel()
    return _worked_out(clients, x, places, which, asked, _shared)


def _joint(own: ClassRows, columns: list[Int64Array]) -> list[ClientMatrix]:
    chances, blocks = own.probabilities, []
    for first, left in enumerate(columns):
        row = [np.zeros((left.size, right.size)) for right in columns[:first]]
        for second in range(first, len(columns)):
            others = (1.0 if second == first else 0.0) - chances[:, second]
            row.append(own.product(left, columns[second], own.weights * chances[:, first] * others))
        blocks.append(np.hstack(row))
    hessian = np.vstack(blocks)
    size = hessian.shape[0]
    return [ClientMatrix(np.arange(size), hessian, 0.0, np.zeros(size))]


def _each(own: ClassRows, columns: list[Int64Array]) -> list[ClientMatrix]:
    chances = own.probabilities
    bounds = own.weights[:, None] * chances * np.minimum(1.0, 2.0 * (1.0 - chances))
    return [own.matrix(part, bounds[:, label]) for label, part in enumerate(columns)]


def _shared(own: ClassRows, columns: list[Int64Array]) -> list[ClientMatrix]:
    chances = own.probabilities
    spread = np.sum(chances * (1.0 - chances), axis=1) / (chances.shape[1] - 1)
    return [own.matrix(columns[0], own.weights * spread)]


def _worked_out(
    clients: Clients,
    x: FloatArray,
    places: Int64Array,
    which: Int64Array,
    asked: AskedMatrices,
    work: Work,
) -> tuple[FloatArray, Stack, Stack]:
    """f_i(x), the gradient on places, and what ``work`` makes of each client's rows."""
    width, classes = _shape(x)
    features = np.union1d(places % width, np.flatnonzero(x.any(axis=1)))
    by_class = [places[places // width == label] % width for label in range(classes)]
    columns = [np.searchsorted(features, own) for own in by_class]
    losses = np.empty(which.size)
    gradients = [np.empty(0)] * which.size
    matrices: list[list[ClientMatrix]] = [[]] * which.size

    def run(order: Int64Array) -> None:
        for place in order:
            losses[place], own = _rows_at(clients, int(which[place]), x[features], features)
            gradients[place] = own.gradient(columns)
            matrices[place] = work(own, columns)

    with one_thread():
        clients.workers.run(run, clients.data.counts[which])
    gradient = DenseStack(np.stack(gradients), gradients[0].shape)
    return losses + clients.penalty(x), gradient, asked.stack(matrices, clients.workers)


def _shape(x: FloatArray) -> tuple[int, int]:
    if x.ndim != 2:
        raise OptionError("curvature by class needs a loss with several classes")
    return x.shape[0], x.shape[1]


def _rows_at(
    clients: Clients, client: int, x: FloatArray, features: Int64Array
) -> tuple[float, ClassRows]:
    """Mean loss, and a client's rows."""
    if clients.products is not None:
        return clients.products.class_rows(x, features, client)
    rows = clients.rows_on(features, client)
    scores, targets = rows @ x, clients.targets_of(client)
    losses, slopes, _ = row_derivatives(clients.loss.code, scores, targets)
    count = targets.shape[0]
    return float(losses.sum()) / count, ClassRows(
        rows, slopes / count, class_probabilities(scores), targets[:, 1] / count
    )
