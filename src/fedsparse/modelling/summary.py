"""How a model came about: everything that a report shows, in one file."""

from typing import Annotated, Literal, Self

from pydantic import Field

from fedsparse.files import PathLike
from fedsparse.modelling.certainty import Estimated
from fedsparse.modelling.intervals import Interval
from fedsparse.modelling.model import Model
from fedsparse.modelling.stored import Stored, StoredPart


class SiteCount(StoredPart):
    """A site, and how many rows it has."""

    name: str
    rows: int | None
    """None: it does not tell."""
    classes: dict[str, int | None] | None = None
    """Rows of each class, None where a site may not tell how many; None for regression."""
    bytes_down: int | None = None
    bytes_up: int | None = None
    """Content of the messages to and from a site on a network."""
    socket_down: int | None = None
    socket_up: int | None = None
    """What crossed the site's sockets, by its own count."""
    took_part: str | None = None
    """To which end it did, in words, if it was on a network."""
    has_counted: bool = True
    """Whether the model learnt anything from its rows."""


class RoundRecord(StoredPart):
    """A line of a run's history; counts and bytes run from the start."""

    round: int
    objective: float
    nonzeros: int
    bytes_down: int
    bytes_up: int
    seconds: float
    absent: int = 0
    """Answers that did not come."""


class SelectionPoint(StoredPart):
    """How good a model with τ features is."""

    sparsity: int
    score: float
    """Held-out loss for cross-validation, the criterion for EBIC; lower is better."""
    standard_error: float | None = None


class PathPoint(StoredPart):
    """What a feature does in models of τ features, on average over the folds."""

    sparsity: int
    feature: str
    effects: tuple[float, ...]
    """Change of the score per standard deviation; one, or one per class."""


class Selection(StoredPart):
    """How τ was chosen."""

    method: Literal["cv", "ebic"]
    measure: str
    """What the score is, in words, such as ``held-out log-loss per row``."""
    points: tuple[SelectionPoint, ...]
    best: int
    """τ of the lowest score."""
    chosen: int
    """τ that was taken: the smallest within one standard error of the best, for ``cv``."""
    rounds: int
    """Exchanges of messages that it took, the folds sharing them."""
    bytes_down: int
    bytes_up: int
    other_seeds: tuple[int, ...] = ()
    """τ that would have been taken, had other seeds cut the rows into folds; in order of size."""
    path: tuple[PathPoint, ...] = ()
    """Of the features that come first as τ grows; where one is missing, it was not chosen."""


WayOfLearning = Literal["federated", "alone", "pooled", "dense"]
"""All sites together without sharing rows; each site by itself; all rows in one place; all sites
together with all features."""


class Score(StoredPart):
    """Metrics of one way of learning on the held-out rows of one site, or of all."""

    method: WayOfLearning
    site: str | None
    """None: all sites together."""
    rows: int
    metrics: dict[str, float | None]
    """By name; None where it cannot be worked out, such as AUC with one class."""
    intervals: dict[str, Interval | None] = Field(default_factory=dict)
    """95 % intervals of the metrics, by `fedsparse.modelling.intervals`; None of too few rows."""
    guessing: dict[str, float] = Field(default_factory=dict)
    """What one guess for all rows reaches, of the metrics that tell a model from a guess."""

    @property
    def decisive(self) -> str | None:
        """The metric that says whether the model guesses: AUC or R² where there is one."""
        known = [name for name in self.guessing if self.metrics.get(name) is not None]
        return known[-1] if known else None

    @property
    def is_guessing(self) -> bool:
        """Whether the decisive metric may be that of a guess: its interval reaches so far.

        Of too few rows for an interval nothing shows that it is not.
        """
        name = self.decisive
        if name is None:
            return False
        around = self.intervals.get(name)
        return around is None or around[0] <= self.guessing[name]


class Confusion(StoredPart):
    """Held-out rows by true class (rows) and predicted class (columns), of the federated model."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class Calibration(StoredPart):
    """The line on which what was true lies over what was predicted: best are 0 and 1.

    Of classes both are log-odds. A slope below 1 says that predictions are too extreme.
    """

    intercept: float
    intercept_interval: Interval
    slope: float
    slope_interval: Interval


class CurvePoint(StoredPart):
    """What comes of taking all rows for the class whose probability is at least so high."""

    threshold: float
    sensitivity: float
    specificity: float
    net_benefit: float
    """Decision curve: rows taken rightly, less those wrongly at the odds of the threshold; a row.

    Vickers & Elkin, Medical Decision Making 2006."""
    of_all: float
    """The same of taking every row."""


class ObservedShare(StoredPart):
    """Rows of about the same predicted probability."""

    predicted: float
    rows: int
    observed: float
    """Share of them that is of the class."""
    interval: Interval | None


class ClassCurves(StoredPart):
    """How well a class is told from all others; read off counts in coarse bins of probability."""

    label: str
    rows: int
    of_class: int
    auc: float | None
    auc_interval: Interval | None
    threshold: float
    sensitivity: float | None
    """Of the rows of the class, the share whose probability is at least the threshold."""
    sensitivity_interval: Interval | None
    specificity: float | None
    """Of the others, the share whose probability is lower."""
    specificity_interval: Interval | None
    calibration: Calibration | None
    points: tuple[CurvePoint, ...]
    """By threshold, from high to low."""
    shares: tuple[ObservedShare, ...]
    """Calibration curve."""


class Evaluation(StoredPart):
    """Metrics on rows that the models had not seen."""

    folds: int
    """0: the model was tried on other rows, and none were held out."""
    held_out: str
    """Which rows, in words."""
    scores: tuple[Score, ...]
    confusion: Confusion | None = None
    rounds: int = 0
    """Exchanges of messages that it took, the folds sharing them."""
    curves: tuple[ClassCurves, ...] = ()
    """Of the federated model: the second of two classes, each of several."""
    dense: Score | None = None
    """Of a ridge on all features, on all sites' held-out rows: what sparsity costs."""
    calibration: Calibration | None = None
    """Of the federated model, where targets are numbers."""

    @property
    def overall(self) -> Score | None:
        """The federated model on the held-out rows of all sites."""
        own = (score for score in self.scores if score.method == "federated")
        return next((score for score in own if score.site is None), None)


class FeatureStability(StoredPart):
    """How often a feature is chosen."""

    feature: str
    frequency: Annotated[float, Field(ge=0, le=1)]
    """Share of the half-samples in which it is chosen."""
    without_a_site: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the fits that leave one site out in which it is chosen; None with one site."""


class LeftOut(StoredPart):
    """The model of all sites but one."""

    site: str
    """The one whose rows had no part in it."""
    features: tuple[str, ...]
    """Chosen without it."""
    objective: float
    """f over the rows of the others."""
    score: Score | None = None
    """At the site that was left out: how the model does where it learnt nothing."""


class Stability(StoredPart):
    """Stability selection: the model found again on half of the rows of every site, many times."""

    subsamples: int
    sparsity: int
    threshold: float
    """Features chosen at least this often are called stable."""
    expected_false: float
    """Bound on the expected number of wrongly stable features, under the method's assumptions."""
    features: tuple[FeatureStability, ...]
    """Chosen at least once, most frequent first."""
    rounds: int
    left_out: tuple[LeftOut, ...] = ()
    """What was found without each of the sites; empty with one, or where nobody may know."""


class RiskGroup(StoredPart):
    """Survival of rows of similar risk, from counts over bins of time."""

    rows: int
    events: int
    times: tuple[float, ...]
    """Ends of the bins."""
    survival: tuple[float, ...]
    """Share without an event up to each time, by Kaplan and Meier's product."""
    at_risk: tuple[int, ...]
    """Rows at the beginning of each bin."""


class SitesJudged(StoredPart):
    """What sites say of the model on their own rows, each for itself."""

    no_better: int
    """Where it predicts no better than one guess for all rows."""
    sites: int
    """How many told."""


class FeatureAtSite(StoredPart):
    """What a site has of a feature, as far as it may be told."""

    site: str
    rows: int | None = None
    missing: int | None = None
    mean: float | None = None
    """Of the values that are there; for a level, the share of rows that have it."""


class FeatureFacts(StoredPart):
    """What the sites have of a feature of the model."""

    feature: str
    is_share: bool
    """Whether means are shares of rows: those of a level of a category."""
    missing: int | None = None
    """Values that all sites together lack."""
    at_sites: tuple[FeatureAtSite, ...] = ()
    """Empty where nobody may know of single sites."""


class EstimatesAtSites(StoredPart):
    """What each site's own rows say of a feature's coefficient, without shrinkage."""

    feature: str
    by_site: dict[str, Estimated | None]
    """As if chosen beforehand; None where a site cannot say, or does not."""
    inconsistency: float | None
    """I²: the share of the sites' differences that chance does not explain."""
    p_value: float | None
    """That the coefficient is the same at all sites."""


class FitSummary(Stored):
    """All that a report shows of a fit.

    Saved beside the model as ``fit.json``, so that the report can be made again.
    """

    format: Literal["fedsparse-fit"] = "fedsparse-fit"
    title: str
    created: str
    """Date and time, ISO 8601."""
    model: Model
    source: str
    """File or files, as given."""
    is_networked: bool = False
    """Whether rows stayed at sites on a network; else all were in one place, as if they had."""
    sites: tuple[SiteCount, ...]
    together: SiteCount | None = None
    """Rows of all sites, where single ones do not tell theirs."""
    columns: dict[str, int]
    """How many columns there are of each kind, such as ``{"number": 7129}``."""
    candidates: int
    """d: features to choose from, after categories became columns."""
    history: tuple[RoundRecord, ...]
    selection: Selection | None = None
    evaluation: Evaluation | None = None
    stability: Stability | None = None
    features_by_site: tuple[FeatureFacts, ...] = ()
    """In the order of the model's features."""
    estimates_at_sites: tuple[EstimatesAtSites, ...] = ()
    """In the same order; empty where nobody may know of single sites."""
    risk_groups: tuple[RiskGroup, ...] = ()
    """Of survival: rows of low, middle and high risk, the model having learnt from them."""
    at_sites: SitesJudged | None = None
    """Where no sum may tell of one site; else each has a score of its own."""
    exchanges: int = 0
    """Messages to every site and back that all of it took."""
    failure: str | None = None
    """Why the model is worth nothing, in words."""
    settings: dict[str, str]
    notes: tuple[str, ...] = ()
    """Warnings a reader should know of."""

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a summary that a fit wrote."""
        return cls.read(path, "the summary of a fit; `fedsparse fit` writes fit.json")
