"""Which runs an experiment is made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from fedsparse.algorithms import DistributedIHT, FedHT, FedIterHT
from fedsparse.algorithms.step_sizes import ServerStep, StepSize
from fedsparse.research.experiments.experiment_settings import ExperimentSettings

Server = Literal["plain", "extrapolated"]

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
        A name of `ALGORITHMS`.
    server
        ``"plain"``: x_{t+1} is the thresholded average; ``"extrapolated"``: see `FedAvg`.
    local_steps
        K.
    step_size
        γ; None for 1/max l_i.
    """

    algorithm: str
    server: Server
    local_steps: int
    step_size: float | None

    def build(self, sparsity: int) -> FedHT:
        """The algorithm, ready to run.

        Examples
        --------
        >>> Method("Fed-HT", "plain", 5, 0.1).build(200).step_size
        0.1
        """
        step_size: StepSize = "auto" if self.step_size is None else self.step_size
        server_step: ServerStep = 1.0 if self.server == "plain" else "extrapolated"
        kind = ALGORITHMS[self.algorithm]
        if kind is DistributedIHT:
            return kind(sparsity, step_size=step_size, server_step=server_step)
        return kind(
            sparsity, local_steps=self.local_steps, step_size=step_size, server_step=server_step
        )

    def __str__(self) -> str:
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


def extrapolated_of(settings: ExperimentSettings) -> list[Method]:
    """The three algorithms with the extrapolated server step and automatic γ.

    Examples
    --------
    >>> from fedsparse.research.experiments import read_settings
    >>> [method.local_steps for method in extrapolated_of(read_settings("rcv1"))]
    [1, 10, 10]
    """
    return [
        Method(
            algorithm,
            "extrapolated",
            1 if algorithm == "Distributed-IHT" else settings.extrapolated_local_steps,
            None,
        )
        for algorithm in ALGORITHMS
    ]


def best_of(runs: Iterable[tuple[Method, pl.DataFrame]], count: int) -> list[Method]:
    """The methods that ended lowest, best first; diverged ones are left out.

    Examples
    --------
    >>> low = pl.DataFrame({"objective": [3.0, 1.0], "diverged": [False, False]})
    >>> high = pl.DataFrame({"objective": [3.0, 2.0], "diverged": [False, False]})
    >>> runs = [(Method("Fed-HT", "plain", k, 0.1), run) for k, run in ((3, high), (5, low))]
    >>> [method.local_steps for method in best_of(runs, 1)]
    [5]
    """
    finished = [
        (float(run["objective"][-1]), place, method)
        for place, (method, run) in enumerate(runs)
        if not run["diverged"][-1]
    ]
    return [method for _, _, method in sorted(finished, key=lambda item: item[:2])[:count]]
