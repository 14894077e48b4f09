"""Fed-HT and FedIter-HT as ordinary Flower strategies, for arrays of any framework.

Tong, Liang, Zhu & Bi, Federated Nonconvex Sparse Learning, 2021. The server keeps the τ entries of
largest magnitude of the average. With FedIter-HT, clients do so after every local step, too: they
call `hard_threshold_arrays` with what the strategy puts into their configuration.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{__name__} needs Flower; install it with pip install 'fedsparse[flower]'"
    ) from error

from fedsparse.arrays import AnyArray
from fedsparse.checks import check_count
from fedsparse.errors import OptionError
from fedsparse.problem.select import keep_largest

SPARSITY, DENSE = "sparsity", "dense"
"""Names under which FedIterHT tells clients what to keep."""


class FedHT(FedAvg):
    """Federated averaging, then hard thresholding at the server.

    Parameters
    ----------
    sparsity
        τ: entries that stay non-zero, counted over all arrays together.
    dense
        Names of arrays that are left as they are and do not count, such as biases. Arrays that do
        not hold floats are left as they are, too.
    **options
        Those of Flower's `FedAvg`.

    Examples
    --------
    >>> FedHT(sparsity=100, dense=["bias"], fraction_evaluate=0.5).sparsity
    100
    """

    def __init__(self, sparsity: int, *, dense: Sequence[str] = (), **options: Any) -> None:
        check_count("sparsity", sparsity)
        super().__init__(**options)
        self.sparsity = sparsity
        self.dense = tuple(dense)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The thresholded average, and Flower's metrics."""
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None:
            return None, metrics
        kept = hard_threshold_arrays(
            {name: array.numpy() for name, array in arrays.items()}, self.sparsity, self.dense
        )
        return ArrayRecord({name: Array(values) for name, values in kept.items()}), metrics


class FedIterHT(FedHT):
    """Fed-HT whose clients threshold after every local step.

    Clients find ``sparsity`` and ``dense`` in their configuration; see `hard_threshold_arrays`.
    Parameters are those of `FedHT`.
    """

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Flower's messages, with τ in the configuration."""
        config[SPARSITY] = self.sparsity
        config[DENSE] = list(self.dense)
        return super().configure_train(server_round, arrays, config, grid)


def hard_threshold_arrays(
    arrays: Mapping[str, AnyArray], sparsity: int, dense: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Keep the entries of largest magnitude of several arrays together, set the others to zero.

    Parameters
    ----------
    arrays
        By name.
    sparsity
        τ: exactly so many entries are kept, or all; a tie goes to the earlier one.
    dense
        Names of arrays that are left as they are.

    Examples
    --------
    >>> arrays = {"weight": np.array([[3.0, -1.0]]), "bias": np.array([0.5])}
    >>> hard_threshold_arrays(arrays, 1, dense=["bias"])
    {'weight': array([[3., 0.]]), 'bias': array([0.5])}
    """
    check_count("sparsity", sparsity)
    unknown = [name for name in dense if name not in arrays]
    if unknown:
        raise OptionError(f"dense names {unknown[0]!r}; the arrays are {', '.join(arrays)}")
    chosen = [name for name, own in arrays.items() if own.dtype.kind == "f" and name not in dense]
    flat = np.concatenate([np.empty(0), *(np.ravel(arrays[name]) for name in chosen)])
    kept = np.zeros(flat.size)
    keep_largest(flat, min(int(sparsity), flat.size), kept)
    result = dict(arrays)
    begin = 0
    for name in chosen:
        own = arrays[name]
        part = kept[begin : begin + own.size].reshape(own.shape)
        result[name] = np.where(part != 0, own, own.dtype.type(0))
        begin += own.size
    return result
