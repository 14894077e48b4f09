"""All clients in this process, answered by batched products of torch: on a GPU, or here."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from fedsparse.compute import Clients
from fedsparse.engines.engine import Ask
from fedsparse.engines.local import LocalEngine, PreparedRows
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss
from fedsparse.requests import Answers

if TYPE_CHECKING:
    from fedsparse.compute.on_device.device_rows import DeviceRows

Precision = Literal["float64", "float32"]


class TorchEngine(LocalEngine):
    """Answers requests of a lockstep together: of all models in one pass over the rows.

    The numbers are those of `LocalEngine` to rounding errors, which depend on what else is asked
    in the same exchange. Rows are copied to a GPU once for each lens; those of CSR are written out
    on the columns that their client has. Only sums over clients come back.

    What is asked about local steps over all rows, objectives, gradients, slopes, smoothness and,
    of dense rows, curvature is answered on the device. Mini-batches, curvature of CSR rows, H_τ on
    groups or ranks, losses without a compiled form (such as Cox's) and metrics are answered by the
    loops of `LocalEngine`.

    Parameters
    ----------
    data, loss
        The problem.
    device
        ``"cuda"``, ``"cuda:1"`` or ``"cpu"``; a GPU by default if there is one.
    threads
        On a processor; all cores by default.
    precision
        What is computed with on the device. ``"float32"`` takes half of the memory, and results
        are right to about six digits.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> engine = TorchEngine(data, "squared", device="cpu")
    >>> fs.run(fs.FedAvg(local_steps=2), engine, rounds=50).coef.round(6)
    array([3.])
    """

    def __init__(
        self,
        data: FederatedData,
        loss: str | Loss = "squared",
        device: str | None = None,
        threads: int | None = None,
        precision: Precision = "float64",
    ) -> None:
        if find_spec("torch") is None:
            raise OptionError(
                "engine='torch' needs torch; install it with pip install 'fedsparse[torch]'"
            )
        from fedsparse.compute.on_device.devices import open_device

        if precision not in ("float64", "float32"):
            raise OptionError(f"precision must be 'float64' or 'float32', not {precision!r}")
        self.device = open_device(device)
        self._precision = precision
        self._on_device: WeakKeyDictionary[Clients, DeviceRows] = WeakKeyDictionary()
        super().__init__(data, loss, threads)

    def answer_all(self, prepared: PreparedRows, asks: Sequence[Ask]) -> list[Answers]:
        """Answer asks through one lens: those that are alike together."""
        from fedsparse.engines.batches import answer_alike, likeness

        alike: dict[object, list[int]] = {}
        for place, ask in enumerate(asks):
            alike.setdefault(likeness(ask, prepared), []).append(place)
        answers: dict[int, Answers] = {}
        for kind, places in alike.items():
            own = [asks[place] for place in places]
            clients = prepared.clients
            rows = self._rows(clients) if clients and clients.loss.is_compiled else None
            if kind is None or rows is None:  # matrices of dense rows come from the device
                told = super().answer_all(prepared, own)
            else:
                told = answer_alike(own, prepared, rows, self._workers)
            answers |= dict(zip(places, told, strict=True))
        return [answers[place] for place in range(len(asks))]

    def _rows(self, clients: Clients) -> "DeviceRows":
        """Clients' rows on the device, which are there as long as the clients are here."""
        import torch

        from fedsparse.compute.on_device.device_matrices import DeviceProducts
        from fedsparse.compute.on_device.device_rows import DeviceRows

        rows = self._on_device.get(clients)
        if rows is None:
            rows = DeviceRows(clients, self.device, getattr(torch, self._precision))
            self._on_device[clients] = rows
            if not rows.is_sparse:  # matrices of sparse rows are smaller than what a device makes
                clients.products = DeviceProducts(rows)
        return rows
