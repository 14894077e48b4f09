"""Means and variances of columns, worked out where the rows are and merged by the server."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedsparse.arrays import FloatArray
from fedsparse.data.federated import Features, FederatedData


@dataclass(frozen=True, eq=False)
class Moments:
    """What a site tells of its columns.

    Attributes
    ----------
    mass
        How many rows it has, or what they weigh together.
    mean, variance
        Of every column; the variance is that of the rows at hand (divided by their number).
    target
        Mean of the target; 0 if it stands for classes.
    """

    mass: float
    mean: FloatArray
    variance: FloatArray
    target: float = 0.0


def moments_of(site: FederatedData, *, with_target: bool = False) -> Moments:
    """Moments of one site's rows, weighted as they are.

    Parameters
    ----------
    site
        One client.
    with_target
        Whether the target is a number whose mean is of interest.

    Examples
    --------
    >>> site = FederatedData.from_clients([([[1.0, 0.0], [3.0, 0.0]], [0.0, 1.0])])
    >>> found = moments_of(site)
    >>> found.mean.tolist(), found.variance.tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """
    weights = np.ones(site.samples) if site.row_weights is None else site.row_weights
    shares = weights / weights.sum()
    mean = _weighted_sum(site.features, shares)
    target = float(np.average(site.targets, weights=site.row_weights)) if with_target else 0.0
    return Moments(float(weights.sum()), mean, _variance(site.features, mean, shares), target)


def merged(moments: Sequence[Moments]) -> Moments:
    """Moments of all sites' rows together, from the sites' moments alone.

    Examples
    --------
    >>> parts = [Moments(1.0, np.array([0.0]), np.array([0.0])),
    ...          Moments(3.0, np.array([4.0]), np.array([0.0]))]
    >>> merged(parts).mean.tolist(), merged(parts).variance.tolist()
    ([3.0], [3.0])
    """
    mass = sum(part.mass for part in moments)
    mean = sum((part.mass / mass * part.mean for part in moments), np.zeros(1))
    variance = sum(
        (part.mass / mass * (part.variance + (part.mean - mean) ** 2) for part in moments),
        np.zeros(1),
    )
    masses = [part.mass for part in moments]
    target = float(np.average([part.target for part in moments], weights=masses))
    return Moments(mass, mean, variance, target)


def federated_moments(data: FederatedData, *, with_target: bool = False) -> Moments:
    """Moments of all rows, site by site.

    Examples
    --------
    >>> data = FederatedData.from_table([[1.0], [2.0], [6.0]], [0, 1, 0], ["a", "b", "b"])
    >>> federated_moments(data).mean.tolist()
    [3.0]
    """
    sites = [data.client(place) for place in range(len(data))]
    return merged([moments_of(site, with_target=with_target) for site in sites])


def _weighted_sum(features: Features, shares: FloatArray) -> FloatArray:
    # Row by row in a fixed order, without a copy in float64 of float32 data.
    if isinstance(features, sparse.csr_array):
        return np.asarray(features.T.astype(np.float64) @ shares)
    return np.asarray(np.einsum("ij,i->j", features, shares))


def _variance(features: Features, mean: FloatArray, shares: FloatArray) -> FloatArray:
    if not isinstance(features, sparse.csr_array):
        deviations = features - mean
        return np.asarray(np.einsum("ij,ij,i->j", deviations, deviations, shares))
    stored = features.tocoo()
    row, column = stored.coords
    own = shares[row]
    deviations = stored.data - mean[column]
    width = features.shape[1]
    of_stored = np.bincount(column, weights=own * deviations**2, minlength=width)
    share_of_stored = np.bincount(column, weights=own, minlength=width)
    return np.asarray(of_stored + np.maximum(1.0 - share_of_stored, 0.0) * mean**2)
