"""Counts and survival beside other packages (those of the extra ``bench``).

*The same numbers.* Cox's regression with sites as strata, of all features and without an ℓ2 term,
beside lifelines (Efron) and statsmodels (Efron, Breslow) on three bundled data sets; Poisson
regression with exposure beside statsmodels and scikit-learn. Told is the largest difference of
coefficients of standardized features, and the relative one of the log-likelihood.

*The same choice or a better one.* Features that FedSplice and abess choose at the same τ, from all
rows in one place, are both refitted exactly. Neither the log-likelihood of training rows may be
lower, nor the mean C-index of held-out rows over ten draws; its standard error is told.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

import fedsparse as fs
from benchmarks.correlated import autoregressive, blocks
from benchmarks.outcomes_child import ask
from benchmarks.targets import Row, show_rows
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute.kernels.concordance import concordant_pairs
from fedsparse.problem.losses import Loss
from fedsparse.problem.losses.cox import Ties

SITES = 4
COEFFICIENTS, LIKELIHOOD = 1e-6, 1e-8
ROWS, WIDTH, SPARSITY = 600, 400, 10
REAL_SPARSITY = 5
TRAINING = 2 / 3
DRAWS = 10
"""Of a problem, or of rows that are held out."""
SLACK = 1e-9
"""Of likelihoods of the same features."""


def main() -> None:
    warnings.simplefilter("ignore")  # of the other packages
    show_rows("Cox's regression, sites as strata: differences", same_survival())
    show_rows("Poisson regression with exposure: differences", same_counts())
    show_rows(f"Features chosen for survival, τ = {SPARSITY} or {REAL_SPARSITY}", chosen_survival())
    show_rows(f"Features chosen for counts, τ = {SPARSITY}", chosen_counts())


@dataclass(frozen=True, eq=False)
class Survival:
    """Standardized features, signed times, and sites."""

    features: FloatArray
    signed: FloatArray
    sites: Int64Array

    @property
    def data(self) -> fs.FederatedData:
        """As clients."""
        return fs.FederatedData.from_table(self.features, self.signed, self.sites)


def survival_sets() -> dict[str, Survival]:
    """Three that packages bring."""
    from lifelines.datasets import load_lung, load_rossi

    rossi, lung = load_rossi(), load_lung().dropna()
    random = np.random.default_rng(0)
    german = ask("gbsg2")
    return {
        "gbsg2": _survival(german["features"], german["signed"], random.integers(0, SITES, 686)),
        "rossi": _survival(
            rossi.drop(columns=["week", "arrest"]).to_numpy(float),
            np.where(rossi["arrest"] == 1, rossi["week"], -rossi["week"]).astype(float),
            random.integers(0, SITES, len(rossi)),
        ),
        "lung": _survival(
            lung.drop(columns=["inst", "time", "status"]).to_numpy(float),
            np.where(lung["status"] == 1, lung["time"], -lung["time"]).astype(float),
            lung["inst"].to_numpy(int),
        ),
    }


def _survival(features: FloatArray, signed: FloatArray, sites: Int64Array) -> Survival:
    return Survival((features - features.mean(axis=0)) / features.std(axis=0), signed, sites)


def fitted(data: fs.FederatedData, loss: Loss, support: Int64Array | None = None) -> fs.Result:
    """The minimum of f on all features or some, to the last digits."""
    if support is not None:
        data = fs.FederatedData.from_table(data.features[:, support], data.targets, _owners(data))
    begin = None
    if loss.link == "log" and loss.has_intercept:
        begin = np.zeros(data.width)
        begin[-1] = np.log(np.average(data.targets, weights=data.row_weights))
    exactly = fs.FedSplice(
        data.width, tolerance=0.0, weights="samples", message_bytes=None, start_at=begin
    )
    return fs.run(exactly, data, loss=loss, rounds=300)


def _owners(data: fs.FederatedData) -> Int64Array:
    return np.repeat(np.arange(len(data)), data.counts)


def same_survival() -> Iterator[Row]:
    for name, own in survival_sets().items():
        for ties in ("efron", "breslow"):
            ours = fitted(own.data, fs.Cox(ties=ties))
            for other, (coefficients, likelihood) in survival_elsewhere(own, ties).items():
                what = f"{name}, {own.data.samples} rows, {len(own.data)} strata, {ties}, {other}"
                told = -ours.objective * own.data.samples
                far = float(np.abs(ours.coef - coefficients).max())
                yield Row(f"{what}: coefficients", far, None, most=COEFFICIENTS)
                off = abs(told - likelihood) / abs(likelihood)
                yield Row(f"{what}: log-likelihood", off, None, most=LIKELIHOOD)


def survival_elsewhere(own: Survival, ties: Ties) -> dict[str, tuple[FloatArray, float]]:
    """Coefficients and log-likelihoods of packages that know such ties."""
    import pandas as pd
    from lifelines import CoxPHFitter
    from statsmodels.duration.hazard_regression import PHReg

    times, events = np.abs(own.signed), own.signed > 0
    model = PHReg(times, own.features, status=events, strata=own.sites, ties=ties)
    found = model.fit(method="newton", tol=1e-12, maxiter=200, disp=False)
    told = {"statsmodels": (np.asarray(found.params), float(found.llf))}
    if ties == "efron":
        frame = pd.DataFrame(own.features).assign(time=times, event=events, site=own.sites)
        frame.columns = frame.columns.astype(str)
        fitter = CoxPHFitter().fit(
            frame, "time", "event", strata=["site"], fit_options={"precision": 1e-12}
        )
        told["lifelines"] = (fitter.params_.to_numpy(), float(fitter.log_likelihood_))
    return told


@dataclass(frozen=True, eq=False)
class Counts:
    """Features with a column of ones at the end, counts and exposures."""

    features: FloatArray
    counts: FloatArray
    exposure: FloatArray

    @property
    def data(self) -> fs.FederatedData:
        """As clients."""
        sites = np.arange(self.counts.size) % SITES
        return fs.FederatedData.from_table(
            self.features, self.counts / self.exposure, sites, self.exposure
        )


def counted(random: np.random.Generator, features: FloatArray, relevant: int) -> Counts:
    """Counts, three on average in a time of 1, that depend on some columns."""
    scores = _scores(random, features, relevant)
    exposure = random.uniform(0.2, 2.0, scores.size)
    counts = random.poisson(3.0 * exposure * np.exp(scores)).astype(np.float64)
    return Counts(np.column_stack([features, np.ones(scores.size)]), counts, exposure)


def _scores(random: np.random.Generator, features: FloatArray, relevant: int) -> FloatArray:
    coefficients = np.zeros(features.shape[1])
    chosen = random.choice(coefficients.size, relevant, replace=False)
    coefficients[chosen] = random.choice([-1.0, 1.0], relevant) * random.uniform(0.5, 2.0, relevant)
    scores = features @ coefficients
    return np.asarray(scores / scores.std())


def same_counts() -> Iterator[Row]:
    import statsmodels.api as sm
    from sklearn.linear_model import PoissonRegressor

    random = np.random.default_rng(0)
    own = counted(random, random.standard_normal((400, 8)), 4)
    ours = fitted(own.data, fs.Poisson())
    model = sm.GLM(own.counts, own.features, family=sm.families.Poisson(), exposure=own.exposure)
    theirs = model.fit(tol=1e-14, maxiter=200)
    far = float(np.abs(ours.coef - theirs.params).max())
    yield Row("400 rows, 8 columns, statsmodels: coefficients", far, None, most=COEFFICIENTS)
    deviance = 2.0 * ours.objective * own.exposure.sum()
    off = abs(deviance - theirs.deviance) / theirs.deviance
    yield Row("400 rows, 8 columns, statsmodels: deviance", off, None, most=LIKELIHOOD)
    regressor = PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    regressor.fit(own.features[:, :-1], own.counts / own.exposure, sample_weight=own.exposure)
    there = np.append(regressor.coef_, regressor.intercept_)
    far = float(np.abs(ours.coef - there).max())
    yield Row("400 rows, 8 columns, scikit-learn: coefficients", far, None, most=COEFFICIENTS)


def designs(random: np.random.Generator) -> dict[str, FloatArray]:
    """Three: independent columns, those that correlate with the next, and blocks of ten."""
    return {
        "independent": random.standard_normal((ROWS, WIDTH)),
        "AR 0.9": autoregressive(random, ROWS, WIDTH),
        "blocks of 0.95": blocks(random, ROWS, WIDTH),
    }


def events_of(random: np.random.Generator, features: FloatArray, relevant: int) -> FloatArray:
    """Signed times, about 40 in 100 of them cut short."""
    scores = _scores(random, features, relevant)
    until, watched = random.exponential(np.exp(-scores)), random.exponential(1.0, scores.size)
    scale = brentq(lambda factor: np.mean(until < factor * watched) - 0.6, 1e-3, 1e3)
    return np.where(until < scale * watched, until, -scale * watched)


def chosen_survival() -> Iterator[Row]:
    genes = ask("breast_cancer")
    for name in (*designs(np.random.default_rng(0)), "breast cancer"):
        drawn = []
        for seed in range(DRAWS):
            random = np.random.default_rng(seed)
            features, signed, sparsity = genes["features"], genes["signed"], REAL_SPARSITY
            if name != "breast cancer":
                features, sparsity = designs(random)[name], SPARSITY
                signed = events_of(random, features, SPARSITY)
            drawn.append(_choices(random, features, signed, sparsity))
        yield from _beside_abess(f"{name}, {signed.size} rows of {features.shape[1]}", drawn)


@dataclass(frozen=True)
class Choices:
    """Log-likelihoods of training rows and C-indices of held-out ones, ours and abess's."""

    likelihood: float
    likelihood_there: float
    order: float
    order_there: float


def _beside_abess(what: str, drawn: Sequence[Choices]) -> Iterator[Row]:
    gains = [own.likelihood - own.likelihood_there for own in drawn]
    ours, theirs = (
        float(np.mean([getattr(own, field) for own in drawn]))
        for field in ("likelihood", "likelihood_there")
    )
    yield Row(f"{what}: mean log-likelihood", ours, theirs)
    yield Row(f"{what}: least gain in log-likelihood", min(gains), None, least=-SLACK * abs(ours))
    order, order_there = (np.array([getattr(own, f) for own in drawn]) for f in _ORDERS)
    difference = order - order_there
    error = float(difference.std(ddof=1) / np.sqrt(len(drawn)))
    yield Row(
        f"{what}: mean C-index, held out (difference ± {error:.4f})",
        float(order.mean()),
        float(order_there.mean()),
        least=float(order_there.mean()) - SLACK,
    )


_ORDERS = ("order", "order_there")


def _choices(
    random: np.random.Generator, features: FloatArray, signed: FloatArray, sparsity: int
) -> Choices:
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    is_training = random.permutation(signed.size) < TRAINING * signed.size
    data = fs.FederatedData.from_clients([(features[is_training], signed[is_training])])
    ours = fs.run(fs.FedSplice(sparsity, message_bytes=None), data, loss=fs.Cox()).support
    asked = {"features": features[is_training], "signed": signed[is_training]}
    theirs = ask("cox", **asked, sparsity=np.array(sparsity))["support"]
    held_out = features[~is_training], signed[~is_training]
    (likelihood, order), (there, order_there) = (
        _likelihood_and_concordance(data, *held_out, own) for own in (ours, theirs)
    )
    return Choices(likelihood, there, order, order_there)


def _likelihood_and_concordance(
    data: fs.FederatedData, features: FloatArray, signed: FloatArray, support: Int64Array
) -> tuple[float, float]:
    found = fitted(data, fs.Cox(), support)
    above, pairs = concordant_pairs(signed, features[:, support] @ found.coef)
    return -found.objective * data.samples, above / pairs


def chosen_counts() -> Iterator[Row]:
    random = np.random.default_rng(3)
    for name, features in designs(random).items():
        own = counted(random, features / 2.0, SPARSITY)
        counts, whole = own.counts, own.features
        is_training = random.permutation(ROWS) < TRAINING * ROWS
        data = fs.FederatedData.from_clients([(whole[is_training], counts[is_training])])
        begin = np.zeros(WIDTH + 1)
        begin[-1] = np.log(counts[is_training].mean())
        constraint = fs.TopK(SPARSITY + 1, keep=(WIDTH,))
        splicing = fs.FedSplice(constraint, message_bytes=None, start_at=begin)
        ours = fs.run(splicing, data, loss=fs.Poisson()).support
        asked = {"features": features[is_training] / 2.0, "counts": counts[is_training]}
        theirs = ask("poisson", **asked, sparsity=np.array(SPARSITY))["support"]
        theirs = np.append(theirs, WIDTH)
        same = np.intersect1d(ours, theirs).size - 1
        what = f"{name}, {ROWS} rows of {WIDTH}, abess ({same} features in common)"
        found = [fitted(data, fs.Poisson(), support) for support in (ours, theirs)]
        mine, other = (-own.objective * data.samples for own in found)
        least = other - SLACK * abs(other)
        yield Row(f"{what}: −½ deviance", mine, other, least=least)


if __name__ == "__main__":
    main()
