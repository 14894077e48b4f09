"""Sparsity constraints and their projections.

`TopK` is the paper's H_τ. Each constraint is one small class with ``project``; algorithms call
nothing else, so a new constraint is one class here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count
from fedsparse.errors import OptionError
from fedsparse.problem.select import keep_largest


def hard_threshold(x: ArrayLike, sparsity: int) -> FloatArray:
    """Keep the entries of largest magnitude and set the others to zero.

    Parameters
    ----------
    x
        A vector, or a matrix taken as one vector in row order.
    sparsity
        τ: exactly min(τ, size) entries are kept; a tie goes to the lower index.

    Examples
    --------
    >>> hard_threshold([3.0, -5.0, 1.0, 3.0], 2)
    array([ 3., -5.,  0.,  0.])
    """
    vector = np.asarray(x, dtype=np.float64)
    check_count("sparsity", sparsity)
    kept = min(int(sparsity), vector.size)
    result = np.zeros(vector.size)
    keep_largest(np.ascontiguousarray(vector).ravel(), kept, result)
    return result.reshape(vector.shape)


@dataclass(frozen=True)
class ColumnThreshold:
    """A projection that compiled loops can do: the largest entries of every class."""

    kept: int
    always: Int64Array


class Sparsity(ABC):
    """A constraint on x with a projection onto it."""

    @abstractmethod
    def project(self, x: FloatArray) -> FloatArray:
        """The closest x that satisfies the constraint."""

    def column_threshold(self, shape: tuple[int, ...]) -> ColumnThreshold | None:
        """How compiled loops do this projection, or None if they cannot."""
        return None


@dataclass(frozen=True)
class TopK(Sparsity):
    """Keep τ entries of x: the paper's H_τ.

    Parameters
    ----------
    sparsity
        τ. On a (d, c) matrix it counts entries over all classes together.
    keep
        Features that are always kept, whatever their size; they count towards τ. In a matrix that
        is all their entries.

    Examples
    --------
    >>> TopK(2).project(np.array([1.0, -3.0, 2.0]))
    array([ 0., -3.,  2.])
    >>> TopK(2, keep=[0]).project(np.array([1.0, -3.0, 2.0]))
    array([ 1., -3.,  0.])
    """

    sparsity: int
    keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_count("sparsity", self.sparsity)

    def project(self, x: FloatArray) -> FloatArray:
        """Keep exactly min(τ, size) entries; a tie goes to the lower index."""
        always = _kept_features(self.keep, x.shape[0])
        classes = 1 if x.ndim == 1 else x.shape[1]
        return _project_rest(x, always, self.sparsity, classes * always.size)

    def column_threshold(self, shape: tuple[int, ...]) -> ColumnThreshold | None:
        """The same, for vectors."""
        if len(shape) > 1:
            return None
        return _column_threshold(self.sparsity, self.keep, shape[0])


@dataclass(frozen=True)
class TopKPerClass(Sparsity):
    """Keep τ entries of every class of a (d, c) matrix, the paper's constraint for softmax.

    Parameters are those of `TopK`; τ counts entries of one class.

    Examples
    --------
    >>> TopKPerClass(1).project(np.array([[1.0, 5.0], [-2.0, 4.0]]))
    array([[ 0.,  5.],
           [-2.,  0.]])
    """

    sparsity: int
    keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_count("sparsity", self.sparsity)

    def project(self, x: FloatArray) -> FloatArray:
        """Apply `TopK` to each column."""
        of_one_class = TopK(self.sparsity, self.keep)
        if x.ndim == 1:
            return of_one_class.project(x)
        result = np.empty_like(x)
        for label in range(x.shape[1]):
            result[:, label] = of_one_class.project(x[:, label])
        return result

    def column_threshold(self, shape: tuple[int, ...]) -> ColumnThreshold | None:
        """The same."""
        return _column_threshold(self.sparsity, self.keep, shape[0])


@dataclass(frozen=True)
class TopKRows(Sparsity):
    """Keep τ features for all classes together: the τ rows of a (d, c) matrix of largest ℓ2 norm.

    Parameters are those of `TopK`; τ counts features, each of them in or out for every class.

    Examples
    --------
    >>> TopKRows(1).project(np.array([[1.0, 5.0], [-2.0, 4.0]]))
    array([[1., 5.],
           [0., 0.]])
    """

    sparsity: int
    keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_count("sparsity", self.sparsity)

    def project(self, x: FloatArray) -> FloatArray:
        """Keep exactly min(τ, d) rows; a tie goes to the lower index."""
        always = _kept_features(self.keep, x.shape[0])
        norms = _group_norms(x, np.arange(x.shape[0]))
        kept = _project_rest(norms, always, self.sparsity, always.size) != 0
        result = np.zeros_like(x)
        result[kept] = x[kept]
        return result

    def column_threshold(self, shape: tuple[int, ...]) -> ColumnThreshold | None:
        """The same, for vectors."""
        if len(shape) > 1:
            return None
        return _column_threshold(self.sparsity, self.keep, shape[0])


@dataclass(frozen=True)
class TopKGroups(Sparsity):
    """Keep the τ groups of features with the largest ℓ2 norm.

    Parameters
    ----------
    groups
        One group label per feature.
    sparsity
        τ: how many groups are kept; a tie goes to the group that begins at the lower index.
    keep
        Labels of groups that are always kept; they count towards τ.

    Examples
    --------
    >>> TopKGroups(["a", "a", "b"], 1).project(np.array([2.0, 2.0, -2.5]))
    array([2., 2., 0.])
    """

    groups: Sequence[object]
    sparsity: int
    keep: Sequence[object] = ()
    _members: Int64Array = field(init=False, repr=False, compare=False)
    _always: Int64Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_count("sparsity", self.sparsity)
        numbers = {label: number for number, label in enumerate(dict.fromkeys(self.groups))}
        for label in self.keep:
            if label not in numbers:
                raise OptionError(f"group {label!r} in keep is not among the groups")
        members = np.array([numbers[label] for label in self.groups], dtype=np.int64)
        always = np.array([numbers[label] for label in self.keep], dtype=np.int64)
        object.__setattr__(self, "_members", members)
        object.__setattr__(self, "_always", np.unique(always))

    def project(self, x: FloatArray) -> FloatArray:
        """Keep whole groups, set the others to zero."""
        if self._members.size != x.shape[0]:
            raise OptionError(
                f"groups names {self._members.size} features, the data have {x.shape[0]}"
            )
        norms = _group_norms(x, self._members)
        kept = _project_rest(norms, self._always, self.sparsity, self._always.size) != 0
        result = np.zeros_like(x)
        survivors = kept[self._members]
        result[survivors] = x[survivors]
        return result


@dataclass(frozen=True)
class LowRank(Sparsity):
    """Keep the largest singular values of a (d, c) coefficient matrix.

    Parameters
    ----------
    rank
        r: how many singular values are kept.
    keep
        Features whose row is left as it is and takes no part in the decomposition.

    Examples
    --------
    >>> LowRank(1).project(np.diag([3.0, 1.0]))
    array([[3., 0.],
           [0., 0.]])
    """

    rank: int
    keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        check_count("rank", self.rank)

    def project(self, x: FloatArray) -> FloatArray:
        """Truncate the singular value decomposition."""
        if x.ndim != 2:
            raise OptionError('LowRank needs a matrix of coefficients; use it with loss="softmax"')
        if not np.isfinite(x).all():
            return x  # left to the run, which stops and says so
        rest = np.ones(x.shape[0], dtype=bool)
        rest[_kept_features(self.keep, x.shape[0])] = False
        result = x.copy()
        left, singular, right = np.linalg.svd(x[rest], full_matrices=False)
        result[rest] = (left[:, : self.rank] * singular[: self.rank]) @ right[: self.rank]
        return result


def as_sparsity(sparsity: int | Sparsity, shape: tuple[int, ...]) -> Sparsity:
    """The constraint a number stands for: τ entries, or τ per class for a matrix.

    Examples
    --------
    >>> as_sparsity(5, (100,)), as_sparsity(5, (100, 3))
    (TopK(sparsity=5, keep=()), TopKPerClass(sparsity=5, keep=()))
    """
    if isinstance(sparsity, Sparsity):
        return sparsity
    return TopK(sparsity) if len(shape) == 1 else TopKPerClass(sparsity)


def _group_norms(x: FloatArray, members: Int64Array) -> FloatArray:
    """ℓ2 norm of each group of rows, scaled by powers of two so that no square leaves the range."""
    rows = x.reshape(x.shape[0], -1)
    largest = np.zeros(int(members.max()) + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        np.maximum.at(largest, members, np.abs(rows).max(axis=1))
        exponents = np.frexp(largest)[1]
        scaled = np.ldexp(rows, -exponents[members][:, None])
        energy = np.bincount(members, weights=np.square(scaled).sum(axis=1))
        return np.ldexp(np.sqrt(energy), exponents)


def _kept_features(keep: Sequence[int], width: int) -> Int64Array:
    always = np.unique(np.asarray(keep))
    if always.size and always.dtype.kind not in "iu":
        raise OptionError(f"keep must list features by whole numbers, not {always[0]!r}")
    strangers = always[(always < 0) | (always >= width)]
    if strangers.size:
        raise OptionError(f"keep names feature {strangers[0]}, but they go from 0 to {width - 1}")
    return always.astype(np.int64)


def _column_threshold(sparsity: int, keep: Sequence[int], width: int) -> ColumnThreshold:
    always = _kept_features(keep, width)
    _check_room(always.size, sparsity)
    return ColumnThreshold(min(sparsity, width), always)


def _check_room(always: int, sparsity: int, hint: str = ";") -> None:
    if always > sparsity:
        raise OptionError(
            f"keep names {always} coefficients, more than the {sparsity} that may be kept{hint} "
            "raise sparsity"
        )


def _project_rest(x: FloatArray, always: Int64Array, sparsity: int, taken: int) -> FloatArray:
    """Keep the listed rows of ``x`` and the largest of the other entries, ``sparsity`` in all."""
    in_all_classes = " of all classes together; use TopKPerClass or"
    _check_room(taken, sparsity, in_all_classes if taken > always.size else ";")
    if always.size == 0:
        return hard_threshold(x, sparsity)
    rest = x.copy()
    rest[always] = 0.0
    result = np.zeros_like(x) if taken == sparsity else hard_threshold(rest, sparsity - taken)
    result[always] = x[always]
    return result
