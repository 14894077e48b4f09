"""Second derivatives in eight or sixteen bits an entry.

A client's matrix H = Σ c_r z_r z_rᵀ is parted into C + s μμᵀ, with s = Σ c_r and μ = Σ c_r z_r / s:
where clients' rows lie around centres of their own, what lies between features would otherwise be
lost beside the squares of these. s, μ and the diagonal of C are float32, the correlations of C are
whole numbers of one step, in eight bits from −127 to 127, with a dither that both sides draw from
what was sent: so errors are alike for all entries, and those of several clients cancel. Where most
entries are 0, as on sparse rows, those that are not are listed instead, of H itself.

Features are in units that the server has chosen, so that numbers are about 1.
"""

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedsparse.arrays import BoolArray, FloatArray, Int64Array
from fedsparse.compiling import compiled
from fedsparse.compute.asked_entries import AskedEntries, ClientMatrix
from fedsparse.compute.triangles import triangle_size
from fedsparse.problem.select import nonzero_positions

_NO_DITHER: Final = 127.5
_LAST_BITS: Final = 1e-12
"""Sums may be wrong by so much: what float32 holds is not rounded to its neighbour for that."""

_FEW: Final = 0.5
"""Of entries that are not 0: with their places they are shorter than all entries."""

Codes = NDArray[np.int8] | NDArray[np.int16]
Dither = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class RoundedMatrix:
    """What a client tells of a matrix.

    Attributes
    ----------
    held
        Places of the features that it has, among those asked about.
    mass, mean
        s and μ; nothing if H itself is told.
    spread
        C_jj, or H_jj.
    step
        By which codes are multiplied: correlations.
    pairs
        Which of the asked pairs of two features held, row by row, have a code; None: all.
    codes
        Of these pairs.
    """

    held: Int64Array
    mass: float
    mean: FloatArray
    spread: FloatArray
    step: float
    pairs: Int64Array | None
    codes: Codes

    def is_finite(self) -> bool:
        """Whether it holds neither NaN nor infinity."""
        numbers = (self.spread, self.mean, np.array([self.mass, self.step]))
        return all(bool(np.isfinite(own).all()) for own in numbers)

    @property
    def bytes(self) -> int:
        """Memory."""
        pairs = 0 if self.pairs is None else self.pairs.nbytes
        return self.codes.nbytes + self.spread.nbytes + self.mean.nbytes + pairs

    def variances(self, asked: AskedEntries) -> FloatArray:
        """Of the error of entry (j, k), at most: the root of what is given for j and for k.

        Codes are wrong by a number from −½ to ½, all alike.
        """
        pairs = max(1, triangle_size(self.held.size - 1))
        found = np.zeros(asked.size)
        found[self.held] = (self.step * self.spread) ** 2 / 12.0 * (self.codes.size / pairs)
        return found

    def add_to(self, total: FloatArray, weight: float, asked: AskedEntries) -> None:
        """Add its entries times a weight to a matrix of all features asked about."""
        mean = self.mean if self.mean.size else np.zeros(self.held.size)
        pairs = np.arange(self.codes.size) if self.pairs is None else self.pairs
        _add_decoded(
            total, weight, self.held, asked.is_known[self.held], self.mass, mean, self.spread,
            self.step, pairs, self.codes, _dither(self.mean, self.spread, self.codes.size),
        )  # fmt: skip


def _dither(mean: FloatArray, spread: FloatArray, count: int) -> Dither:
    """The same on both sides: drawn from what travels beside the codes."""
    seed = zlib.crc32(spread.astype("<f4").tobytes(), zlib.crc32(mean.astype("<f4").tobytes()))
    words = np.random.PCG64(seed).random_raw(-(-count // 8))
    return np.asarray(words, dtype="<u8").view(np.uint8)[:count]


def as_rounded(own: ClientMatrix, asked: AskedEntries) -> RoundedMatrix:
    """A client's matrix as it travels.

    Parameters
    ----------
    own
        What it has worked out.
    asked
        Which entries are told.
    """
    assert asked.units is not None
    with np.errstate(all="ignore"):  # units may be absurd; who gets what is not finite sees it
        held, units, is_known = own.held, asked.units[own.held], asked.is_known[own.held]
        diagonal, nowhere = np.diag(own.hessian) / units / units, np.zeros(held.size)
        spread = _single(diagonal)
        raw = _correlations(own.hessian, units, 0.0, nowhere, spread, is_known)
        if np.count_nonzero(raw) < raw.size * _FEW:
            pairs = nonzero_positions(raw)
            step, codes = _coded(raw[pairs], nowhere[:0], spread, asked.bits)
            return RoundedMatrix(held, 0.0, nowhere[:0], spread, step, pairs, codes)
        mass, mean = _centre(own, units)
        centre = mean if mean.size else nowhere
        spread = _single(np.maximum(diagonal - mass * (centre * centre), 0.0))
        values = _correlations(own.hessian, units, mass, centre, spread, is_known)
        step, codes = _coded(values, mean, spread, asked.bits)
        return RoundedMatrix(held, mass, mean, spread, step, None, codes)


def _centre(own: ClientMatrix, units: FloatArray) -> tuple[float, FloatArray]:
    """s and μ in float32; 0 and nothing if no row has a mass.

    The mass is rounded up, and the mean towards 0, so that no C_jj comes out negative.
    """
    mass = np.float32(own.mass)
    if float(mass) < own.mass * (1.0 - _LAST_BITS):
        mass = np.nextafter(mass, np.float32(np.inf))
    if not mass > 0.0:
        return 0.0, np.empty(0)
    exact = own.first / units / float(mass)
    mean = exact.astype(np.float32)
    is_larger = np.abs(mean.astype(np.float64)) > np.abs(exact) * (1.0 + _LAST_BITS)
    mean[is_larger] = np.nextafter(mean[is_larger], np.float32(0.0))
    return float(mass), mean.astype(np.float64)


def largest_code(bits: int) -> int:
    """The largest whole number that stands for a correlation.

    Examples
    --------
    >>> largest_code(8), largest_code(16)
    (127, 32767)
    """
    return int(2 ** (bits - 1) - 1)


def code_type(bits: int) -> "np.dtype[np.signedinteger]":
    """Of so many bits, little-endian."""
    return np.dtype(f"<i{bits // 8}")


def _coded(
    values: FloatArray, mean: FloatArray, spread: FloatArray, bits: int
) -> tuple[float, Codes]:
    """Correlations as whole numbers of a step."""
    largest = largest_code(bits)
    most = max(values.max(initial=0.0), -values.min(initial=0.0))
    step = float(_single(np.array([most / largest]))[0])
    codes = np.zeros(values.size, dtype=code_type(bits))
    if step > 0.0:
        _write_codes(values, step, largest, _dither(mean, spread, values.size), codes)
    return step, codes


def _single(numbers: FloatArray) -> FloatArray:
    """Rounded to float32."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return numbers.astype(np.float32).astype(np.float64)


@compiled
def _correlations(
    hessian: FloatArray,
    units: FloatArray,
    mass: float,
    mean: FloatArray,
    spread: FloatArray,
    is_known: BoolArray,
) -> FloatArray:
    """Of all asked pairs, around a centre, row by row.

    They are cut to ±1: what passes that comes of a centre in float32, and would make for large
    steps.
    """
    size = spread.size
    roots, scale = np.sqrt(spread), 1.0 / units
    values, count = np.zeros(size * (size - 1) // 2), 0
    for row in range(size):
        for column in range(row + 1, size):
            if is_known[row] and is_known[column]:
                continue
            both = roots[row] * roots[column]
            if both > 0.0:
                entry = hessian[row, column] * scale[column] * scale[row]
                own = (entry - mass * (mean[row] * mean[column])) / both
                values[count] = -1.0 if own < -1.0 else 1.0 if own > 1.0 else own
            count += 1
    return values[:count]


@compiled
def _write_codes(
    values: FloatArray, step: float, largest: int, dither: Dither, codes: Codes
) -> None:
    """Round to whole steps, moved by the dither."""
    for place in range(values.size):
        drawn = np.rint(values[place] / step + (dither[place] - _NO_DITHER) / 256.0)
        codes[place] = int(min(max(drawn, -largest), largest))


@compiled
def _add_decoded(
    total: FloatArray,
    weight: float,
    held: Int64Array,
    is_known: BoolArray,
    mass: float,
    mean: FloatArray,
    spread: FloatArray,
    step: float,
    pairs: Int64Array,
    codes: Codes,
    dither: Dither,
) -> None:
    roots = np.sqrt(spread)
    pair, found = 0, 0
    for row in range(held.size):
        if not is_known[row]:
            total[held[row], held[row]] += weight * (spread[row] + mass * mean[row] * mean[row])
        for column in range(row + 1, held.size):
            if is_known[row] and is_known[column]:
                continue
            value = mass * mean[row] * mean[column]
            if found < pairs.size and pairs[found] == pair:
                code = codes[found] - (dither[found] - _NO_DITHER) / 256.0
                value += roots[row] * roots[column] * step * code
                found += 1
            total[held[row], held[column]] += weight * value
            pair += 1
