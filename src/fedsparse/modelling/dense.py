"""A dense model to compare with: ridge on all features, from sums of f and of its gradient."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.engines.conversation import Conversation
from fedsparse.modelling.fitting import Prepared
from fedsparse.requests import Evaluate, Gradient

MOST_ROUNDS = 15
"""Exchanges that a dense model takes at most, each f and its gradient at one x."""

_TOLERANCE = 1e-3
"""Share of the first gradient's length at which the search ends."""
_MEMORY = 8
_ENOUGH = 1e-4
_SHORTER = (0.1, 0.5)
"""A step that f does not allow becomes at most and at least so much shorter."""


@dataclass(frozen=True, eq=False)
class _Place:
    """An x in units in which the intercept's column is 1, with f and its gradient there."""

    x: FloatArray
    objective: float
    gradient: FloatArray


def fit_dense(prepared: Prepared) -> Conversation[FloatArray]:
    """All features, by ridge: L-BFGS on full gradients, `MOST_ROUNDS` exchanges at most.

    The ℓ2 weight is that of features which, if they were independent, would together move scores by
    about 1, or explain half of the variance of a target of numbers: a penalty of d / n on log-odds
    and of 2 d / n on squared errors. The intercept is not penalized.

    Parameters
    ----------
    prepared
        Rows to learn from.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions, prepare
    >>> data = fs.datasets.simulation_1(clients=4, samples=50, width=9, relevant=2)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> prepared = fs.converse(engine, prepare(engine, FitOptions(fs.SquaredError())))
    >>> int(np.count_nonzero(fs.converse(engine, fit_dense(prepared))))  # and the intercept
    10
    """
    ridge = _Ridge(prepared)
    here = yield from ridge.at(np.zeros(prepared.engine.shape))
    wanted, pairs, rounds = _TOLERANCE * _length(here.gradient), _Pairs(), 1
    while _length(here.gradient) > wanted:
        direction = -pairs.product(here.gradient)
        slope = float(np.vdot(direction, here.gradient))
        step = 1.0 if pairs.are_known else 1.0 / (1.0 + _length(here.gradient))
        while rounds < MOST_ROUNDS:
            there = yield from ridge.at(here.x + step * direction)
            rounds += 1
            if there.objective <= here.objective + _ENOUGH * step * slope:
                break
            step *= _shortened(here.objective, there.objective, step * slope)
        else:
            break
        pairs.add(there.x - here.x, there.gradient - here.gradient)
        here = there
    return here.x * ridge.units


class _Ridge:
    """f with the ridge's own penalty."""

    def __init__(self, prepared: Prepared) -> None:
        engine = prepared.engine
        intercept, features = prepared.scaling.intercept, engine.width
        self._engine = engine
        self.units = np.ones(engine.shape)
        self.units[features:] = 1.0 / intercept if intercept else 1.0
        weight = features / prepared.mass * (2.0 if prepared.loss.is_quadratic else 1.0)
        self._weights = np.full(engine.shape, weight)
        self._weights[features:] = 0.0

    def at(self, x: FloatArray) -> Conversation[_Place]:
        scaled = x * self.units
        told, slopes = yield (
            self._engine.ask(Evaluate(scaled, is_penalized=False), "samples"),
            self._engine.ask(Gradient(scaled), "samples"),
        )
        penalty = 0.5 * float(np.sum(self._weights * x**2))
        gradient = slopes.mean("gradient") * self.units + self._weights * x
        return _Place(x, told.average("objective") + penalty, gradient)


class _Pairs:
    """What steps have told of second derivatives: Nocedal's two loops over the last of them."""

    def __init__(self) -> None:
        self._pairs: list[tuple[FloatArray, FloatArray, float]] = []

    @property
    def are_known(self) -> bool:
        return bool(self._pairs)

    def add(self, step: FloatArray, change: FloatArray) -> None:
        """Remember a step, unless f does not bend along it."""
        bend = float(np.vdot(step, change))
        if bend > 1e-12 * _length(step) * _length(change):
            self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, bend)]

    def product(self, gradient: FloatArray) -> FloatArray:
        """About the inverse of the second derivatives times the gradient."""
        product, shares = gradient.copy(), []
        for step, change, bend in reversed(self._pairs):
            shares.append(float(np.vdot(step, product)) / bend)
            product -= shares[-1] * change
        if self._pairs:
            _, change, bend = self._pairs[-1]
            product *= bend / float(np.vdot(change, change))
        for (step, change, bend), share in zip(self._pairs, reversed(shares), strict=True):
            product += (share - float(np.vdot(change, product)) / bend) * step
        return product


def _shortened(before: float, after: float, slope: float) -> float:
    """The share of a step at which the parabola through what is known is lowest."""
    if not np.isfinite(after):
        return _SHORTER[0]
    return float(np.clip(-slope / (2.0 * (after - before - slope)), *_SHORTER))


def _length(vector: FloatArray) -> float:
    return float(np.sqrt(np.vdot(vector, vector)))
