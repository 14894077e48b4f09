"""Coefficients of chosen features estimated anew without shrinkage, and how wrong they may be.

Newton's steps on the sites' second derivatives, as they are summed for choosing features, too. The
inverse of their sum at the end is the covariance of the estimates (Wald). That is right for
features that were chosen beforehand. For those that were not, `fedsparse.modelling.after_choosing`
estimates on rows that had no part in choosing.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compute.triangles import from_triangle
from fedsparse.engines.conversation import Conversation
from fedsparse.modelling.distributions import student_reach, student_tail
from fedsparse.modelling.fitting import Prepared
from fedsparse.requests import Answers, Curvature
from fedsparse.threads import one_thread

_MOST_STEPS = 12
"""Exchanges of Newton's method; two to six are the rule, and where features separate classes there
is no end."""

_CLOSE = 1e-10
"""What a last step may gain, in units of the log-likelihood: 1e-5 standard errors are left."""

_COLLINEAR = 1e-10
"""Share of a feature's variance that the others do not explain; less is none."""

_NO_PART = 1e-8
"""Share of a coefficient in directions in which estimates are equally good; less is none."""

_SAME_WEIGHT = 1e-6
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Estimates:
    """Coefficients on the scale of the raw features, and their standard errors.

    Attributes
    ----------
    support
        Places of the features.
    values, errors
        As many; errors are NaN where rows say nothing about a feature, or say of several together
        what they do not say of each, as of all levels of a category.
    freedom
        Degrees of freedom of Student's distribution; infinite for the normal one.

    Examples
    --------
    >>> found = Estimates(np.array([3]), np.array([2.0]), np.array([0.5]), np.inf)
    >>> found.intervals(0.95).round(2).tolist(), float(found.p_values[0].round(6))
    ([[1.02, 2.98]], 6.3e-05)
    """

    support: Int64Array
    values: FloatArray
    errors: FloatArray
    freedom: float

    def intervals(self, level: float) -> FloatArray:
        """Wald's, of shape (features, 2)."""
        reach = self.errors * student_reach((1.0 - level) / 2.0, self.freedom)
        return np.column_stack([self.values - reach, self.values + reach])

    @property
    def p_values(self) -> FloatArray:
        """Of Wald's test that a coefficient is 0."""
        with np.errstate(all="ignore"):
            return 2.0 * student_tail(np.abs(self.values) / self.errors, self.freedom)


@dataclass(frozen=True, eq=False)
class Refitted:
    """What rows say about the coefficients of some features.

    Attributes
    ----------
    support
        Places of the features.
    shrunk
        Where the ℓ2 term has drawn them; the information of the term is part of the errors.
    plain
        Without the ℓ2 term. None if there is no finite estimate, because features separate the
        classes or all say the same, or because sites keep back what they would tell there.
    """

    support: Int64Array
    shrunk: Estimates | None
    plain: Estimates | None


def refitting(
    prepared: Prepared, start: FloatArray, support: Int64Array, *, site: int | None = None
) -> Conversation[Refitted]:
    """Estimate coefficients of some features on all rows of a lens.

    Of a quadratic loss this takes one exchange.

    Parameters
    ----------
    prepared
        The rows.
    start
        Coefficients of scaled features to begin at: those of the model, whose errors are told, too.
    support
        Places of the features.
    site
        Place of the one whose rows it is about; None: all sites together.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions, fit_model, prepare
    >>> Z = np.random.default_rng(0).standard_normal((50, 9))
    >>> data = fs.FederatedData.from_clients([(Z[:20], Z[:20, 4]), (Z[20:], Z[20:, 4] + 0.1)])
    >>> engine, options = fs.LocalEngine(data), FitOptions(fs.SquaredError())
    >>> def refitted():
    ...     prepared = yield from prepare(engine, options)
    ...     model = yield from fit_model(prepared, 1, options)
    ...     return (yield from refitting(prepared, model.result.coef, np.array([4])))
    >>> found = fs.converse(engine, refitted()).plain
    >>> found.values.round(3), found.errors.round(3), found.freedom
    (array([1.001]), array([0.007]), 48.0)
    """
    scaled = _places(prepared, support)
    x = np.zeros_like(start)
    x[scaled] = start[scaled]
    shrunk: Estimates | None = None
    first: _Point | None = None
    before: _Point | None = None
    which = None if site is None else np.array([site])
    for _ in range(_MOST_STEPS):
        (answers,) = yield (prepared.engine.ask(Curvature(x, scaled), "samples", which=which),)
        if site is not None and first is None and answers.count:
            prepared = _part_of(prepared, answers.weight)
        if not _is_told_by_all(answers, prepared):
            break
        point = _Point.at(x, scaled, answers, prepared)
        if shrunk is None:
            shrunk = point.estimates(prepared.loss.l2)
        if before is not None and point.value > before.value + _ROUNDING * abs(before.value):
            x = (x + before.x) / 2.0
            continue
        if first is None:
            first = point
        step, gain = point.step()
        if point.lost > first.lost:  # far out, where separated classes have no curvature
            break
        if prepared.loss.is_quadratic or gain * prepared.mass <= _CLOSE:
            return Refitted(support, shrunk, point.moved(step, gain).estimates(0.0))
        if not np.isfinite(gain):
            break
        before, x = point, point.moved(step, gain).x
    return Refitted(support, shrunk, None)


@dataclass(frozen=True, eq=False)
class _Inverse:
    """Of second derivatives, as far as there is one.

    Attributes
    ----------
    matrix
        0 for what has no curvature.
    is_told
        Whether a coefficient is the same in all of several equally good estimates.
    lost
        Directions in which estimates are equally good, because features say the same.
    """

    matrix: FloatArray
    is_told: BoolArray
    lost: int


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the mean loss of all rows is known with its derivatives on some scaled features.

    All without the ℓ2 term.
    """

    x: FloatArray
    scaled: Int64Array
    value: float
    gradient: FloatArray
    hessian: FloatArray
    prepared: Prepared

    @classmethod
    def at(
        cls, x: FloatArray, scaled: Int64Array, answers: Answers, prepared: Prepared
    ) -> "_Point":
        penalty = 0.5 * prepared.loss.l2 * float(x @ x)
        hessian = from_triangle(answers.mean("hessian"), scaled.size)
        value = answers.average("objective") - penalty
        return cls(x, scaled, value, answers.mean("gradient"), hessian, prepared)

    @cached_property
    def inverse(self) -> _Inverse | None:
        return _inverse(self.hessian)

    @property
    def lost(self) -> int:
        return 0 if self.inverse is None else self.inverse.lost

    def step(self) -> tuple[FloatArray, float]:
        """To the minimum of the quadratic model, and how much lower that is; NaN if unknown."""
        inverse = self.inverse
        if inverse is None:
            return np.zeros(self.scaled.size), np.nan
        with one_thread():
            step = -inverse.matrix @ self.gradient
        return step, -0.5 * float(self.gradient @ step)

    def moved(self, step: FloatArray, gain: float) -> "_Point":
        x = self.x.copy()
        x[self.scaled] += step
        return _Point(x, self.scaled, self.value - gain, self.gradient, self.hessian, self.prepared)

    def estimates(self, l2: float) -> Estimates | None:
        """The coefficients here, and errors by the second derivatives with an ℓ2 term."""
        prepared, loss = self.prepared, self.prepared.loss
        inverse = _inverse(self.hessian + l2 * np.eye(self.scaled.size)) if l2 else self.inverse
        if inverse is None:
            return None
        used = np.count_nonzero(np.diag(self.hessian) > 0) - inverse.lost
        freedom = float(prepared.rows - used)
        if loss.dispersion is not None and freedom <= 0:
            return None
        variances = np.diag(inverse.matrix) / prepared.mass
        if loss.dispersion is not None:
            variances = variances * loss.dispersion * self.value * prepared.mass / freedom
        features = self.scaled[self.scaled < prepared.scaling.scale.size]
        scale = prepared.scaling.scale[features]
        is_known = np.isfinite(scale) & (np.diag(self.hessian)[: features.size] > 0)
        is_known &= inverse.is_told[: features.size]
        if inverse.lost and not is_known.any():
            return None
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(variances[: features.size])
        return Estimates(
            features,
            self.x[features] / scale,
            np.where(is_known, errors / scale, np.nan),
            np.inf if loss.dispersion is None else freedom,
        )


def _part_of(prepared: Prepared, mass: float) -> Prepared:
    """Rows that weigh so much; where weights differ, as many as weigh that on average."""
    return replace(prepared, mass=mass, rows=round(prepared.rows * mass / prepared.mass))


def _places(prepared: Prepared, support: Int64Array) -> Int64Array:
    """Of the features and of the intercept's column, which is the last."""
    width = prepared.scaling.scale.size
    return np.asarray(np.append(support, width) if prepared.scaling.intercept else support)


def _is_told_by_all(answers: Answers, prepared: Prepared) -> bool:
    """Whether all rows are in the sums: a site keeps back what few of its rows make up."""
    is_all = abs(answers.weight - prepared.mass) <= _SAME_WEIGHT * prepared.mass
    return answers.count > 0 and is_all and answers.is_finite()


def _inverse(hessian: FloatArray) -> _Inverse | None:
    """None if it is unknown, or nothing can be told of any coefficient."""
    diagonal = np.diag(hessian)
    curved = np.flatnonzero(diagonal > 0)
    if not np.isfinite(hessian).all():
        return None
    units = np.sqrt(diagonal[curved])
    scaled = hessian[np.ix_(curved, curved)] / np.outer(units, units)
    with one_thread():
        found = _inverse_of_definite(scaled) or _inverse_where_told(scaled)
    if found is None:
        return None
    matrix, is_told = np.zeros_like(hessian), np.ones(len(hessian), dtype=np.bool_)
    matrix[np.ix_(curved, curved)] = found.matrix / np.outer(units, units)
    is_told[curved] = found.is_told
    return _Inverse(matrix, is_told, found.lost)


def _inverse_of_definite(scaled: FloatArray) -> _Inverse | None:
    try:
        factor = linalg.cholesky(scaled, lower=True)
    except linalg.LinAlgError:
        return None
    if (np.diag(factor) ** 2 < _COLLINEAR).any():
        return None
    everything = np.ones(len(scaled), dtype=np.bool_)
    return _Inverse(linalg.cho_solve((factor, True), np.eye(len(scaled))), everything, 0)


def _inverse_where_told(scaled: FloatArray) -> _Inverse | None:
    """Moore and Penrose's: right for coefficients that have no part in what is lost."""
    values, vectors = linalg.eigh(scaled)
    is_lost = values < _COLLINEAR
    is_told = (vectors[:, is_lost] ** 2).sum(axis=1) < _NO_PART
    if not is_told.any():
        return None
    kept = vectors[:, ~is_lost]
    return _Inverse(kept / values[~is_lost] @ kept.T, is_told, int(is_lost.sum()))
