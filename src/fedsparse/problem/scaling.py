"""How raw features become those that a model is fitted on: filled, centred, scaled."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.problem.federated import Features, FederatedData

FEW_HOLES = 5
"""Fewer missing values of a feature than this are filled by a client with its own mean: with two
fills of somebody else's choice, sums would differ by just the rows that have the holes."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """How raw features become those that a model is fitted on.

    Attributes
    ----------
    mean, scale
        A feature becomes (feature − mean) / scale.
    intercept
        Value of a last column added for the intercept; 0: no such column.
    offset
        Taken from the targets of a regression, and given back to the intercept.
    fill
        What stands for a missing value, feature by feature; None: nothing is missing. Where a
        client misses a few values of a feature only, the mean of its others does instead.
    """

    mean: FloatArray
    scale: FloatArray
    intercept: float
    offset: float = 0.0
    fill: FloatArray | None = None

    @property
    def columns(self) -> int:
        """Features after scaling, the intercept's column among them."""
        return self.mean.size + (self.intercept != 0.0)

    def apply(self, features: Features) -> Features:
        """Standardized features, and the intercept's column.

        Examples
        --------
        >>> Scaling(np.array([1.0]), np.array([2.0]), 1.0).apply(np.array([[5.0]]))
        array([[2., 1.]])
        """
        if isinstance(features, sparse.csr_array):
            return self._apply_to_sparse(features)
        width = features.shape[1]
        scaled = np.empty((features.shape[0], self.columns), features.dtype)
        known = features if self.fill is None else self._filled(features)
        np.subtract(known, self.mean, out=scaled[:, :width], casting="same_kind")
        np.divide(scaled[:, :width], self.scale, out=scaled[:, :width], casting="same_kind")
        scaled[:, width:] = self.intercept
        return scaled

    def scaled(
        self, data: FederatedData, few: int = FEW_HOLES, every: Int64Array | None = None
    ) -> FederatedData:
        """Data to fit on.

        Parameters
        ----------
        data
            Rows as they are.
        few
            Fewer holes of a feature than this are a client's own to fill.
        every
            Holes of clients by feature, in all of their rows; None: these are all rows.
        """
        targets = data.targets - self.offset if self.offset else data.targets
        features = data.features
        if self.fill is not None and not isinstance(features, sparse.csr_array):
            features = with_few_holes_filled(features, data.pointer, few, every)
        return replace(data, features=self.apply(features), targets=targets)

    def _filled(self, features: AnyArray) -> AnyArray:
        assert self.fill is not None
        return np.where(np.isnan(features), self.fill.astype(features.dtype), features)

    def _apply_to_sparse(self, features: sparse.csr_array) -> sparse.csr_array:
        values = (features.data / self.scale[features.indices]).astype(features.dtype)
        scaled = sparse.csr_array((values, features.indices, features.indptr), features.shape)
        if self.intercept == 0.0:
            return scaled
        column = np.full((features.shape[0], 1), self.intercept, features.dtype)
        return sparse.csr_array(sparse.hstack([scaled, sparse.csr_array(column)], format="csr"))

    def on_original_scale(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the raw features, and the intercept, of standardized ones.

        Examples
        --------
        >>> scaling = Scaling(np.array([1.0]), np.array([2.0]), 10.0)
        >>> [part.tolist() for part in scaling.on_original_scale(np.array([6.0, 0.5]))]
        [[3.0], [2.0]]
        """
        width = self.scale.size
        coefficients = (x[:width].T / self.scale).T
        own = self.intercept * x[width:].sum(axis=0)
        intercept = own - self.mean @ coefficients + self.offset
        return coefficients, np.atleast_1d(intercept)


def holes_of(data: FederatedData) -> Int64Array | None:
    """How many values clients miss, by feature; None for sparse features, which miss none."""
    if isinstance(data.features, sparse.csr_array):
        return None
    is_missing = np.isnan(data.features).astype(np.int64)
    return np.asarray(np.add.reduceat(is_missing, data.pointer[:-1], axis=0))


def with_few_holes_filled(
    features: AnyArray, pointer: Int64Array, few: int, every: Int64Array | None = None
) -> AnyArray:
    """Features in which a client has filled its holes where they are few.

    Or where all but a few are among these rows: the others would show by what is missing here.

    Parameters
    ----------
    features
        Rows, what is missing being NaN.
    pointer
        Where each client's rows begin.
    few
        Fewer holes of a feature than this are few, as long as some value is known.
    every
        Holes of clients by feature, in all of their rows; None: these are all rows.

    Examples
    --------
    >>> rows = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    >>> with_few_holes_filled(rows, np.array([0, 3]), few=2)
    array([[ 1., nan],
           [ 3., nan],
           [ 2., nan]])
    """
    is_missing = np.isnan(features)
    if not is_missing.any():
        return features
    filled = features.copy()
    for client, (begin, end) in enumerate(pairwise(pointer)):
        holes = is_missing[begin:end].sum(axis=0)
        elsewhere = 0 if every is None else every[client] - holes
        is_few = (holes < few) | ((0 < elsewhere) & (elsewhere < few))
        for column in np.flatnonzero(is_few & (holes > 0) & (holes < end - begin)):
            own, missing = filled[begin:end, column], is_missing[begin:end, column]
            own[missing] = own[~missing].mean()
    return filled
