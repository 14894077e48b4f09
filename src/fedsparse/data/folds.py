"""Folds and halves of every site's own rows."""

import numpy as np

from fedsparse.arrays import BoolArray, Int64Array
from fedsparse.data.federated import FederatedData


def folds_within_sites(
    data: FederatedData, folds: int, *, seed: int = 0, by_class: bool = False
) -> Int64Array:
    """A fold for every row, each site's rows spread evenly over the folds.

    A site can do this by itself: it needs the seed and its place in the federation, no more.

    Parameters
    ----------
    data
        The sites.
    folds
        How many.
    seed
        Fixes the draw.
    by_class
        Spread the rows of every class evenly, too.

    Examples
    --------
    >>> data = FederatedData.from_clients([([[1.0]] * 4, [0, 0, 1, 1]), ([[1.0]] * 2, [0, 1])])
    >>> folds_within_sites(data, 2, by_class=True).tolist()
    [0, 1, 0, 1, 1, 0]
    """
    result = np.empty(data.samples, dtype=np.int64)
    for place in range(len(data)):
        rows = np.arange(data.pointer[place], data.pointer[place + 1])
        identity = int(data.identities[place])
        order = np.random.default_rng([seed, identity]).permutation(rows.size)
        if by_class:
            order = order[np.argsort(data.targets[rows][order], kind="stable")]
        # Sites begin at different folds: small ones would all miss the last otherwise.
        result[rows[order]] = (np.arange(rows.size) + identity) % folds
    return result


def half_of_every_site(data: FederatedData, *, seed: int, by_class: bool) -> BoolArray:
    """A random half of the rows of every site; the others are the other half.

    Examples
    --------
    >>> data = FederatedData.from_clients([([[1.0]] * 4, [0, 0, 1, 1])])
    >>> int(half_of_every_site(data, seed=0, by_class=True).sum())
    2
    """
    return np.asarray(folds_within_sites(data, 2, seed=seed, by_class=by_class) == 0)
