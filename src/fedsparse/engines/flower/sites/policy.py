"""What a site's administrator allows, enforced on the site."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsparse.codec.requests import REQUESTS
from fedsparse.errors import OptionError
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.requests import Curvature, LocalSteps, Request
from fedsparse.tables import SiteDescription
from fedsparse.tables.description import ColumnDescription
from fedsparse.tables.findings import listed

Count = Annotated[int, Field(ge=1)]

_WAYS_OUT = {
    "ColumnSquares": "train with --no-standardize",
    "ColumnSums": "train without the site, or have it change its policy",
    "Curvature": "train with --method FedIterHT",
    "Judge": "train with --held-out none",
    JudgeAlone.__name__: "train with --held-out none",
    "LocalSteps": "train with --method FedSplice",
    "Slopes": "train with --method FedIterHT",
    "Smoothness": "train with a --step-size",
    "SmoothnessAbove": "train with a --step-size",
}


class Policy(BaseModel):
    """What a site answers; everything has a safe default.

    Examples
    --------
    >>> policy = Policy(smallest_samples=10)
    >>> import numpy as np
    >>> policy.objection(LocalSteps(np.zeros(3), steps=1, step_size=1.0, batch_size=2), rows=50)
    'mini-batches of 2 rows reveal fewer than the 10 its policy allows; use batches of at least 10'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: tuple[str, ...] = tuple(REQUESTS)
    """Names of the requests that are answered."""
    smallest_samples: Count = 5
    """Fewest rows that anything told may speak of: a table, a level, a class, a mini-batch, the
    rows of a column of numbers that differ from all others. Features that have numbers instead of
    names are not looked at one by one: that few rows have one is the rule there."""
    smallest_support: Count = 1
    """Fewest features that curvature may be asked on."""
    most_rounds: Count | None = None
    """Requests answered in one run, those for sums of columns, l_i, the objective or metrics not
    counted. Each model of an analysis takes some: cross-validation takes hundreds."""
    most_local_steps: Count = 10_000
    """In one request: more keep the site busy for long."""

    def objection_to_telling(
        self, description: SiteDescription, standing_out: Sequence[str] = ()
    ) -> str | None:
        """Why a table is not described, or None.

        Parameters
        ----------
        description
            What would be told.
        standing_out
            Columns of numbers in which a few rows differ from all others.
        """
        fewest = self.smallest_samples
        if description.rows < fewest:
            return f"it has fewer rows than the {fewest} its policy asks for; train without it"
        counts = {column.name: _fewest(column) for column in description.columns}
        rare = {name for name, count in counts.items() if 0 < count < fewest}
        small = [name for name in counts if name in rare.union(standing_out)]
        if small:
            return (
                f"fewer than {fewest} rows have some value or level of {listed(small)}, and its "
                "policy allows no fewer; drop them with --drop, or have the site merge rare levels "
                "or lower smallest_samples in its policy"
            )
        if self._has_rare_labels(description):
            return (
                f"fewer than {fewest} of its rows have some label of the target, and its policy "
                "allows no fewer; have the site change its policy, or train without it"
            )
        return None

    def allowed(self, description: SiteDescription) -> SiteDescription:
        """The description without labels that the policy forbids and nobody needs.

        More than two numbers are taken for classes only if the server says so.
        """
        target = description.target
        if target is None or target.kind == "label" or len(target.labels or {}) <= 2:
            return description
        if not self._has_rare_labels(description):
            return description
        plain = target.model_copy(update={"labels": None})
        return description.model_copy(update={"target": plain})

    def _has_rare_labels(self, description: SiteDescription) -> bool:
        labels = (None if description.target is None else description.target.labels) or {}
        return any(count < self.smallest_samples for count in labels.values())

    def objection(self, request: Request, rows: int) -> str | None:
        """Why a request is not answered on so many rows, or None."""
        name = type(request).__name__
        if name not in self.requests:
            return f"its policy does not allow {name}; {_WAYS_OUT.get(name, 'do without')}"
        if rows < self.smallest_samples:
            return (
                f"it has fewer rows than the {self.smallest_samples} its policy asks for; "
                "train without it"
            )
        return self._objection_to_detail(request)

    def _objection_to_detail(self, request: Request) -> str | None:
        fewest = self.smallest_samples
        if isinstance(request, LocalSteps) and request.steps > self.most_local_steps:
            return (
                f"its policy allows {self.most_local_steps} local steps and not {request.steps}; "
                "ask for fewer"
            )
        if isinstance(request, LocalSteps) and 0 < (request.batch_size or 0) < fewest:
            return (
                f"mini-batches of {request.batch_size} rows reveal fewer than the {fewest} its "
                f"policy allows; use batches of at least {fewest}"
            )
        if isinstance(request, Curvature) and request.support.size < self.smallest_support:
            return (
                f"curvature on {request.support.size} features reveals more than its policy "
                f"allows; ask on at least {self.smallest_support}"
            )
        return None


def _fewest(column: ColumnDescription) -> int:
    """Fewest rows that what is told of a column speaks of."""
    if column.levels:
        return min(column.levels.values())
    return 0 if column.numbers is None else column.numbers.count


def read_policy(path: Path) -> Policy:
    r"""Read a policy file in TOML.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "policy.toml"
    >>> _ = path.write_text("smallest_samples = 20\nmost_rounds = 100")
    >>> read_policy(path).most_rounds
    100
    """
    try:
        policy = Policy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not a TOML file ({error}); mend it") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].lower()
        raise OptionError(f"{path}: {name}: {problem}; see the example of a policy") from None
    unknown = sorted(set(policy.requests) - set(REQUESTS))
    if unknown:
        raise OptionError(
            f"{path}: requests names {unknown[0]!r}; the requests are {', '.join(REQUESTS)}"
        )
    return policy
