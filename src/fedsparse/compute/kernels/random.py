"""A counter-based random generator: numbers follow from a key, never from what was drawn before.

The key of a mini-batch is (seed, client, round, step). Threads, engines and resumed runs therefore
draw the same rows. The mixing function is the finalizer of SplitMix64 (Steele, Lea & Flood, 2014).
"""

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.compiling import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


@compiled
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> np.uint64(30))) * _FIRST_FACTOR
    word = (word ^ (word >> np.uint64(27))) * _SECOND_FACTOR
    return word ^ (word >> np.uint64(31))


@compiled
def key(seed: int, client: int, round_: int, step: int) -> np.uint64:
    """Fold the four numbers that identify a draw into one 64-bit key."""
    folded = np.uint64(0)
    for word in (seed, client, round_, step):
        folded = _mix((folded ^ np.uint64(word)) + _GOLDEN)
    return folded


@compiled
def uniform(draw_key: np.uint64, position: int) -> float:
    """The ``position``-th number in [0, 1) of a key."""
    word = _mix(draw_key + np.uint64(position + 1) * _GOLDEN)
    return float(word >> np.uint64(11)) * 2.0**-53


@compiled
def draw(draw_key: np.uint64, permutation: Int64Array, population: int, count: int) -> None:
    """Put ``count`` of ``range(population)``, drawn without replacement, first in ``permutation``.

    A partial Fisher-Yates shuffle. ``permutation`` must hold ``range(population)``;
    `undo_draw` puts it back in that state at a cost of ``count``, not ``population``.
    """
    for position in range(count):
        swap = position + int(uniform(draw_key, position) * (population - position))
        permutation[position], permutation[swap] = permutation[swap], permutation[position]


@compiled
def undo_draw(draw_key: np.uint64, permutation: Int64Array, population: int, count: int) -> None:
    """Take back the swaps of `draw`, in reverse order."""
    for position in range(count - 1, -1, -1):
        swap = position + int(uniform(draw_key, position) * (population - position))
        permutation[position], permutation[swap] = permutation[swap], permutation[position]


@compiled
def sample_without_replacement(
    seed: int, client: int, round_: int, step: int, population: int, count: int
) -> Int64Array:
    """Draw ``count`` distinct numbers below ``population`` for one key, in drawing order."""
    permutation = np.arange(population)
    draw(key(seed, client, round_, step), permutation, population, count)
    return permutation[:count]
