"""Fit a sparse model with an intercept on standardized features, and give it back unscaled.

The intercept is a column of equal numbers that is always kept; the model of τ features has one
non-zero more. Standardization needs one round: sites tell the means and variances of their columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy import sparse

from fedsparse.algorithms import EDSL, Algorithm, FedIterHT, FedSplice
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_not_negative
from fedsparse.data.federated import Features, FederatedData
from fedsparse.data.moments import Moments, federated_moments
from fedsparse.errors import OptionError
from fedsparse.history import Record
from fedsparse.losses import Logistic, Loss, Softmax, SquaredError
from fedsparse.modelling.specification import FitSpecification
from fedsparse.result import Result
from fedsparse.run import run
from fedsparse.sparsity import Sparsity, TopK, TopKPerClass

Progress = Callable[[str], None]
"""Called with what has just been fitted, once for each model."""

_LARGE, _MODERATE = 100.0, 3.0
"""Intercept column for Newton's method, and for first-order methods, whose steps a large one would
shorten: above 1, so that the ℓ2 term hardly touches the intercept."""

_FEWEST_SPLICING = 2
"""Rounds of one splice: slopes, then curvature."""


def no_progress(done: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class FitOptions:
    """How models are fitted, whatever their τ.

    Parameters
    ----------
    loss
        With its ℓ2 weight.
    algorithm
        None: `FedSplice`, or for softmax `FedIterHT` with the adaptive server step. The sparsity
        of an algorithm that has one is replaced by the one asked for.
    keep
        Features that are always kept; they count towards τ.
    standardize, intercept
        Whether to.
    rounds, seed
        As in `run`.
    tolerance
        Share of f that a splice must gain for `FedSplice`, where it is the default, to go on.
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
    tolerance: float = 1e-9
    auto_rows: float | None = None

    @classmethod
    def of(
        cls, specification: FitSpecification, classes: int | None, rows: float, keep: Sequence[int]
    ) -> "FitOptions":
        """How a specification has models fitted, once it is known what the sites have.

        Parameters
        ----------
        specification
            Of the fit.
        classes
            How many; None for regression.
        rows
            Of all sites, for the automatic ℓ2 weight.
        keep
            Features that are always kept.

        Examples
        --------
        >>> FitOptions.of(FitSpecification(l2=0.5), 2, 100.0, ()).loss
        Logistic(l2=0.5)
        """
        l2 = specification.l2
        return cls(
            loss_for(classes, rows, "auto" if l2 is None else l2),
            algorithm=specification.algorithm(),
            keep=tuple(keep),
            standardize=specification.standardize,
            intercept=specification.intercept,
            rounds=specification.rounds,
            seed=specification.seed,
            auto_rows=rows if l2 is None else None,
        )

    def loss_on(self, data: FederatedData) -> Loss:
        """The loss, its automatic ℓ2 weight that of the data's rows."""
        if self.auto_rows is None:
            return self.loss
        return replace(self.loss, l2=self.loss.l2 * self.auto_rows / float(data.masses.sum()))

    @property
    def roughly(self) -> "FitOptions":
        """The same for models that are only compared: half the rounds, nearly the same f."""
        rounds = min(self.rounds, 10) if self.splices else self.rounds
        return replace(self, tolerance=0.01, rounds=rounds)

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return isinstance(self.loss, SquaredError)

    @property
    def needs_moments(self) -> bool:
        """Whether sites must tell means and variances first."""
        return self.standardize or (self.intercept and self.is_regression)

    @property
    def splices(self) -> bool:
        """Whether models are found by `FedSplice`, which can start from a smaller one."""
        if self.algorithm is None:
            return not isinstance(self.loss, Softmax)
        return isinstance(self.algorithm, FedSplice)


def loss_for(classes: int | None, rows: float, l2: float | str = "auto") -> Loss:
    """The loss for a number of classes (None: regression), with a weight of its ℓ2 term.

    ``"auto"`` is 8 / rows for classes: coefficients of standardized features are then expected
    within about ± ⅓, and stay finite where few features separate the classes (of several such
    rules, the one that did well on all three sets of ``benchmarks/genes.py``). For regression it is
    0.01 / rows, which only decides where rows leave several models equally good.

    Examples
    --------
    >>> loss_for(2, 100.0), loss_for(None, 100.0, l2=0.5)
    (Logistic(l2=0.08), SquaredError(l2=0.5))
    """
    precision = 0.01 if classes is None else 8.0
    if isinstance(l2, str) and l2 != "auto":
        raise OptionError(f'l2 must be a number ≥ 0 or "auto", not {l2!r}')
    if not isinstance(l2, str):
        check_not_negative("l2", l2)
    weight = precision / rows if isinstance(l2, str) else float(l2)
    if classes is None:
        return SquaredError(l2=weight)
    return Logistic(l2=weight) if classes == 2 else Softmax(l2=weight)


@dataclass(frozen=True, eq=False)
class Scaling:
    """How raw features become those that a model is fitted on.

    Attributes
    ----------
    mean, scale
        A feature becomes (feature − mean) / scale.
    intercept
        Value of a last column added for the intercept; 0: no such column.
    offset
        Taken from the targets of a regression, and given back to the intercept.
    """

    mean: FloatArray
    scale: FloatArray
    intercept: float
    offset: float = 0.0

    def apply(self, features: Features) -> Features:
        """Standardized features, and the intercept's column.

        Examples
        --------
        >>> Scaling(np.array([1.0]), np.array([2.0]), 1.0).apply(np.array([[5.0]]))
        array([[2., 1.]])
        """
        if isinstance(features, sparse.csr_array):
            return self._apply_to_sparse(features)
        width = features.shape[1]
        scaled = np.empty((features.shape[0], width + (self.intercept != 0.0)), features.dtype)
        np.subtract(features, self.mean, out=scaled[:, :width], casting="same_kind")
        np.divide(scaled[:, :width], self.scale, out=scaled[:, :width], casting="same_kind")
        scaled[:, width:] = self.intercept
        return scaled

    def scaled(self, data: FederatedData) -> FederatedData:
        """Data to fit on."""
        targets = data.targets - self.offset if self.offset else data.targets
        return replace(data, features=self.apply(data.features), targets=targets)

    def _apply_to_sparse(self, features: sparse.csr_array) -> sparse.csr_array:
        values = (features.data / self.scale[features.indices]).astype(features.dtype)
        scaled = sparse.csr_array((values, features.indices, features.indptr), features.shape)
        if self.intercept == 0.0:
            return scaled
        column = np.full((features.shape[0], 1), self.intercept, features.dtype)
        return sparse.csr_array(sparse.hstack([scaled, sparse.csr_array(column)], format="csr"))

    def on_original_scale(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the raw features, and the intercept, of standardized ones.

        Examples
        --------
        >>> scaling = Scaling(np.array([1.0]), np.array([2.0]), 10.0)
        >>> [part.tolist() for part in scaling.on_original_scale(np.array([6.0, 0.5]))]
        [[3.0], [2.0]]
        """
        width = self.scale.size
        coefficients = (x[:width].T / self.scale).T
        own = self.intercept * x[width:].sum(axis=0)
        intercept = own - self.mean @ coefficients + self.offset
        return coefficients, np.atleast_1d(intercept)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data to fit models on, and how they were scaled."""

    data: FederatedData
    scaling: Scaling
    loss: Loss
    rounds: int
    """Rounds it took: one if sites told their moments."""


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
    """

    coefficients: FloatArray
    intercept: FloatArray
    result: Result
    scaling: Scaling

    def scores(self, features: Features) -> FloatArray:
        """z·x + intercept of every row; one column per class for softmax."""
        return np.asarray(features @ self.coefficients + self.intercept)

    @classmethod
    def of(cls, result: Result, scaling: Scaling) -> "Fitted":
        """The model that a run on scaled features found."""
        return cls(*scaling.on_original_scale(result.coef), result, scaling)


def prepare(data: FederatedData, options: FitOptions) -> Prepared:
    """Scale every site's features in the same way; see `scaling_from`."""
    check_fit(options, data.width)
    moments = None
    if options.needs_moments:
        moments = federated_moments(data, with_target=options.is_regression)
    scaling = scaling_from(moments, options, data.width, is_sparse=data.is_sparse)
    rounds = int(options.needs_moments)
    return Prepared(scaling.scaled(data), scaling, options.loss_on(data), rounds)


def scaling_from(
    moments: Moments | None, options: FitOptions, width: int, *, is_sparse: bool
) -> Scaling:
    """How features are scaled, by what all sites told of theirs.

    Columns that do not vary become 0. Features are centred if they are dense and there is an
    intercept; with one, the targets of a regression are, too.

    Parameters
    ----------
    moments
        Of all sites' rows; None if ``options.needs_moments`` is false.
    options
        How models are fitted.
    width
        d.
    is_sparse
        Whether rows are CSR.

    Examples
    --------
    >>> moments = Moments(9.0, np.array([5.0, 7.0]), np.array([4.0, 0.0]))
    >>> scaling = scaling_from(moments, FitOptions(Logistic()), 2, is_sparse=False)
    >>> scaling.mean.tolist(), scaling.scale.tolist()
    ([5.0, 7.0], [2.0, inf])
    """
    mean, scale = np.zeros(width), np.ones(width)
    if options.standardize and moments is not None:
        deviation = np.sqrt(moments.variance)
        # What rounding makes of a constant column is no variation.
        varies = deviation > 1e-12 * np.abs(moments.mean)
        scale = np.where(varies, deviation, np.inf)
        if options.intercept and not is_sparse:
            mean = moments.mean
    value = (_LARGE if options.splices else _MODERATE) if options.intercept else 0.0
    offset = moments.target if options.intercept and moments is not None else 0.0
    return Scaling(mean, scale, value, offset)


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
    if isinstance(algorithm, FedSplice) and isinstance(options.loss, Softmax):
        raise OptionError("FedSplice takes two classes at most; leave the algorithm out for more")


def fit_model(
    prepared: Prepared,
    sparsity: int,
    options: FitOptions,
    *,
    start: Fitted | None = None,
    on_round: Callable[[Record], None] | None = None,
) -> Fitted:
    """Fit a model of at most τ features, per class for softmax.

    Parameters
    ----------
    prepared
        From `prepare` with the same options.
    sparsity
        τ, the intercept not counted.
    options
        How.
    start
        A model of the same data to begin at, where the algorithm can.
    on_round
        As in `run`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=5, samples=40, width=30, relevant=3)
    >>> options = FitOptions(fs.SquaredError())
    >>> model = fit_model(prepare(data, options), 3, options)
    >>> np.flatnonzero(model.coefficients).size
    3
    """
    algorithm = algorithm_for(prepared.data.width, sparsity, options)
    if start is not None and isinstance(algorithm, FedSplice):
        algorithm = replace(algorithm, start_at=start.result.coef)
    result = run(
        algorithm,
        prepared.data,
        loss=prepared.loss,
        rounds=options.rounds,
        seed=options.seed,
        on_round=on_round,
    )
    return Fitted.of(result, prepared.scaling)


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
    kind = TopKPerClass if isinstance(options.loss, Softmax) else TopK
    constraint = kind(sparsity + len(intercept), keep=(*options.keep, *intercept))
    if options.algorithm is None:
        return _default_algorithm(constraint, options)
    if "sparsity" not in {option.name for option in fields(options.algorithm)}:
        return options.algorithm
    return replace(options.algorithm, sparsity=constraint)  # type: ignore[call-arg]


def _default_algorithm(constraint: Sparsity, options: FitOptions) -> Algorithm:
    if isinstance(constraint, TopK):
        return FedSplice(constraint, tolerance=options.tolerance, weights="samples")
    return FedIterHT(constraint, server_step="adaptive", weights="samples")
