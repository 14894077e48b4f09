"""f on pooled rows: one judge for federated methods and pooled solvers.

f(x) = Σ_r w_r loss(z_r·x, y_r) + (λ/2) ‖x‖² with w_r = 1 / (N B_i) for a row of client i.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit

import fedsparse as fs
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.problem.losses import LOSSES, Loss

NEWTON_STEPS = 100
HALVINGS = 40
SMALLEST_GAIN = 1e-14


@dataclass(frozen=True, eq=False)
class PooledObjective:
    """All clients' rows with the weights that make their sum the federation's f."""

    features: FloatArray | sparse.csr_array
    targets: FloatArray
    weights: FloatArray
    loss: Loss

    @classmethod
    def of(cls, data: fs.FederatedData, loss: Loss) -> "PooledObjective":
        """The objective of a federation whose clients count alike."""
        weights = np.repeat(1.0 / (len(data) * data.counts), data.counts)
        features = data.features.astype(np.float64, copy=False)
        if data.is_sparse:
            features = _with_short_indices(features)
        return cls(features, loss.encode(data).values, weights, loss)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as CSR."""
        return sparse.issparse(self.features)

    @property
    def rows(self) -> int:
        """n, the rows of all clients."""
        return self.targets.size

    @property
    def width(self) -> int:
        """d, the features."""
        return self.features.shape[1]

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared one; else it is the logistic."""
        return isinstance(self.loss, fs.SquaredError)

    def value(self, x: FloatArray) -> float:
        """f(x)."""
        return self._value(self.features @ x, x)

    def gradient(self, x: FloatArray) -> FloatArray:
        """∇f(x)."""
        slopes = self.weights * self._slopes(self.features @ x)
        return self.features.T @ slopes + self.loss.l2 * x

    def refit(self, support: Int64Array) -> FloatArray:
        """The best x on a support, by Newton steps that are halved until they lower f."""
        columns = self._columns(support)
        x = np.zeros(support.size)
        value = self._value(columns @ x, x)
        for _ in range(NEWTON_STEPS):
            step, gain = self._newton_step(columns, x)
            if gain <= SMALLEST_GAIN * abs(value):
                break
            for _ in range(HALVINGS):
                moved = self._value(columns @ (x + step), x + step)
                if moved < value:
                    break
                step = step / 2
            else:
                break
            x, value = x + step, moved
        result = np.zeros(self.width)
        result[support] = x
        return result

    def save(self, folder: Path) -> None:
        """Write everything out for another process."""
        if self.is_sparse:
            sparse.save_npz(folder / "features.npz", self.features, compressed=False)
        else:
            np.save(folder / "features.npy", self.features)
        np.savez(folder / "rows.npz", targets=self.targets, weights=self.weights)
        (folder / "loss.json").write_text(json.dumps([self.loss.name, self.loss.l2]))

    @classmethod
    def load(cls, folder: Path) -> "PooledObjective":
        """Read what `save` wrote."""
        rows = np.load(folder / "rows.npz")
        name, l2 = json.loads((folder / "loss.json").read_text())
        if (folder / "features.npz").exists():
            features = sparse.csr_array(sparse.load_npz(folder / "features.npz"))
        else:
            features = np.load(folder / "features.npy")
        return cls(features, rows["targets"], rows["weights"], LOSSES[name](l2=l2))

    def _columns(self, support: Int64Array) -> FloatArray:
        columns = self.features[:, support]
        return columns.toarray() if self.is_sparse else columns

    def _newton_step(self, columns: FloatArray, x: FloatArray) -> tuple[FloatArray, float]:
        """A Newton step and how much lower the quadratic model is at its end."""
        scores = columns @ x
        gradient = columns.T @ (self.weights * self._slopes(scores)) + self.loss.l2 * x
        curvature = self.weights * self.loss.second_derivative(scores)
        hessian = columns.T @ (columns * curvature[:, None]) + self.loss.l2 * np.eye(x.size)
        step = -np.linalg.lstsq(hessian, gradient)[0]  # columns may depend on each other
        return step, float(-gradient @ step) / 2

    def _value(self, scores: FloatArray, x: FloatArray) -> float:
        if self.is_squared:
            losses = (scores - self.targets) ** 2
        else:
            losses = np.logaddexp(0.0, scores) - self.targets * scores
        return float(self.weights @ losses + self.loss.l2 / 2 * (x @ x))

    def _slopes(self, scores: FloatArray) -> FloatArray:
        if self.is_squared:
            return 2.0 * (scores - self.targets)
        return expit(scores) - self.targets


def _with_short_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same matrix with 32-bit indices, the only ones that liblinear takes."""
    if matrix.nnz > np.iinfo(np.int32).max:
        return matrix
    parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return sparse.csr_array(parts, shape=matrix.shape)
