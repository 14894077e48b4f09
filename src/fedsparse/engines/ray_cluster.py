"""All that is used of Ray: joining or starting a cluster, workers on it, and what goes wrong there.

Ray replaces a worker that died and asks it again by itself; who dies over and over is told of here.
"""

import atexit
import os
import signal
import socket
import warnings
from collections.abc import Sequence
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from fedsparse.compute.workers import available_threads
from fedsparse.engines.ray_worker import FileRows, HeldRows, RayWorker
from fedsparse.errors import FederationError, OptionError

_STARTS = 3
"""How often to try to start a cluster: on a busy machine Ray gives up after half a minute."""
_ATTEMPTS = 3
"""How often a worker that dies over a question is asked again."""
_START_SECONDS = 180.0
"""How long workers may take to start."""
_LOOK_SECONDS = 2.0
"""How often to see whether the cluster is still there, while waiting for it."""

Ref = Any
"""Of what lies in the cluster, or will."""


class RayCluster:
    """Workers on a Ray cluster.

    Parameters
    ----------
    address
        Of a cluster to join; None: the one that this process has joined already or that
        ``RAY_ADDRESS`` names, else one is started on this machine, and ended with `close`.
    cores
        How many cores one that is started has at least.

    Attributes
    ----------
    nodes
        Cores of each machine.
    """

    def __init__(self, address: str | None = None, cores: int = 1) -> None:
        self._ray = _ray()
        self._joined = not self._ray.is_initialized()
        if self._joined:
            self._join(address or os.environ.get("RAY_ADDRESS"), cores)
        self._address = self._ray.get_runtime_context().gcs_address
        if not self._joined and address not in (None, "auto", self._address):
            raise OptionError(
                f"this process works on the Ray cluster at {self._address} already; end that with "
                f"ray.shutdown() to join {address}, or leave the address out"
            )
        self._actors: list[Any] = []
        self._before: Any = None  # what the signal to end did before
        self._is_gone = False
        if current_thread() is main_thread():
            self._before = signal.signal(signal.SIGTERM, self._on_end_signal)
        self.nodes = [int(n["Resources"].get("CPU", 0)) for n in self._ray.nodes() if n["Alive"]]

    def start(self, rows: Sequence[HeldRows | FileRows], threads: int) -> None:
        """Start a worker for each part of the rows."""
        kind = self._ray.remote(
            max_restarts=-1,
            max_task_retries=_ATTEMPTS,
            num_cpus=threads,
            scheduling_strategy="SPREAD",
        )(RayWorker)
        count = len(rows)
        self._actors = [kind.remote(number, count, own) for number, own in enumerate(rows)]
        here = [actor.is_here.remote() for actor in self._actors]
        started = self._ray.wait(here, num_returns=count, timeout=_START_SECONDS)[0]
        if len(started) < count:
            cores = sum(self.nodes)
            raise FederationError(
                f"{len(started)} of {count} workers of {threads} core(s) started within "
                f"{_START_SECONDS:.0f} s on a Ray cluster with {cores} core(s); wait until it is "
                "free, or ask for fewer workers or threads"
            )

    def __len__(self) -> int:
        """Number of workers."""
        return len(self._actors)

    def put(self, told: object) -> Ref:
        """Something for all workers, sent once to each machine."""
        self.check()
        try:
            return self._ray.put(told)
        except self._ray.exceptions.RayError as error:
            raise self._meant(error) from None

    def ask(self, worker: int, method: str, *arguments: Any, **options: Any) -> Ref:
        """Have a worker do something, after all that it was asked before; does not wait."""
        return getattr(self._actors[worker], method).remote(*arguments, **options)

    def wait_for(self, refs: Sequence[Ref]) -> list[Any]:
        """What was asked for, once all of it is there."""
        left = list(refs)
        try:
            while left:
                left = self._ray.wait(left, num_returns=len(left), timeout=_LOOK_SECONDS)[1]
                if left:
                    self.check()
            return list(self._ray.get(list(refs)))
        except self._ray.exceptions.RayError as error:
            raise self._meant(error) from None

    def check(self) -> None:
        """Raise a FederationError if the cluster is gone: Ray itself would wait for it."""
        reason = _why_unreachable(self._address)
        if reason is not None:
            self._is_gone = True
            raise FederationError(_gone(self._address, reason))

    def close(self) -> None:
        """End the workers, and the cluster if it was started here.

        Of one that is gone there is nothing to end, and Ray would wait for it.
        """
        if self._is_gone:
            atexit.unregister(self._ray.shutdown)
            return
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._joined:
            self._ray.shutdown()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _on_end_signal(self, number: int, frame: FrameType | None) -> None:
        """Ray ends a process that has lost its cluster: let it save what it has instead.

        That is done once; after it, and if the cluster is there, the signal means what it did.
        """
        before, self._before = self._before, None
        signal.signal(signal.SIGTERM, before)
        reason = _why_unreachable(self._address)
        if reason is None:
            signal.raise_signal(number)
        elif not self._is_gone:
            self._is_gone = True
            raise FederationError(_gone(self._address, reason))

    def _join(self, address: str | None, cores: int) -> None:
        reason = None if address is None else _why_unreachable(address)
        if reason is not None:
            raise FederationError(f"there is no Ray cluster at {address} ({reason}); start it")
        options: dict[str, Any] = {"address": address}
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
            own = {"num_cpus": max(cores, available_threads()), "include_dashboard": False}
            options = {"address": "local"} | own
        for left in reversed(range(_STARTS)):
            try:
                with warnings.catch_warnings():
                    # On what a later Ray will do about graphics cards: none is asked for.
                    warnings.filterwarnings("ignore", category=FutureWarning, module="ray")
                    self._ray.init(**options, log_to_driver=False, logging_level="ERROR")
                return
            except Exception as error:  # Ray raises plain ones, too
                self._ray.shutdown()
                if not left or address is not None:
                    raise self._not_joined(address, error) from None

    def _not_joined(self, address: str | None, error: Exception) -> FederationError:
        what = "could not be started" if address is None else f"at {address} cannot be joined"
        reason = str(error).strip().partition("\n")[0]
        return FederationError(f"the Ray cluster {what}: {reason}")

    def _meant(self, error: Exception) -> Exception:
        """What went wrong at a worker: its own error, or that it died."""
        known = self._ray.exceptions
        while isinstance(error, known.RayTaskError):
            error = error.cause
        if not isinstance(error, known.RayError):
            return error
        reason = str(error).strip().splitlines()[0]
        self.check()
        return FederationError(
            f"a Ray worker died {_ATTEMPTS + 1} times over the same question ({reason}); give "
            "workers more memory, or take more of them"
        )


def _gone(address: str, reason: str) -> str:
    return (
        f"the Ray cluster at {address} is gone ({reason}); start it again, and go on from the "
        "checkpoint if the run keeps one"
    )


def _why_unreachable(address: str) -> str | None:
    """Why nobody listens there; None: somebody does, or the address is no host and port."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "//" in host:
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise OptionError(
            "engine='ray' needs Ray; install it with pip install 'fedsparse[ray]'"
        ) from None
    return ray
