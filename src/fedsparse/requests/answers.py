"""What came back from an exchange: sums over the clients that answered, nothing of a single one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.stacks import RunningTotal, Stack, running_sum
from fedsparse.errors import OptionError
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
            w_i of the clients that answered; see `counting`.
        asked
            How many clients were asked; as many as answered by default.
        seconds
            How long it took.
        """
        running = RunningSums()
        running.add(fields, counting(weights))
        found = running.answers(seconds=seconds)
        return found if asked is None else replace(found, asked=asked)

    def mean(self, name: str) -> FloatArray:
        """Σ w_i v_i / Σ w_i of a vector."""
        return self.total(name) / self.weight

    def average(self, name: str) -> float:
        """Σ w_i v_i / Σ w_i of a number."""
        return float(self.total(name)) / self.weight

    def total(self, name: str) -> FloatArray:
        """Σ w_i v_i."""
        if name not in self.sums:
            told = ", ".join(f'"{own}"' for own in self.sums)
            raise OptionError(f'the answers tell {told or "nothing"}, and no "{name}"')
        return self.sums[name]

    @property
    def absent(self) -> int:
        """Answers that did not come."""
        return self.asked - self.count

    def is_finite(self) -> bool:
        """Whether nothing that came back is NaN or infinite."""
        return all(bool(np.isfinite(total).all()) for total in self.sums.values())


def counting(weights: FloatArray) -> FloatArray:
    """w_i of all that answered; if all are 0 they count the same.

    A client of weight 0 may be the only one asked.

    Examples
    --------
    >>> counting(np.array([0.0, 0.0]))
    array([1., 1.])
    """
    return weights if weights.any() else np.ones(weights.size)


@dataclass(eq=False)
class RunningSums:
    """The sums of `Answers` on their way: clients' answers are added in order, in any portions.

    Who has some of the clients goes on where those before left off. It is the same sequence of
    additions however clients are spread, so it is the same bits.

    Examples
    --------
    >>> running = RunningSums()
    >>> running.add({"objective": np.array([1.0])}, np.array([3.0]))
    >>> running.add({"objective": np.array([5.0])}, np.array([1.0]))
    >>> running.answers().average("objective")
    2.0
    """

    vectors: dict[str, RunningTotal] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    variances: dict[str, FloatArray] = field(default_factory=dict)
    weight: float = 0.0
    count: int = 0
    bytes_up: int = 0

    def add(self, fields: Fields, weights: FloatArray) -> None:
        """Go on with the answers of the next clients.

        Parameters
        ----------
        fields
            What the request's ``answer`` returned.
        weights
            w_i of these clients.
        """
        with np.errstate(all="ignore"):  # who asked looks for what is not finite
            for name, own in fields.items():
                self._add(name, own, weights)
        self.weight = running_sum(self.weight, weights)
        self.count += weights.size
        self.bytes_up += sum(_encoded_bytes(own) for own in fields.values())

    def answers(self, *, seconds: float = 0.0) -> Answers:
        """The sums over all clients that were added."""
        with np.errstate(all="ignore"):
            sums = {name: running.finished(self.weight) for name, running in self.vectors.items()}
        sums |= {name: np.asarray(number) for name, number in self.numbers.items()}
        sums |= {f"{name}_rounding": np.sqrt(own) for name, own in self.variances.items()}
        return Answers(sums, self.weight, self.count, self.count, self.bytes_up, seconds)

    def _add(self, name: str, own: Stack | FloatArray, weights: FloatArray) -> None:
        if not isinstance(own, Stack):
            self.numbers[name] = running_sum(self.numbers.get(name, 0.0), weights * own)
            return
        self.vectors.setdefault(name, RunningTotal.of(own)).add(own, weights)
        if isinstance(own, RoundedStack):
            self.variances[name] = own.variances(weights, self.variances.get(name, 0.0))


def _encoded_bytes(field: Stack | FloatArray) -> int:
    return stack_bytes(field) if isinstance(field, Stack) else field.nbytes
