"""From an experiment's settings to clients with data."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import Int64Array
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import LOSSES, Loss
from fedsparse.research.data.clusters import text_clusters
from fedsparse.research.data.partition import by_categories, seeded_generator
from fedsparse.research.datasets import (
    load_e2006,
    load_mnist,
    load_rcv1,
    simulation_1,
    simulation_2,
)
from fedsparse.research.experiments.experiment_settings import ExperimentSettings, read_settings

if TYPE_CHECKING:
    from fedsparse.tables.dataset import Dataset

_SIMULATIONS = {"simulation_1": simulation_1, "simulation_2": simulation_2}
_LOADERS = {"e2006": load_e2006, "rcv1": load_rcv1, "mnist": load_mnist}


@dataclass(frozen=True, eq=False)
class Problem:
    """What the algorithms of an experiment are run on."""

    title: str
    data: FederatedData
    loss: Loss
    sparsity: int


class Experiment:
    """Settings, and the data they speak of.

    Examples
    --------
    >>> experiment = load_experiment("simulation-1")
    >>> experiment.title, experiment.settings.rounds
    ('Simulation I', 100)
    """

    def __init__(self, settings: ExperimentSettings) -> None:
        self.settings = settings

    @property
    def title(self) -> str:
        """Title that tells a stand-in from the real set."""
        table = self.table
        return self.settings.title + (" (stand-in)" if table and table.stand_in else "")

    @cached_property
    def table(self) -> "Dataset | None":
        """Rows before they are split over clients; None for a simulation."""
        settings = self.settings.data
        return _LOADERS[settings.source]() if settings.source in _LOADERS else None

    def problem(self, seed: int) -> Problem:
        """The clients of one seed."""
        settings = self.settings
        loss = LOSSES[settings.loss](l2=settings.l2)
        return Problem(self.title, self._clients(seed), loss, settings.sparsity)

    def categories(self, seed: int) -> tuple[Int64Array, Int64Array]:
        """Rows of the table that are used, and the category of each."""
        table = self.table
        if table is None:
            raise OptionError(f"{self.title} is drawn client by client and has no categories")
        settings = self.settings.data
        rows = _some_rows(table.samples, settings.rows, seed)
        if settings.source == "mnist":
            return rows, table.targets[rows].astype(np.int64)
        labels = text_clusters(table.features[rows], count=settings.categories, seed=seed)
        return rows, labels

    def _clients(self, seed: int) -> FederatedData:
        settings = self.settings.data
        if self.table is None:
            return _simulated(self.settings, seed)
        rows, categories = self.categories(seed)
        owners = by_categories(
            categories, clients=settings.clients, parts=settings.parts, seed=seed
        )
        features, targets = self.table
        if rows.size < self.table.samples:
            features, targets = features[rows], targets[rows]
        return FederatedData.from_table(features, targets, owners)


def load_experiment(name: str, *, quick: bool = False) -> Experiment:
    """One of the paper's experiments by name, or one of your own by the path of its TOML file.

    Parameters
    ----------
    name, quick
        See `fedsparse.research.experiments.experiment_settings.read_settings`.

    Examples
    --------
    >>> load_experiment("mnist", quick=True).settings.data.rows
    12000
    """
    return Experiment(read_settings(name, quick=quick))


def _simulated(settings: ExperimentSettings, seed: int) -> FederatedData:
    try:
        return _SIMULATIONS[settings.data.source](**settings.data.options, seed=seed)  # type: ignore[arg-type]
    except TypeError as error:
        raise OptionError(
            f'experiment {settings.name}: key "data.options" does not fit '
            f"{settings.data.source}: {error}"
        ) from None


def _some_rows(samples: int, rows: int | None, seed: int) -> Int64Array:
    if rows is None or rows >= samples:
        return np.arange(samples)
    return np.sort(seeded_generator(seed).permutation(samples)[:rows])
