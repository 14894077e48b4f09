"""Coefficients of chosen features estimated anew without shrinkage, and how wrong they may be.

Newton's steps on the sites' second derivatives, as they are summed for choosing features, too. The
inverse of their sum at the end is the covariance of the estimates (Wald). That is right for
features that were chosen beforehand. For those that were not, `fedsparse.modelling.after_choosing`
estimates on rows that had no part in choosing.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.triangles import from_triangle
from fedsparse.engines.conversation import Conversation
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
        As many; errors are NaN where rows say nothing about a feature.
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
        reach = self.errors * stats.t.isf((1.0 - level) / 2.0, self.freedom)
        return np.column_stack([self.values - reach, self.values + reach])

    @property
    def p_values(self) -> FloatArray:
        """Of Wald's test that a coefficient is 0."""
        with np.errstate(all="ignore"):
            return np.asarray(2.0 * stats.t.sf(np.abs(self.values) / self.errors, self.freedom))


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
        classes or say the same, or because sites keep back what they would tell there.
    """

    support: Int64Array
    shrunk: Estimates | None
    plain: Estimates | None


def refitting(prepared: Prepared, start: FloatArray, support: Int64Array) -> Conversation[Refitted]:
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
    before: _Point | None = None
    for _ in range(_MOST_STEPS):
        (answers,) = yield (prepared.engine.ask(Curvature(x, scaled), "samples"),)
        if not _is_told_by_all(answers, prepared):
            break
        point = _Point.at(x, scaled, answers, prepared)
        if shrunk is None:
            shrunk = point.estimates(prepared.loss.l2)
        if before is not None and point.value > before.value + _ROUNDING * abs(before.value):
            x = (x + before.x) / 2.0
            continue
        step, gain = point.step()
        if prepared.loss.is_quadratic or gain * prepared.mass <= _CLOSE:
            return Refitted(support, shrunk, point.moved(step, gain).estimates(0.0))
        if not np.isfinite(gain):
            break
        before, x = point, point.moved(step, gain).x
    return Refitted(support, shrunk, None)


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

    def step(self) -> tuple[FloatArray, float]:
        """To the minimum of the quadratic model, and how much lower that is; NaN if unknown."""
        inverse = _inverse(self.hessian)
        if inverse is None:
            return np.zeros(self.scaled.size), np.nan
        with one_thread():
            step = -inverse @ self.gradient
        return step, -0.5 * float(self.gradient @ step)

    def moved(self, step: FloatArray, gain: float) -> "_Point":
        x = self.x.copy()
        x[self.scaled] += step
        return _Point(x, self.scaled, self.value - gain, self.gradient, self.hessian, self.prepared)

    def estimates(self, l2: float) -> Estimates | None:
        """The coefficients here, and errors by the second derivatives with an ℓ2 term."""
        prepared, loss = self.prepared, self.prepared.loss
        freedom = float(prepared.rows - np.count_nonzero(np.diag(self.hessian) > 0))
        inverse = _inverse(self.hessian + l2 * np.eye(self.scaled.size))
        if inverse is None or (loss.dispersion is not None and freedom <= 0):
            return None
        variances = np.diag(inverse) / prepared.mass
        if loss.dispersion is not None:
            variances = variances * loss.dispersion * self.value * prepared.mass / freedom
        features = self.scaled[self.scaled < prepared.scaling.scale.size]
        scale = prepared.scaling.scale[features]
        is_known = np.isfinite(scale) & (np.diag(self.hessian)[: features.size] > 0)
        with np.errstate(invalid="ignore"):
            errors = np.sqrt(variances[: features.size])
        return Estimates(
            features,
            self.x[features] / scale,
            np.where(is_known, errors / scale, np.nan),
            np.inf if loss.dispersion is None else freedom,
        )


def _places(prepared: Prepared, support: Int64Array) -> Int64Array:
    """Of the features and of the intercept's column, which is the last."""
    width = prepared.scaling.scale.size
    return np.asarray(np.append(support, width) if prepared.scaling.intercept else support)


def _is_told_by_all(answers: Answers, prepared: Prepared) -> bool:
    """Whether all rows are in the sums: a site keeps back what few of its rows make up."""
    is_all = abs(answers.weight - prepared.mass) <= _SAME_WEIGHT * prepared.mass
    return answers.count > 0 and is_all and answers.is_finite()


def _inverse(hessian: FloatArray) -> FloatArray | None:
    """Of a positive definite matrix, 0 for what has no curvature; None if features say the same."""
    diagonal = np.diag(hessian)
    curved = np.flatnonzero(diagonal > 0)
    inverse = np.zeros_like(hessian)
    if not np.isfinite(hessian).all():
        return None
    units = np.sqrt(diagonal[curved])
    scaled = hessian[np.ix_(curved, curved)] / np.outer(units, units)
    with one_thread():
        try:
            factor = linalg.cholesky(scaled, lower=True)
        except linalg.LinAlgError:
            return None
        if (np.diag(factor) ** 2 < _COLLINEAR).any():
            return None
        own = linalg.cho_solve((factor, True), np.eye(curved.size))
    inverse[np.ix_(curved, curved)] = own / np.outer(units, units)
    return inverse
