"""The clients' side: data made ready, and the compiled loops that answer requests on them."""

from fedsparse.compute.clients import Clients
from fedsparse.compute.dense_clients import DenseClients
from fedsparse.compute.sparse_clients import SparseClients
from fedsparse.compute.workers import Workers
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss

__all__ = ["Clients", "open_clients"]


def open_clients(data: FederatedData, loss: Loss, workers: Workers) -> Clients:
    """Make data ready to answer requests; here, once, storage is decided."""
    kind = SparseClients if data.is_sparse else DenseClients
    return kind(data, loss, workers)
