"""The clients' side: data made ready, and the compiled loops that answer requests on them."""

from fedsparse.compute.clients import Clients
from fedsparse.compute.dense_clients import DenseClients
from fedsparse.compute.numpy_clients import NumpyDenseClients, NumpySparseClients
from fedsparse.compute.sparse_clients import SparseClients
from fedsparse.compute.workers import Workers
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss

__all__ = ["Clients", "open_clients"]


def open_clients(data: FederatedData, loss: Loss, workers: Workers) -> Clients:
    """Make data ready to answer requests; here, once, storage is decided."""
    if loss.is_compiled:
        return (SparseClients if data.is_sparse else DenseClients)(data, loss, workers)
    return (NumpySparseClients if data.is_sparse else NumpyDenseClients)(data, loss, workers)
