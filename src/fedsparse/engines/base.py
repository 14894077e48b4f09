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

    @abstractmethod
    def close(self) -> None:
        """Let go of threads and connections."""
