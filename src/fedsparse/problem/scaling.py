"""How raw features become those that a model is fitted on: filled, centred, scaled."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.problem.federated import Features, FederatedData


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
        What stands for a missing value, feature by feature; None: nothing is missing.
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

    def scaled(self, data: FederatedData) -> FederatedData:
        """Data to fit on."""
        targets = data.targets - self.offset if self.offset else data.targets
        return replace(data, features=self.apply(data.features), targets=targets)

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
