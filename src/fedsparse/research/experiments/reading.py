"""Questions put to the results of one experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from fedsparse.research.experiments.experiment_settings import ExperimentSettings
from fedsparse.research.experiments.experiment_tables import REFERENCE, rounds_to_reach

DELAY_SECONDS = 0.15
"""The paper's network delay of a round."""

STEP_SECONDS = 20e-6
"""The paper's time of a local step."""


@dataclass(frozen=True)
class CaughtUp:
    """When a method got to where the baseline ended, seed by seed; None if it did not.

    Attributes
    ----------
    rounds, factors
        Rounds it needed, and how many times fewer that is.
    times
        How many times sooner in time.
    limit
        Rounds there were.
    """

    rounds: list[int | None]
    factors: list[float | None]
    times: list[float | None]
    limit: int

    def factor(self, measure: str) -> float | None:
        """Median factor; None if the method failed on half of the seeds or more."""
        values = [value or 0.0 for value in (self.factors if measure == "rounds" else self.times)]
        return (median(values) or None) if values else None

    def text(self, measure: str) -> str:
        """Rounds, or the factor in time, with the range over seeds."""
        reached = [value for value in self.rounds if value is not None]
        if not self.rounds:
            return "every setting diverged"
        if not reached:
            return f"not reached in {self.limit} rounds"
        if measure == "rounds":
            unit = "round" if max(reached) == 1 else "rounds"
            what = f"{_range_text(reached, 'd')} {unit} ({self._factors_text(self.factors)})"
        else:
            what = self._factors_text(self.times)
        if len(reached) < len(self.rounds):
            what += f" on {len(reached)} of {len(self.rounds)} seeds, not reached on the others"
        return what

    def _factors_text(self, factors: list[float | None]) -> str:
        return _range_text([value for value in factors if value is not None], ".2g") + "×"


class Reading:
    """The final runs and the grid of one experiment, as the claims need them."""

    def __init__(
        self, settings: ExperimentSettings, results: pl.DataFrame, facts: dict[str, Any]
    ) -> None:
        self.settings = settings
        self.facts = facts
        self._results = results

    def reached(self, algorithm: str, server: str) -> CaughtUp:
        """When a method got to where the baseline ended."""
        found = [
            self._reached_on(seed, algorithm, server)
            for seed in self.settings.seeds
            if not self._final(seed, algorithm, server).is_empty()
        ]
        return CaughtUp(
            [rounds for rounds, _, _ in found],
            [factor for _, factor, _ in found],
            [time for _, _, time in found],
            self.settings.rounds,
        )

    def final_objectives(self) -> dict[str, list[float]]:
        """Objective after all rounds by method, seed by seed; infinite if it diverged."""
        ends: dict[str, list[float]] = {}
        finals = self._results.filter(stage="final")
        for (algorithm, server), runs in finals.group_by(
            "algorithm", "server", maintain_order=True
        ):
            name = str(algorithm) if server == "plain" else f"{algorithm}, {server}"
            ends[name] = [_end(runs.filter(seed=seed)) for seed in self.settings.seeds]
        return ends

    def reason(self, algorithm: str) -> str:
        """Why the plain method is slow, as far as the numbers tell."""
        clients, average = self.facts["smoothness_clients"], self.facts["smoothness_average"]
        grid = self._results.filter(stage="grid", algorithm=algorithm)
        lasts = grid.group_by("local_steps", "step_size").last()
        diverged = lasts.filter("diverged").height
        chosen = self._final(self.settings.seeds[0], algorithm, "plain")
        if chosen.is_empty():
            return f"all {lasts.height} settings of the grid diverged"
        if self._final(self.settings.seeds[0], REFERENCE, "plain").is_empty():
            return f"all settings of {REFERENCE} diverged, so there is nothing to compare with"
        own = chosen.row(-1, named=True)
        longest = self._final(self.settings.seeds[0], REFERENCE, "plain")["step_size"][0]
        if clients > 2 * average and own["step_size"] < longest:
            return (
                f"a client's smoothness is up to {clients / average:.2g} times that of f: "
                f"{diverged} of {lasts.height} settings diverged and its best γ is "
                f"{own['step_size']:g}, while {REFERENCE} can use {longest:g}"
            )
        return (
            f"its best setting, K = {own['local_steps']} and γ = {own['step_size']:g}, ends at "
            f"f = {own['objective']:.4g} and {REFERENCE} at "
            f"{self._final(self.settings.seeds[0], REFERENCE, 'plain')['objective'][-1]:.4g}"
        )

    def _reached_on(
        self, seed: int, algorithm: str, server: str
    ) -> tuple[int | None, float | None, float | None]:
        baseline = self._final(seed, REFERENCE, "plain")
        run = self._final(seed, algorithm, server)
        if baseline.is_empty() or baseline["diverged"][-1]:
            return None, None, None  # there is nothing to be compared with
        rounds = rounds_to_reach(run, float(baseline["objective"][-1]))
        if not rounds:  # never, or at the start already: the baseline went nowhere
            return None, None, None
        factor = float(baseline["round"][-1]) / rounds
        return rounds, factor, _seconds(baseline, -1) / _seconds(run, rounds)

    def _final(self, seed: int, algorithm: str, server: str) -> pl.DataFrame:
        return self._results.filter(stage="final", seed=seed, algorithm=algorithm, server=server)


def median_text(values: Sequence[float]) -> str:
    """Median and range of objectives over seeds.

    Examples
    --------
    >>> median_text([0.5, 0.3, 0.4]), median_text([0.5])
    ('0.4000 (0.3000 to 0.5000)', '0.5000')
    """
    middle = f"{median(values):#.4g}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):#.4g} to {max(values):#.4g})"


def _seconds(run: pl.DataFrame, place: int) -> float:
    row = run.row(place, named=True)
    return float(row["round"] * DELAY_SECONDS + row["iterations"] * STEP_SECONDS)


def _end(run: pl.DataFrame) -> float:
    if run.is_empty() or run["diverged"][-1]:
        return float("inf")
    return float(run["objective"][-1])


def _range_text(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low}–{high}"
