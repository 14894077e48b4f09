"""Which engine answers, by its name."""

from fedsparse.engines.engine import Engine
from fedsparse.engines.local import LocalEngine
from fedsparse.engines.ray_engine import RayEngine
from fedsparse.engines.torch_engine import TorchEngine
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss

ENGINES = ("local", "torch", "ray")
"""Names of the engines that `open_engine` knows."""


def open_engine(
    data: FederatedData,
    loss: str | Loss = "squared",
    *,
    engine: str = "local",
    device: str | None = None,
    threads: int | None = None,
) -> Engine:
    """An engine on data in memory, to be closed by whoever opened it.

    Parameters
    ----------
    data, loss
        The problem.
    engine
        ``"local"``: compiled loops in this process. ``"torch"``: batched products, on a GPU or
        here, for many models at once; see `TorchEngine`. ``"ray"``: compiled loops on the workers
        of a Ray cluster, to the same bits; see `RayEngine`, which can be told more.
    device
        Of ``"torch"``: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; a GPU by default if there is one.
    threads
        Clients worked on at a time; all cores by default.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[1.0]], [2.0]), ([[1.0]], [4.0])])
    >>> open_engine(data).names
    ('client 0', 'client 1')
    """
    if engine not in ENGINES:
        known = " or ".join(repr(name) for name in ENGINES)
        raise OptionError(f"engine must be {known}, not {engine!r}")
    if engine == "torch":
        return TorchEngine(data, loss, device, threads)
    if device is not None:
        raise OptionError(f"engine={engine!r} has no device to choose; leave device out")
    if engine == "ray":
        return RayEngine(data, loss, threads=threads)
    return LocalEngine(data, loss, threads)
