"""What came back from a round."""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.requests import Fields
from fedsparse.stacks import Stack


@dataclass(frozen=True)
class Answers:
    """Answers of the clients that took part, in the order of the clients.

    Attributes
    ----------
    fields
        What the request's ``answer`` returned.
    clients
        Places of the clients that answered.
    weights
        p_i of those clients, summing to one.
    """

    fields: Fields
    clients: Int64Array
    weights: FloatArray

    def mean(self, name: str) -> FloatArray:
        """Σ p_i of a vector, summed client by client."""
        return self._stack(name).mean(self.weights)

    def squared_distances(self, name: str, x: FloatArray) -> FloatArray:
        """‖v_i − x‖² of a vector of each client."""
        return self._stack(name).squared_distances(x)

    def average(self, name: str) -> float:
        """Σ p_i of a number."""
        return float(np.sum(self.weights * self.numbers(name)))

    def numbers(self, name: str) -> FloatArray:
        """A number of each client."""
        field = self.fields[name]
        assert isinstance(field, np.ndarray)
        return field

    def is_finite(self) -> bool:
        """Whether nothing that came back is NaN or infinite."""
        return all(
            field.is_finite() if isinstance(field, Stack) else bool(np.isfinite(field).all())
            for field in self.fields.values()
        )

    def encoded_bytes(self) -> int:
        """What travelled up: encoded vectors, and eight bytes a number."""
        return sum(
            field.encoded_bytes() if isinstance(field, Stack) else field.nbytes
            for field in self.fields.values()
        )

    def _stack(self, name: str) -> Stack:
        field = self.fields[name]
        assert isinstance(field, Stack)
        return field
