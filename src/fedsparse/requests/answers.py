"""What came back from an exchange: sums over the clients that answered, nothing of a single one."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.stacks import Stack
from fedsparse.requests.request import Fields
from fedsparse.requests.wire.stack_sizes import stack_bytes


@dataclass(frozen=True, eq=False)
class Answers:
    """Weighted sums of what clients answered.

    Attributes
    ----------
    sums
        Σ w_i v_i of every part of the answers, by name. Of matrices that were rounded also by how
        much; see `RoundedStack.rounding`.
    weight
        Σ w_i.
    count, asked
        How many clients answered, and how many were asked that have rows to answer on.
    bytes_up
        What travelled up: encoded vectors, and eight bytes a number.
    seconds
        How long it took.

    Examples
    --------
    >>> answers = Answers.of({"objective": np.array([1.0, 5.0])}, np.array([3.0, 1.0]))
    >>> answers.average("objective"), answers.count
    (2.0, 2)
    """

    sums: Mapping[str, FloatArray]
    weight: float
    count: int
    asked: int
    bytes_up: int = 0
    seconds: float = 0.0

    @classmethod
    def of(
        cls, fields: Fields, weights: FloatArray, *, asked: int | None = None, seconds: float = 0.0
    ) -> "Answers":
        """Add up answers, client by client in their order, so that every engine gets the same bits.

        Parameters
        ----------
        fields
            What the request's ``answer`` returned.
        weights
            w_i of the clients that answered. If all are 0 they count the same: a client of weight
            0 may be the only one asked.
        asked
            How many clients were asked; as many as answered by default.
        seconds
            How long it took.
        """
        weights = counting(weights)
        sums = {name: _total(field, weights) for name, field in fields.items()}
        for name, field in fields.items():
            if isinstance(field, RoundedStack):
                sums[f"{name}_rounding"] = field.rounding(weights)
        return cls(
            sums,
            float(weights.sum()),
            weights.size,
            weights.size if asked is None else asked,
            sum(_encoded_bytes(field) for field in fields.values()),
            seconds,
        )

    def mean(self, name: str) -> FloatArray:
        """Σ w_i v_i / Σ w_i of a vector."""
        return self.sums[name] / self.weight

    def average(self, name: str) -> float:
        """Σ w_i v_i / Σ w_i of a number."""
        return float(self.sums[name]) / self.weight

    def total(self, name: str) -> FloatArray:
        """Σ w_i v_i."""
        return self.sums[name]

    @property
    def absent(self) -> int:
        """Answers that did not come."""
        return self.asked - self.count

    def is_finite(self) -> bool:
        """Whether nothing that came back is NaN or infinite."""
        return all(bool(np.isfinite(total).all()) for total in self.sums.values())


def counting(weights: FloatArray) -> FloatArray:
    """Weights of clients in a sum: all the same if all are 0.

    Examples
    --------
    >>> counting(np.array([0.0, 0.0]))
    array([1., 1.])
    """
    return weights if weights.any() else np.ones(weights.size)


def _total(field: Stack | FloatArray, weights: FloatArray) -> FloatArray:
    if isinstance(field, Stack):
        return field.total(weights)
    return np.asarray(np.sum(weights * field))


def _encoded_bytes(field: Stack | FloatArray) -> int:
    return stack_bytes(field) if isinstance(field, Stack) else field.nbytes
