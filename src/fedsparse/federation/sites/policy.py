"""What a site's administrator allows, enforced on the site."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsparse.engines.lens import Lens
from fedsparse.errors import OptionError
from fedsparse.federation.sites.questions import MOST_CHANGES
from fedsparse.files import check_ends
from fedsparse.modelling.alone import JudgeAlone, JudgeCountsAlone, JudgeSurvivalAlone
from fedsparse.modelling.specification import Count
from fedsparse.problem.rows import PartOfRows
from fedsparse.requests import (
    Curvature,
    Evaluate,
    Judge,
    JudgeCounts,
    JudgeSurvival,
    LocalSteps,
    Request,
    Slopes,
)
from fedsparse.requests.wire.request_bytes import REQUESTS
from fedsparse.tables import SiteDescription
from fedsparse.tables.sentences import counted

FEWEST_JUDGED = 3
"""Fewest rows that metrics may speak of."""

FEWEST_CUT_OFF = 2
"""Fewest rows by which two parts may differ: with one, the difference of two sums is that row."""

_WAYS_OUT = {
    "ClassCurvature": "train with --method FedIterHT",
    "ColumnSquares": "train with --no-standardize",
    "ColumnSums": "train without the site, or have it change its policy",
    "CorrectedSteps": "train with --method FedSplice",
    "Curvature": "train with --method FedIterHT",
    "Gradient": "train with --dense no",
    "Judge": "train with --held-out none",
    "JudgeCounts": "train with --held-out none",
    "JudgeSurvival": "train with --held-out none",
    "ScoreCounts": "train with --held-out none",
    JudgeAlone.__name__: "train with --held-out none",
    JudgeCountsAlone.__name__: "train with --held-out none",
    JudgeSurvivalAlone.__name__: "train with --held-out none",
    "LocalSteps": "train with --method FedSplice",
    "NoBetterThanNull": "train with --open-sums",
    "SurvivalCounts": "have the site allow it",
    "SurvivalMoments": "have the site allow it",
    "SharedCurvature": "train with --method FedIterHT",
    "Slopes": "train with --method FedIterHT",
    "Smoothness": "train with a --step-size",
    "SmoothnessAbove": "train with a --step-size",
}

_WHOLE_ANALYSIS = 2500
"""Answers that the default analysis takes of a site, for numbers or two classes: 1,600 to 2,000
were measured."""
_LENIENCE = 0.01
_MOST_CUTS = 8
_MOST_PARTINGS = 2
"""Cuts into parts, one of what the other leaves: choosing τ within training rows takes two."""

_SELDOM_ASKED = (
    "CorrectedSteps", "Gradient", "ShiftedLasso", "JudgeCounts", "JudgeCountsAlone",
    "JudgeSurvival", "JudgeSurvivalAlone", "SurvivalCounts", "SurvivalMoments",
)  # fmt: skip
"""By no method that `train` offers by name, or of counts and survival alone."""


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

    open_sums: bool = False
    """Whether the server may see this site's answers; else they are only added up under masks."""
    requests: tuple[str, ...] = tuple(REQUESTS)
    """Names of the requests that are answered."""
    smallest_samples: Count = 5
    """Fewest rows that anything told may speak of: a table, a level, a class, a mini-batch, the
    rows of a column of numbers that differ from all others. Features that have numbers instead of
    names are not looked at one by one: that few rows have one is the rule there."""
    smallest_support: Count = 1
    """Fewest features that curvature may be asked on."""
    most_answers: Count = 200_000
    """Requests answered on one table, whatever they ask for and in whichever run."""
    most_answers_per_month: Count = 100_000
    """Requests answered within 30 days, on whatever table."""
    most_judged: Count = 200
    """Of these, models judged on one table (`Judge` and its like, `ScoreCounts`,
    `NoBetterThanNull`): each compares every row with planes of the server's choice. The default
    analysis takes eleven."""
    most_changes_of_sites: Count = MOST_CHANGES
    """How often the sites may change that answer under masks together with this one: a server that
    says that one dropped out, and asks nearly the same without it, learns about that one."""
    most_parts: Count = 10
    """Parts that a lens may cut rows into: of many parts each would be a single row."""
    most_local_steps: Count = 10_000
    """In one request: more keep the site busy for long."""
    smallest_weight_of_others: Annotated[float, Field(ge=0, le=1)] = 0.01
    """What a row must weigh that is not among the ``smallest_samples`` − 1 heaviest, on average;
    see `fedsparse.federation.sites.disclosure`. In analyses of gene-expression sets and others with
    the ℓ2 weight by default it was 0.07 or more where a model is learnt and 0.01 or more where it
    is judged on as many rows; 6e-5 and less where an x was steep enough to tell rows apart
    (``python -m benchmarks dominance``)."""
    most_features_per_row: Annotated[float, Field(gt=0)] = 1 / 3
    """Features that curvature may be asked on, over rows: a third, as in DataSHIELD. With as many
    features as rows a Hessian gives the rows away up to a rotation."""
    smallest_l2: Annotated[float, Field(ge=0)] = 1e-8
    """Least weight of the ℓ2 term where classes are learnt: without one, coefficients run away
    where classes can be separated, and answers come to speak of few rows. 8 / rows by default."""

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
        counts = {
            column.name: column.numbers.count
            for column in description.columns
            if column.numbers is not None
        }
        few = {name for name, count in counts.items() if count < self.smallest_samples}
        return self.with_rare_levels(description).union(few, standing_out)

    def with_rare_levels(self, description: SiteDescription) -> frozenset[str]:
        """Categories with a level that few rows have: its very name would tell of them.

        Under secure sums these alone are withheld. How many rows tell a column of numbers apart
        is counted over all sites, and the server leaves out what too few do: a site sees no sum.
        """
        return frozenset(
            name
            for name, levels in description.levels.items()
            if min(levels.values()) < self.smallest_samples
        )

    def objection_to_few(self, rows: int) -> str | None:
        """Why nothing is told of a table with so many rows, or None."""
        fewest = self.smallest_samples
        if rows < fewest:
            return f"it has fewer rows than the {fewest} its policy asks for; train without it"
        return None

    def limits(self, on_table: int = 0, in_month: int = 0) -> tuple[str, ...]:
        """What training may run into, in sentences; what rarely matters is not among it.

        Parameters
        ----------
        on_table, in_month
            Answers given so far: on the table, and within 30 days.

        Examples
        --------
        >>> Policy().limits()
        ()
        >>> Policy(most_answers=50).limits(on_table=8)
        ('its policy allows 42 more answers; each model of an analysis takes some',)
        """
        asked = [name for name in REQUESTS if name not in _SELDOM_ASKED]
        found = [_not_allowed(name) for name in asked if name not in self.requests]
        if self.smallest_support > 1:
            found.append(
                f"curvature is told on at least {self.smallest_support} features; train with a "
                f"--sparsity of at least {self.smallest_support}"
            )
        left = min(self.most_answers - on_table, self.most_answers_per_month - in_month)
        if left < _WHOLE_ANALYSIS:
            found.append(
                f"its policy allows {counted(max(left, 0), 'more answer')}; each model of an "
                "analysis takes some"
            )
        return tuple(found)

    def objection_to_spending(self, asked: int, on_table: int, in_month: int) -> str | None:
        """Why so many requests are not answered after those that were, or None.

        Examples
        --------
        >>> Policy(most_answers=50).objection_to_spending(3, on_table=48, in_month=48)
        'its policy allows 50 answers on a table, and 48 are given; ask for less, or have it allow \
        more'
        """
        if on_table + asked > self.most_answers:
            return (
                f"its policy allows {counted(self.most_answers, 'answer')} on a table, and "
                f"{on_table:,} {_are(on_table)} given; ask for less, or have it allow more"
            )
        if in_month + asked > self.most_answers_per_month:
            return (
                f"its policy allows {counted(self.most_answers_per_month, 'answer')} within 30 "
                f"days, and {in_month:,} {_are(in_month)} given; wait, ask for less, or have it "
                "allow more"
            )
        return None

    def objection_to_judging(self, asked: int, judged: int) -> str | None:
        """Why so many models are not judged after those that were, or None.

        Examples
        --------
        >>> Policy(most_judged=9).objection_to_judging(2, 8)
        'its policy lets 9 models be judged on a table, and 8 are; ask for less, or have it allow \
        more'
        """
        if asked == 0 or judged + asked <= self.most_judged:
            return None
        return (
            f"its policy lets {counted(self.most_judged, 'model')} be judged on a table, and "
            f"{judged:,} {_are(judged)}; ask for less, or have it allow more"
        )

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
        if len(parts) > _MOST_PARTINGS or 1 in parts:
            return f"it cuts rows into two or more parts, at most {_MOST_PARTINGS} times"
        if len(lens.rows.cuts) > _MOST_CUTS:
            return f"it cuts rows at most {_MOST_CUTS} times; ask for less"
        if not lens.loss.is_quadratic and lens.loss.l2 < self.smallest_l2:
            return (
                f"its policy wants an ℓ2 weight of at least {self.smallest_l2:g} for classes and "
                f"not {lens.loss.l2:g}; leave --l2 out, or raise it"
            )
        return None

    def objection_to_ratio(self, request: Request, rows: int) -> str | None:
        """Why curvature is not told on so many features, or None.

        Parameters
        ----------
        request
            What is asked.
        rows
            That the answer is added up over: the site's own where its answer is told as it is,
            those of all sites under secure sums.

        Examples
        --------
        >>> import numpy as np
        >>> asked = Curvature(np.zeros(9), np.arange(9))
        >>> Policy().objection_to_ratio(asked, rows=27)
        >>> Policy().objection_to_ratio(asked, rows=26)
        'curvature on 9 features tells too much about so few rows; train with --method FedIterHT, \
or have the site raise most_features_per_row'
        """
        features = _curved(request)
        if features <= self.most_features_per_row * rows:
            return None
        return (
            f"curvature on {features} features tells too much about so few rows; train with "
            "--method FedIterHT, or have the site raise most_features_per_row"
        )

    def fewest_rows(self, request: Request) -> int:
        """Fewest rows a lens must show for a request to be answered as if it had any.

        What is learnt from must be ``smallest_samples`` rows. Rows that are only judged on may be
        fewer, because folds of small sites are: two for a sum of losses, three where the sum of
        targets and of their squares is told, which would give two away.
        """
        judged = dict.fromkeys((Judge, JudgeCounts, JudgeSurvival), FEWEST_JUDGED)
        fewest = {Evaluate: 2, **judged}.get(type(request), self.smallest_samples)
        return min(fewest, self.smallest_samples)

    def least_weight_of_others(self, rows: int) -> float:
        """`smallest_weight_of_others` for an answer on so many rows.

        Parts that are only judged on may have fewer rows than ``smallest_samples``. One that is
        badly predicted then outweighs the rest as a rule, and metrics would be too good if such
        parts were left out: a hundredth will do there.

        Examples
        --------
        >>> Policy().least_weight_of_others(5), Policy().least_weight_of_others(4)
        (0.01, 0.0001)
        """
        is_few = rows < self.smallest_samples
        return self.smallest_weight_of_others * (_LENIENCE if is_few else 1.0)

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
        features = _curved(request)
        is_asked = features > 0 or (isinstance(request, Curvature) and not request.support.size)
        if is_asked and features < self.smallest_support:
            return (
                f"curvature on {features} features reveals more than its policy "
                f"allows; ask on at least {self.smallest_support}"
            )
        return None


def _curved(request: Request) -> int:
    """On how many features a request asks for second derivatives, entries of classes counted.

    Those between which they are known already count, too: they are known because they were told.
    None, where all are known.
    """
    if not isinstance(request, Curvature | Slopes):
        return 0
    if isinstance(request, Curvature) and request.known.size == request.support.size:
        return 0
    return request.support.size


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _not_allowed(name: str) -> str:
    return f"its policy does not allow {name}; {_WAYS_OUT.get(name, 'do without')}"


def read_policy(path: Path) -> Policy:
    r"""Read a policy file in TOML.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "policy.toml"
    >>> _ = path.write_text("smallest_samples = 20\nmost_answers = 4000")
    >>> read_policy(path).most_answers
    4000
    """
    check_ends(path)
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
