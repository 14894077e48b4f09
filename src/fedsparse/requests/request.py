"""What a server may ask of a client, and how the client works out its answer.

A request is a small frozen dataclass: its fields are what travels down. Its ``answer`` runs where
the data are and returns what travels up, one entry per client asked. An answer is something that
adds up: a server uses it only through weighted sums over clients.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import Stack, flatten
from fedsparse.problem.select import nonzero_positions
from fedsparse.requests.wire import vectors as wire

Fields = Mapping[str, Stack | FloatArray]
"""Parts of an answer by name: a vector per client (a stack) or a number per client."""

Shapes = Mapping[str, tuple[int, ...] | None]
"""Parts of an answer by name: the shape of a client's vector, or None for a number."""

Weights = Literal["uniform", "samples"] | Sequence[float] | FloatArray
"""How clients count in a sum: all the same, by what their rows weigh, or one number each."""


@dataclass(frozen=True)
class Request(ABC):
    """Something to ask of clients."""

    of_everyone: ClassVar[bool] = False
    """Whether all clients are asked even when only some take part in a round."""

    is_round: ClassVar[bool] = True
    """Whether a model comes of the answers; questions before or beside the rounds are none."""

    weights: ClassVar[Weights | None] = None
    """How clients count in the sums; None: as the one who asks says."""

    like_a_row: ClassVar[tuple[str, ...]] = ()
    """Vectors among the fields that have an entry per feature, whatever the classes."""

    def asked(self, taking_part: Int64Array) -> Int64Array:
        """Places of the clients to ask, of those that take part."""
        return taking_part

    @abstractmethod
    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """Work out the answer of the clients at places ``which``."""

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """What an answer holds, for coefficients of a shape; asked of requests that travel."""
        raise NotImplementedError

    def telling_objective(self) -> "Request | None":
        """The same request with ``objective``, f_i(x), in its answer; None if it cannot tell."""
        return None

    def vectors(self) -> tuple[FloatArray, ...]:
        """The vectors among the fields, as they travel down."""
        return ()

    def encoded_bytes(self) -> int:
        """Length of those vectors in the encoding of `wire.vectors`, for one client."""
        return sum(_encoded_length(flatten(vector)) for vector in self.vectors())


def _encoded_length(vector: FloatArray) -> int:
    places = nonzero_positions(vector)
    return len(wire.encode_sparse(places, vector[places], vector.size))
