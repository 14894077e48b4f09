"""The quadratic models that FedSplice searches for a better support.

`ClassModels` has one for each class, which chooses features by itself; a vector of coefficients is
a single class. `SharedModel` has one matrix for all classes: a feature is in or out for each.

Entries of coefficients are numbered class · d + feature.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from fedsparse.algorithms.subset import Quadratic, best_subset, ranked_exchanges
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.stacks import flatten, unflatten
from fedsparse.compute.triangles import from_triangle, triangle_size
from fedsparse.compute.workers import side_by_side
from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import Sparsity, TopK, TopKPerClass, TopKRows, as_sparsity
from fedsparse.requests import Answers, ClassCurvature, Curvature, SharedCurvature, Slopes

_Found = TypeVar("_Found")

_LARGEST_EXPONENT = 120
"""Of a unit: float32 holds it."""

_ALONE = 0.5
"""While all others stay, a class bends less than its matrix says, p (1 − p) in place of
p min(1, 2 (1 − p)), though never less than so."""


class Known(NamedTuple):
    """What is known of f around x, on some features.

    Attributes
    ----------
    x
        Where.
    union
        The features, or entries of x, in increasing order.
    gradient
        ∇f(x) on them, class by class.
    triangles
        What sites told of second derivatives, the ℓ2 term left out.
    bend
        α, by which second derivatives are multiplied: above 1 for steps shorter than the model's.
    l2
        λ.
    rounding
        r: errors of second derivatives (j, k) spread by √(r_j r_k).
    """

    x: FloatArray
    union: Int64Array
    gradient: FloatArray
    triangles: FloatArray
    bend: float
    l2: float
    rounding: FloatArray

    def model(
        self, triangle: FloatArray, x: FloatArray, gradient: FloatArray, rounding: FloatArray
    ) -> Quadratic:
        """½ uᵀHu − bᵀu for entries that are x now; columns of x and ∇f share H."""
        size = x.shape[0]
        lifted = above_rounding(from_triangle(triangle, size), rounding)
        hessian = self.bend * lifted + self.l2 * np.eye(size)
        return Quadratic(hessian, hessian @ x - gradient)


@dataclass(frozen=True)
class Models(ABC):
    """How a constraint parts f into quadratic models.

    Parameters
    ----------
    sparsity
        τ.
    always
        Features that are always kept.
    shape
        Of the coefficients.
    """

    sparsity: int
    always: Int64Array
    shape: tuple[int, ...]

    @property
    def classes(self) -> int:
        """c, or 1 for a vector."""
        return self.shape[1] if len(self.shape) > 1 else 1

    @abstractmethod
    def union(
        self, x: FloatArray, gradient: FloatArray, diagonal: FloatArray, beside: int
    ) -> Int64Array:
        """The support of x, and so many features beside it of largest g² / h."""

    @abstractmethod
    def request(
        self,
        x: FloatArray,
        union: Int64Array,
        known: Int64Array,
        units: FloatArray | None,
        bits: int,
    ) -> Curvature:
        """Ask for the models on these, but for what is known; see `Curvature`."""

    def units(self, diagonal: FloatArray) -> FloatArray:
        """About the root of the diagonal, for the requests."""
        return powers_of_two(diagonal)

    def holds(self, union: Int64Array, x: FloatArray) -> bool:
        """Whether a union has all that x uses."""
        return bool(np.isin(self._places(x), union, assume_unique=True).all()) and union.size > 0

    @abstractmethod
    def on_union(self, matrix: FloatArray, union: Int64Array) -> FloatArray:
        """Entries of coefficients on the union, in the order of the sites' answers."""

    @property
    def most(self) -> int:
        """Entries or features that the constraint allows."""
        return min(self.sparsity, self.shape[0]) * self.classes

    def size_of(self, x: FloatArray) -> int:
        """How many of these x has."""
        return int(np.count_nonzero(x))

    def with_less(self, x: FloatArray, random: np.random.Generator, share: float) -> FloatArray:
        """x without a share, drawn at random, of what it need not keep."""
        loose = x.copy()
        loose[self.always] = 0.0
        places = self._places(loose)
        dropped = random.choice(places, int(np.ceil(share * places.size)), replace=False)
        return self._without(x, dropped)

    def _places(self, x: FloatArray) -> Int64Array:
        return np.flatnonzero(flatten(x))

    def _without(self, x: FloatArray, places: Int64Array) -> FloatArray:
        entries = flatten(x).copy()
        entries[places] = 0.0
        return unflatten(entries, x.shape)

    @abstractmethod
    def lowest(self, known: Known, restarts: int) -> tuple[FloatArray, float]:
        """A good τ-sparse point of the models, and how much lower than x it is by them.

        ``restarts`` says how often to search again from a support of which a part was dropped.
        """

    @abstractmethod
    def lowest_on_support(self, known: Known) -> tuple[FloatArray, float]:
        """The same with no other features than x has."""

    @abstractmethod
    def exchanges(self, known: Known, count: int) -> Iterator[tuple[FloatArray, float]]:
        """Points one exchange away from x that promise most, so many a model, and their gains."""

    def _candidates(self, promise: FloatArray, support: Int64Array, beside: int) -> Int64Array:
        """A support, and features that promise most: enough to fill it, and some beside."""
        support = np.union1d(support, self.always)
        promise = promise.copy()
        promise[support] = 0.0
        room = max(self.sparsity - support.size, 0) + beside
        order = np.argsort(-promise, kind="stable")[:room]
        return np.union1d(support, order[promise[order] > 0])


@dataclass(frozen=True)
class ClassModels(Models):
    """A model for each class."""

    def union(
        self, x: FloatArray, gradient: FloatArray, diagonal: FloatArray, beside: int
    ) -> Int64Array:
        """Of every class, as entries."""
        width = self.shape[0]
        promise = _promise(gradient**2, diagonal).reshape(width, -1)
        columns = x.reshape(width, -1)
        return np.concatenate(
            [
                label * width
                + self._candidates(promise[:, label], np.flatnonzero(columns[:, label]), beside)
                for label in range(self.classes)
            ]
        )

    def request(
        self,
        x: FloatArray,
        union: Int64Array,
        known: Int64Array,
        units: FloatArray | None,
        bits: int,
    ) -> Curvature:
        """Of a single class they are the Hessian itself."""
        kind = Curvature if x.ndim == 1 else ClassCurvature
        return kind(x, union, known, units, bits)

    def on_union(self, matrix: FloatArray, union: Int64Array) -> FloatArray:
        """They are entries."""
        return np.asarray(flatten(matrix)[union])

    def lowest(self, known: Known, restarts: int) -> tuple[FloatArray, float]:
        """The best subset of every class; if that is what x has, the best exchange in one class."""

        def best(own: _OfClass) -> Int64Array:
            return best_subset(
                own.model, self.sparsity, keep=own.keep, start=_support(own.x), restarts=restarts
            )

        moved, gain = self._moved(known, best)
        if self.classes == 1 or not np.array_equal(moved != 0, known.x != 0):
            return moved, gain
        return max([(moved, gain), *self.exchanges(known, 1)], key=lambda found: found[1])

    def lowest_on_support(self, known: Known) -> tuple[FloatArray, float]:
        """Class by class."""
        return self._moved(known, lambda own: _support(own.x))

    def exchanges(self, known: Known, count: int) -> Iterator[tuple[FloatArray, float]]:
        """In one class; the others stay as they are."""
        known = known._replace(bend=known.bend * (_ALONE if self.classes > 1 else 1.0))

        def best(own: _OfClass) -> list[tuple[FloatArray, float]]:
            ranked = ranked_exchanges(own.model, _support(own.x), count, keep=own.keep)
            return [own.moved(chosen) for chosen in ranked]

        for own, found in self._by_class(known, lambda own: (own, best(own))):
            for values, gain in found:
                moved = flatten(known.x).copy()
                moved[own.places] = values
                yield unflatten(moved, self.shape), gain

    def _moved(
        self, known: Known, choose: Callable[["_OfClass"], Int64Array]
    ) -> tuple[FloatArray, float]:
        """The lowest point of every class on the support that is chosen for it."""
        entries, gain = np.zeros(known.x.size), 0.0
        for own, (values, less) in self._by_class(known, lambda own: (own, own.moved(choose(own)))):
            entries[own.places] = values
            gain += less
        return unflatten(entries, self.shape), gain

    def _by_class(self, known: Known, work: Callable[["_OfClass"], _Found]) -> list[_Found]:
        """What is found in each class, several of them at a time."""
        width = self.shape[0]
        members = [np.flatnonzero(known.union // width == label) for label in range(self.classes)]
        ends = np.cumsum([triangle_size(own.size) for own in members])

        def find(label: int) -> _Found:
            own = members[label]
            places = known.union[own]
            triangle = known.triangles[ends[label] - triangle_size(own.size) : ends[label]]
            x = self.on_union(known.x, places)
            model = known.model(triangle, x, known.gradient[own], known.rounding[own])
            keep = np.searchsorted(places, label * width + self.always)
            return work(_OfClass(places, x, model, keep))

        return side_by_side(find, range(self.classes))


@dataclass(frozen=True, eq=False)
class _OfClass:
    """Of a class the entries of its union, x there, the model, and which of them are kept."""

    places: Int64Array
    x: FloatArray
    model: Quadratic
    keep: Int64Array

    def moved(self, chosen: Int64Array) -> tuple[FloatArray, float]:
        """The lowest point on a support, and how much lower it is than x."""
        values = _lowest_on(self.model, self.x, chosen)
        return values, _gain(self.model, self.x, values)


@dataclass(frozen=True)
class SharedModel(Models):
    """One matrix for all classes."""

    def union(
        self, x: FloatArray, gradient: FloatArray, diagonal: FloatArray, beside: int
    ) -> Int64Array:
        """Of all classes together, as features."""
        promise = _promise(np.sum(gradient**2, axis=1), self._shared(diagonal))
        return self._candidates(promise, np.flatnonzero(x.any(axis=1)), beside)

    def request(
        self,
        x: FloatArray,
        union: Int64Array,
        known: Int64Array,
        units: FloatArray | None,
        bits: int,
    ) -> Curvature:
        """One matrix."""
        return SharedCurvature(x, union, known, units, bits)

    def units(self, diagonal: FloatArray) -> FloatArray:
        """Of the features."""
        return powers_of_two(self._shared(diagonal))

    def _shared(self, diagonal: FloatArray) -> FloatArray:
        """The mean of p (1 − p) c / (c − 1), as `SharedCurvature` weighs rows."""
        return np.asarray(diagonal.sum(axis=1) / (self.classes - 1))

    def on_union(self, matrix: FloatArray, union: Int64Array) -> FloatArray:
        """All classes of the features, class by class."""
        return flatten(matrix[union])

    def _places(self, x: FloatArray) -> Int64Array:
        return np.flatnonzero(x.any(axis=1))

    def _without(self, x: FloatArray, places: Int64Array) -> FloatArray:
        rest = x.copy()
        rest[places] = 0.0
        return rest

    @property
    def most(self) -> int:
        """Features."""
        return min(self.sparsity, self.shape[0])

    def size_of(self, x: FloatArray) -> int:
        """Features that any class uses."""
        return int(np.count_nonzero(x.any(axis=1)))

    def lowest(self, known: Known, restarts: int) -> tuple[FloatArray, float]:
        """The best subset for all classes."""
        x, model, keep = self._of_all(known)
        chosen = best_subset(model, self.sparsity, keep=keep, start=_support(x), restarts=restarts)
        return self._moved(known, chosen)

    def lowest_on_support(self, known: Known) -> tuple[FloatArray, float]:
        """For all classes."""
        return self._moved(known, _support(known.x[known.union]))

    def exchanges(self, known: Known, count: int) -> Iterator[tuple[FloatArray, float]]:
        """For all classes."""
        x, model, keep = self._of_all(known)
        for chosen in ranked_exchanges(model, _support(x), count, keep=keep):
            yield self._moved(known, chosen)

    def _moved(self, known: Known, chosen: Int64Array) -> tuple[FloatArray, float]:
        x, model, _ = self._of_all(known)
        moved = np.zeros(self.shape, order="F")
        moved[known.union] = _lowest_on(model, x, chosen)
        return moved, _gain(model, x, moved[known.union])

    def _of_all(self, known: Known) -> tuple[FloatArray, Quadratic, Int64Array]:
        """x on the union, the model, and which features are kept."""
        x = known.x[known.union]
        gradient = unflatten(known.gradient, x.shape)
        model = known.model(known.triangles, x, gradient, known.rounding)
        return x, model, np.searchsorted(known.union, self.always)


def models_of(sparsity: int | Sparsity, shape: tuple[int, ...]) -> Models:
    """The models that a constraint asks for.

    Examples
    --------
    >>> type(models_of(5, (100,))).__name__, type(models_of(TopKRows(5), (100, 3))).__name__
    ('ClassModels', 'SharedModel')
    """
    constraint = as_sparsity(sparsity, shape)
    is_vector = len(shape) == 1
    if not isinstance(constraint, TopKPerClass | TopKRows) and not (
        is_vector and isinstance(constraint, TopK)
    ):
        raise OptionError(
            f"FedSplice cannot keep to {type(constraint).__name__}"
            f"{'' if is_vector else ' for several classes'}; use a number, "
            f"{'TopK' if is_vector else 'TopKPerClass or TopKRows'}, or FedIterHT"
        )
    threshold = TopK(constraint.sparsity, constraint.keep).column_threshold(shape[:1])
    assert threshold is not None
    kind = SharedModel if isinstance(constraint, TopKRows) and not is_vector else ClassModels
    return kind(constraint.sparsity, threshold.always, shape)


def powers_of_two(diagonal: FloatArray) -> FloatArray:
    """The powers of two next to the roots of second derivatives; 1 where there is none.

    Dividing by them loses no digit, and they are short to send.

    Examples
    --------
    >>> powers_of_two(np.array([16.0, 0.3, 0.0]))
    array([4. , 0.5, 1. ])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.rint(np.log2(diagonal) / 2.0)
    is_usual = np.isfinite(exponents) & (np.abs(exponents) <= _LARGEST_EXPONENT)
    return np.exp2(np.where(is_usual, exponents, 0.0))


def above_rounding(hessian: FloatArray, rounding: FloatArray) -> FloatArray:
    """A matrix above the one that was rounded: its diagonal is raised by as much as errors may be.

    The largest eigenvalue of a symmetric matrix of errors that spread alike is about 2 √size times
    their spread. What lies above f leads to a lower f.

    Parameters
    ----------
    hessian
        As it was told.
    rounding
        As in `Known`; 0: it is taken as it is.

    Examples
    --------
    >>> above_rounding(np.array([[1.0, 0.5], [0.5, 4.0]]), np.zeros(2))
    array([[1. , 0.5],
           [0.5, 4. ]])
    """
    return hessian + np.diag(2.0 * np.sqrt(hessian.shape[0]) * rounding)


def matrix_told(
    request: Curvature | Slopes, told: FloatArray, known: FloatArray | None = None
) -> FloatArray:
    """Upper triangles of the matrices that sites told of, in the features' own units.

    Parameters
    ----------
    request
        What was asked.
    told
        The mean of the entries that it asks for.
    known
        The upper triangle of what was known before.
    """
    triangles, begin = [], 0
    for block in request.matrices().blocks:
        matrix = np.zeros((block.size, block.size))
        if known is not None:
            places = np.flatnonzero(block.is_known)
            matrix[np.ix_(places, places)] = from_triangle(known, places.size)
        entries = told[begin : begin + block.count]
        if block.units is not None:
            entries = entries * np.outer(block.units, block.units)[block.mask]
        matrix[block.mask] = entries
        triangles.append(matrix[np.triu_indices(block.size)])
        begin += block.count
    return np.concatenate(triangles)


def rounding_told(request: Curvature | Slopes, answers: Answers) -> FloatArray:
    """By how much matrices were rounded, in the features' own units; see `Known`."""
    blocks = request.matrices().blocks
    if "hessian_rounding" not in answers.sums:
        return np.zeros(sum(block.size for block in blocks))
    units = np.concatenate([np.ones(0) if own.units is None else own.units for own in blocks])
    return np.asarray(answers.mean("hessian_rounding") * units**2)


def part_of_triangle(triangle: FloatArray, features: Int64Array, part: Int64Array) -> FloatArray:
    """The upper triangle on some of the features.

    Examples
    --------
    >>> part_of_triangle(np.array([1.0, 2.0, 3.0]), np.array([4, 7]), np.array([7]))
    array([3.])
    """
    places = np.searchsorted(features, part)
    matrix = from_triangle(triangle, features.size)[np.ix_(places, places)]
    return np.asarray(matrix[np.triu_indices(part.size)])


def newton_point(
    x: FloatArray, support: Int64Array, gradient: FloatArray, hessian: FloatArray
) -> tuple[FloatArray, float]:
    """The lowest point of the exact model on entries of x, and how much lower it is.

    Examples
    --------
    >>> newton_point(np.array([1.0, 0.0]), np.array([0]), np.array([2.0]), np.array([[4.0]]))
    (array([0.5, 0. ]), 0.5)
    """
    if support.size == 0:
        return x, 0.0
    moved = flatten(x).copy()
    own = moved[support]
    model = Quadratic(hessian, hessian @ own - gradient)
    moved[support] = _lowest_on(model, own, np.arange(support.size))
    return unflatten(moved, x.shape), _gain(model, own, moved[support])


def _support(x: FloatArray) -> Int64Array:
    """Rows that are not zero."""
    return np.flatnonzero(np.atleast_2d(x.T).any(axis=0))


def _lowest_on(model: Quadratic, x: FloatArray, chosen: Int64Array) -> FloatArray:
    """The lowest point on a support; without curvature a feature stays as it is."""
    moved = np.zeros_like(x)
    moved[chosen] = x[chosen]
    curved = chosen[model.scale[chosen] > 0]
    moved[curved] = model.minimizer(curved)
    return moved


def _gain(model: Quadratic, x: FloatArray, moved: FloatArray) -> float:
    """How much lower the model is at another point."""
    step = moved - x
    gradient = model.hessian @ x - model.linear
    return -float(np.sum(step * (gradient + 0.5 * model.hessian @ step)))


def _promise(squares: FloatArray, curvature: FloatArray) -> FloatArray:
    """g² / h: twice of what a feature gains by itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(curvature > 0, squares / curvature, 0.0)
