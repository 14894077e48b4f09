"""Fit a sparse model with an intercept on standardized features, and give it back unscaled.

The intercept is a column of equal numbers that is always kept; the model of τ features has one
non-zero more. Standardization needs two exchanges: sums of columns, then of squares about the mean.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypedDict

import numpy as np

from fedsparse.algorithms import EDSL, Algorithm, FedSplice
from fedsparse.algorithms.algorithm import State
from fedsparse.algorithms.splicing import FEWEST_CANDIDATES
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_not_negative
from fedsparse.engines.conversation import Conversation
from fedsparse.engines.engine import Engine
from fedsparse.engines.result import Result
from fedsparse.engines.run import OnRound, running
from fedsparse.errors import DataError, OptionError
from fedsparse.modelling.specification import FitSpecification
from fedsparse.problem.losses import Cox, Link, Logistic, Loss, Poisson, Softmax, SquaredError
from fedsparse.problem.scaling import Scaling
from fedsparse.problem.sparsity import TopK, TopKPerClass, TopKRows
from fedsparse.requests import Answers, ColumnSquares, ColumnSums, Request
from fedsparse.tables import Encoding, NumberedEncoding
from fedsparse.tables.cells import Task

OnModel = Callable[[str], None]
"""Called with what has just been fitted, once for each model."""

_LARGE, _MODERATE = 100.0, 3.0
"""Intercept column for Newton's method, and for first-order methods, whose steps a large one would
shorten: above 1, so that the ℓ2 term hardly touches the intercept."""

_MOST_CANDIDATES = 500
"""Of a splice, where sites have many rows."""

_BRIEFLY = 100
"""Candidates of models that are only compared, in one process."""

_FEWEST_SPLICING = 2
"""Rounds of one splice: slopes, then curvature."""


def tell_nobody(done: str) -> None:
    """Show nothing."""


class Parting(TypedDict):
    """How rows are cut into parts; see `fedsparse.problem.rows.Rows.part`."""

    of: int
    seed: int
    by_class: bool
    by_event: bool


def parting(loss: Loss, of: int, seed: int) -> "Parting":
    """How rows are cut into parts, so that each has its share of every class, or of the events.

    Examples
    --------
    >>> parting(SquaredError(), 5, 0)
    {'of': 5, 'seed': 0, 'by_class': False, 'by_event': False}
    """
    outcome = loss.outcome
    return {
        "of": of, "seed": seed, "by_class": outcome == "classes", "by_event": outcome == "survival",
    }  # fmt: skip


@dataclass(frozen=True)
class FitOptions:
    """How models are fitted, whatever their τ.

    Parameters
    ----------
    loss
        With its ℓ2 weight.
    algorithm
        None: `FedSplice`. The sparsity of an algorithm that has one is replaced by the one asked
        for. With several classes a feature is in or out for all of them, unless the algorithm comes
        with a `TopKPerClass`.
    keep
        Features that are always kept; they count towards τ.
    standardize, intercept
        Whether to.
    rounds, seed
        As in `run`.
    tolerance
        Of `FedSplice`, where it is the default.
    is_thorough
        Whether `FedSplice` looks at as many candidates as it can, where that is for it to say.
    message_bytes
        Of `FedSplice`, where it is the default. None where rows lie in this process: nothing is
        rounded then. Else the model is that of rows at sites, which may not be asked about many
        more features than they have rows.
    auto_rows
        How many rows the ℓ2 weight was set for by `loss_for`; for other data it is set anew. None:
        it was given and stays.
    """

    loss: Loss
    algorithm: Algorithm | None = None
    keep: tuple[int, ...] = ()
    standardize: bool = True
    intercept: bool = True
    rounds: int = 100
    seed: int = 0
    tolerance: float = 1e-4
    is_thorough: bool = True
    message_bytes: int | None = None
    auto_rows: float | None = None

    @classmethod
    def of(
        cls,
        specification: FitSpecification,
        classes: int | None,
        keep: Sequence[int],
        task: Task = "auto",
        loss: Loss | None = None,
    ) -> "FitOptions":
        """How a specification has models fitted, once it is known what the sites have.

        Parameters
        ----------
        specification
            Of the fit.
        classes
            How many; None: there are none.
        keep
            Features that are always kept.
        task
            What is learnt where there are no classes; see `loss_for`.
        loss
            Another loss than that of the task; its ℓ2 weight is that of the specification.

        Examples
        --------
        >>> FitOptions.of(FitSpecification(l2=0.5), 2, ()).loss
        Logistic(l2=0.5)
        """
        l2 = specification.l2
        # The automatic ℓ2 weight is that of one row here, and set anew for the rows at hand.
        own = loss_for(classes, 1.0, "auto" if l2 is None else l2, task=task)
        if loss is None:
            loss = specification.own_loss()
            _check_suits(loss, own)
        if loss is not None:
            own = replace(loss, l2=loss.precision if l2 is None else l2)
        return cls(
            own,
            algorithm=specification.algorithm(),
            keep=tuple(keep),
            standardize=specification.standardize,
            intercept=specification.intercept and own.has_intercept,
            rounds=specification.rounds,
            seed=specification.seed,
            message_bytes=FedSplice.message_bytes,
            auto_rows=1.0 if l2 is None else None,
        )

    def loss_on(self, mass: float) -> Loss:
        """The loss, its automatic ℓ2 weight that of rows that weigh so much together."""
        if self.auto_rows is None:
            return self.loss
        return replace(self.loss, l2=self.loss.l2 * self.auto_rows / mass)

    @property
    def roughly(self) -> "FitOptions":
        """The same for models of which f alone counts: half the rounds, nearly the same f."""
        return replace(self, tolerance=0.01, is_thorough=False, rounds=self._fewer_rounds)

    @property
    def nearly(self) -> "FitOptions":
        """The same for models that stand for this one: fewer rounds, mostly the same features.

        Exchanges of features often gain less than a percent of f.
        """
        return replace(self, tolerance=0.001, is_thorough=False, rounds=self._fewer_rounds)

    @property
    def _fewer_rounds(self) -> int:
        return min(self.rounds, 10) if self.splices else self.rounds

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return self.loss.outcome == "numbers"

    @property
    def has_classes(self) -> bool:
        """Whether targets are classes."""
        return self.loss.outcome == "classes"

    @property
    def fewest(self) -> int:
        """Features that a model has at least: those to keep, one if it has no intercept either.

        Where a loss has no intercept, a model of nothing has none to learn.
        """
        is_possible = self.intercept or not self.loss.has_intercept
        return max(len(set(self.keep)), 0 if is_possible else 1)

    def how_to_part(self, folds: int) -> "Parting":
        """How every site's rows are cut into folds."""
        return parting(self.loss, folds, self.seed)

    @property
    def splices(self) -> bool:
        """Whether models are found by `FedSplice`, which can start from a smaller one."""
        return self.algorithm is None or isinstance(self.algorithm, FedSplice)


def _check_suits(loss: Loss | None, usual: Loss) -> None:
    if loss is not None and loss.outcome != usual.outcome:
        raise OptionError(
            f"the {loss.name} loss is for {loss.outcome}, and the target is {usual.outcome}; give "
            "another --task, or leave --loss out"
        )


_OF_TASKS: dict[Task, type[Loss]] = {"counts": Poisson, "survival": Cox}
"""What is minimized where there are no classes, if it is not the squared error."""


def loss_of(encoding: Encoding | NumberedEncoding) -> Loss:
    """The loss for what an encoding has learnt, its automatic ℓ2 weight that of one row.

    Examples
    --------
    >>> loss_of(NumberedEncoding(first=1, width=9, task="regression"))
    SquaredError(l2=0.01)
    """
    classes = None if encoding.classes is None else len(encoding.classes)
    return loss_for(classes, 1.0, task=encoding.task)


def loss_for(
    classes: int | None, rows: float, l2: float | str = "auto", *, task: Task = "auto"
) -> Loss:
    """The loss for a task, with a weight of its ℓ2 term.

    Parameters
    ----------
    classes
        How many; None: there are none.
    rows
        What they weigh together.
    l2
        A number, or ``"auto"``.
    task
        Which loss it is where there are no classes: of counts, of survival, else of numbers.

    Notes
    -----
    ``"auto"`` is 8 / rows for classes, counts and survival: coefficients of standardized features
    are then expected within about ± ⅓, and stay finite where few features separate the classes (of
    several such rules, the one that did well on all three sets of ``benchmarks/genes.py``). For
    regression it is 0.01 / rows, which only decides where rows leave several models equally good.

    Examples
    --------
    >>> loss_for(2, 100.0), loss_for(None, 100.0, l2=0.5)
    (Logistic(l2=0.08), SquaredError(l2=0.5))
    """
    if isinstance(l2, str) and l2 != "auto":
        raise OptionError(f'l2 must be a number ≥ 0 or "auto", not {l2!r}')
    if not isinstance(l2, str):
        check_not_negative("l2", l2)
    kind = _OF_TASKS.get(task, SquaredError)
    if classes is not None:
        kind = Logistic if classes == 2 else Softmax
    return kind(l2=kind.precision / rows if isinstance(l2, str) else float(l2))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows ready to fit models on.

    Attributes
    ----------
    engine
        Shows them scaled, with the loss to minimize.
    rows, mass
        How many there are at all clients together, and what they weigh.
    stored
        Numbers that are stored: all of dense rows, the non-zeros of sparse ones.
    labels
        Rows of each class, of survival without an event and with one; None where neither is
        learnt.
    counted
        Sum of all counts; None where none are learnt.
    mean_target
        Of the rows by their weights; 0 where it says nothing.
    """

    engine: Engine
    rows: int
    mass: float
    stored: int
    labels: tuple[int, ...] | None
    counted: float | None = None
    mean_target: float = 0.0

    @property
    def scaling(self) -> Scaling:
        """How they are scaled."""
        scaling = self.engine.lens.scaling
        assert scaling is not None
        return scaling

    @property
    def loss(self) -> Loss:
        """What is minimized."""
        return self.engine.lens.loss

    @property
    def observations(self) -> float:
        """How many observations a criterion should count.

        Of survival the events (Volinsky & Raftery, Biometrics 2000), of counts the rows, whatever
        unit their exposure has; else what the rows weigh.
        """
        if self.loss.outcome == "survival" and self.labels is not None:
            return float(max(self.labels[1], 1))
        return float(self.rows) if self.loss.outcome == "counts" else self.mass

    @property
    def is_learnable(self) -> bool:
        """Whether there are rows, and what is to be told apart: classes, counts or events."""
        return self.rows > 0 and self.why_not_learnable is None

    @property
    def why_not_learnable(self) -> str | None:
        """Why nothing can be learnt from the rows, in a sentence."""
        if self.counted is not None and self.counted <= 0:
            return "every count is 0; a model needs rows in which something was counted"
        if self.labels is None:
            return None
        if self.loss.outcome == "survival":
            if self.labels[1] == 0:
                return "no row has an event; a model needs rows with events"
        elif sum(count > 0 for count in self.labels) < 2:
            return "all rows have the same label; a model needs rows of two classes"
        return None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model on the scale of the raw features.

    Attributes
    ----------
    coefficients, intercept
        (d,) and (1,), or (d, c) and (c,) for softmax.
    result
        The run that found it, on standardized features.
    scaling
        How they were standardized.
    link
        How scores stand for what is predicted.
    """

    coefficients: FloatArray
    intercept: FloatArray
    result: Result
    scaling: Scaling
    link: Link = "identity"

    @classmethod
    def of(cls, result: Result, scaling: Scaling, link: Link = "identity") -> "Fitted":
        """The model that a run on scaled features found."""
        return cls(*scaling.on_original_scale(result.coef), result, scaling, link)


NO_ROWS = "no site has a row to learn from; give more rows, or lower the sites' smallest_samples"


def prepare(engine: Engine, options: FitOptions) -> Conversation[Prepared]:
    """Have all clients fill and scale their features in the same way, by sums over their rows.

    Columns that do not vary become 0. Features are centred if they are dense and there is an
    intercept, or of survival, where none is needed; with one, the targets of a regression are, too.
    Missing values become the mean.

    Parameters
    ----------
    engine
        Shows the rows, not scaled.
    options
        How models are fitted.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.FederatedData.from_clients([([[3.0, 7.0]], [0]), ([[7.0, 7.0]], [1])])
    >>> engine = fs.LocalEngine(data, "logistic")
    >>> scaling = fs.converse(engine, prepare(engine, FitOptions(Logistic()))).scaling
    >>> scaling.mean.tolist(), scaling.scale.tolist()
    ([5.0, 7.0], [2.0, inf])
    """
    check_fit(options, engine.width)
    outcome = options.loss.outcome
    classes = 0 if engine.classes is None else engine.classes.size
    request = ColumnSums(
        with_target=_has_mean(options.loss),
        classes=2 if outcome == "survival" else classes,
        with_holes=engine.has_holes,
    )
    (sums,) = yield (engine.ask(request),)
    if sums.count == 0:
        return Prepared(engine, 0, 0.0, 0, None)
    mass = sums.weight
    known = sums.total("known") if engine.has_holes else np.full(engine.width, mass)
    means = sums.total("total") / np.where(known > 0, known, 1.0)
    deviations = None
    if options.standardize:
        (squares,) = yield (engine.ask(ColumnSquares(means)),)
        if squares.count == 0:
            raise DataError("no site tells how its columns vary; see to the sites and begin anew")
        deviations = np.sqrt(squares.mean("squares"))  # by the rows that told them
    mean_target = sums.average("target") if _has_mean(options.loss) else 0.0
    offset = mean_target if options.loss.link == "identity" else 0.0
    scaling = _scaling(engine, options, means, deviations, offset)
    lens = replace(engine.lens, loss=options.loss_on(mass), scaling=scaling)
    has_labels = request.classes > 0
    labels = tuple(np.rint(sums.total("labels")).astype(int).tolist()) if has_labels else None
    counted = float(sums.total("target")) if outcome == "counts" else None
    rows, stored = (round(float(sums.total(name))) for name in ("rows", "stored"))
    return Prepared(engine.through(lens), rows, mass, stored, labels, counted, mean_target)


def _has_mean(loss: Loss) -> bool:
    """Whether the mean of the targets says where the intercept is about."""
    return loss.outcome in ("numbers", "counts")


def _scaling(
    engine: Engine,
    options: FitOptions,
    means: FloatArray,
    deviations: FloatArray | None,
    offset: float,
) -> Scaling:
    mean, scale = np.zeros(engine.width), np.ones(engine.width)
    if deviations is not None:
        # What rounding makes of a constant column is no variation.
        varies = deviations > 1e-12 * np.abs(means)
        scale = np.where(varies, deviations, np.inf)
        may_shift = options.intercept or not options.loss.has_intercept
        if may_shift and not engine.is_sparse:
            mean = means
    value = (_LARGE if options.splices else _MODERATE) if options.intercept else 0.0
    fill = means if engine.has_holes else None
    return Scaling(mean, scale, value, offset if options.intercept else 0.0, fill)


def check_fit(options: FitOptions, width: int) -> None:
    """Refuse features to keep that do not exist, and algorithms that cannot do this.

    Examples
    --------
    >>> check_fit(FitOptions(Logistic(), keep=(5,)), width=3)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: keep names feature 5, but they go from 0 to 2
    """
    for feature in options.keep:
        if not 0 <= feature < width:
            raise OptionError(f"keep names feature {feature}, but they go from 0 to {width - 1}")
    if options.splices and options.rounds < _FEWEST_SPLICING:
        raise OptionError(
            f"FedSplice finds nothing in {options.rounds} round; give it {_FEWEST_SPLICING} or more"
        )
    algorithm = options.algorithm
    if algorithm is None:
        return
    if not isinstance(algorithm, Algorithm):
        raise OptionError(f"algorithm must be an object such as FedIterHT(20), not {algorithm!r}")
    if isinstance(algorithm, EDSL):
        raise OptionError("EDSL cannot keep an intercept; use FedSplice or FedIterHT")


def fit_model(
    prepared: Prepared,
    sparsity: int,
    options: FitOptions,
    *,
    start: Fitted | None = None,
    evaluate_every: int = 1,
    on_round: OnRound | None = None,
) -> Conversation[Fitted]:
    """Fit a model of at most τ features.

    Parameters
    ----------
    prepared
        From `prepare` with the same options.
    sparsity
        τ, the intercept not counted: 0 is the model of the intercept alone.
    options
        How.
    start
        A model of the same rows to begin at, where the algorithm can.
    evaluate_every, on_round
        As in `run`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=5, samples=40, width=30, relevant=3)
    >>> engine, options = fs.LocalEngine(data, "squared"), FitOptions(fs.SquaredError())
    >>> model = fs.converse(engine, fit(engine, 3, options))
    >>> np.flatnonzero(model.coefficients).size
    3
    """
    algorithm = algorithm_for(prepared.engine.shape[0], sparsity, options)
    if isinstance(algorithm, FedSplice) and algorithm.candidates is None:
        rows = prepared.rows / len(prepared.engine.names)
        algorithm = replace(algorithm, candidates=candidates_for(sparsity, rows, options))
    if isinstance(algorithm, FedSplice):
        begin = _intercept_alone(prepared) if start is None else start.result.coef
        algorithm = replace(algorithm, start_at=begin)
    result = yield from running(
        prepared.engine,
        algorithm,
        rounds=options.rounds,
        seed=options.seed,
        evaluate_every=evaluate_every,
        on_round=on_round,
    )
    return Fitted.of(result, prepared.scaling, prepared.loss.link)


def _intercept_alone(prepared: Prepared) -> FloatArray | None:
    """The model of the mean target, where x = 0 is far from it; None where it is not.

    Rates grow with e to the power of a score: the quadratic model at x = 0 leads far beyond them.
    """
    value = prepared.scaling.intercept
    if prepared.loss.link != "log" or value == 0.0 or not prepared.mean_target > 0.0:
        return None
    begin = np.zeros(prepared.engine.shape)
    begin[-1] = math.log(prepared.mean_target) / value
    return begin


def fit(engine: Engine, sparsity: int, options: FitOptions) -> Conversation[Fitted]:
    """Prepare rows and fit a model on them; see `prepare` and `fit_model`."""
    prepared = yield from prepare(engine, options)
    if prepared.rows == 0:
        raise DataError(NO_ROWS)
    return (yield from fit_model(prepared, sparsity, options))


def algorithm_for(columns: int, sparsity: int, options: FitOptions) -> Algorithm:
    """The algorithm with the constraint that τ, kept features and the intercept make.

    Parameters
    ----------
    columns
        Number of scaled features, the intercept's column among them.
    sparsity
        τ, the intercept not counted.
    options
        How models are fitted.

    Examples
    --------
    >>> algorithm_for(11, 3, FitOptions(Logistic())).sparsity
    TopK(sparsity=4, keep=(10,))
    """
    intercept = (columns - 1,) if options.intercept else ()
    if len(set(options.keep)) > sparsity:
        raise OptionError(
            f"{len(set(options.keep))} features are to be kept, more than the sparsity of "
            f"{sparsity}; raise it"
        )
    if sparsity == 0 and not options.intercept and options.fewest == 0:
        return _NoFeatures(weights="samples")
    if sparsity < options.fewest:
        raise OptionError("without an intercept a model has 1 feature or more; ask for no fewer")
    constraint = _constraint(options)(sparsity + len(intercept), keep=(*options.keep, *intercept))
    if options.algorithm is None:
        return FedSplice(
            constraint,
            message_bytes=options.message_bytes,
            tolerance=options.tolerance,
            weights="samples",
        )
    if "sparsity" not in {option.name for option in fields(options.algorithm)}:
        return options.algorithm
    return replace(options.algorithm, sparsity=constraint)  # type: ignore[call-arg]


@dataclass(frozen=True)
class _NoFeatures(Algorithm):
    """The model of τ = 0 where there is no intercept to learn: x = 0, in no round."""

    def is_done(self, state: State) -> bool:
        return True

    def request(self, state: State) -> Request:
        raise NotImplementedError  # it is done before it begins

    def update(self, state: State, answers: Answers) -> State:
        raise NotImplementedError


def candidates_for(sparsity: int, rows: float, options: FitOptions) -> int | None:
    """How many features `FedSplice` considers beside those of the model; None: as it likes.

    Parameters
    ----------
    sparsity
        τ.
    rows
        Of a site, on average. Sites tell by default of a third as many features at most, and may
        have fewer rows than others.
    options
        How models are fitted.

    Examples
    --------
    >>> at_sites = FitOptions(Logistic(), message_bytes=10**6)
    >>> [candidates_for(20, rows, at_sites) for rows in (100, 900, 90_000)]
    [50, 130, 500]
    """
    if options.message_bytes is None:
        return None if options.is_thorough else max(sparsity, _BRIEFLY)
    most = max(min(int(rows) // 6 - sparsity, _MOST_CANDIDATES), FEWEST_CANDIDATES)
    return most if options.is_thorough else min(most, max(sparsity, FEWEST_CANDIDATES))


def _constraint(options: FitOptions) -> type[TopK | TopKPerClass | TopKRows]:
    """What τ counts: entries of a vector, features of all classes, or of each."""
    if not options.loss.is_by_class:
        return TopK
    by_class = isinstance(getattr(options.algorithm, "sparsity", None), TopKPerClass)
    return TopKPerClass if by_class else TopKRows
