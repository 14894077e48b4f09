"""The options of algorithms whose clients take local steps."""

from dataclasses import dataclass

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.safeguard import with_safeguard, with_shorter_step
from fedsparse.algorithms.step_sizes import (
    BatchSize,
    ServerStep,
    StepSize,
    check_batch_size,
    check_server_step,
    check_step_size,
)
from fedsparse.checks import check_count
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss


@dataclass(frozen=True, kw_only=True)
class Stepping(Algorithm):
    """Options that `FedAvg` explains, checked once; what is done with them is up to each algorithm.

    Examples
    --------
    >>> import fedsparse as fs
    >>> fs.FedHT(5, local_steps=0)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: local_steps must be a whole number of at least 1, not 0
    """

    local_steps: int = 10
    step_size: StepSize = "auto"
    batch_size: BatchSize = None
    variance_reduction: bool | int = False
    server_step: ServerStep = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("local_steps", self.local_steps)
        check_step_size(self.step_size)
        check_batch_size(self.batch_size)
        check_server_step(self.server_step)
        if self.server_step == "adaptive" and self.clients_per_round is not None:
            raise OptionError(
                'server_step="adaptive" compares objectives of all clients; leave '
                'clients_per_round out or use server_step="extrapolated"'
            )
        if not isinstance(self.variance_reduction, bool):
            check_count("variance_reduction", self.variance_reduction)

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0, and a pace where step sizes are found by trying."""
        state = super().start(shape, seed, loss)
        options = (self.step_size, self.server_step, self.clients_per_round)
        return with_safeguard(state, loss, *options)

    def shortened(self, state: State) -> State | None:
        """The same x with a shorter step ahead, where step sizes are found by trying."""
        return with_shorter_step(state)

    def divergence_advice(self) -> str:
        """Name the option that is likely to blame and what to use instead."""
        if self.step_size != "auto":
            name = getattr(self.step_size, "__qualname__", repr(self.step_size))
            return f'The step size {name} is too large; try step_size="auto".'
        return (
            'The step size "auto" is safe for full gradients and server_step=1.0; '
            f"this run has server_step={self.server_step!r} and batch_size={self.batch_size!r}."
        )
