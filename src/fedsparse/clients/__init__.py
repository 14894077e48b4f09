"""The clients' side: data made ready, and the compiled loops that answer requests on them."""

from fedsparse.clients.base import Clients
from fedsparse.clients.dense import DenseClients
from fedsparse.clients.sparse import SparseClients
from fedsparse.clients.workers import Workers
from fedsparse.data.federated import FederatedData
from fedsparse.losses import Loss

__all__ = ["Clients", "open_clients"]


def open_clients(data: FederatedData, loss: Loss, workers: Workers) -> Clients:
    """Make data ready to answer requests; here, once, storage is decided."""
    kind = SparseClients if data.is_sparse else DenseClients
    return kind(data, loss, workers)
