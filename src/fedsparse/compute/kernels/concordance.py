"""How many pairs of survival times a score puts in order."""

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compiling import compiled


def concordant_pairs(signed_times: FloatArray, scores: FloatArray) -> tuple[float, float]:
    """Pairs of rows in which the higher score has the earlier event, and pairs there are.

    A pair counts if the earlier of its times is that of an event; a row that is censored at the
    time of an event outlived it. Equal scores count half.

    Parameters
    ----------
    signed_times
        Of each row, below 0 if it is censored.
    scores
        Of each row, higher for earlier events.

    Examples
    --------
    >>> concordant_pairs(np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.1, 0.9]))
    (1.0, 2.0)
    """
    if scores.size == 0:
        return 0.0, 0.0
    places = np.unique(scores, return_inverse=True)[1].astype(np.int64)
    times, is_event = np.abs(signed_times), signed_times > 0
    # From the last time to the first; of equal times those who were censored come before.
    order = np.lexsort((is_event, -times))
    above, pairs = _counted(times[order], is_event[order], places[order], int(places.max()) + 1)
    return above, pairs


@compiled
def _counted(
    times: FloatArray, is_event: np.ndarray, places: Int64Array, size: int
) -> tuple[float, float]:
    tree = np.zeros(size + 1)  # of Fenwick: how many of the later rows have which score
    later, above, pairs, begin = 0, 0.0, 0.0, 0
    while begin < times.size:
        end = begin
        while end < times.size and times[end] == times[begin] and is_event[end] == is_event[begin]:
            end += 1
        if is_event[begin]:
            for row in range(begin, end):
                below = _sum_to(tree, places[row])
                above += below + 0.5 * (_sum_to(tree, places[row] + 1) - below)
                pairs += later
        for row in range(begin, end):
            _add_at(tree, places[row] + 1)
        later += end - begin
        begin = end
    return above, pairs


@compiled
def _sum_to(tree: FloatArray, place: int) -> float:
    total = 0.0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@compiled
def _add_at(tree: FloatArray, place: int) -> None:
    while place < tree.size:
        tree[place] += 1.0
        place += place & -place
