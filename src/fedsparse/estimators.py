"""scikit-learn estimators: ``FedSparseClassifier(sparsity=20).fit(X, y, sites=hospital)``.

They follow scikit-learn's conventions, so that pipelines, grid searches and metadata routing work.
All sites are in this process; what the sites tell each other is what they would over a network.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from fedsparse.algorithms import Algorithm
from fedsparse.arrays import AnyArray, BoolArray, FloatArray
from fedsparse.engines.conversation import Conversation, converse, exchanges_of
from fedsparse.engines.engine import Engine
from fedsparse.engines.local import LocalEngine
from fedsparse.errors import OptionError
from fedsparse.modelling.choosing import choose_by_ebic, cross_validate, default_sparsities
from fedsparse.modelling.endings import divergences, sentence_on_early_end, warn_of
from fedsparse.modelling.fitting import FitOptions, Fitted, fit, fit_model, prepare
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import Selection
from fedsparse.problem.federated import FederatedData


class _FedSparse(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators share: reading, scaling, choosing τ, fitting, selecting."""

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
        self.random_state = random_state

    def _fit(
        self, X: Any, y: AnyArray, sites: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> Fitted:
        """Fit on checked features and encoded targets."""
        specification = self._specification()
        data = self._federate(X, y, sites, sample_weight)
        classes = self.classes_.size if hasattr(self, "classes_") else None
        options = FitOptions.of(specification, classes, self._kept())
        options = replace(options, algorithm=self.algorithm, message_bytes=None)
        engine = LocalEngine(data, options.loss)
        try:
            with divergences() as told:
                found = converse(engine, exchanges_of(_fitting(engine, specification, options)))
        finally:
            engine.close()
        warn_of(told, stacklevel=3)
        early = sentence_on_early_end(
            found[0][1].result, specification.rounds, has_end=options.splices, option="rounds="
        )
        if early is not None:
            warnings.warn(early, ConvergenceWarning, stacklevel=3)
        (self.selection_, model), self.rounds_ = found
        chosen = self.selection_
        self.sparsity_ = int(specification.sparsity) if chosen is None else chosen.chosen
        self._store(model)
        return model

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
            "intercept": self.fit_intercept,
            "rounds": self.rounds,
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
    """Linear regression on at most τ features, from sites that keep their rows.

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
    random_state
        Fixes folds and mini-batches.

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

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = 3 * X[:, 4] - X[:, 11] + 7
    >>> hospital = np.repeat(["north", "south", "west"], 20)
    >>> model = FedSparseRegressor(sparsity=2).fit(X, y, sites=hospital)
    >>> model.support_.tolist(), round(model.intercept_, 2)
    ([4, 11], 7.0)
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sites: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Features: an array, a CSR matrix, or a pandas or polars table.
        y
            Numbers.
        sites
            A label per row that says where it lies; None: all in one place.
        sample_weight
            How much each row counts.
        """
        features, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True
        )
        model = self._fit(features, targets.astype(np.float64), sites, sample_weight)
        self.coef_, self.intercept_ = model.coefficients, float(model.intercept[0])
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predicted targets."""
        return self._scores(X)


class FedSparseClassifier(ClassifierMixin, _FedSparse):  # type: ignore[misc]
    """Logistic or softmax regression on few features, from sites that keep their rows.

    Parameters
    ----------
    sparsity
        τ: how many features, which several classes share; or ``"cv"``, ``"ebic"``.
    algorithm
        None for `FedSplice`; or any algorithm, whose own sparsity is replaced. With one that has a
        `TopKPerClass`, τ is how many features each class has.
    keep, standardize, fit_intercept, sparsities, folds, rounds, random_state
        As for `FedSparseRegressor`.
    l2
        λ of the term (λ/2)‖x‖² on standardized coefficients; ``"auto"``: 8 over the number of
        rows (the sum of their weights), which keeps coefficients finite where few features
        separate the classes.

    Attributes
    ----------
    classes_
        The labels.
    coef_, intercept_
        The model, a row per class; one row for two classes.
    support_, sparsity_, selection_, n_iter_, rounds_, history_
        As for `FedSparseRegressor`.

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

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sites: ArrayLike | None = None,
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
        features, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32)
        )
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"y has 1 class only, {self.classes_[0]}; a classifier needs at least two"
            )
        model = self._fit(features, codes, sites, sample_weight)
        width = self.n_features_in_
        self.coef_ = np.ascontiguousarray(model.coefficients.reshape(width, -1).T)
        self.intercept_ = model.intercept
        return self

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
