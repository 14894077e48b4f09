"""Time on a network, estimated from what a run was measured to need."""

from dataclasses import dataclass

from fedsparse.checks import check_not_negative, is_number
from fedsparse.errors import OptionError
from fedsparse.report.convergence_charts import Axis


@dataclass(frozen=True)
class Network:
    """Every client has a link of its own to the server, and the links work side by side.

    Parameters
    ----------
    delay
        Milliseconds a round waits on the network, however little is sent.
    bandwidth
        Megabits that a link carries in a second.

    Examples
    --------
    >>> Network(delay=150, bandwidth=10).seconds(rounds=20, megabytes=2.5, computing=0.5)
    5.5
    """

    delay: float = 150.0
    bandwidth: float = 10.0

    def __post_init__(self) -> None:
        check_not_negative("delay", self.delay)
        if not is_number(self.bandwidth) or self.bandwidth <= 0:
            raise OptionError(f"bandwidth must be a number > 0, not {self.bandwidth!r}")

    def seconds(self, *, rounds: float, megabytes: float, computing: float) -> float:
        """Estimate how long a run takes.

        Parameters
        ----------
        rounds
            Each waits for the network once.
        megabytes
            Sent over one link, both ways.
        computing
            Seconds measured without any network.
        """
        return rounds * self.delay / 1000 + megabytes * 8 / self.bandwidth + computing

    def axis(self, clients: int) -> Axis:
        """Time on this network, for a chart of a run with so many clients."""
        return _axis(clients, f"{self.delay}", f"{self.bandwidth}")

    def adjustable_axis(self, clients: int) -> Axis:
        """Do the same for a chart whose readers may change delay and bandwidth."""
        axis = _axis(clients, "delay", "bandwidth")
        numbers = {"delay": self.delay, "bandwidth": self.bandwidth}
        return Axis(axis.column, axis.title, axis.scale, axis.formula, numbers)


def _axis(clients: int, delay: str, bandwidth: str) -> Axis:
    """`Network.seconds` as charts work it out, with numbers or names of signals."""
    formula = (
        f"datum.round * {delay} / 1000"
        f" + datum.megabytes / {clients} * 8 / {bandwidth} + datum.seconds"
    )
    return Axis("time", "Estimated time (s)", "log", formula)
