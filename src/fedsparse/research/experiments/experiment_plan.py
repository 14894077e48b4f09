"""Which runs an experiment is made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from fedsparse.algorithms import DistributedIHT, FedHT, FedIterHT, FedSplice
from fedsparse.algorithms.algorithm import Algorithm
from fedsparse.algorithms.step_sizes import ServerStep, StepSize
from fedsparse.research.experiments.experiment_settings import ExperimentSettings
from fedsparse.research.experiments.experiment_tables import SPLICING

Server = Literal["plain", "adaptive"]

ALGORITHMS: dict[str, type[FedHT]] = {
    "Distributed-IHT": DistributedIHT,
    "Fed-HT": FedHT,
    "FedIter-HT": FedIterHT,
}
"""The paper's three, the baseline first."""


@dataclass(frozen=True)
class Method:
    """An algorithm with its options.

    Attributes
    ----------
    algorithm
        A name of `ALGORITHMS`, or FedSplice, which has none of the other options.
    server
        ``"plain"``: x_{t+1} is the thresholded average; ``"adaptive"``: see `FedAvg`.
    local_steps
        K.
    step_size
        γ; None for 1/max l_i.
    """

    algorithm: str
    server: Server = "plain"
    local_steps: int | None = None
    step_size: float | None = None

    def build(self, sparsity: int) -> Algorithm:
        """The algorithm, ready to run.

        Examples
        --------
        >>> Method("Fed-HT", "plain", 5, 0.1).build(200).step_size
        0.1
        """
        if self.algorithm == SPLICING:
            return FedSplice(sparsity)
        step_size: StepSize = "auto" if self.step_size is None else self.step_size
        server_step: ServerStep = 1.0 if self.server == "plain" else "adaptive"
        kind = ALGORITHMS[self.algorithm]
        if kind is DistributedIHT:
            return kind(sparsity, step_size=step_size, server_step=server_step)
        assert self.local_steps is not None
        return kind(
            sparsity, local_steps=self.local_steps, step_size=step_size, server_step=server_step
        )

    @property
    def keeps_best(self) -> bool:
        """Whether a run returns the best x it has seen, and not the last one."""
        return self.algorithm == SPLICING or self.server == "adaptive"

    def __str__(self) -> str:
        if self.algorithm == SPLICING:
            return self.algorithm
        step = "auto" if self.step_size is None else f"{self.step_size:g}"
        return f"{self.algorithm}, {self.server}, K = {self.local_steps}, γ = {step}"


def grid_of(settings: ExperimentSettings, algorithm: str) -> list[Method]:
    """Every K × γ of an algorithm; Distributed-IHT has K = 1.

    Examples
    --------
    >>> from fedsparse.research.experiments import read_settings
    >>> len(grid_of(read_settings("rcv1"), "Fed-HT"))
    36
    """
    grid = settings.grid
    steps = [1] if algorithm == "Distributed-IHT" else grid.local_steps
    return [Method(algorithm, "plain", k, gamma) for k in steps for gamma in grid.step_sizes]


def untuned_of(settings: ExperimentSettings) -> list[Method]:
    """What is not the paper's and has no γ to choose.

    These are its three algorithms with the adaptive server step and automatic γ, and FedSplice.

    Examples
    --------
    >>> from fedsparse.research.experiments import read_settings
    >>> [method.local_steps for method in untuned_of(read_settings("rcv1"))]
    [1, 10, 10, None]
    """
    steps = settings.adaptive_local_steps
    adaptive = [
        Method(algorithm, "adaptive", 1 if algorithm == "Distributed-IHT" else steps)
        for algorithm in ALGORITHMS
    ]
    return [*adaptive, Method(SPLICING)]


def lowest_of(runs: Iterable[tuple[Method, pl.DataFrame]]) -> Method | None:
    """The method that ended lowest, the first of several; None if all diverged.

    Examples
    --------
    >>> low = pl.DataFrame({"objective": [3.0, 1.0], "diverged": [False, False]})
    >>> high = pl.DataFrame({"objective": [3.0, 2.0], "diverged": [False, False]})
    >>> lowest_of((Method("Fed-HT", "plain", k, 0.1), run) for k, run in ((3, high), (5, low)))
    Method(algorithm='Fed-HT', server='plain', local_steps=5, step_size=0.1)
    """
    ends = [
        (float(run["objective"][-1]), method) for method, run in runs if not run["diverged"][-1]
    ]
    return min(ends, key=lambda end: end[0])[1] if ends else None
