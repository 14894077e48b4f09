"""The settings of a training run, as Flower's run configuration holds them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsparse.algorithms import Algorithm, DistributedIHT, FedHT, FedIterHT, FedSplice
from fedsparse.engines.flower.conduct import Conduct, IfAbsent
from fedsparse.errors import OptionError
from fedsparse.losses import LOSSES, Loss

Count = Annotated[int, Field(ge=1)]
Method = Literal["FedHT", "FedIterHT", "DistributedIHT", "FedSplice"]


class Training(BaseModel):
    """What to train, and how; names in the run configuration are written with hyphens.

    Zero stands for "not set" where a run configuration cannot leave something out.

    Examples
    --------
    >>> training = Training.from_run_config({"sparsity": 20, "sites": 5, "local-steps": 3})
    >>> training.algorithm().local_steps, training.conduct().fewest
    (3, 5)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sparsity: Count
    sites: Count
    method: Method = "FedIterHT"
    loss: Literal["squared", "logistic", "softmax"] = "squared"
    l2: Annotated[float, Field(ge=0.0)] = 0.0
    rounds: Count = 100
    local_steps: Count = 10
    step_size: Annotated[float, Field(ge=0.0)] = 0.0
    """0 for 1 over the largest smoothness of a site."""
    batch_size: Annotated[int, Field(ge=0)] = 0
    """0 for all rows."""
    weights: Literal["uniform", "samples"] = "uniform"
    server_step: Literal["average", "extrapolated", "adaptive"] = "average"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    evaluate_every: Count = 1
    min_sites: Annotated[int, Field(ge=0)] = 0
    """0 for all."""
    if_absent: IfAbsent = "continue"
    round_seconds: Annotated[float, Field(gt=0.0)] = 120.0
    longest_wait: Annotated[float, Field(gt=0.0)] = 3600.0
    minimum_rows: Count = 5
    data: str = ""
    """In Flower's simulation, the folder with a table for each site; else sites have their own."""
    target: str = ""
    """In Flower's simulation, the column to predict."""
    out: str = ""
    """Folder for the results; nothing is written without one."""
    resume: bool = False

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> "Training":
        """Read Flower's run configuration; an OptionError names what is wrong."""
        try:
            return cls.model_validate({name.replace("-", "_"): config[name] for name in config})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"]).replace("_", "-")
            raise OptionError(f"{name}: {first['msg'].lower()}; correct it") from None

    def to_run_config(self) -> dict[str, str | int | float | bool]:
        """What differs from the defaults, as `from_run_config` reads it."""
        changed = self.model_dump(exclude_defaults=True)
        return {name.replace("_", "-"): value for name, value in changed.items()}

    def algorithm(self) -> Algorithm:
        """The method with its options."""
        if self.method == "FedSplice":
            return FedSplice(self.sparsity, weights=self.weights)
        options: dict[str, Any] = {
            "step_size": self.step_size or "auto",
            "batch_size": self.batch_size or None,
            "weights": self.weights,
            "server_step": 1.0 if self.server_step == "average" else self.server_step,
        }
        if self.method == "DistributedIHT":
            return DistributedIHT(self.sparsity, **options)
        kind = FedHT if self.method == "FedHT" else FedIterHT
        return kind(self.sparsity, local_steps=self.local_steps, **options)

    def problem(self) -> Loss:
        """The loss."""
        return LOSSES[self.loss](l2=self.l2)

    def conduct(self) -> Conduct:
        """How absent sites are dealt with."""
        return Conduct(
            sites=self.sites,
            min_sites=self.min_sites or None,
            if_absent=self.if_absent,
            round_seconds=self.round_seconds,
            longest_wait=self.longest_wait,
            minimum_rows=self.minimum_rows,
        )

    def folder(self) -> Path | None:
        """Where results go."""
        return Path(self.out) if self.out else None
