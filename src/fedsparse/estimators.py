"""scikit-learn estimators: ``FedSparseClassifier(sparsity=20).fit(X, y, sites=hospital)``.

They follow scikit-learn's conventions, so that pipelines, grid searches and metadata routing work.
All sites are in this process; what the sites tell each other is what they would over a network.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from fedsparse.algorithms import Algorithm
from fedsparse.arrays import AnyArray, BoolArray, FloatArray
from fedsparse.checks import check_count, check_not_negative
from fedsparse.compute.kernels.concordance import concordant_pairs
from fedsparse.engines.conversation import Conversation, converse, exchanges_of
from fedsparse.engines.engine import Engine
from fedsparse.engines.local import LocalEngine
from fedsparse.errors import OptionError
from fedsparse.modelling.beside_a_model import found_beside
from fedsparse.modelling.choosing import choose_by_ebic, cross_validate, default_sparsities
from fedsparse.modelling.endings import divergences, sentence_on_early_end, warn_of
from fedsparse.modelling.fitting import FitOptions, Fitted, fit, fit_model, prepare
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import Selection
from fedsparse.modelling.survival import cumulative_hazard, events_and_risks, signed_times
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Cox, Loss, as_loss
from fedsparse.problem.losses.cox import Ties
from fedsparse.tables.sentences import nearest


class _FedSparse(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """What the estimators share: reading, scaling, choosing τ, fitting, selecting."""

    # Sites go where fit goes: pipelines and grid searches pass them on without being told.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sites": True}

    def __init__(
        self,
        sparsity: int | Literal["cv", "ebic"] = 10,
        *,
        algorithm: Algorithm | None = None,
        keep: Sequence[int | str] = (),
        standardize: bool = True,
        fit_intercept: bool = True,
        l2: float | Literal["auto"] = "auto",
        sparsities: Sequence[int] | None = None,
        folds: int = 5,
        rounds: int = 100,
        stability: int = 0,
        intervals: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.sparsity = sparsity
        self.algorithm = algorithm
        self.keep = keep
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.sparsities = sparsities
        self.folds = folds
        self.rounds = rounds
        self.stability = stability
        self.intervals = intervals
        self.random_state = random_state

    def _fit(
        self, X: Any, y: AnyArray, sites: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> Fitted:
        """Fit on checked features and encoded targets."""
        specification = self._specification()
        data = self._federate(X, y, sites, sample_weight)
        classes = self.classes_.size if hasattr(self, "classes_") else None
        options = FitOptions.of(specification, classes, self._kept(), loss=self._loss())
        options = replace(options, algorithm=self.algorithm, message_bytes=None)
        if self.intervals and options.loss.is_by_class:
            raise OptionError(
                "intervals=True works with two classes and not with more; leave it out"
            )
        if self.intervals and not options.loss.tells_intervals:
            raise OptionError(
                f"intervals=True needs a loss that is a likelihood, and the {options.loss.name} "
                "loss is none; leave it out"
            )
        options.loss.check_together(data)
        engine = LocalEngine(data, options.loss)
        try:
            with divergences() as told:
                found = converse(engine, exchanges_of(_fitting(engine, specification, options)))
                (self.selection_, model), self.rounds_ = found
                chosen = self.selection_
                self.sparsity_ = int(specification.sparsity) if chosen is None else chosen.chosen
                self._store(model)
                self._find_out_more(engine, options, model)
        finally:
            engine.close()
        warn_of(told, stacklevel=3)
        early = sentence_on_early_end(
            model.result, specification.rounds, has_end=options.splices, option="rounds="
        )
        if early is not None:
            warnings.warn(early, ConvergenceWarning, stacklevel=3)
        return model

    def _find_out_more(self, engine: Engine, options: FitOptions, model: Fitted) -> None:
        """Which features are found again, and how sure coefficients are, if that is asked for."""
        if not self.support_.size or not (self.stability or self.intervals):
            return
        names = getattr(self, "feature_names_in_", range(engine.width))
        finding = found_beside(
            engine,
            options,
            model,
            pairs=int(self.stability),
            sparsity=self.sparsity_,
            names=[str(name) for name in names],
            with_intervals=self.intervals,
        )
        (self.stability_, sure), exchanges = converse(engine, exchanges_of(finding))
        self.rounds_ += exchanges
        if sure is None:
            return
        self.coef_refitted_, self.coef_interval_ = self._shaped(
            *sure.refitted_vectors(engine.width)
        )
        if sure.splits is not None:
            centres, ends = sure.split_vectors(engine.width)
            self.coef_after_choosing_, self.coef_interval_after_choosing_ = self._shaped(
                centres, ends
            )
            (self.p_values_,) = self._shaped(sure.splits.p_values)

    def _shaped(self, *vectors: FloatArray) -> list[FloatArray]:
        """Vectors over features as ``coef_`` has them."""
        is_row = hasattr(self, "classes_")
        return [own[None] if is_row else own for own in vectors]

    def _loss(self) -> Loss | None:
        """The loss, unless the classes say it."""
        return None

    def _taken_apart(self, X: Any, sites: ArrayLike | str | None) -> tuple[Any, ArrayLike | None]:
        """Features and a label per row, which may be a column of the table by its name."""
        self.sites_column_ = None
        if not isinstance(sites, str):
            return X, sites
        names = list(getattr(X, "columns", ()))
        if sites not in names:
            near = nearest(sites, map(str, names))
            advice = "give a pandas or polars table with that column, or a label per row"
            raise OptionError(
                f"sites={sites!r} names a column that X does not have; "
                + (advice if near is None else f"did you mean {near!r}?")
            )
        self.sites_column_ = sites
        return self._features_in(X), X[sites].to_numpy()

    def _features_in(self, X: Any) -> Any:
        """A table without the column that says where rows lie."""
        column = getattr(self, "sites_column_", None)
        if column is None or column not in list(getattr(X, "columns", ())):
            return X
        # pandas and polars differ in how columns are named here, and agree on what remains.
        return X[[name for name in X.columns if name != column]]

    def transform(self, X: Any) -> Any:
        """The columns that the model uses."""
        return super().transform(self._features_in(X))

    def _federate(
        self, X: Any, y: AnyArray, sites: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> FederatedData:
        labels = np.zeros(y.size, dtype=np.int64) if sites is None else np.asarray(sites)
        check_consistent_length(X, labels)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return FederatedData.from_table(X, y, labels, weights)

    def _specification(self) -> FitSpecification:
        """The parameters, checked."""
        state = self.random_state
        if not isinstance(state, (int, np.integer)):
            state = check_random_state(state).randint(2**31 - 1)
        parameters = {
            "sparsity": self.sparsity,
            "sparsities": self.sparsities,
            "folds": self.folds,
            "l2": None if isinstance(self.l2, str) and self.l2 == "auto" else self.l2,
            "standardize": self.standardize,
            "intercept": getattr(self, "fit_intercept", True),  # the loss may have none
            "rounds": self.rounds,
            "stability": self.stability,
            "seed": state,
        }
        other_names = {"intercept": "fit_intercept", "seed": "random_state"}
        return FitSpecification.checked(parameters, lambda name: other_names.get(name, name))

    def _kept(self) -> tuple[int, ...]:
        """Places of the features to keep, which may be given by name."""
        if isinstance(self.keep, str):
            raise OptionError(f"keep must be a list; write keep=[{self.keep!r}]")
        names = list(getattr(self, "feature_names_in_", ()))
        for feature in self.keep:
            if isinstance(feature, str) and feature not in names:
                raise OptionError(
                    f"keep names {feature!r}, which is no column of X; name columns of a table, "
                    "or give their places as numbers"
                )
            if not isinstance(feature, (str, int, np.integer)):
                raise OptionError(f"keep must list names or whole numbers, not {feature!r}")
        return tuple(
            names.index(feature) if isinstance(feature, str) else int(feature)
            for feature in self.keep
        )

    def _store(self, model: Fitted) -> None:
        self.history_ = model.result.history
        self.n_iter_ = max(model.result.records[-1].round, 1)
        rows = model.coefficients.reshape(model.coefficients.shape[0], -1)
        self.support_ = np.flatnonzero(np.abs(rows).max(axis=1))

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = self._features_in(X)
        features = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def _get_support_mask(self) -> BoolArray:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.support_] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fitting(
    engine: Engine, specification: FitSpecification, options: FitOptions
) -> Conversation[tuple[Selection | None, Fitted]]:
    """τ by the rows if that is asked for, and the model of that τ."""
    if not isinstance(specification.sparsity, str):
        return None, (yield from fit(engine, specification.sparsity, options))
    prepared = yield from prepare(engine, options)
    sparsities = specification.sparsities or default_sparsities(
        engine.width, prepared.rows, options.fewest
    )
    refine = not specification.sparsities
    if specification.sparsity == "ebic":
        return (yield from choose_by_ebic(engine, sparsities, options, refine=refine))
    selection = yield from cross_validate(
        engine, sparsities, options, refine=refine, folds=specification.folds
    )
    return selection, (yield from fit_model(prepared, selection.chosen, options))


class FedSparseRegressor(RegressorMixin, _FedSparse):  # type: ignore[misc]
    """Regression on at most τ features, from sites that keep their rows.

    Parameters
    ----------
    sparsity
        τ: how many features; ``"cv"`` chooses by cross-validation inside every site, ``"ebic"`` by
        the extended Bayesian information criterion.
    algorithm
        None for `FedSplice`; or any algorithm, whose own sparsity is replaced.
    keep
        Columns that stay in the model whatever their worth, by name or place; they count
        towards τ.
    standardize
        Scale columns by the means and deviations of all sites' rows (sparse ones are not centred).
        Coefficients are given back on the scale of ``X``.
    fit_intercept
        The intercept is never dropped and does not count towards τ.
    l2
        λ of the term (λ/2)‖x‖² on standardized coefficients; ``"auto"``: 0.01 over the number of
        rows, which hardly shrinks anything but chooses among models that fit equally well.
    sparsities
        τ values that ``"cv"`` and ``"ebic"`` try, and no others; by default 0 to 80, no more than
        a third of the rows, and further ones around the best. With τ = 0 the model is its
        intercept.
    folds
        Of ``"cv"``.
    rounds
        Most rounds of one model.
    stability
        Pairs of half-samples that tell how often each feature is found again; 0: none, 25 are what
        the command line takes.
    intervals
        Whether to tell how sure coefficients are. With half-samples also in a way that is valid
        after the choice of features.
    random_state
        Fixes folds, halves and mini-batches.
    loss
        ``"squared"``; ``"poisson"`` for rates of counts; the name of another loss of numbers or
        counts, or one as an object, whose ℓ2 weight is that of ``l2``.

    Attributes
    ----------
    coef_, intercept_
        The model.
    support_
        Places of the features it uses; `get_support` gives a mask.
    sparsity_, selection_
        τ, and how it was chosen (None if it was given).
    n_iter_, rounds_
        Rounds of the final model, and exchanges of everything: scaling and choosing τ included.
    history_
        The final model's history, a polars table.
    stability_
        How often each feature was found again, if that was asked for.
    coef_refitted_, coef_interval_
        With ``intervals``: coefficients of the chosen features without shrinkage, and the two ends
        of their 95 % intervals as if they had been chosen beforehand. 0 for features that were not
        chosen; NaN where there is no finite estimate.
    p_values_, coef_after_choosing_, coef_interval_after_choosing_
        With ``intervals`` and ``stability``: p-values that are valid after the choice, corrected
        for all features; medians of the estimates on halves that had no part in choosing; and 95 %
        intervals, infinite where nothing can be said.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = 3 * X[:, 4] - X[:, 11] + 7
    >>> hospital = np.repeat(["north", "south", "west"], 20)
    >>> model = FedSparseRegressor(sparsity=2).fit(X, y, sites=hospital)
    >>> model.support_.tolist(), round(model.intercept_, 2)
    ([4, 11], 7.0)

    How sure is that?

    >>> y += np.random.default_rng(1).standard_normal(60)
    >>> model = FedSparseRegressor(sparsity=2, stability=5, intervals=True).fit(X, y, hospital)
    >>> model.coef_interval_[4].round(1), np.flatnonzero(model.p_values_ < 0.05).tolist()
    (array([2.5, 3. ]), [4, 11])

    Counts over a time each: ``y`` is the rate, and rows weigh by their time.

    >>> years = np.random.default_rng(1).uniform(0.5, 4.0, 60)
    >>> counts = np.random.default_rng(2).poisson(years * np.exp(X[:, 4] - X[:, 11]))
    >>> model = FedSparseRegressor(sparsity=2, loss="poisson")
    >>> model.fit(X, counts / years, sites=hospital, sample_weight=years).support_.tolist()
    [4, 11]
    """

    def __init__(
        self,
        sparsity: int | Literal["cv", "ebic"] = 10,
        *,
        algorithm: Algorithm | None = None,
        keep: Sequence[int | str] = (),
        standardize: bool = True,
        fit_intercept: bool = True,
        l2: float | Literal["auto"] = "auto",
        sparsities: Sequence[int] | None = None,
        folds: int = 5,
        rounds: int = 100,
        stability: int = 0,
        intervals: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        loss: str | Loss = "squared",
    ) -> None:
        super().__init__(
            sparsity,
            algorithm=algorithm,
            keep=keep,
            standardize=standardize,
            fit_intercept=fit_intercept,
            l2=l2,
            sparsities=sparsities,
            folds=folds,
            rounds=rounds,
            stability=stability,
            intervals=intervals,
            random_state=random_state,
        )
        self.loss = loss

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sites: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features: an array, a CSR matrix, or a pandas or polars table.
        y
            Numbers; with ``loss="poisson"`` rates: counts over exposures, or counts if these are
            all the same.
        sites
            A label per row that says where it lies, or the name of the column of ``X`` that holds
            them; None: all in one place.
        sample_weight
            How much each row counts; with ``loss="poisson"`` its exposure.
        """
        X, where = self._taken_apart(X, sites)
        features, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True
        )
        model = self._fit(features, targets.astype(np.float64), where, sample_weight)
        self.coef_, self.intercept_ = model.coefficients, float(model.intercept[0])
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predicted targets: numbers, or rates per unit of exposure."""
        return self._loss().expected(self._scores(X))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R²; of another loss than the squared one the share of the deviance that is explained."""
        loss = self._loss()
        if loss.is_quadratic:
            return float(super().score(X, y, sample_weight))
        targets = np.asarray(y, dtype=np.float64)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        rows = np.column_stack([targets, weights])
        losses = loss.at_scores(self._scores(X), rows).losses
        return 1.0 - float(losses.sum() / weights.sum()) / loss.value_of_guessing(rows)

    def _loss(self) -> Loss:
        loss = as_loss(self.loss)
        if loss.outcome not in ("numbers", "counts"):
            raise OptionError(f"{self.loss!r} is no loss of numbers; use another estimator")
        return loss


class FedSparseClassifier(ClassifierMixin, _FedSparse):  # type: ignore[misc]
    """Logistic or softmax regression on few features, from sites that keep their rows.

    Parameters
    ----------
    sparsity
        τ: how many features, which several classes share; or ``"cv"``, ``"ebic"``.
    algorithm
        None for `FedSplice`; or any algorithm, whose own sparsity is replaced. With one that has a
        `TopKPerClass`, τ is how many features each class has.
    keep, standardize, fit_intercept, sparsities, folds, rounds, stability, random_state
        As for `FedSparseRegressor`.
    intervals
        As for `FedSparseRegressor`, for two classes.
    l2
        λ of the term (λ/2)‖x‖² on standardized coefficients; ``"auto"``: 8 over the number of
        rows (the sum of their weights), which keeps coefficients finite where few features
        separate the classes.
    class_weight
        How much the rows of a class count: a number by label, or ``"balanced"`` for classes that
        count the same, however many rows each has. Multiplies ``sample_weight``.

    Attributes
    ----------
    classes_
        The labels.
    coef_, intercept_
        The model, a row per class; one row for two classes.
    support_, sparsity_, selection_, n_iter_, rounds_, history_, stability_
        As for `FedSparseRegressor`.
    coef_refitted_, coef_interval_, p_values_, coef_after_choosing_, coef_interval_after_choosing_
        As for `FedSparseRegressor`, in the shape of ``coef_``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((90, 30))
    >>> y = np.where(X[:, 4] - X[:, 11] > 0, "ill", "well")
    >>> hospital = np.repeat(["north", "south", "west"], 30)
    >>> model = FedSparseClassifier(sparsity=2).fit(X, y, sites=hospital)
    >>> model.support_.tolist(), model.score(X, y) > 0.9
    ([4, 11], True)
    """

    def __init__(
        self,
        sparsity: int | Literal["cv", "ebic"] = 10,
        *,
        algorithm: Algorithm | None = None,
        keep: Sequence[int | str] = (),
        standardize: bool = True,
        fit_intercept: bool = True,
        l2: float | Literal["auto"] = "auto",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        sparsities: Sequence[int] | None = None,
        folds: int = 5,
        rounds: int = 100,
        stability: int = 0,
        intervals: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            sparsity,
            algorithm=algorithm,
            keep=keep,
            standardize=standardize,
            fit_intercept=fit_intercept,
            l2=l2,
            sparsities=sparsities,
            folds=folds,
            rounds=rounds,
            stability=stability,
            intervals=intervals,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sites: ArrayLike | str | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, sites, sample_weight
            As for `FedSparseRegressor.fit`.
        y
            Labels of any kind.
        """
        X, where = self._taken_apart(X, sites)
        features, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32)
        )
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"y has 1 class only, {self.classes_[0]}; a classifier needs at least two"
            )
        weights = self._row_weights(features, labels, sample_weight)
        model = self._fit(features, codes, where, weights)
        width = self.n_features_in_
        self.coef_ = np.ascontiguousarray(model.coefficients.reshape(width, -1).T)
        self.intercept_ = model.intercept
        return self

    def _row_weights(
        self, X: Any, labels: AnyArray, sample_weight: ArrayLike | None
    ) -> ArrayLike | None:
        """How much each row counts, by itself and by its class."""
        self._check_class_weight()
        if self.class_weight is None:
            return sample_weight
        by_class = compute_sample_weight(self.class_weight, labels)
        return np.asarray(by_class * _check_sample_weight(sample_weight, X, dtype=np.float64))

    def _check_class_weight(self) -> None:
        given = self.class_weight
        if given is None or given == "balanced":
            return
        if not isinstance(given, Mapping):
            raise OptionError(
                'class_weight must be None, "balanced" or a dict of a number for each class, not '
                f"{given!r}"
            )
        unknown = [label for label in given if label not in self.classes_]
        if unknown:
            raise OptionError(
                f"class_weight names {unknown[0]!r}, which is no class of y; they are "
                f"{', '.join(repr(label) for label in self.classes_.tolist()[:5])}"
            )
        for label, weight in given.items():
            check_not_negative(f"class_weight of {label!r}", weight)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores: a column per class; for two classes one number, above 0 for the second."""
        scores = self._scores(X)
        return scores[:, 0] if self.classes_.size == 2 else scores

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class."""
        scores = self._scores(X)
        if self.classes_.size > 2:
            return np.asarray(softmax(scores, axis=1))
        of_second = expit(scores[:, 0])
        return np.column_stack([1.0 - of_second, of_second])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of the probability of every class."""
        scores = self._scores(X)
        if self.classes_.size > 2:
            return np.asarray(log_softmax(scores, axis=1))
        return np.asarray(log_expit(np.column_stack([-scores[:, 0], scores[:, 0]])))

    def predict(self, X: Any) -> AnyArray:
        """The most probable class."""
        scores = self._scores(X)
        if self.classes_.size > 2:
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        return np.asarray(self.classes_[(scores[:, 0] > 0).astype(np.int64)])

    def _federate(self, X: Any, y: AnyArray, sites: Any, sample_weight: Any) -> FederatedData:
        data = super()._federate(X, y, sites, sample_weight)
        # Rows of weight 0 may be the only ones of a class.
        return replace(data, all_targets=np.arange(self.classes_.size))


class FedSparseCox(_FedSparse):
    """Cox regression on few features, every site a stratum: no event time leaves one.

    Parameters
    ----------
    sparsity
        τ: how many features; or ``"cv"``, by the partial likelihood of held-out rows within sites,
        or ``"ebic"``.
    algorithm, keep, standardize, sparsities, folds, rounds, stability, intervals, random_state
        As for `FedSparseRegressor`. There is no intercept.
    l2
        λ of the term (λ/2)‖x‖² on standardized coefficients; ``"auto"``: 8 over the number of rows.
    ties
        How events at the same time are counted: ``"efron"`` or ``"breslow"``.
    bins
        Of how many equal spans of time the baseline hazard is made, which is constant in each.

    Attributes
    ----------
    coef_
        Logarithms of hazard ratios.
    times_, cumulative_baseline_hazard_
        Ends of the spans, and the baseline hazard of all sites together up to there, from their
        sums of events and of time at risk.
    support_, sparsity_, selection_, n_iter_, rounds_, history_, stability_
        As for `FedSparseRegressor`.
    coef_refitted_, coef_interval_, p_values_, coef_after_choosing_, coef_interval_after_choosing_
        As for `FedSparseRegressor`; of logarithms of hazard ratios.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((120, 30))
    >>> died = random.exponential(np.exp(X[:, 4] - X[:, 11]))
    >>> months = np.minimum(died, 2.0)
    >>> hospital = np.repeat(["north", "south", "west"], 40)
    >>> outcome = np.column_stack([died <= 2.0, months])
    >>> model = FedSparseCox(sparsity=2).fit(X, outcome, sites=hospital)
    >>> model.support_.tolist(), model.score(X, outcome, sites=hospital) > 0.7
    ([4, 11], True)
    """

    def __init__(
        self,
        sparsity: int | Literal["cv", "ebic"] = 10,
        *,
        algorithm: Algorithm | None = None,
        keep: Sequence[int | str] = (),
        standardize: bool = True,
        l2: float | Literal["auto"] = "auto",
        sparsities: Sequence[int] | None = None,
        folds: int = 5,
        rounds: int = 100,
        stability: int = 0,
        intervals: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        ties: Ties = "efron",
        bins: int = 20,
    ) -> None:
        self.sparsity = sparsity
        self.algorithm = algorithm
        self.keep = keep
        self.standardize = standardize
        self.l2 = l2
        self.sparsities = sparsities
        self.folds = folds
        self.rounds = rounds
        self.stability = stability
        self.intervals = intervals
        self.random_state = random_state
        self.ties = ties
        self.bins = bins

    def fit(self, X: Any, y: Any, sites: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, sites
            As for `FedSparseRegressor.fit`.
        y
            Whether the event was seen, and when, or when observation ended: a structured array of
            two fields as scikit-survival has it, or two columns.
        """
        check_count("bins", self.bins)
        features = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        signed = signed_times(y)
        check_consistent_length(features, signed)
        model = self._fit(features, signed, sites, None)
        self.coef_, self.intercept_ = model.coefficients, 0.0
        self._set_baseline(features, signed)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Risk scores: the higher, the earlier the event; differences are log hazard ratios."""
        return self._scores(X)

    def predict_cumulative_hazard_function(
        self, X: Any, times: ArrayLike | None = None
    ) -> FloatArray:
        """Cumulative hazard of every row (down) at times (across), by default at ``times_``."""
        scores = self._scores(X)
        wanted = np.asarray(self.times_ if times is None else times, dtype=np.float64)
        ends = np.concatenate([[0.0], self.times_])
        hazards = np.concatenate([[0.0], self.cumulative_baseline_hazard_])
        return np.outer(np.exp(scores), np.interp(wanted, ends, hazards))

    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> FloatArray:
        """Chance of no event until times (across) of every row (down), by default ``times_``."""
        return np.exp(-self.predict_cumulative_hazard_function(X, times))

    def score(self, X: Any, y: Any, sites: ArrayLike | None = None) -> float:
        """C-index: share of pairs of rows of the same site whose scores are in order."""
        scores, signed = self._scores(X), signed_times(y)
        labels = np.zeros(signed.size) if sites is None else np.asarray(sites)
        check_consistent_length(scores, signed, labels)
        own = [labels == label for label in np.unique(labels)]
        above, pairs = np.sum(
            [concordant_pairs(signed[rows], scores[rows]) for rows in own], axis=0
        )
        return float(above / pairs) if pairs else math.nan

    def _loss(self) -> Loss:
        return Cox(ties=self.ties)

    def _set_baseline(self, features: Any, signed: FloatArray) -> None:
        ends = np.linspace(0.0, np.abs(signed).max(), self.bins + 1)[1:]
        risks = np.exp(np.asarray(features @ self.coef_))
        self.times_ = ends
        told = events_and_risks(signed, risks, ends)
        self.cumulative_baseline_hazard_ = cumulative_hazard(*told, ends)
