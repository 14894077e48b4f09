"""Whether answers can be those of any rows at all, one site's or the sum of several.

Everything judged here is a weighted mean over rows, of a site or of all sites, so the same
inequalities hold for both: where sums are open each answer is judged and the site is named, where
they are masked the sum is. Nothing honest is refused, whatever the rows: bounds that only usual
rows keep are not used. A site that lies within them is not found here.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.stacks import Stack, flatten, squared_norm
from fedsparse.engines.conversation import Conversation
from fedsparse.engines.engine import Ask
from fedsparse.errors import FederationError
from fedsparse.federation.server.plausible_outcomes import (
    objection_to_judged_counts,
    objection_to_judged_survival,
    objection_to_survival_counts,
)
from fedsparse.federation.server.told_matrices import (
    ToldMatrix,
    matrices_told,
    quadratic_error,
    shifts_of_one,
    shifts_of_sums,
)
from fedsparse.modelling.alone import JudgeAlone, JudgeCountsAlone, JudgeSurvivalAlone
from fedsparse.problem.losses import Loss
from fedsparse.requests import (
    Answers,
    ColumnSquares,
    ColumnSums,
    Curvature,
    Evaluate,
    Fields,
    Judge,
    JudgeCounts,
    JudgeSurvival,
    LocalSteps,
    NoBetterThanNull,
    Request,
    ScoreCounts,
    Slopes,
    Smoothness,
    SmoothnessAbove,
    SurvivalCounts,
)
from fedsparse.requests.score_counts import BINS
from fedsparse.tables.cells import LARGEST
from fedsparse.threads import one_thread

_ROUNDING = 1e-6
"""Share by which a site's answer may pass bounds: far above rounding errors of sums over rows."""

_ROUNDING_OF_SUMS = 1e-4
"""The same for sums over sites, which may have been added up in fixed point."""

_SCORE_ROUNDING = 1e-10
"""Share of its size by which a row's score may be wrong."""

_UNDERFLOW = 1e-200

_LARGEST_SHARE = 0.9
_FEWEST_SITES = 3

_MOST_KEPT = 2**26
"""Bytes of what was told that are remembered."""

_Result = TypeVar("_Result")

Means = Mapping[str, FloatArray]
"""Parts of an answer as means over rows, or over sites for what counts all sites alike."""


def objection_to_answer(request: Request, loss: Loss, answer: Fields, rows: float) -> str | None:
    """Why a site's answer cannot be that of its rows, in words; None if it can.

    What is not finite is looked for elsewhere.

    Parameters
    ----------
    request
        What was asked.
    loss
        Of the lens it was asked through.
    answer
        Of one site.
    rows
        What its rows weigh.

    Examples
    --------
    >>> from fedsparse.requests import Evaluate
    >>> from fedsparse.problem.losses import SquaredError
    >>> asked = Evaluate(np.ones(2))
    >>> objection_to_answer(asked, SquaredError(), {"objective": np.array([-1e9])}, rows=30.0)
    'f is -1e+09, and that of rows is not below 0'
    """
    means = {name: _of_one(field) for name, field in answer.items()}
    matrices: Sequence[ToldMatrix] = ()
    if isinstance(request, Slopes | Curvature) and "hessian" in means:
        told = answer["hessian"]
        assert isinstance(told, Stack)
        with np.errstate(all="ignore"):
            matrices = matrices_told(request, means["hessian"], shifts_of_one(request, told))
    return _Bounds(request, loss, means, _ROUNDING, matrices).objection(rows, count=1)


def objection_to_sums(request: Request, loss: Loss, answers: Answers) -> str | None:
    """Why sums over sites cannot be those of their rows, in words; None if they can.

    Parameters
    ----------
    request, loss
        As in `objection_to_answer`.
    answers
        The sums.

    Examples
    --------
    >>> from fedsparse.requests import Evaluate
    >>> from fedsparse.problem.losses import SquaredError
    >>> told = Answers.of({"objective": np.array([0.4, 0.3, -1e9])}, np.ones(3))
    >>> objection_to_sums(Evaluate(np.ones(2)), SquaredError(), told)
    'f is -3.33e+08, and that of rows is not below 0'
    """
    if answers.count == 0 or not answers.is_finite():
        return None
    means = {name: np.atleast_1d(answers.mean(name)) for name in answers.sums}
    matrices: Sequence[ToldMatrix] = ()
    if isinstance(request, Slopes | Curvature) and "hessian" in means:
        matrices = matrices_told(request, means["hessian"], shifts_of_sums(request, answers))
    rows = answers.weight if isinstance(request, ColumnSums | ColumnSquares) else None
    bounds = _Bounds(request, loss, means, _ROUNDING_OF_SUMS, matrices)
    return bounds.objection(rows, answers.count)


def notes_on_rows(rows: Mapping[str, int]) -> list[str]:
    """Sites that say they have nearly all rows: they alone decide the model.

    How many rows a site has nobody else can check, so the claim is told and not cut: a large
    hospital among small ones is no fault.

    Parameters
    ----------
    rows
        By site.

    Examples
    --------
    >>> notes_on_rows({"aachen": 60, "bari": 80, "cork": 75_000_000})
    ['cork says that it has 75,000,000 of all 75,000,140 rows: the model is that of cork alone, \
whatever the other sites hold.']
    >>> notes_on_rows({"aachen": 60, "bari": 8_000})
    []
    """
    total = sum(rows.values())
    if len(rows) < _FEWEST_SITES:
        return []
    return [
        f"{name} says that it has {own:,} of all {total:,} rows: the model is that of {name} "
        "alone, whatever the other sites hold."
        for name, own in rows.items()
        if own > _LARGEST_SHARE * total
    ]


def _of_one(field: Stack | FloatArray) -> FloatArray:
    return next(field.each()) if isinstance(field, Stack) else field


@dataclass(frozen=True)
class _Bounds:
    """What bounds the parts of an answer.

    Attributes
    ----------
    request, loss
        What was asked.
    means
        What was told.
    rounding
        Share by which bounds may be passed.
    matrices
        Second derivatives among what was told.
    """

    request: Request
    loss: Loss
    means: Means
    rounding: float
    matrices: Sequence[ToldMatrix] = ()

    def objection(self, rows: float | None, count: int) -> str | None:
        """Why the answer of so many sites cannot be, in words."""
        with np.errstate(all="ignore"), one_thread():  # what is not finite is not judged here
            match self.request:
                case ColumnSums() | ColumnSquares():
                    assert rows is not None
                    return self._of_columns(rows)
                case Smoothness():
                    return self._of_smoothness()
                case NoBetterThanNull():
                    return self._of_share("no_better")
                case SmoothnessAbove():
                    return self._of_thresholds()
                case JudgeCounts() | JudgeCountsAlone():
                    return objection_to_judged_counts(*self._judged(count), self.rounding)
                case SurvivalCounts():
                    told_of = {name: count * own for name, own in self.means.items()}
                    return objection_to_survival_counts(told_of, self.rounding)
                case JudgeSurvival() | JudgeSurvivalAlone():
                    told = self._judged(count)
                    return objection_to_judged_survival(*told, rows, self.rounding)
                case Judge() | JudgeAlone():
                    return self._of_judged(rows, count)
                case ScoreCounts():
                    return self._of_counts(count * self.means["counts"], rows)
                case Evaluate(x, is_penalized):
                    return self._of_objective(x, self.loss.l2 if is_penalized else 0.0)
                case LocalSteps(x):
                    return self._of_steps(x)
                case Slopes(x, support):
                    return (
                        self._of_objective(x, self.loss.l2)
                        or self._of_slopes(x)
                        or self._of_matrices()
                        or self._of_curvature(x, support, lambda own: flatten(own)[support])
                    )
                case Curvature(only_second=True):
                    return self._of_matrices()
                case Curvature(x, support):
                    return (
                        self._of_objective(x, self.loss.l2)
                        or self._of_matrices()
                        or self._of_curvature(x, support, lambda own: own)
                    )
        return None

    def _of_columns(self, rows: float) -> str | None:
        """A single wrong sum of columns would spoil the scales of all."""
        own = {name: rows * mean for name, mean in self.means.items()}
        most, slack = LARGEST * rows, 1.0 + 1e-9
        bounds = {
            "squares": (0.0, (2.0 * LARGEST) ** 2 * rows),
            "rows": (rows / slack, slack * rows),  # else all rows weigh the same
            "target": (-most, most),
            "total": (-most, most),
            "known": (0.0, slack * rows),
            "labels": (0.0, slack * rows),
        }
        if "total" in own:
            bounds["stored"] = (0.0, slack * float(own["rows"][0]) * own["total"].size)
        if self.loss.outcome == "counts":  # what rows weigh is their exposure
            bounds |= dict.fromkeys(("rows", "target", "stored"), (0.0, most))
        for name, numbers in own.items():
            least, largest = bounds[name]
            if bool(((numbers < least) | (numbers > largest)).any()):
                return f"{name} lie outside what {rows:g} rows can have"
        return None

    def _of_smoothness(self) -> str | None:
        told, least = float(self.means["smoothness"][0]), self.loss.l2
        if told < least * (1.0 - self.rounding):
            return f"the smoothness is {told:.3g}, and that of rows at least {least:g}"
        return None

    def _of_thresholds(self) -> str | None:
        above = self.means["above"]
        outside = (above < -self.rounding) | (above > 1.0 + self.rounding)
        if bool(outside.any()) or bool((np.diff(above) > self.rounding).any()):
            return "thresholds are passed, and lower ones are not"
        return None

    def _of_share(self, name: str) -> str | None:
        told = float(self.means[name][0])
        if not -self.rounding <= told <= 1.0 + self.rounding:
            return f"{told:g} is told where it is 0 or 1"
        return None

    def _judged(self, count: int) -> tuple[FloatArray, FloatArray]:
        """What so many sites counted and added up of rows that were judged."""
        return count * self.means["counts"], count * self.means["sums"]

    def _of_judged(self, rows: float | None, count: int) -> str | None:
        """Counts are whole, and pairs of rows are no more than there can be."""
        counts, sums = count * self.means["counts"], count * self.means["sums"]
        is_whole = np.abs(counts - np.rint(counts)) <= self.rounding
        if not is_whole.all() or bool((counts < -self.rounding).any()):
            return "rows are counted that are not whole"
        judged, slack = float(counts.sum()), 1.0 + self.rounding
        if rows is not None and judged > rows * slack:
            return f"{judged:g} rows are judged of {rows:g}"
        if self.loss.outcome == "numbers":
            return self._of_residuals(judged, sums)
        classes = math.isqrt(counts.size)
        by_class = counts.reshape(classes, classes).sum(axis=1)
        return self._of_losses_and_pairs(by_class, sums)

    def _of_counts(self, counts: FloatArray, rows: float | None) -> str | None:
        """Rows are whole, and every class is told from as many."""
        is_whole = np.abs(counts - np.rint(counts)) <= self.rounding
        if not is_whole.all() or bool((counts < -self.rounding).any()):
            return "rows are counted that are not whole"
        totals = counts.reshape(-1, 2 * BINS).sum(axis=1)
        if np.ptp(totals) > self.rounding * totals.size:
            return "classes are told from different numbers of rows"
        if rows is not None and totals[0] > rows * (1.0 + self.rounding):
            return f"{totals[0]:g} rows are counted of {rows:g}"
        return None

    def _of_residuals(self, rows: float, sums: FloatArray) -> str | None:
        """Squares are above 0, and fourth powers as Cauchy and Schwarz allow."""
        squares, residuals, tails, own, fourths = sums[[1, 2, 5, 6, 7]]
        slack = 1.0 + self.rounding
        if min(squares, residuals, tails, own, fourths) < -self.rounding:
            return "a count of rows or a sum of squares is below 0"
        if tails > rows * slack + self.rounding or own > residuals * slack + self.rounding:
            return f"{tails:g} rows are told of apart, of {rows:g}"
        if own**2 > tails * fourths * slack or fourths > own**2 * slack:
            return "fourth powers of errors are not those of their squares"
        return None

    def _of_losses_and_pairs(self, by_class: FloatArray, sums: FloatArray) -> str | None:
        """Pairs in order are no more than there are, and these no more than rows make."""
        if bool((sums < -self.rounding).any()):
            return "a count of pairs or a sum of squares is below 0"
        slack, rows = 1.0 + self.rounding, float(by_class.sum())
        labels = np.array([1]) if by_class.size == 2 else np.arange(by_class.size)
        for label, (in_order, pairs, partners) in zip(
            labels, sums[2 : 2 + 3 * labels.size].reshape(-1, 3), strict=True
        ):
            most = float(by_class[label] * (rows - by_class[label]))
            if in_order > pairs * slack or pairs > most * slack + self.rounding:
                return f"{pairs:g} pairs of rows are compared of {most:g}"
            if partners > pairs * max(rows / 2 - 1, 0.0) * slack + self.rounding:
                return "rows are compared with more rows than there are"
        return None

    def _of_objective(self, x: FloatArray, l2: float) -> str | None:
        """f is at least its ℓ2 term; at x = 0 all rows with classes have the same loss."""
        told, least = float(self.means["objective"][0]), 0.5 * l2 * squared_norm(x)
        if told < least * (1.0 - self.rounding):
            return f"f is {told:.3g}, and that of rows is not below {least:.3g}"
        expected = None if x.any() else self.loss.value_at_zero(2 if x.ndim == 1 else x.shape[1])
        if expected is not None and abs(told - expected) > self.rounding:
            return f"f at x = 0 is {told:.6g}, and that of any rows is {expected:.6g}"
        return None

    def _of_steps(self, x: FloatArray) -> str | None:
        """Sites went on average at least as far as their average x did."""
        objection = self._of_objective(x, self.loss.l2) if "objective" in self.means else None
        if objection is None and "squared_distance" in self.means:
            told = float(self.means["squared_distance"][0])
            least = squared_norm(self.means["x"] - x)
            if told < least * (1.0 - self.rounding):
                return f"x lies {math.sqrt(least):.3g} away, and less is told"
        return objection

    def _of_slopes(self, x: FloatArray) -> str | None:
        """A slope is a mean of products of residuals and features: Cauchy and Schwarz bound it."""
        if "diagonal" not in self.means:
            return None
        gradient, diagonal = self.means["gradient"], self.means["diagonal"]
        if bool((diagonal < 0).any()):
            return "a second derivative is negative, and f is convex"
        roots = np.sqrt(diagonal)
        residuals = self._squared_residuals(x, float(np.sum(np.abs(x) * roots)))
        if residuals is None:
            return None
        largest = math.sqrt(residuals) * roots * (1.0 + self.rounding)
        if bool((np.abs(gradient) > largest + _UNDERFLOW).any()):
            return "slopes are steeper than f and second derivatives allow"
        return None

    def _of_matrices(self) -> str | None:
        """A Hessian is positive semi-definite, and so are the matrices that bound it."""
        for matrix in self.matrices:
            if matrix.is_negative():
                return "a second derivative is negative, and f is convex"
            if not matrix.is_semidefinite(self.rounding):
                return "second derivatives are those of no convex f"
        return None

    def _of_curvature(
        self, x: FloatArray, support: Int64Array, on_support: Callable[[FloatArray], FloatArray]
    ) -> str | None:
        """A Hessian is so also with residuals as one feature more, for losses of one score."""
        if x.ndim > 1 or not self.matrices:
            return None
        (matrix,) = self.matrices
        residuals = self._squared_residuals(x, self._reach(x, support, matrix))
        if residuals is None:
            return None
        slopes = on_support(self.means["gradient"])[matrix.is_new]
        if not matrix.holds_slopes(residuals, slopes, self.rounding):
            return "slopes are steeper than f and second derivatives allow"
        return None

    def _reach(self, x: FloatArray, support: Int64Array, matrix: ToldMatrix) -> float:
        """At least the root of the mean of squared scores.

        Units are about the roots of sums over sites, whose weights are 1 or more.
        """
        assert isinstance(self.request, Slopes | Curvature)
        told = support[matrix.is_new]
        reach = float(np.abs(x[told]) @ matrix.roots)
        others = np.flatnonzero(x)
        others = others[~np.isin(others, told)]
        if not others.size:
            return reach
        units = np.full(others.size, np.inf)
        if self.request.units is not None:
            own = self.request.units[others]
            units[own > 0.0] = 2.0 * own[own > 0.0]
        return reach + float(np.abs(x[others]) @ units)

    def _squared_residuals(self, x: FloatArray, reach: float) -> float | None:
        """What times a second derivative bounds a squared slope; None if nothing does.

        For the squared loss g_j = 2 mean(r z_j) and h_j = 2 mean(z_j²), so g_j² ≤ 2 mean(r²) h_j.
        Other losses have such a bound at x = 0 if they have one: see `Loss.slope_bound`.

        Parameters
        ----------
        x
            Where.
        reach
            At least the root of the mean of squared scores, for rounding errors of residuals.
        """
        told = float(self.means["objective"][0])
        fit = max(told - 0.5 * self.loss.l2 * squared_norm(x), 0.0)
        bound = self.loss.slope_bound(fit, is_at_zero=not x.any())
        if bound is None:
            return None
        return bound + (_SCORE_ROUNDING * reach) ** 2 + self.rounding**2 * told


def watched(conversation: Conversation[_Result], promises: "Promises") -> Conversation[_Result]:
    """A conversation whose sums are looked at on their way; one that cannot be ends it.

    Parameters
    ----------
    conversation
        Any.
    promises
        Keeps what was told, and says what does not fit.
    """
    answers: Sequence[Answers] | None = None
    while True:
        try:
            asks = conversation.send(answers) if answers is not None else next(conversation)
        except StopIteration as end:
            result: _Result = end.value
            return result
        try:
            answers = yield asks
            with one_thread():
                for ask, own in zip(asks, answers, strict=True):
                    _refuse_impossible(ask, own)
                    promises.look_at(ask, own)
        except BaseException as error:
            with suppress(StopIteration):
                conversation.throw(error)
            raise


def _refuse_impossible(ask: Ask, answers: Answers) -> None:
    objection = objection_to_sums(ask.request, ask.lens.loss, answers)
    if objection is not None:
        raise FederationError(
            f"what the sites answered to {type(ask.request).__name__} cannot be the sum over any "
            f"rows ({objection}): a site is faulty or lies; "
            "with --open-sums, if all sites allow them, it is found and named"
        )


@dataclass(frozen=True, eq=False)
class _Point:
    """What was told of f around x.

    Attributes
    ----------
    x, objective, gradient
        Where, f there, and its slopes with those of the ℓ2 term.
    roots
        Of the second derivatives by one feature: how much scores vary with it.
    features
        On which these are known; None: on all.
    hessian
        On them, with the ℓ2 term; None if it was not asked for, or only in part.
    error
        By how much the model may be wrong after a step on them, because the Hessian was rounded.
    """

    x: FloatArray
    objective: float
    gradient: FloatArray
    roots: FloatArray
    features: Int64Array | None = None
    hessian: FloatArray | None = None
    error: Callable[[FloatArray], float] | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        hessian = 0 if self.hessian is None else self.hessian.nbytes
        return self.x.nbytes + self.gradient.nbytes + self.roots.nbytes + hessian

    def expected(self, y: FloatArray, loss: Loss) -> tuple[float, float, float] | None:
        """Least and largest f at y, and by how much rounding may pass them; None: nothing is known.

        f is convex: it lies above its slopes. The squared loss is its quadratic model.
        """
        step, x = y - self.x, self.x
        if self.features is not None:
            if np.count_nonzero(step) > np.count_nonzero(step[self.features]):
                return None
            step, x = step[self.features], x[self.features]
        slope = float(self.gradient @ step)
        size = abs(self.objective) + float(np.abs(self.gradient) @ np.abs(step))
        # Features that are nearly the same cancel in f, and rounding errors of theirs do not.
        far, reach = (float(np.abs(own) @ self.roots) for own in (step, x))
        slack = _ROUNDING_OF_SUMS * size + _ROUNDING * far * (far + reach)
        slack += (_SCORE_ROUNDING * (far + reach)) ** 2
        least = self.objective + slope + 0.5 * loss.l2 * squared_norm(step)
        if self.hessian is None or not loss.is_quadratic:
            return least, math.inf, slack
        exact = self.objective + slope + 0.5 * float(step @ self.hessian @ step)
        error = 0.0 if self.error is None else 0.5 * self.error(step)
        return max(exact - error, least), exact + error, slack


class Promises:
    """Whether f is where slopes and curvature that were told before say it must be.

    Sites that all answer truthfully on the same rows keep this, whatever their rows. One that
    lies about slopes but not about f, or the other way round, breaks it, masked or not.

    Attributes
    ----------
    kept, broken
        How often f was where it had to be, and how often it was not.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=4, samples=40, width=20, relevant=3)
    >>> engine, promises = fs.LocalEngine(data, "squared"), Promises()
    >>> from fedsparse.engines.run import running
    >>> _ = fs.converse(engine, watched(running(engine, fs.FedSplice(3)), promises))
    >>> promises.kept > 0, promises.broken, promises.notes()
    (True, 0, [])
    """

    def __init__(self) -> None:
        self.kept = self.broken = 0
        self._points: OrderedDict[Hashable, _Point] = OrderedDict()

    def look_at(self, ask: Ask, answers: Answers) -> None:
        """Compare f with what is known, and keep what is told."""
        request, loss, about = ask.request, ask.lens.loss, _about(ask)
        if "objective" not in answers.sums or answers.absent or not answers.is_finite():
            return
        if not isinstance(request, Slopes | Curvature | LocalSteps | Evaluate):
            return
        if request.x.ndim > 1:  # second derivatives of several classes say less about f elsewhere
            return
        if isinstance(request, Evaluate) and not request.is_penalized:
            return
        for kind in (Slopes, Curvature):
            point = self._points.get((kind, about))
            if point is not None:
                self._compare(point, request.x, answers.average("objective"), loss)
        if isinstance(request, Slopes | Curvature):
            self._keep((type(request), about), _point_of(request, loss, answers))

    def _keep(self, key: Hashable, point: "_Point | None") -> None:
        if point is not None:
            self._points[key] = point
            self._points.move_to_end(key)
        while sum(own.size for own in self._points.values()) > _MOST_KEPT:
            self._points.popitem(last=False)

    def _compare(self, point: _Point, x: FloatArray, objective: float, loss: Loss) -> None:
        expected = point.expected(x, loss)
        if expected is None:
            return
        least, largest, slack = expected
        slack += _ROUNDING_OF_SUMS * abs(objective)
        if least - slack <= objective <= largest + slack:
            self.kept += 1
        else:
            self.broken += 1

    def notes(self) -> list[str]:
        """What a reader should know, in sentences."""
        if not self.broken:
            return []
        return [
            f"In {self.broken} of {self.kept + self.broken} cases f was not where the slopes and "
            "second derivatives that sites had told before say it must be: a site is faulty or "
            "lies, or its table changed. With --open-sums it may be found, if all allow them."
        ]


def _about(ask: Ask) -> Hashable:
    """What f is a function of, beside x."""
    weights = ask.weights if isinstance(ask.weights, str) else tuple(np.asarray(ask.weights))
    which = None if ask.which is None else tuple(ask.which.tolist())
    return ask.lens.digest, weights, which


def _point_of(request: Slopes | Curvature, loss: Loss, answers: Answers) -> _Point | None:
    """What is told of f around x; None if too little."""
    x, objective, gradient = request.x, answers.average("objective"), answers.mean("gradient")
    if isinstance(request, Slopes):
        if "diagonal" not in answers.sums:
            return None
        roots = np.sqrt(np.maximum(answers.mean("diagonal"), 0.0) + loss.l2)
        return _Point(x, objective, gradient + loss.l2 * x, roots)
    support = request.support
    if not support.size or (request.known.size and request.units is None):
        return None
    shifts = shifts_of_sums(request, answers)
    (matrix,) = matrices_told(request, answers.mean("hessian"), shifts)
    gradient = gradient + loss.l2 * x[support]
    roots = np.zeros(support.size) if request.units is None else 2.0 * request.units[support]
    roots[matrix.is_new] = matrix.roots
    roots = np.sqrt(roots**2 + loss.l2)
    if request.known.size:
        return _Point(x, objective, gradient, roots, support)
    hessian = matrix.entries * matrix.units * matrix.units[:, None]
    hessian += loss.l2 * np.eye(support.size)
    return _Point(
        x, objective, gradient, roots, support, hessian,
        lambda step: quadratic_error(request, answers, step),
    )  # fmt: skip
