"""Second derivatives as sites tell them: relative to units, without what is known, and rounded."""

import math
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import BoolArray, FloatArray
from fedsparse.compute.asked_entries import AskedEntries
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.rounded_matrix import RoundedMatrix
from fedsparse.compute.stacks import Stack
from fedsparse.requests import Answers, Curvature, Slopes
from fedsparse.requests.fixed_point import SHORT

_SINGLE = 3e-7
"""Share by which sums over rows may be wrong where a mean, a mass or a slope is a float32."""

_EDGE = 4.0
"""Steps by which the largest eigenvalue of rounding errors may pass what it is on average."""

_UNDERFLOW = 1e-200

_UNDERFLOW_OF_SINGLES = 1e-35


@dataclass(frozen=True, eq=False)
class ToldMatrix:
    """What an answer tells of a matrix: its entries between features that were not known.

    Attributes
    ----------
    is_new
        Of each feature asked about whether it was not known.
    units
        Of the new features; entries are relative to them.
    entries
        Of the new features.
    shift
        What the diagonal must be raised by, at most, to make up for rounding.
    is_short
        Whether slopes, means and masses are float32.
    """

    is_new: BoolArray
    units: FloatArray
    entries: FloatArray
    shift: FloatArray
    is_short: bool

    @property
    def roots(self) -> FloatArray:
        """Of the second derivatives by one feature, in its own units."""
        return np.asarray(self.units * np.sqrt(np.maximum(np.diag(self.entries), 0.0)))

    def is_negative(self) -> bool:
        """Whether a second derivative by one feature is below 0."""
        return bool((np.diag(self.entries) < -self.shift).any())

    def is_semidefinite(self, rounding: float) -> bool:
        """Whether no direction bends down."""
        return self._is_semidefinite(self.entries, self.shift, rounding)

    def holds_slopes(self, residuals: float, slopes: FloatArray, rounding: float) -> bool:
        """Whether it stays so with residuals as one feature more, of which slopes are products."""
        own = (slopes / self.units)[None]
        extended = np.block([[np.array([[residuals]]), own], [own.T, self.entries]])
        shift = np.concatenate([[0.0], self.shift])
        return self._is_semidefinite(extended, shift, rounding)

    def _is_semidefinite(self, matrix: FloatArray, shift: FloatArray, rounding: float) -> bool:
        if self.is_short:
            rounding += _SINGLE * self.shift.size
        smallest = _UNDERFLOW_OF_SINGLES if self.is_short else _UNDERFLOW
        return _is_semidefinite(matrix, shift, rounding, smallest)


def matrices_told(
    request: Slopes | Curvature, told: FloatArray, shifts: FloatArray
) -> list[ToldMatrix]:
    """The matrices of an answer.

    Parameters
    ----------
    request
        What was asked.
    told
        Entries, one matrix after the other.
    shifts
        As in `ToldMatrix`, of all features of all matrices.
    """
    if not request.support.size:
        return []
    blocks = request.matrices().blocks
    ends = np.cumsum([block.count for block in blocks])
    sizes = np.cumsum([block.size for block in blocks])
    parts = zip(blocks, np.split(told, ends[:-1]), np.split(shifts, sizes[:-1]), strict=True)
    return [_matrix(block, entries, shift) for block, entries, shift in parts]


def _matrix(block: AskedEntries, told: FloatArray, shift: FloatArray) -> ToldMatrix:
    matrix = np.zeros((block.size, block.size))
    matrix[block.mask] = told
    is_new = ~block.is_known
    own = matrix[np.ix_(is_new, is_new)]
    units = np.ones(block.size) if block.units is None else block.units
    entries = own + np.triu(own, 1).T
    return ToldMatrix(is_new, units[is_new], entries, shift[is_new], block.units is not None)


def shifts_of_one(request: Slopes | Curvature, hessian: Stack) -> FloatArray:
    """What makes up for rounding in the matrices of one site, of all features of all matrices."""
    blocks = request.matrices().blocks
    if not isinstance(hessian, RoundedStack):
        return np.zeros(sum(block.size for block in blocks))
    (client,) = hessian.written
    both = zip(client, blocks, strict=True)
    return np.concatenate([_shift(own, block) for own, block in both])


def _shift(own: RoundedMatrix, block: AskedEntries) -> FloatArray:
    """Errors are S^½ N S^½ with N's entries within half a step: N + largest · 1 is not negative."""
    size = own.held.size
    surely = 0.51 * max(size - 1, 0)
    largest = own.step * min(surely, 2.0 * math.sqrt(size / 12.0) + _EDGE)
    shift = np.zeros(block.size)
    shift[own.held] = largest * own.spread
    return shift


def shifts_of_sums(request: Slopes | Curvature, answers: Answers) -> FloatArray:
    """The same of means over sites.

    Where most entries are 0, errors may all be those of few features: by spreads alone nobody
    knows, so the largest eigenvalue is bounded for the worst of these cases.
    """
    blocks = request.matrices().blocks
    sizes = np.concatenate([np.full(block.size, block.size) for block in blocks])
    if "hessian_rounding" in answers.sums:
        return np.asarray(2.0 * sizes * answers.mean("hessian_rounding"))
    return sizes * short_error(request, answers)


def short_error(request: Slopes | Curvature, answers: Answers) -> float:
    """By how much an entry of a mean may be wrong that was added up as short integers."""
    if request.units is None or "hessian_rounding" in answers.sums:
        return 0.0
    return float(np.ldexp(0.5 * answers.count, -SHORT.fraction)) / answers.weight


def quadratic_error(request: Slopes | Curvature, answers: Answers, step: FloatArray) -> float:
    """By how much stepᵀ H step may be wrong at most, on all features of a single matrix."""
    (block,) = request.matrices().blocks
    if block.units is None:
        return 0.0
    own = np.abs(step) * block.units
    if "hessian_rounding" in answers.sums:
        return 6.0 * own.size * float(answers.mean("hessian_rounding") @ own**2)
    return short_error(request, answers) * float(own.sum()) ** 2


def _is_semidefinite(
    matrix: FloatArray, shift: FloatArray, rounding: float, smallest: float
) -> bool:
    """Up to rounding, whatever the scales of its rows; one that is not finite is not judged."""
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        return True
    diagonal = np.diag(matrix)
    known = np.flatnonzero(diagonal > np.maximum(smallest, shift * 1e-6))
    roots = np.sqrt(diagonal[known])
    scaled = matrix[np.ix_(known, known)] / roots[:, None] / roots
    scaled[np.diag_indices(known.size)] += rounding + shift[known] / diagonal[known]
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True
