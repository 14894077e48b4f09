"""What an engine must do."""

from abc import ABC, abstractmethod

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.losses import Loss
from fedsparse.requests import Fields, Request


class Engine(ABC):
    """Carries requests to clients and their answers back.

    Attributes
    ----------
    loss
        What is minimized.
    masses
        Rows of each client, or what they weigh together.
    shape
        Shape of the coefficients, (d,) or (d, c).
    classes
        The classes that labels stand for, None for regression.
    """

    loss: Loss
    masses: FloatArray
    shape: tuple[int, ...]
    classes: AnyArray | None

    @abstractmethod
    def ask(self, request: Request, which: Int64Array) -> Fields:
        """Have the clients at places ``which`` answer, and gather the answers in that order."""

    def gather(self, request: Request, which: Int64Array) -> tuple[Fields, Int64Array]:
        """The same, with the places of those that answered: a site on a network may not."""
        return self.ask(request, which), which

    @abstractmethod
    def fingerprint(self) -> str:
        """What tells the clients' data from others, for a run that goes on later."""

    @abstractmethod
    def close(self) -> None:
        """Let go of threads and connections."""
