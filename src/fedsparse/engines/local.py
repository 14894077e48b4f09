"""All clients in this process, answered by compiled loops on several threads."""

from fedsparse.arrays import Int64Array
from fedsparse.checkpoint import fingerprint
from fedsparse.clients import open_clients
from fedsparse.data.federated import FederatedData
from fedsparse.engines.base import Engine
from fedsparse.losses import Loss
from fedsparse.requests import Fields, Request


class LocalEngine(Engine):
    """Answers requests on data in memory.

    Parameters
    ----------
    data, loss
        The problem.
    threads
        How many clients are worked on at a time; results do not depend on it.
    """

    def __init__(self, data: FederatedData, loss: Loss, threads: int) -> None:
        self._data = data
        self._clients = open_clients(data, loss, threads)
        self.loss = loss
        self.masses = data.masses
        self.shape = self._clients.shape
        self.classes = self._clients.classes

    def ask(self, request: Request, which: Int64Array) -> Fields:
        """Answer for all the clients in one go."""
        return request.answer(self._clients, which)

    def fingerprint(self) -> str:
        """A digest of all rows."""
        return fingerprint(self._data)

    def close(self) -> None:
        """End the threads."""
        self._clients.workers.close()
