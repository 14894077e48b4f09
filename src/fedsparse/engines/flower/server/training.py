"""The settings of a training run, as Flower's run configuration holds them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from fedsparse.algorithms import Algorithm, DistributedIHT, FedHT, FedIterHT, FedSplice
from fedsparse.engines.flower.server.agreement import Terms
from fedsparse.engines.flower.server.conduct import Conduct, IfAbsent
from fedsparse.errors import OptionError
from fedsparse.fitting import FitOptions, loss_for
from fedsparse.tables import Encoding, NumberedEncoding, Roles
from fedsparse.tables.agreeing import MINIMUM_ROWS
from fedsparse.tables.cells import Task
from fedsparse.tables.inputs import check_roles

Count = Annotated[int, Field(ge=1)]
Method = Literal["auto", "FedSplice", "FedIterHT", "FedHT", "DistributedIHT"]


def _list(value: object) -> object:
    """Names as JSON writes them: a run configuration holds no lists."""
    return json.loads(value) if isinstance(value, str) else value


_CONDUCT = {
    "sites", "rounds", "evaluate_every", "min_sites", "if_absent", "round_seconds", "longest_wait",
    "data", "target", "title", "out", "resume",
}  # fmt: skip
Names = Annotated[tuple[str, ...], BeforeValidator(_list)]


class Training(BaseModel):
    """What to train, and how; names in the run configuration are written with hyphens.

    Zero stands for "not set" where a run configuration cannot leave something out.

    Examples
    --------
    >>> training = Training.from_run_config({"sparsity": 20, "sites": 5, "drop": '["name"]'})
    >>> training.terms().drop, training.conduct().fewest
    (('name',), 5)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    sparsity: Count
    """τ, the intercept not counted."""
    sites: Count
    task: Task = "auto"
    drop: Names = ()
    category: Names = ()
    keep: Names = ()
    impute: Literal["no", "mean"] = "no"
    minimum_rows: Count = MINIMUM_ROWS
    standardize: bool = True
    intercept: bool = True
    l2: float = -1.0
    """Below 0: set by the number of rows."""
    method: Method = "auto"
    """FedSplice, or FedIter-HT with the adaptive server step for more than two classes."""
    rounds: Count = 100
    local_steps: Count = 10
    step_size: Annotated[float, Field(ge=0.0)] = 0.0
    """0 for 1 over the largest smoothness of a site."""
    batch_size: Annotated[int, Field(ge=0)] = 0
    """0 for all rows."""
    weights: Literal["uniform", "samples"] = "samples"
    server_step: Literal["average", "extrapolated", "adaptive"] = "average"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    evaluate_every: Count = 10
    min_sites: Annotated[int, Field(ge=0)] = 0
    """0 for all."""
    if_absent: IfAbsent = "continue"
    round_seconds: Annotated[float, Field(gt=0.0)] = 120.0
    longest_wait: Annotated[float, Field(gt=0.0)] = 3600.0
    data: str = ""
    """In Flower's simulation, the folder with a table for each site; else sites have their own."""
    target: str = ""
    """In Flower's simulation, the column to predict."""
    title: str = ""
    out: str = ""
    """Folder for the results; nothing is written without one."""
    resume: bool = False

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        """Refuse options that the method would not heed."""
        if self.method in ("auto", "FedSplice"):
            unheeded = ["local_steps", "step_size", "batch_size", "server_step"]
            unheeded += ["weights"] if self.method == "auto" else []
        else:
            unheeded = ["local_steps"] if self.method == "DistributedIHT" else []
        for name in unheeded:
            if getattr(self, name) != type(self).model_fields[name].default:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} means nothing with --method {self.method}")
        return self

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> "Training":
        """Read Flower's run configuration; an OptionError names what is wrong."""
        try:
            return cls.model_validate({name.replace("-", "_"): config[name] for name in config})
        except ValidationError as error:
            first = error.errors()[0]
            if not first["loc"]:
                problem = first["msg"].removeprefix("Value error, ")
                raise OptionError(f"{problem}; leave it out") from None
            name = ".".join(str(part) for part in first["loc"]).replace("_", "-")
            raise OptionError(f"{name}: {first['msg'].lower()}; correct it") from None

    def to_run_config(self) -> dict[str, str | int | float | bool]:
        """All settings, as `from_run_config` reads them."""
        return {
            name.replace("_", "-"): json.dumps(value) if isinstance(value, tuple) else value
            for name, value in self.model_dump().items()
        }

    def what_is_learnt(self) -> dict[str, str | int | float | bool]:
        """The settings on which the model depends, and not who waits how long for whom."""
        return {
            name: value
            for name, value in self.to_run_config().items()
            if name.replace("-", "_") not in _CONDUCT
        }

    def terms(self) -> Terms:
        """On which terms the sites' tables are put together."""
        check_roles(Roles(drop=self.drop, categories=self.category, keep=self.keep))
        return Terms(
            task=self.task,
            drop=self.drop,
            categories=self.category,
            keep=self.keep,
            impute="mean" if self.impute == "mean" else None,
            minimum_rows=self.minimum_rows,
        )

    def fit_options(self, encoding: Encoding | NumberedEncoding, rows: float) -> FitOptions:
        """How the model is fitted, once it is known what the sites have."""
        classes = None if encoding.classes is None else len(encoding.classes)
        return FitOptions(
            loss_for(classes, rows, "auto" if self.l2 < 0 else self.l2),
            algorithm=self.algorithm(),
            keep=encoding.kept,
            standardize=self.standardize,
            intercept=self.intercept,
            rounds=self.rounds,
            seed=self.seed,
        )

    def algorithm(self) -> Algorithm | None:
        """The method with its options; None for the one that suits the loss."""
        if self.method == "auto":
            return None
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

    def conduct(self) -> Conduct:
        """How absent sites are dealt with."""
        return Conduct(
            sites=self.sites,
            min_sites=self.min_sites or None,
            if_absent=self.if_absent,
            round_seconds=self.round_seconds,
            longest_wait=self.longest_wait,
        )

    def folder(self) -> Path | None:
        """Where results go."""
        return Path(self.out) if self.out else None
