"""What a site's administrator allows, enforced on the site."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.modelling.alone import JudgeAlone
from fedsparse.modelling.specification import Count
from fedsparse.problem.rows import PartOfRows
from fedsparse.requests import Curvature, Evaluate, Judge, LocalSteps, Request
from fedsparse.requests.wire.request_bytes import REQUESTS
from fedsparse.tables import SiteDescription
from fedsparse.tables.describing import ColumnDescription

FEWEST_JUDGED = 3
"""Fewest rows that metrics may speak of."""

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

_SELDOM_ASKED = ("Gradient", "ShiftedLasso")
"""By no method that `train` offers by name."""


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
    most_parts: Count = 10
    """Parts that a lens may cut rows into: of many parts each would be a single row."""
    most_local_steps: Count = 10_000
    """In one request: more keep the site busy for long."""

    def withheld(
        self, description: SiteDescription, standing_out: Sequence[str] = ()
    ) -> frozenset[str]:
        """Columns of which nothing is told, because few rows have some value or level.

        Parameters
        ----------
        description
            What would be told.
        standing_out
            Columns of numbers in which a few rows differ from all others.
        """
        counts = {column.name: _fewest(column) for column in description.columns}
        rare = {name for name, count in counts.items() if 0 < count < self.smallest_samples}
        return frozenset(rare.union(standing_out))

    def objection_to_few(self, rows: int) -> str | None:
        """Why nothing is told of a table with so many rows, or None."""
        fewest = self.smallest_samples
        if rows < fewest:
            return f"it has fewer rows than the {fewest} its policy asks for; train without it"
        return None

    def limits(self) -> tuple[str, ...]:
        """What training may run into, in sentences; what rarely matters is not among it.

        Examples
        --------
        >>> Policy().limits()
        ()
        >>> Policy(most_rounds=50).limits()
        ('its policy allows 50 answers in a run; each model of an analysis takes some',)
        """
        asked = [name for name in REQUESTS if name not in _SELDOM_ASKED]
        found = [_not_allowed(name) for name in asked if name not in self.requests]
        if self.smallest_support > 1:
            found.append(
                f"curvature is told on at least {self.smallest_support} features; train with a "
                f"--sparsity of at least {self.smallest_support}"
            )
        if self.most_rounds is not None:
            found.append(
                f"its policy allows {self.most_rounds} answers in a run; each model of an analysis "
                "takes some"
            )
        return tuple(found)

    def allowed(
        self, description: SiteDescription, *, numbers_are_classes: bool = False
    ) -> SiteDescription:
        """The description with 0 for the rows of every label that few rows have.

        Which labels there are is told. More than two numbers are classes only if the server says
        so; else nothing is told of them if few rows have one.
        """
        target = description.target
        labels = (None if target is None else target.labels) or {}
        if target is None or all(count >= self.smallest_samples for count in labels.values()):
            return description
        told: dict[str, int] | None = {
            label: count if count >= self.smallest_samples else 0 for label, count in labels.items()
        }
        if target.kind == "number" and len(labels) > 2 and not numbers_are_classes:
            told = None
        plain = target.model_copy(update={"labels": told})
        return description.model_copy(update={"target": plain})

    def objection_to_lens(self, lens: Lens) -> str | None:
        """Why rows are not looked at like that, or None."""
        parts = [cut.of for cut in lens.rows.cuts if isinstance(cut, PartOfRows)]
        if max(parts, default=0) > self.most_parts:
            return f"its policy lets rows be cut into {self.most_parts} parts; use fewer folds"
        return None

    def fewest_rows(self, request: Request) -> int:
        """Fewest rows a lens must show for a request to be answered as if it had any.

        What is learnt from must be ``smallest_samples`` rows. Rows that are only judged on may be
        fewer, because folds of small sites are: two for a sum of losses, three where the sum of
        targets and of their squares is told, which would give two away.
        """
        fewest = {Evaluate: 2, Judge: FEWEST_JUDGED}.get(type(request), self.smallest_samples)
        return min(fewest, self.smallest_samples)

    def objection(self, request: Request, rows: int) -> str | None:
        """Why a request is not answered on so many rows, or None."""
        name = type(request).__name__
        if name not in self.requests:
            return _not_allowed(name)
        return self.objection_to_few(rows) or self._objection_to_detail(request)

    def _objection_to_detail(self, request: Request) -> str | None:
        fewest = self.smallest_samples
        if isinstance(request, JudgeAlone) and request.parts > self.most_parts:
            return f"its policy lets rows be cut into {self.most_parts} parts; use fewer folds"
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


def _not_allowed(name: str) -> str:
    return f"its policy does not allow {name}; {_WAYS_OUT.get(name, 'do without')}"


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
