"""How a server deals with sites that are late, absent or wrong."""

from dataclasses import dataclass
from typing import Literal

from fedsparse.checks import check_count, is_number
from fedsparse.errors import OptionError

IfAbsent = Literal["continue", "wait"]


@dataclass(frozen=True)
class Conduct:
    """Rules of a run.

    Parameters
    ----------
    sites
        How many sites to wait for at the start.
    min_sites
        Fewest sites whose answers make a round; by default all.
    if_absent
        ``"continue"`` with the answers that came in time, or ``"wait"`` for the others.
    round_seconds
        After so many seconds without an answer a site counts as absent.
    longest_wait
        Seconds after which the run gives up: for sites at the start, for too few in a round.

    Examples
    --------
    >>> Conduct(sites=5).fewest
    5
    """

    sites: int
    min_sites: int | None = None
    if_absent: IfAbsent = "continue"
    round_seconds: float = 120.0
    longest_wait: float = 3600.0

    def __post_init__(self) -> None:
        check_count("sites", self.sites)
        if self.min_sites is not None:
            check_count("min_sites", self.min_sites)
            if self.min_sites > self.sites:
                raise OptionError(
                    f"min_sites is {self.min_sites}, more than the {self.sites} sites; lower it"
                )
        if self.if_absent not in ("continue", "wait"):
            raise OptionError(f'if_absent is "continue" or "wait", not {self.if_absent!r}')
        for name in ("round_seconds", "longest_wait"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise OptionError(f"{name} must be a number of seconds above 0, not {value!r}")

    @property
    def fewest(self) -> int:
        """Fewest sites whose answers make a round."""
        return self.sites if self.min_sites is None else self.min_sites
