"""A data set as one table, before its rows are given to clients."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from fedsparse.arrays import AnyArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and targets of one data set; unpacks as ``features, targets = dataset``.

    Attributes
    ----------
    name
        What papers call it, such as "RCV1".
    features
        One row per sample: a canonical CSR matrix or a dense array.
    targets
        One target or label per row.
    stand_in
        What stands in for the real set; empty when it is the real one.

    Examples
    --------
    >>> import numpy as np
    >>> dataset = Dataset("RCV1", np.eye(3), np.array([1.0, -1.0, 1.0]), stand_in="three rows")
    >>> dataset.samples, dataset.width, dataset.title
    (3, 3, 'RCV1 (stand-in)')
    >>> features, targets = dataset
    >>> targets.tolist()
    [1.0, -1.0, 1.0]
    """

    name: str
    features: AnyArray | sparse.csr_array
    targets: AnyArray
    stand_in: str = ""

    @property
    def samples(self) -> int:
        """Number of rows."""
        return int(self.features.shape[0])

    @property
    def width(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    @property
    def title(self) -> str:
        """The name, with a word of warning when something stands in for the real set."""
        return f"{self.name} (stand-in)" if self.stand_in else self.name

    def __iter__(self) -> Iterator[Any]:
        yield self.features
        yield self.targets

    def __repr__(self) -> str:
        kind = "CSR" if sparse.issparse(self.features) else "dense"
        return (
            f"Dataset({self.title}, {self.samples} rows, {self.width} features, "
            f"{kind} {self.features.dtype})"
        )
